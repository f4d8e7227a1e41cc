"""Goes on with a request whose missing part was asked for: what was asked before, and the short answer to it.

The questions are our own phrases, so the conversation itself says which slot was asked for. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Final

from indai.llm.local.phrasing import questions
from indai.llm.local.standing import payment
from indai.llm.local.understanding import Slot, Understood, understand
from indai.llm.values import Message, Role

_MOST_WORDS: Final = 8
_MOST_ASKED: Final = 4
# A sentence in which an answer is understood as its slot.
_PROBES: Final = {
    "person": "set up a meeting with {answer}",
    "minutes": "set up a meeting with bob for {answer}",
    "when": "set up a meeting with bob {answer}",
    "time": "set up a meeting with bob tomorrow at {answer}",
    "amount": "pay bob {answer}",
    "quantity": "book a table for {answer}",
}
_OFFERED: Final = re.compile(r"Which meeting: (?P<options>[^?]+)\?")
_MOMENT: Final = re.compile(r"\w{3} (?P<day>\d{1,2}) (?P<month>\w{3}) \d{4}, (?P<time>\d{2}:\d{2})")
_MONTHS: Final = {
    month[:3]: month
    for month in (
        *("january", "february", "march", "april", "may", "june"),
        *("july", "august", "september", "october", "november", "december"),
    )
}
_PLACES: Final = (
    frozenset({"first", "1", "1st", "pehla", "pehli", "pahla", "पहला", "पहली"}),
    frozenset({"second", "2", "2nd", "doosra", "doosri", "dusra", "dusri", "दूसरा", "दूसरी"}),
    frozenset({"third", "3", "3rd", "teesra", "teesri", "तीसरा", "तीसरी"}),
)
_LAST: Final = frozenset({"last", "later", "aakhri", "akhri", "आख़िरी", "आखिरी"})
_PLAIN: Final = frozenset({"person", "item", "field", "name", "contact"})


def resumed(messages: Sequence[Message]) -> Understood | None:
    """The request that the last message completes; None when it answers no question of ours."""
    said = [each for each in messages if each.text and each.role in (Role.USER, Role.ASSISTANT)]
    answers: list[tuple[str, str]] = []
    while len(answers) < _MOST_ASKED and len(said) >= 3 and said[-2].role is Role.ASSISTANT:
        slot = _asked().get(said[-2].text.strip())
        if slot is None or len(said[-1].text.split()) > _MOST_WORDS:
            break
        answers.append((slot, said[-1].text))
        said = said[:-2]
    request = understand(said[-1].text) if answers and said[-1].role is Role.USER else None
    if request is None:
        return None
    if request.intent == "pay":
        request = payment(request, said[-1].text, *(answer for _, answer in answers))
    slots = dict(request.slots)
    for slot, answer in reversed(answers):
        slots |= _slot(slot, answer)
    return replace(request, slots=slots)


def choice(messages: Sequence[Message]) -> Understood | None:
    """The request that the last message completes by choosing among what a tool has offered, as in "Which
    meeting: ind.ai/bob, Mon 23 Nov 2026, 09:00; …?": by its place, or by a word that only one of them has."""
    said = [each for each in messages if each.text and each.role in (Role.USER, Role.ASSISTANT)]
    if len(said) < 3 or said[-2].role is not Role.ASSISTANT:
        return None
    offered = _OFFERED.search(" ".join(said[-2].text.split()))
    request = understand(said[-3].text) if offered else None
    if offered is None or request is None:
        return None
    options = [option.strip() for option in offered["options"].split(";")]
    chosen = _chosen(said[-1].text, options)
    parts = [part.strip() for part in chosen.split(",")] if chosen else []
    moment = _MOMENT.fullmatch(", ".join(parts[1:]))
    if moment is None:
        return None
    when = f"{int(moment['day'])} {_MONTHS[moment['month'].lower()]}"
    place = {"person": parts[0], "from" if request.intent == "move" else "when": when, "time": moment["time"]}
    if request.intent == "move":  # what was said of the new time stays
        return replace(request, slots={**request.slots, "person": parts[0], "from": when})
    return replace(request, slots={**request.slots, **place})


def _chosen(answer: str, options: Sequence[str]) -> str:
    words = set(re.findall(r"[^\s,;.!?]+", answer.casefold()))
    for place, names in enumerate(_PLACES):
        if words & names and place < len(options) and len(words) <= _MOST_WORDS:
            return options[place]
    if words & _LAST:
        return options[-1]
    own = [set(re.findall(r"[^\s,;.!?]+", option.casefold())) for option in options]
    near = [len(words & (mine - set.intersection(*own))) for mine in own]
    best = max(near)
    return options[near.index(best)] if best and near.count(best) == 1 else ""


def _slot(slot: str, answer: str) -> dict[str, Slot]:
    probe = _PROBES.get(slot)
    found = understand(probe.format(answer=answer)) if probe else None
    known: Mapping[str, Slot] = found.slots if found else {}
    wanted = {name: known[name] for name in ((slot, "time") if slot == "when" else (slot,)) if name in known}
    if not wanted and slot in _PLAIN:
        return {slot: answer.strip(" .!?।")}
    return wanted


@cache
def _asked() -> Mapping[str, str]:
    """Our questions in every language, with the slot that each asks for."""
    return questions()
