"""What a person asks for, by rule: an intent with its slots, or nothing. Pure.

`understand` is the seam: it sees the last message and gives an `Understood`, whose slots are words and plain
values, never a tool's own names. `indai.llm.local.provider` maps them onto whatever tools there are. English,
Hindi and Hinglish share the rules; what differs is in the word lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from indai.llm.local import intents
from indai.llm.local.measures import Measures, measure
from indai.llm.local.names import likely, person
from indai.llm.local.words import Token, tokens

Slot = str | int
_MOST_TOKENS = 400
# Details whose words are also said of how, where and when another is passed on.
_WITH_PEOPLE = ("meet", "move", "cancel", "ask", "share", "pay")
_MEASURED = {"beside", "number", "quarter", "clock", "ordinal"}
_WEAK = ("email", "company", "availability", "hours", "phone")
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
    intent = intents.intent(said, measures, who)
    if intent == intents.NONE:
        return None
    found = _found(said, measures, who or (likely(said) if intent in _WITH_PEOPLE else ""), intent)
    return Understood(intent, {name: found[name] for name in _SLOTS.get(intent, ()) if found.get(name)})


def _found(said: Sequence[Token], measures: Measures, who: str, intent: str) -> dict[str, Slot]:
    found: dict[str, Slot] = {
        "person": who,
        "minutes": round(measures.minutes),
        "time": measures.moment(),
        "when": measures.days[0][1] if measures.days else "",
        "field": _field(said, measures),
        "item": _value(said, "item"),
        "quantity": measures.quantity or _alone(measures, intent == "book"),
        "amount": measures.amount or _alone(measures, intent == "pay") * 100,
    }
    if intent == "move":
        found.update(_moved(said, measures))
    if found["field"] == "hours" and not measures.times:  # "when does it shut at night?"
        found["time"] = ""
    return found


def _value(said: Sequence[Token], kind: str) -> str:
    return next((token.means[kind] for token in said if kind in token.means), "")


def _field(said: Sequence[Token], measures: Measures) -> str:
    """The detail that is meant: "mail my CV" is about the CV, "office address" about the address; a question
    with a day and no detail ("does Friday suit Meera?") is about free time."""
    named = [token.means["field"] for token in said if "field" in token.means]
    if measures.days or measures.times:  # "does Friday work for Meera?" asks for no firm
        named = [each for each in named if each != "company"]
    if named:
        return next((each for each in named if each not in _WEAK), named[0])
    if measures.days or measures.times:
        return "availability"
    return "company" if any("workplace" in token.means for token in said) else ""


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
    if len(marks) == 1:
        return (marks[0][1], "") if _oldness(said, marks[0][0]) > 0 else ("", marks[0][1])
    first = max(marks, key=lambda mark: _oldness(said, mark[0]))
    return first[1], next(value for at, value in reversed(marks) if at != first[0])


def _oldness(said: Sequence[Token], at: int) -> int:
    """How much the words beside a day or time say that it is the one to leave: 3 they do, 1 they may."""
    start = at
    while start and (said[start - 1].number or _MEASURED & said[start - 1].means.keys()):
        start -= 1
    before = [said[each].means for each in range(max(0, start - 2), start)]
    if any("comma" in each for each in before):  # "not now, Sunday": what was denied ended there
        before = before[1 + max(at for at, each in enumerate(before) if "comma" in each) :]
    after = [each.means for each in said[at + 1 : at + 4]]
    near = before[-1] if before else {}
    if "from" in near or any("neg" in each for each in (*before, *after[:1])):
        return 3
    if _instead(after):
        return 3
    if after and "noun" in after[0]:
        return 1
    owns = bool(after) and bool({"old", "possessive"} & after[0].keys())
    return int(owns and (len(after) < 2 or "old" not in after[0] or "noun" in after[1] or "name" in after[1]))


def _instead(after: Sequence[Mapping[str, str]]) -> bool:
    """Whether "ki jagah", "ke bajay" follow."""
    return any("swapped" in each for each in after[:2])
