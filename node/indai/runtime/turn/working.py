"""Working memory: what a session keeps from turn to turn, each entry until its time is up. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from indai.runtime.turn.consistent import address

HOUR_MS: Final = 3_600_000
SLOTS_MS: Final = HOUR_MS // 2
MOODS: Final = 5
_MAX_RESULT: Final = 600


def alive(state: Mapping[str, Any], now_ms: int) -> dict[str, Any]:
    """The entries whose time is not up: `{name: {"value": …, "until_ms": …}}` as `{name: value}`."""
    return {
        name: entry["value"]
        for name, entry in state.items()
        if isinstance(entry, dict) and "value" in entry and entry.get("until_ms", 0) > now_ms
    }


def kept(state: Mapping[str, Any], now_ms: int, changes: Mapping[str, tuple[Any, int]]) -> dict[str, Any]:
    """The state with `changes` ({name: (value, ms to live)}); None removes an entry."""
    made = {
        name: entry
        for name, entry in state.items()
        if isinstance(entry, dict) and entry.get("until_ms", 0) > now_ms
    }
    for name, (value, life_ms) in changes.items():
        if value is None:
            made.pop(name, None)
        else:
            made[name] = {"value": value, "until_ms": now_ms + life_ms}
    return made


def moods(known: Sequence[str], mood: str) -> list[str]:
    """The mood over the last turns."""
    return [*known, mood][-MOODS:]


def words(working: Mapping[str, Any], before: str = "", goals: Sequence[str] = ()) -> str:
    """What a prompt says of it. `before`: what the last segment of the conversation was about; people said
    it, so it is quoted. `goals`: the owner's own."""
    lines = [f"Last time, in short: {json.dumps(before, ensure_ascii=False)}"] if before else []
    if goals:
        lines.append(f"The owner's goals: {'; '.join(goals)}.")
    if slots := working.get("slots"):
        given = ", ".join(
            f"{name} {' '.join(str(value).split())}" for name, value in slots.get("given", {}).items()
        )
        lines.append(f"Being arranged: {slots.get('tool', '')} ({given or 'nothing known yet'}).")
        lines.append(f"Still missing: {', '.join(slots.get('missing', ()))}.")
    if shared := working.get("shared"):
        lines.append(f"Handed to you by a colleague: {str(shared)[:_MAX_RESULT]}")
    if result := working.get("result"):
        lines.append(f"Last result: {str(result)[:_MAX_RESULT]}")
    return "\n".join(lines)


def guidance(mood: str, known: Sequence[str], price_turns: int | None, answers: Sequence[str] = ()) -> str:
    """How to answer now. `answers`: the agent's own, oldest first."""
    lines = []
    if (form := address(" ".join(answers[-3:]))) == "formal":
        lines.append("In Hindi you say aap (आप) to this person: stay with it.")
    elif form == "familiar":
        lines.append("In Hindi you say tum (तुम) to this person: stay with it.")
    if mood == "stressed":
        lines.append("The person is under pressure: be brief and say what happens next.")
    if mood == "curt" and known.count("curt") > 1:
        lines.append("The person writes in few words: answer in few.")
    if mood == "joking":
        lines.append("The person is joking; a light answer fits.")
    if price_turns is not None:
        lines.append(f"A price was mentioned {price_turns} turns ago; don't bring it up again unasked.")
    return "\n".join(lines)
