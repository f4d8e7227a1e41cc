"""What a node shows the public pages of its agents."""

from __future__ import annotations

from indai.client.resolver import Resolver
from indai.desk.pause import LAYER, way_of
from indai.node.conversation_role import Conversations
from indai.node.policies import Policies
from indai.node.visiting import Calendars, Visits
from indai.page.front import Front, Proof
from indai.protocol.errors import NotFound
from indai.tools.toolbox import NodeToolbox


def front(
    authority: str,
    talks: Conversations,
    resolver: Resolver,
    policies: Policies,
    toolbox: NodeToolbox,
    calendars: Calendars,
) -> Front:
    """Put it together. `authority` is the part that the handles here share."""

    async def proof_of(handle: str) -> Proof:
        found = await resolver.resolve(handle)
        return Proof(found.subject_id, found.state.node, found.head.size)

    async def paused(handle: str) -> str:
        try:
            layers = (await policies.active(handle)).version.layers
        except NotFound:
            return ""
        return way_of(next((each.yaml for each in layers if each.name == LAYER), ""))

    return Front(authority, talks.stub, proof_of, paused, Visits(toolbox, calendars))
