"""What a node shows the public pages of its agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indai.client.peers import PeerChannels
from indai.client.resolver import Resolver
from indai.node.callers import Callers
from indai.node.conversation_role import Conversations
from indai.node.elsewhere import Guests
from indai.node.outgoing import addresses, keeper
from indai.node.pausing import pauses
from indai.node.policies import Policies
from indai.node.tool_news import News
from indai.node.visiting import Calendars, Visits
from indai.node.visitor_tool import visitor_tools
from indai.page.front import Front, Proof
from indai.page.meeting import Slot, meeting_path
from indai.page.tickets import FORMS, Tickets
from indai.tools.toolbox import NodeToolbox

if TYPE_CHECKING:
    from indai.node.node_role import NodePlan


def front(
    plan: NodePlan,
    talks: Conversations,
    resolver: Resolver,
    channels: PeerChannels,
    policies: Policies,
    toolbox: NodeToolbox,
    calendars: Calendars,
) -> Front:
    """Put it together, and give agents the tool with which strangers ask for meetings."""
    authority = plan.handle.partition("/")[0]
    tickets = Tickets(plan.pool, plan.keystore.derive(FORMS), calendars.clock)
    guests = Guests(resolver, channels, calendars.agents, calendars.clock)

    async def proof_of(handle: str) -> Proof:
        found = await resolver.resolve(handle)
        return Proof(found.subject_id, found.state.node, found.head.size)

    async def link(owner: str, slot: Slot) -> str:
        return plan.public_url() + await meeting_path(owner, authority, slot, tickets)

    news = News(plan.pool)
    news.outbound = talks.outbound
    visits = Visits(toolbox, calendars, keeper(plan.data), Callers(plan.pool, talks.outbound, news))
    for tool in visitor_tools(visits, calendars.agents, link):
        toolbox.add(tool)
    files = addresses(plan.data, plan.keystore, calendars.clock, plan.public_url)
    return Front(authority, talks.stub, proof_of, pauses(policies), visits, tickets, guests, files.link)
