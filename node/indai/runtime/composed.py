"""A binding composed: which human, team and agent speak, what they may use, and which rules hold.

TEAM may narrow the agent's tools and its memory, never a guardrail of the agent's; HUMAN may override tone
and language inside the team's procedures. Guardrails of all three hold together, those that block first.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from indai.protocol.errors import InvalidInput, Reason
from indai.runtime.guardrails import Rules, merged
from indai.runtime.prompt import Block, check_static, static_blocks
from indai.runtime.tiers import Agent, Binding, Human, Team

MAX_BASES = 3


@dataclass(frozen=True, slots=True)
class Composed:
    """All that a turn needs to know of its configuration."""

    binding: Binding
    human: Human
    team: Team
    agent: Agent
    static: tuple[Block, ...]
    rules: Rules
    tools: tuple[str, ...]


def compose(binding: Binding, human: Human, team: Team, agent: Agent) -> Composed:
    """Put the tiers together. Raises InvalidInput for parts that don't fit: a budget, a missing tool."""
    unknown = set(team.tools or ()) - set(agent.tools)
    if unknown:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"The team {team.name} names tools that its agent lacks: {', '.join(sorted(unknown))}.",
            hint="a team can only narrow: give the tool to the agent first",
        )
    tools = tuple(tool for tool in agent.tools if team.tools is None or tool in team.tools)
    static = static_blocks(human, team, agent)
    check_static(static, agent)
    rules = merged(("HUMAN", human.guardrails), ("TEAM", team.guardrails), ("AGENT", agent.guardrails))
    return Composed(binding, human, team, agent, static, rules, tools)


def extended(agent: Agent, bases: tuple[Agent, ...]) -> Agent:
    """An agent with what it inherits, nearest base first. Guardrails add up: an heir can't drop one."""
    if len(bases) > MAX_BASES:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, f"The agent {agent.name} extends more than {MAX_BASES} others in a row."
        )
    whole = agent
    for base in bases:
        given = {name: getattr(whole, name) for name in whole.model_fields_set if name != "guardrails"}
        whole = base.model_copy(update=given | {"guardrails": (*base.guardrails, *whole.guardrails)})
    return whole


def version_for(binding: Binding, person: str) -> int | None:
    """The version of the AGENT tier for a person: the same one every time; None for the newest."""
    if not binding.weights:
        return None
    place = int.from_bytes(hashlib.sha256(person.encode()).digest()[:4], "big") % 100
    for version, share in sorted(binding.weights.items()):
        if place < share:
            return version
        place -= share
    raise AssertionError("the weights add up to 100")
