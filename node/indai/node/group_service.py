"""GroupService: meetings of several for their coordinator's owner."""

from __future__ import annotations

import uuid
from typing import Any

from indai.node import named, views
from indai.node.auth import caller
from indai.node.engine import Engine
from indai.node.store import Store
from indai.node.thread_views import THREAD
from indai.protocol.errors import InvalidInput, NotFound, Reason
from indai.protocol.group.algorithms import ALGORITHMS, DEFAULT
from indai.protocol.group.coordinator import missing
from indai.protocol.group.state import Group
from indai.protocol.handles import Handle
from indai.protocol.messages import MAX_PARTIES, MeetWish, Window
from indai.protocol.party_state import Side
from indai.v1 import group_pb2 as pb
from indai.v1 import group_pb2_grpc, owner_pb2

ID_HEX = 32
MIN_ID_HEX = 8


class GroupServicer(group_pb2_grpc.GroupServiceServicer):
    """GroupService."""

    def __init__(self, store: Store, engine: Engine, ledger: str) -> None:
        self._store = store
        self._engine = engine
        self._ledger = ledger

    async def StartGroup(self, request: pb.StartGroupRequest, context: Any) -> pb.StartGroupResponse:
        """Ask everybody."""
        owner = caller(context).owner
        peers = tuple(str(Handle.parse(peer)) for peer in request.peers)
        if not 2 <= len(peers) < MAX_PARTIES or len({*peers, owner}) != len(peers) + 1:
            what = f"A meeting of several is with 2 to {MAX_PARTIES - 1} different others."
            raise InvalidInput(Reason.INVALID_ARGUMENT, what, fields={"peers": "wrong number"})
        algorithm = request.algorithm or DEFAULT
        if algorithm not in ALGORITHMS:
            what = f"A slot is found by {', '.join(ALGORITHMS)}, not by {algorithm!r}."
            raise InvalidInput(Reason.INVALID_ARGUMENT, what, fields={"algorithm": "unknown"})
        window = Window(views.milliseconds(request.start_time), views.milliseconds(request.end_time))
        wish = MeetWish(request.title, request.duration_minutes, (window,), request.place)
        wish.check()
        because = await self._find(owner, request.passes_on) if request.passes_on else b""
        request_id = _uuid(request.request_id)
        thread = await self._engine.convene(owner, peers, wish, request_id, algorithm, because)
        return pb.StartGroupResponse(thread=(await self._read(owner, thread))[0])

    async def GetGroup(self, request: pb.GetGroupRequest, context: Any) -> pb.GetGroupResponse:
        """The account."""
        owner = caller(context).owner
        thread, side = await self._read(owner, await self._find(owner, request.thread_id))
        group = side.group
        if group is None:
            raise NotFound(Reason.NOT_FOUND, "You don't coordinate that meeting.", hint="indai threads")
        return pb.GetGroupResponse(
            thread=thread,
            members=_members(side, group),
            algorithm=group.algorithm,
            rounds=group.rounds,
            seed=group.board(side.thread_id).seed.hex(),
        )

    async def _find(self, owner: str, text: str) -> bytes:
        prefix = text.strip().lower()
        if not MIN_ID_HEX <= len(prefix) <= ID_HEX or set(prefix) - set("0123456789abcdef"):
            what = f"A thread's id has {MIN_ID_HEX} to {ID_HEX} hexadecimal digits."
            raise InvalidInput(Reason.INVALID_ARGUMENT, what, hint="indai threads shows the ids")
        found = await named.threads(self._store, owner, prefix)
        if len(found) != 1:
            raise NotFound(Reason.NOT_FOUND, f"No single thread has the id {prefix}.", hint="indai threads")
        return found[0]

    async def _read(self, owner: str, thread: bytes) -> tuple[owner_pb2.Thread, Side]:
        async with self._store.scope(owner) as connection:
            row = await connection.fetchrow(
                THREAD + "AND t.thread = $2 AND t.erased_ms IS NULL", owner, thread
            )
        if row is None:
            raise NotFound(
                Reason.NOT_FOUND, "There is no such meeting, or it is erased.", hint="indai threads"
            )
        return views.thread(dict(row), self._ledger), Side.from_json(row["side"])


def _members(side: Side, group: Group) -> list[pb.GroupMember]:
    waited = () if side.phase.ended else missing(group)
    signed = {subject for subject, _ in group.votes}
    return [
        pb.GroupMember(
            handle=member.handle,
            signed=member.subject in signed,
            awaited=member.subject in waited,
            asking_owner=member.subject in group.holding and member.subject in waited,
            prevented=member.handle in group.blocked,
            told_windows=told.told_windows,
            told_slots=told.told_slots,
            heard_windows=told.heard_windows,
            heard_ordinals=told.heard_ordinals,
            exchanges=told.exchanges,
        )
        for member, told in zip(group.members, group.account(), strict=True)
    ]


def _uuid(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise InvalidInput(Reason.INVALID_ARGUMENT, "A request id is a UUID.") from None
