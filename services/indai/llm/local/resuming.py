"""Goes on with a request whose missing part was asked for: what was asked before, and the short answer to it.

The questions are our own phrases, so the conversation itself says which slot was asked for. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Final

from indai.llm.local.phrasing import questions
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
_PLAIN: Final = frozenset({"person", "item", "field"})


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
    slots = dict(request.slots)
    for slot, answer in reversed(answers):
        slots |= _slot(slot, answer)
    return replace(request, slots=slots)


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
