"""Goals on a node: the engine over the owner's own desk and toolbox, and the service at the owner's port."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import asyncpg
from indai.node import auth
from indai.node.agents import Agents
from indai.node.goal_service import GoalServicer
from indai.node.inprocess import local_channel
from indai.node.service import Service
from indai.node.tools_role import Tools, acting_as
from indai.runtime.bindings import Bindings
from indai.runtime.conversations.doors import PERSONAL, PRIVATE_BINDING
from indai.runtime.conversations.notices import Notices
from indai.runtime.conversations.outbound import Outbound
from indai.runtime.conversations.rows import seeing
from indai.runtime.goals.engine import Around, GoalEngine, Seen, Standing, ThreadsOf
from indai.runtime.goals.store import GoalStore
from indai.runtime.turn.gates import spent_today
from indai.tools.desk import Desks
from indai.tools.intents.goals import GoalsOf
from indai.tools.intents.table import goal_tools
from indai.v1 import goals_pb2_grpc, owner_pb2

MOST: Final = 200
_WAITS_FOR_THEM: Final = (owner_pb2.THREAD_STATE_NEGOTIATING, owner_pb2.THREAD_STATE_ON_HOLD)
_OPEN: Final = (
    *_WAITS_FOR_THEM,
    owner_pb2.THREAD_STATE_ASKING_OWNER,
    owner_pb2.THREAD_STATE_AWAITING_RECEIPT,
    owner_pb2.THREAD_STATE_IN_DOUBT,
)
_GONE: Final = (owner_pb2.COMMITMENT_STATE_CANCELLED, owner_pb2.COMMITMENT_STATE_SUPERSEDED)
_LANGUAGE: Final = """
    SELECT language FROM runtime.sessions WHERE owner = $1 AND door = 'private' AND status <> 'closed'
    ORDER BY last_active_at DESC LIMIT 1
"""


@contextlib.asynccontextmanager
async def goal_role(
    pool: asyncpg.Pool,
    clock: Callable[[], int],
    agents: Agents,
    bindings: Bindings,
    tools: Tools,
    outbound: Outbound,
) -> AsyncIterator[Service]:
    """Start the engine, and give the owner's agent the tools of goals; stop it after what it does."""
    store, notices = GoalStore(pool), Notices(pool, outbound)

    async def standing(owner: str) -> Standing:
        composed = await bindings.of(PERSONAL, PRIVATE_BINDING)
        return Standing(
            not composed.binding.active or await bindings.is_paused(PERSONAL),
            await spent_today(pool, owner, PRIVATE_BINDING, composed),
            tuple(composed.tools),
            composed.agent.autonomy,
            frozenset(composed.agent.approval_tools),
        )

    async def tell(owner: str, key: str, words: str) -> bool:
        return await notices.tell(owner, key, words, again_is_told=True)

    async def language_of(owner: str) -> str:
        async with seeing(pool, [owner]) as connection:
            return str(await connection.fetchval(_LANGUAGE, owner) or "")

    around = Around(
        store,
        tools.toolbox,
        threads_of(tools.desks),
        tell,
        standing,
        agents.zone_of,
        language_of,
        lambda owner: owner in agents,
        clock,
    )
    engine = GoalEngine(around)
    add = goals_pb2_grpc.add_GoalServiceServicer_to_server
    service = Service(add, GoalServicer(store, clock, engine.wake), auth.owners(agents.owner_of_token))
    for tool in goal_tools(_goals_of(service), tools.desks, tools.people):
        tools.toolbox.add(tool)
    engine.start()
    try:
        yield service
    finally:
        await engine.close()


def _goals_of(service: Service) -> GoalsOf:
    """The service as each owner has it at their port."""

    def goals(owner: str) -> Any:
        acting = replace(service, authenticate=acting_as(owner))
        return goals_pb2_grpc.GoalServiceStub(local_channel([acting], carries=True))

    return goals


def threads_of(desks: Desks) -> ThreadsOf:
    """An owner's newest negotiations, by their own service."""

    async def threads(owner: str) -> Sequence[Seen]:
        listed = await desks(owner).owner.ListThreads(owner_pb2.ListThreadsRequest(page_size=MOST))
        return [seen(each) for each in listed.threads]

    return threads


def seen(thread: owner_pb2.Thread) -> Seen:
    """A thread as goals see it. What the other side wrote is not told on: only our own threads have words."""
    waits = ""
    if thread.state == owner_pb2.THREAD_STATE_ASKING_OWNER:
        waits = "you"
    elif thread.outgoing and thread.state in _WAITS_FOR_THEM:
        waits = "them"
    stands = (
        thread.state == owner_pb2.THREAD_STATE_COMMITTED
        and thread.commitment_state not in _GONE
        and not thread.erased
    )
    return Seen(
        thread.thread_id,
        thread.peer,
        thread.title if thread.outgoing else "",
        waits,
        thread.kind == "meet" and (stands or thread.state in _OPEN),
        thread.start_time.ToMilliseconds() if thread.HasField("start_time") else 0,
        thread.update_time.ToMilliseconds(),
    )
