"""Kinds of intent on a node: what it serves it begins, what it does not it refuses in signed words; and the
tables refuse more stock or money than there is."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from indai.node import owner_service, several
from indai.node.desk import Desk
from indai.node.kinds.served import INTENTS, SERVED, by_kind
from indai.protocol.envelope import payload_type, seal
from indai.protocol.errors import IndaiError, Reason
from indai.v1 import intents_pb2, negotiation_pb2, owner_pb2

from tests.service.node.database import connect
from tests.service.node.scene import Scene
from tests.service.node.world import now_ms
from tests.unit.kinds import PAIRS, PAY

DAY = 86_400_000


def start(peer: str, **intent: Any) -> owner_pb2.StartIntentRequest:
    return owner_pb2.StartIntentRequest(request_id=str(uuid.uuid4()), peer=peer, **intent)


async def test_what_is_not_served_is_not_begun(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = start(scene.eve.handle)
    monkeypatch.setattr(owner_service, "_intent", lambda request: SimpleNamespace(kind="dance"))
    with pytest.raises(IndaiError) as caught:
        await scene.carol.stub.StartIntent(asked)
    assert caught.value.reason is Reason.UNSUPPORTED
    assert set(SERVED) == {wish.kind for wish, _ in PAIRS}
    assert INTENTS == ("ask", "book", "meet", "pay", "share")
    with pytest.raises(RuntimeError, match="served"):
        by_kind([])


async def test_a_meeting_begins_by_the_common_way_too_and_once(scene: Scene) -> None:
    window = intents_pb2.Window(start_ms=now_ms() + DAY, end_ms=now_ms() + 9 * DAY)
    wish = intents_pb2.MeetWish(title="Tea", duration_minutes=30, windows=[window])
    asked = start(scene.eve.handle, wish=negotiation_pb2.Propose(meet=wish))
    first = (await scene.carol.stub.StartIntent(asked)).thread
    assert (first.kind, first.title) == ("meet", "Tea")
    assert (await scene.carol.stub.StartIntent(asked)).thread.thread_id == first.thread_id


async def test_an_intent_out_of_range_is_refused(scene: Scene) -> None:
    for asked in (
        start(scene.eve.handle),
        start(scene.eve.handle, wish=negotiation_pb2.Propose(meet=intents_pb2.MeetWish(title="Tea"))),
        start(scene.eve.handle, pay=intents_pb2.PayTerms(amount_minor=1)),
    ):
        with pytest.raises(IndaiError) as caught:
            await scene.carol.stub.StartIntent(asked)
        assert caught.value.reason is Reason.INVALID_ARGUMENT


async def test_a_peer_is_told_in_signed_words_what_is_not_served(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a node without any module."""
    _, model = await scene.ask("Model")
    header = scene.header(model)
    header.in_reply_to, header.thread = b"", header.id
    monkeypatch.setattr(several, "Desk", lambda *desk: replace(Desk(*desk), kinds={}))
    propose = negotiation_pb2.Propose(pay=PAY.to_pb())
    move = negotiation_pb2.Move(header=header, propose=propose)
    result = await scene.say(seal(payload_type("move"), move.SerializeToString(), [scene.eve.key]))
    assert not result.error.reason
    got = await scene.thread(header.thread.hex())
    assert got.thread.kind == "pay"
    assert [message.move for message in got.messages] == ["PROPOSE", "REJECT"]
    assert got.messages[1].words.startswith("UNSUPPORTED: ")


@pytest_asyncio.fixture(loop_scope="module")
async def table(scene: Scene) -> AsyncIterator[asyncpg.Connection]:
    """The node's database as its program sees it, for one owner; nothing stays."""
    connection = await connect(scene.pair.a)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("SET LOCAL ROLE indai_app")
    await connection.execute("SELECT set_config('indai.owners', 'ind.ai/shop', true)")
    await connection.execute("INSERT INTO node.stock (owner, item, units) VALUES ('ind.ai/shop', 'lamp', 2)")
    try:
        yield connection
    finally:
        await transaction.rollback()
        await connection.close()


