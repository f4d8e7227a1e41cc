"""Which door a message stands at: pure, from what is verified, never from what the message says of itself.

- A number or host that is routed leads to its binding, whoever writes.
- A named handle is met at its public door, by its own verified owner at the private one.
- Nobody named: the sender's own agent, for one shared number serves every owner.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Final

from indai.protocol.errors import NotFound, Reason
from indai.protocol.quoting import quoted
from indai.runtime.conversations.values import Place

PERSONAL: Final = "personal"
PRIVATE_BINDING: Final = "sahayak-personal"
PUBLIC_BINDING: Final = "sahayak-public"


@dataclass(frozen=True, slots=True)
class Routed:
    """A binding that a number or host leads to. `handle`: the one of its routing keys that lives here."""

    tenant: str
    binding: str
    door: str
    handle: str = ""


def choose(named: str, own: Sequence[str], here: Container[str], routed: Routed | None) -> Place:
    """The place for a message. `named`: the handle it names, or empty; `own`: verified handles of the sender;
    `here`: handles that live on this node. Raises NotFound when no agent of ours is meant."""
    mine = next((handle for handle in own if handle in here), "")
    if routed is not None and routed.door == "distribution":
        return Place(routed.tenant, routed.tenant, routed.binding, routed.handle, "distribution")
    if routed is not None and routed.door == "private" and mine and named in ("", mine):
        return Place(mine, routed.tenant, routed.binding, mine, "private")
    if named and named not in here:
        raise NotFound(
            Reason.NOT_FOUND,
            f"{quoted(named)} has no agent here.",
            hint="check the handle, for example ind.ai/alice",
        )
    if named and named not in own:
        tenant, binding = PERSONAL, PUBLIC_BINDING
        if routed is not None and routed.door == "public":
            tenant, binding = routed.tenant, routed.binding
        return Place(named, tenant, binding, named, "public")
    if named or mine:
        owner = named or mine
        return Place(owner, PERSONAL, PRIVATE_BINDING, owner, "private")
    raise NotFound(
        Reason.NOT_FOUND,
        "This message names no agent, and its sender has none here.",
        hint="name a handle, or link this channel to yours with a code",
    )
