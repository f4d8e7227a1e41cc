"""What a person asks for, by rule: an intent with its slots, or nothing. Pure.

`understand` is the seam: it sees the last message and gives an `Understood`, whose slots are words and plain
values, never a tool's own names. `indai.llm.local.provider` maps them onto whatever tools there are. English,
Hindi and Hinglish share the rules; what differs is in the word lists.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from indai.llm.local.measures import Measures, measure
from indai.llm.local.names import person
from indai.llm.local.words import Token, tokens

Slot = str | int
_SMALL_TALK = 6
_MOST_TOKENS = 400
_MEETINGS = ("meet", "move", "cancel")
_SLOTS = {
    "meet": ("person", "minutes", "when", "time"),
    "move": ("person", "from", "when", "time"),
    "cancel": ("person", "when", "time"),
    "ask": ("person", "field", "when", "time"),
    "share": ("person", "field"),
    "pay": ("person", "amount", "when"),
    "book": ("person", "item", "quantity", "minutes", "when", "time"),
}


@dataclass(frozen=True, slots=True)
class Understood:
    """An intent and what was said about it.

    Intents: meet, move, cancel, ask, share, pay, book, greet, thank, feedback. Slots, each only if said:
    `person` (handle or name; several with ", "), `minutes`, `when` and `from` (a day or period in English
    words, `25`, `25 august`; `from` may be a time), `time` (HH:MM or morning, afternoon, evening, night),
    `amount` (in paise), `quantity`, `item`, `field`.
    """

    intent: str
    slots: dict[str, Slot] = field(default_factory=dict)


def understand(text: str) -> Understood | None:
    """The intent of a message; None when no rule knows it."""
    said = tokens(text[:8000])[:_MOST_TOKENS]
    measures = measure(said)
    who = person(said)
    intent = _intent(said, measures, who)
    if intent is None:
        return None
    found = _found(said, measures, who, intent)
    return Understood(intent, {name: found[name] for name in _SLOTS.get(intent, ()) if found.get(name)})


def _intent(said: Sequence[Token], measures: Measures, who: str) -> str | None:
    means = {kind for token in said for kind in token.means}
    timed = bool(measures.days or measures.times or measures.minutes or measures.parts)
    if "feedback" in means and not timed:
        return "feedback"
    if talk := _small_talk(said, means, bool(measures.days or measures.times or measures.minutes)):
        return talk
    about = bool(who or timed or "noun" in means)
    if changed := _changed(said, measures, means, about):
        return changed
    return (
        _paid_or_told(measures, means, who)
        or _booked(said, measures, means)
        or _met(measures, means, who, about)
    )


def _small_talk(said: Sequence[Token], means: set[str], timed: bool) -> str | None:
    if len(said) > _SMALL_TALK or timed or means & {"noun", "item", "field", "handle"}:
        return None
    return "thank" if "thank" in means else "greet" if "greet" in means else None


def _changed(said: Sequence[Token], measures: Measures, means: set[str], about: bool) -> str | None:
    """Whether a meeting that there is shall go or be at another time."""
    if "cancel" in means and about:
        return "cancel"
    if "move" in means and about:
        return "move"
    created = means & {"meet", "book", "past", "pay", "give", "share"} or measures.minutes
    twice = len(measures.days) > 1 or len(measures.times) > 1
    existing = any("old" in one.means and "noun" in two.means for one, two in itertools.pairwise(said))
    return "move" if "noun" in means and not created and (existing or twice) else None


def _paid_or_told(measures: Measures, means: set[str], who: str) -> str | None:
    if "pay" in means or (measures.amount and (who or "give" in means)):
        return "pay"
    if "field" not in means or ("noun" in means and "meet" in means):
        return None
    if "share" in means or ("mine" in means and means & {"give", "share"}):
        return "share"
    return "ask" if who else None


def _booked(said: Sequence[Token], measures: Measures, means: set[str]) -> str | None:
    """Things are booked; an appointment with somebody is a meeting."""
    items = {token.means["item"] for token in said if "item" in token.means}
    if not items or (items == {"appointment"} and "handle" not in means):
        return None
    return "book" if means & {"book", "handle"} or measures.quantity or measures.days else None


def _met(measures: Measures, means: set[str], who: str, about: bool) -> str | None:
    if "past" in means or not about:
        return None
    if "meet" in means and ("noun" in means or who or measures.minutes):
        return "meet"
    wanted = who or measures.days or measures.times or "book" in means
    if "noun" in means and wanted:
        return "meet"
    return "meet" if measures.minutes and (who or "book" in means) else None


def _found(said: Sequence[Token], measures: Measures, who: str, intent: str) -> dict[str, Slot]:
    found: dict[str, Slot] = {
        "person": who,
        "minutes": round(measures.minutes),
        "time": measures.moment(),
        "when": measures.days[0][1] if measures.days else "",
        "field": _value(said, "field"),
        "item": _value(said, "item"),
        "quantity": measures.quantity or _alone(measures, intent == "book"),
        "amount": measures.amount or _alone(measures, intent == "pay") * 100,
    }
    if intent == "move":
        found.update(_moved(said, measures))
    return found


def _value(said: Sequence[Token], kind: str) -> str:
    return next((token.means[kind] for token in said if kind in token.means), "")


def _alone(measures: Measures, wanted: bool) -> int:
    return round(measures.loose[0]) if wanted and measures.loose else 0


def _moved(said: Sequence[Token], measures: Measures) -> dict[str, Slot]:
    """Which day and time a meeting had, and which it shall have: the old comes first, or owns the meeting."""
    days = [(at, day) for at, day in measures.days]
    times = [(each[0], measures.clock(position)) for position, each in enumerate(measures.times)]
    old_day, new_day = _old_and_new(said, days)
    old_time, new_time = _old_and_new(said, times)
    if not times and measures.parts:
        new_time = measures.parts[-1]
    return {"from": old_day or old_time, "when": new_day, "time": new_time}


def _old_and_new(said: Sequence[Token], marks: list[tuple[int, str]]) -> tuple[str, str]:
    if not marks:
        return "", ""
    old = [mark for mark in marks if _is_old(said, mark[0])]
    if len(marks) == 1:
        return (marks[0][1], "") if old else ("", marks[0][1])
    first = old[0] if old else marks[0]
    return first[1], next(value for at, value in reversed(marks) if at != first[0])


def _is_old(said: Sequence[Token], at: int) -> bool:
    before = said[at - 1].means if at else {}
    after = said[at + 1].means if at + 1 < len(said) else {}
    return "from" in before or bool({"old", "possessive", "noun"} & after.keys())
