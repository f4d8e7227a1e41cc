"""Who the person is, as the prompt says it: in our words, or in those of the agent's template."""

from __future__ import annotations

from indai.runtime.conversations.values import Turn
from indai.runtime.templates import as_data, filled
from indai.runtime.tiers import Agent
from indai.runtime.turn.afterwards import is_owner


def profile(turn: Turn, agent: Agent, language: str) -> str:
    """A line or more; a name that somebody gave is data."""
    name = turn.request.sender.display_name
    known = "the agent's own owner" if is_owner(turn) else "a visitor"
    handle = turn.handles[0] if turn.handles and not is_owner(turn) else ""
    if agent.person is not None:
        values = {"name": as_data(name), "who": known, "handle": handle, "language": language}
        return filled(agent.person, values)
    proved = f", proved to be {handle}" if handle else ""
    called = f"; calls themselves {name!r}" if name else ""
    return f"This is {known}{proved}{called}."
