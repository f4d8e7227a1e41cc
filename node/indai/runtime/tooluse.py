"""What an agent says of its tools, held against the tools that there are. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from indai.protocol.errors import InvalidInput, Reason
from indai.runtime.tiers import Agent
from indai.tools.values import Spec


def check_uses(agent: Agent, specs: Sequence[Spec]) -> None:
    """Raises InvalidInput for a tool that isn't there, or an argument that it doesn't take."""
    known = {spec.name: spec for spec in specs}
    for name, use in agent.uses.items():
        spec = known.get(name)
        if spec is None:
            raise _wrong(agent, f"no tool {name} is on this node", "see: indai tool list")
        takes = spec.arguments.get("properties", {})
        for argument in use.arguments:
            if argument not in takes:
                raise _wrong(
                    agent, f"{name} takes no {argument}", f"it takes {', '.join(takes) or 'nothing'}"
                )


def _wrong(agent: Agent, what: str, hint: str) -> InvalidInput:
    return InvalidInput(
        Reason.INVALID_ARGUMENT, f"The agent {agent.name} says how it uses its tools: {what}.", hint=hint
    )
