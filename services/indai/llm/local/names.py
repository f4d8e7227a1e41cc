"""Finds who a message is about: handles first, else words that no list knows, beside a word that goes with
people ("with", "ke saath", "को", "'s") or in capital letters. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from indai.llm.local.words import Token

_JOINS = ("and", "comma")
_BESIDE_NAMES = {"day", "ask", "oclock"}
_CAPITAL = 3  # people who write capitals write them for names
_NOT_AFTER = frozenset({"the", "a", "an", "my", "our", "this"})


def person(said: Sequence[Token]) -> str:
    """Handle or name, in small letters; several with ", " between; "" if nobody is named."""
    handles = [token.means["handle"] for token in said if "handle" in token.means]
    if handles:
        return ", ".join(dict.fromkeys(handles))
    groups = sorted(_groups(said), key=lambda group: -_score(said, *group))
    if not groups or not _score(said, *groups[0]):
        return ""
    return ", ".join(_names(_capitals(said[slice(*groups[0])])))


def _capitals(group: Sequence[Token]) -> Sequence[Token]:
    """ "Sara backed", "haven't given Om": beside a name in capitals, words in small letters are none."""
    if not any(token.written[:1].isupper() and token.unknown() for token in group):
        return group
    kept = [
        at
        for at, token in enumerate(group)
        if not (token.written[:1].islower() and token.written.isascii() and not token.means)
        or (at and "title" in group[at - 1].means)
    ]
    names = [at for at in kept if not any(join in group[at].means for join in _JOINS)]
    return [group[at] for at in kept if names[0] <= at <= names[-1]] if names else group


def likely(said: Sequence[Token]) -> str:
    """Who is meant if nothing but a word that no list has says so: for a request that is about somebody."""
    groups = [group for group in _groups(said) if _stands_alone(said, *group)]
    return ", ".join(_names(said[slice(*groups[0])])) if groups else ""


def _stands_alone(said: Sequence[Token], start: int, end: int) -> bool:
    before = said[start - 1].said if start else ""
    return before not in _NOT_AFTER and end - start <= 3 and len(said[start].said) > 1


def _groups(said: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """From and to of every run of names: "Dr Rao", "Sam and Tina"."""
    at = 0
    while at < len(said):
        end = at
        while end < len(said) and _continues(said, at, end):
            end += 1
        if end > at and any(said[each].unknown() or _named(said, each) for each in range(at, end)):
            yield at, end
        at = max(end, at + 1)


def _continues(said: Sequence[Token], start: int, at: int) -> bool:
    token = said[at]
    if token.unknown() or "title" in token.means or _named(said, at):
        return True
    follows = at + 1 < len(said) and (said[at + 1].unknown() or "title" in said[at + 1].means)
    return start < at and follows and any(join in token.means for join in _JOINS)


def _named(said: Sequence[Token], at: int) -> bool:
    """Whether a name that is a word as well is a name here: what goes with people follows it."""
    return "name" in said[at].means and (after := _after(said, at + 1)) is not None and "after" in after.means


def _after(said: Sequence[Token], at: int) -> Token | None:
    """The token here, or the one after "bhai", "sir"…"""
    while at + 1 < len(said) and "honorific" in said[at].means:
        at += 1
    return said[at] if at < len(said) else None


def _score(said: Sequence[Token], start: int, end: int) -> int:
    before = said[start - 1] if start else None
    after = _after(said, end)
    named = said[start].written[:1].isupper() or bool({"title", "relative"} & said[start].means.keys())
    if before and before.said in _NOT_AFTER and not named:
        return 0
    beside = (before is not None and "before" in before.means) * 2
    beside += (after is not None and ("after" in after.means or "possessive" in after.means)) * 2
    follows_verb = before is not None and bool(
        {"meet", "move", "cancel", "pay", "give"} & before.means.keys()
    )
    in_place = any(each is not None and _BESIDE_NAMES & each.means.keys() for each in (before, after))
    return beside + _CAPITAL * named + follows_verb + in_place


def _names(group: Sequence[Token]) -> list[str]:
    names: list[list[str]] = [[]]
    for token in group:
        if any(join in token.means for join in _JOINS):
            names.append([])
        else:
            names[-1].append(token.said)
    return [" ".join(name) for name in names if name]
