"""Whether an owner has paused their agent at their desk, for pages that show it and visitors who are told.

A rule says so, in the owner's `agent` layer: what it does to decisions, the policy sees to.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from indai.desk.pause import LAYER, way_of
from indai.protocol.errors import IndaiError, NotFound

if TYPE_CHECKING:
    from indai.node.policies import Policies

REFUSE: Final = "refuse"


def pauses(policies: Policies) -> Callable[[str], Awaitable[str]]:
    """How a handle is paused: `ask`, `refuse`, or nothing."""

    async def paused(handle: str) -> str:
        try:
            layers = (await policies.active(handle)).version.layers
        except NotFound:
            return ""
        return way_of(next((each.yaml for each in layers if each.name == LAYER), ""))

    return paused


def refusing(policies: Policies) -> Callable[[str], Awaitable[bool]]:
    """Whether nothing new is taken on for a handle. Where the rules can't be read it is not known, and
    whatever is asked for is refused by whoever needs them."""
    paused = pauses(policies)

    async def refuses(handle: str) -> bool:
        try:
            return await paused(handle) == REFUSE
        except IndaiError:
            return False

    return refuses
