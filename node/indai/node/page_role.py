"""What a node shows the public pages of its agents."""

from __future__ import annotations

from collections.abc import Callable

from indai.client.resolver import Resolver
from indai.desk.pause import LAYER, way_of
from indai.node.conversation_role import Conversations
from indai.node.policies import Policies
from indai.node.visiting import Calendars, Visits
from indai.node.visitor_tool import visitor_tools
from indai.page.front import Front, Proof
from indai.page.meeting import Slot, meeting_path
from indai.page.tickets import Tickets
from indai.protocol.errors import NotFound
from indai.tools.toolbox import NodeToolbox


def front(
    authority: str,
    talks: Conversations,
    resolver: Resolver,
    policies: Policies,
    toolbox: NodeToolbox,
    calendars: Calendars,
    tickets: Tickets,
    url: Callable[[], str],
) -> Front:
    """Put it together, and give agents the tool with which strangers ask for meetings. `authority` is the
    part that the handles here share; `url`: where their pages are."""

    async def proof_of(handle: str) -> Proof:
        found = await resolver.resolve(handle)
        return Proof(found.subject_id, found.state.node, found.head.size)

    async def paused(handle: str) -> str:
        try:
            layers = (await policies.active(handle)).version.layers
        except NotFound:
            return ""
        return way_of(next((each.yaml for each in layers if each.name == LAYER), ""))

    async def link(owner: str, slot: Slot) -> str:
        return url() + await meeting_path(owner, authority, slot, tickets)

    visits = Visits(toolbox, calendars)
    for tool in visitor_tools(visits, calendars.agents, link):
        toolbox.add(tool)
    return Front(authority, talks.stub, proof_of, paused, visits, tickets)
