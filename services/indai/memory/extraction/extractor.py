"""The deterministic extractor: the same turn always gives the same facts, and no text leaves the machine.

It takes what people say of themselves in plain sentences and leaves the rest: precision before recall,
since a wrong memory costs more than a missing one (docs/services/memory.md has both, measured).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from indai.memory.extraction.clauses import clauses
from indai.memory.extraction.kin import CANONICAL
from indai.memory.extraction.rules import Rule, Shape, matches
from indai.memory.extraction.values import capitalised, name, thing
from indai.memory.interfaces import ExtractionContext, Fact, Json, Role, Triple, Turn
from indai.memory.lexical import words
from indai.memory.timewords import spans

# A name in small letters may be any word.
_DOUBTFUL = 0.5
_MAX_FACTS = 32
_PAST = re.compile(r"(?:^|\s)(?:was|were|had|tha|thi|था|थी|थे)(?:\s|$)", re.I)
_TIME_FILLERS = frozenset(
    {"on", "at", "the", "of", "ko", "को", "baje", "बजे", "pm", "am", "in", "morning", "evening"}
)
_NO_EVENT = frozenset({"name", "birthday", "naam", "janamdin", "नाम", "जन्मदिन", "favourite", "favorite"})


class DeterministicExtractor:
    """Extraction without a model, as the service's jobs want it."""

    name = "deterministic"

    async def extract(self, turn: Turn, context: ExtractionContext) -> list[Fact]:
        """See `extract`."""
        return extract(turn, context)


def extract(turn: Turn, context: ExtractionContext) -> list[Fact]:
    """The facts of one turn about its speaker, each once; none from system text, tools or recalled
    memories."""
    if turn.role not in (Role.PERSON, Role.AGENT):
        return []
    found: dict[tuple[str, str], Fact] = {}
    for clause in clauses(turn.text):
        for rule, match in matches(clause):
            fact = _READERS[rule.shape](rule, match, turn, context)
            if fact is not None:
                found.setdefault((fact.key, fact.canonical), fact)
                break
        if len(found) >= _MAX_FACTS:
            break
    return list(found.values())


Reader = Callable[[Rule, "re.Match[str]", Turn, ExtractionContext], Fact | None]


def _fact(rule: Rule, value: Json, key: str = "") -> Fact:
    return Fact(key or rule.key, value, rule.confidence, language=rule.language)


def _thing(rule: Rule, match: re.Match[str], _: Turn, __: ExtractionContext) -> Fact | None:
    value = thing(match.group("x"))
    return _fact(rule, value) if value else None


def _name(rule: Rule, match: re.Match[str], _: Turn, __: ExtractionContext) -> Fact | None:
    value = name(match.group("x"))
    if not value:
        return None
    fact = _fact(rule, value)
    return (
        fact
        if capitalised(match.group("x")) or rule.language == "hi-Latn"
        else replace(fact, confidence=_DOUBTFUL)
    )


def _place(rule: Rule, match: re.Match[str], turn: Turn, _: ExtractionContext) -> Fact | None:
    fact = _name(rule, match, turn, _)
    if fact is None:
        return None
    predicate = {"place.home": "lives in", "place.origin": "comes from"}.get(rule.key, "works at")
    return replace(fact, relation=Triple(turn.speaker, predicate, str(fact.value)))


def _not_place(rule: Rule, match: re.Match[str], _: Turn, __: ExtractionContext) -> Fact | None:
    value = name(match.group("x"))
    return _fact(rule, {"not": value}) if value else None


def _number(rule: Rule, match: re.Match[str], _: Turn, __: ExtractionContext) -> Fact | None:
    value = int(match.group("x"))
    return _fact(rule, value) if 3 <= value <= 120 else None


def _day(rule: Rule, match: re.Match[str], turn: Turn, context: ExtractionContext) -> Fact | None:
    """A birthday, with the year only if it was said."""
    day = _resolved(match.group("x"), turn, context)
    if not day:
        return None
    with_year = re.search(r"\d{4}", " ".join(words(match.group("x"))))
    return _fact(rule, day if with_year else day[5:])


def _event(rule: Rule, match: re.Match[str], turn: Turn, context: ExtractionContext) -> Fact | None:
    """An appointment: what, and its day seen from when it was said."""
    ahead = not _PAST.search(match.group())
    what, day = thing(match.group("y")), _resolved(match.group("x"), turn, context, ahead)
    if not what or not day or _NO_EVENT & set(what.split()) or not _only_time(match.group("x"), turn):
        return None
    return _fact(rule, {"what": what, "date": day})


def _relative(rule: Rule, match: re.Match[str], turn: Turn, _: ExtractionContext) -> Fact | None:
    kin, value = CANONICAL[match.group("kin").casefold()], name(match.group("x"))
    if not value or value.casefold() in CANONICAL:
        return None
    fact = _fact(rule, value, f"relation.{kin}")
    return replace(fact, relation=Triple(turn.speaker, kin, value))


def _relative_place(rule: Rule, match: re.Match[str], turn: Turn, _: ExtractionContext) -> Fact | None:
    kin, value = CANONICAL[match.group("kin").casefold()], name(match.group("x"))
    if not value:
        return None
    fact = _fact(rule, value, f"relation.{kin}.place")
    return replace(fact, relation=Triple(f"{turn.speaker}'s {kin}", "lives in", value))


def _favourite(rule: Rule, match: re.Match[str], _: Turn, __: ExtractionContext) -> Fact | None:
    kind, value = thing(match.group("y")), thing(match.group("x"))
    return _fact(rule, value, f"preference.favourite.{kind.replace(' ', '_')}") if kind and value else None


def _only_time(text: str, turn: Turn) -> bool:
    """Whether nothing but a time is said: "late today" is no appointment."""
    left = " ".join(words(text))
    for span in spans(text, turn.said_ms):
        left = left.replace(span.words, " ")
    return all(word in _TIME_FILLERS or word.isdecimal() for word in left.split())


def _resolved(text: str, turn: Turn, context: ExtractionContext, ahead: bool = False) -> str:
    """The day a text names as YYYY-MM-DD in the person's zone; "" unless it names exactly one day."""
    found = spans(text, turn.said_ms, context.time_zone, ahead=ahead)
    if len(found) != 1 or found[0].to_ms - found[0].from_ms > 25 * 3_600_000:
        return ""
    try:
        zone = ZoneInfo(context.time_zone)
    except (ZoneInfoNotFoundError, ValueError):
        zone = ZoneInfo("UTC")
    return datetime.fromtimestamp(found[0].from_ms / 1000, zone).date().isoformat()


_READERS: dict[Shape, Reader] = {
    Shape.THING: _thing,
    Shape.NAME: _name,
    Shape.PLACE: _place,
    Shape.NOT_PLACE: _not_place,
    Shape.NUMBER: _number,
    Shape.DAY: _day,
    Shape.EVENT: _event,
    Shape.RELATIVE: _relative,
    Shape.RELATIVE_PLACE: _relative_place,
    Shape.FAVOURITE: _favourite,
}