def units(quantity: int, start_ms: int = 0, end_ms: int = 0, item: str = "lamp") -> dict[str, Any]:
    return {"item": item, "quantity": quantity, "start_ms": start_ms, "end_ms": end_ms}


def money(amount_minor: int, limit_minor: int | None, day: str = "2027-01-05") -> dict[str, Any]:
    return {"amount_minor": amount_minor, "currency": "INR", "day": day, "limit_minor": limit_minor}


async def apply(table: asyncpg.Connection, section: str, *rows: dict[str, Any]) -> list[str]:
    """What was applied, by the ids of its rows; undone again when it is refused."""
    mids = ["\\x" + os.urandom(32).hex() for _ in rows]
    owned = [
        {"owner": "ind.ai/shop", "peer": "ind.ai/b", "mid": mid} | row
        for mid, row in zip(mids, rows, strict=True)
    ]
    async with table.transaction():
        await table.execute("SELECT node.apply_holds($1::jsonb)", json.dumps({section: owned}))
    return mids


async def refused(code: str, table: asyncpg.Connection, *rows: dict[str, Any]) -> None:
    with pytest.raises(asyncpg.PostgresError) as caught:
        await apply(table, "holds", *rows)
    assert caught.value.sqlstate == code


async def test_of_two_buyers_of_the_last_one_exactly_one_gets_it(table: asyncpg.Connection) -> None:
    (first,) = await apply(table, "holds", units(1))
    await refused("IND13", table, units(2))
    await refused("IND13", table, units(1), units(1))
    await apply(table, "holds", units(1))
    await refused("IND13", table, units(1))
    await apply(table, "free_holds", {"mid": first, "consumed": False})
    await apply(table, "holds", units(1))
    await refused("IND13", table, units(1, item="unknown"))


async def test_units_are_counted_where_times_overlap(table: asyncpg.Connection) -> None:
    at = 1_800_000_000_000
    await apply(table, "holds", units(1, at, at + 100), units(1, at + 50, at + 150))
    await refused("IND13", table, units(1, at + 60, at + 90))
    await refused("IND13", table, units(1, at - 10, at + 60))
    await refused("IND13", table, units(2, at + 120, at + 160))
    await apply(table, "holds", units(1, at + 100, at + 200), units(2, at + 200, at + 300))
    await refused("IND13", table, units(1))


async def test_what_is_given_is_not_freed_as_a_mere_promise(table: asyncpg.Connection) -> None:
    (mid,) = await apply(table, "holds", units(2))
    await apply(table, "consume_holds", {"mid": mid})
    await apply(table, "free_holds", {"mid": mid, "consumed": False})
    await refused("IND13", table, units(1))
    await apply(table, "free_holds", {"mid": mid, "consumed": True})
    await apply(table, "holds", units(2))
    with pytest.raises(asyncpg.PostgresError) as caught:
        await apply(table, "consume_holds", {"mid": "\\x" + "00" * 32})
    assert caught.value.sqlstate == "IND10"


async def test_two_offers_never_exceed_a_days_limit_together(table: asyncpg.Connection) -> None:
    await apply(table, "holds", money(60, 100))
    await refused("IND14", table, money(41, 100))
    await apply(table, "holds", money(40, 100), money(100, 100, "2027-01-06"))
    await refused("IND14", table, money(1, 100))
    await apply(table, "holds", money(5, None))


async def test_nobody_sees_what_another_owner_holds(table: asyncpg.Connection) -> None:
    await apply(table, "holds", units(1), money(60, 100))
    assert len(await table.fetch("SELECT * FROM node.load_holds(ARRAY['ind.ai/shop'], 0)")) == 2
    await table.execute("SELECT set_config('indai.owners', 'ind.ai/other', true)")
    assert await table.fetchval("SELECT count(*) FROM node.holds") == 0
    assert await table.fetchval("SELECT count(*) FROM node.stock") == 0
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await apply(table, "holds", units(1))
