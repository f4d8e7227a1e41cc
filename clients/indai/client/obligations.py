"""Obligations: what must be done with what a policy permits or asks about, `<name>:<value>` in a decision.

Each known one has a form and a way in which several hold together: the strictest, or the first by authority.
One that is not known here, or has another form, makes the whole decision a refusal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

_MINUTES = r"[1-9][0-9]{0,6}m"
_HOURS = r"[0-2][0-9]:[0-5][0-9]-[0-2][0-9]:[0-5][0-9]"
_NAME = r"[A-Za-z0-9_.*/-]{1,100}"


class UnknownObligation(Exception):
    """The obligation's text."""


@dataclass(frozen=True, slots=True)
class Obligation:
    """`join`: of two values the one that counts. `asks`: it is about the question to the owner, and means
    nothing when none is asked. `meaning`: who must do what.
    """

    form: str
    join: Callable[[str, str], str]
    meaning: str
    asks: bool = False


def _longest(left: str, right: str) -> str:
    return max(left, right, key=lambda text: int(text[:-1]))


def _shortest(left: str, right: str) -> str:
    return min(left, right, key=lambda text: int(text[:-1]))


def _least(left: str, right: str) -> str:
    return min(left, right, key=int)


def _first(left: str, right: str) -> str:
    return left


def _all(left: str, right: str) -> str:
    return ",".join(sorted({*left.split(","), *right.split(",")}))


def _loudest(left: str, right: str) -> str:
    return "now" if "now" in (left, right) else left


OBLIGATIONS: Mapping[str, Obligation] = {
    "buffer": Obligation(r"[1-9][0-9]{0,3}m", _longest, "this much free time before and after"),
    "title_prefix": Obligation(r"[^\n]+", _first, "the calendar's title begins with it"),
    "reveal_windows": Obligation(r"[1-9][0-9]?", _least, "at most so many free windows in one proposal"),
    "redact": Obligation(rf"{_NAME}(?:,{_NAME})*", _all, "these fields are taken out first"),
    "keep_at_most": Obligation(r"[1-9][0-9]{0,4}d", _shortest, "consent to keep it ends after that"),
    "cite_sources": Obligation(r"yes", _first, "the answer names what it was taken from"),
    "require_receipt": Obligation(r"yes", _first, "it is done only when the other side's receipt is there"),
    "tell_owner": Obligation(r"now|quietly", _loudest, "the owner is told"),
    "delay": Obligation(_MINUTES, _longest, "the answer leaves no sooner"),
    "tone": Obligation(r"[^\n]+", _first, "how the agent speaks"),
    "language": Obligation(r"[A-Za-z0-9-]{2,35}", _first, "the language that it speaks"),
    "ask_within": Obligation(_MINUTES, _shortest, "the owner's silence after that is a no", asks=True),
    "quiet_hours": Obligation(
        rf"{_HOURS}(?:,{_HOURS})*", _all, "no message to the owner in these local hours", asks=True
    ),
    "notify": Obligation(r"now|quietly", _loudest, "whether the question is sent, or waits", asks=True),
    "via": Obligation(r"[a-z0-9-]{1,40}", _first, "the channel of the question", asks=True),
}
_FORMS = {name: re.compile(one.form) for name, one in OBLIGATIONS.items()}


def merge(obligations: Iterable[Mapping[str, str]], *, asked: bool) -> tuple[str, ...]:
    """What all of these demand together, by name. Raises UnknownObligation.

    `asked`: the owner is asked; otherwise what is about the question is left out.
    """
    merged: dict[str, str] = {}
    for one in obligations:
        for name, value in one.items():
            form = _FORMS.get(name)
            if form is None or not form.fullmatch(value):
                raise UnknownObligation(f"{name}:{value}")
            merged[name] = OBLIGATIONS[name].join(merged[name], value) if name in merged else value
    return tuple(f"{name}:{merged[name]}" for name in sorted(merged) if asked or not OBLIGATIONS[name].asks)


def unmet(obligations: Iterable[str], able: Iterable[str]) -> list[str]:
    """Those that somebody who can do only the ones named in `able` cannot meet: they must refuse."""
    known = frozenset(able)
    return [text for text in obligations if text.partition(":")[0] not in known]


def value_of(obligations: Iterable[str], name: str) -> str:
    """The value of one obligation in a decision, "" without it."""
    head = f"{name}:"
    return next((text.removeprefix(head) for text in obligations if text.startswith(head)), "")
