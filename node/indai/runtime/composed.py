"""A binding composed: which human, team and agent speak, what they may use, and which rules hold.

TEAM may narrow the agent's tools and its memory, never a guardrail of the agent's; HUMAN may override tone
and language inside the team's procedures. Guardrails of all three hold together, those that block first.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from indai.protocol.errors import InvalidInput, Reason
from indai.runtime.checks import pieces, words_of
from indai.runtime.guardrails import Rules, merged
from indai.runtime.prompt import Block, check_static, static_blocks
from indai.runtime.tiers import Agent, Binding, Guardrail, Human, Team

MAX_BASES = 3


@dataclass(frozen=True, slots=True)
class Composed:
    """All that a turn needs to know of its configuration. `leaks`: the prompt, as guardrails look for it;
    `own`: the words that the persona may call itself by."""

    binding: Binding
    human: Human
    team: Team
    agent: Agent
    static: tuple[Block, ...]
    rules: Rules
    tools: tuple[str, ...]
    leaks: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()

    @property
    def narrowed(self) -> frozenset[str]:
        """Tools that the agent has and its team leaves out: to ask for one is against procedure."""
        return frozenset(self.agent.tools) - frozenset(self.tools)


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
    technical = (*agent.guardrails, *_topics(agent))
    rules = merged(("HUMAN", human.guardrails), ("TEAM", team.guardrails), ("AGENT", technical))
    # A persona introduces itself with its identity and its phrases: they are no secret.
    ours = "\n".join(block.text for block in static).replace(human.identity, "")
    own = words_of(human.name, human.identity, *human.greetings.values())
    return Composed(binding, human, team, agent, static, rules, tools, pieces(ours), own)


def _topics(agent: Agent) -> tuple[Guardrail, ...]:
    """What the agent doesn't talk about, as a rule that code checks; the prompt has a line for it already."""
    if not agent.blocked_topics:
        return ()
    words = "Don't talk about blocked topics."
    return (Guardrail(id="blocked-topic", check="blocked_topic", words=words, names=agent.blocked_topics),)


def spoken_language(composed: Composed, language: str) -> str:
    """In which language our own sentences are said: some personas never speak pure Hindi."""
    if language.partition("-")[0] != "hi":
        return language
    rules = [rule for _, rule in composed.rules if rule.check == "not_only_hindi" and rule.severity != "log"]
    if not rules:
        return language
    mixes = "hi" in composed.human.languages
    return "hi-Latn" if mixes else composed.human.languages[0]


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
