"""What was committed is answered, delivered and carried out, also when nobody knows that it was."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from indai.node.engine import Engine
from indai.node.host import Host
from indai.node.outbox import Outgoing
from indai.node.store import Store
from indai.protocol.errors import Reason, Unavailable
from indai.v1 import owner_pb2

from tests.service.node.conftest import Pair
from tests.service.node.test_hostile import deliver, proposal, stored
from tests.service.node.world import now_ms

HOUR, DAY = 3_600_000, 86_400_000
COMMITTED = owner_pb2.THREAD_STATE_COMMITTED
LOST = Unavailable(Reason.DATABASE_UNAVAILABLE, "The connection to the database was lost.")


def request(title: str, request_id: str = "", minutes: int = 15) -> owner_pb2.StartMeetRequest:
    wanted = owner_pb2.StartMeetRequest(
        request_id=request_id or str(uuid.uuid4()), peer="ind.ai/bob", title=title, duration_minutes=minutes
    )
    wanted.start_time.FromMilliseconds(now_ms() + HOUR)
    wanted.end_time.FromMilliseconds(now_ms() + 20 * DAY)
    return wanted


def losing(monkeypatch: pytest.MonkeyPatch, section: str, title: str) -> list[str]:
    """The first commit with this section that concerns this title succeeds, and the node never hears of
    it."""
    lost: list[str] = []
    real = Store.apply

    async def apply(self: Store, owners: Any, doc: Any, *more: Any) -> int:
        clock = await real(self, owners, doc, *more)
        if not lost and section in doc and title in str(doc):
            lost.append(section)
            raise LOST
        return clock

    monkeypatch.setattr(Store, "apply", apply)
    return lost


@pytest.mark.parametrize("section", ["new_threads", "offers", "effects"])
async def test_a_commit_whose_answer_is_lost_is_carried_on(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, section: str
) -> None:
    lost = losing(monkeypatch, section, f"Lost {section}")
    wanted = request(f"Lost {section}")
    try:
        thread = (await pair.alice.stub.StartMeet(wanted)).thread
    except Unavailable:
        thread = (await pair.alice.stub.StartMeet(wanted)).thread
    async with asyncio.timeout(60):
        for owner in (pair.alice, pair.bob):
            seen = await owner.rest(thread.thread_id)
            assert (seen.state, seen.in_calendar) == (COMMITTED, True)
    assert lost == [section]


async def test_a_message_that_comes_twice_at_once_gets_its_answer_twice(pair: Pair) -> None:
    message = (await proposal(pair, pair.world.insider["ind.ai/alice"])).raw
    one, two = await deliver(pair, message, message, identity=pair.a.identity())
    assert len(one.replies) == 1
    assert list(one.replies) == list(two.replies)


async def test_one_request_made_many_times_at_once_is_one_thread(pair: Pair) -> None:
    wanted = request("All at once")
    made = await asyncio.gather(*(pair.alice.stub.StartMeet(wanted) for _ in range(6)))
    assert len({answer.thread.thread_id for answer in made}) == 1


async def test_a_fault_that_one_message_uncovers_fails_no_other_beside_it(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[..., Any] = Host.slot

    async def slot(self: Host, owner: str, peer: str, wish: Any, *more: Any) -> Any:
        if wish.title == "Trap":
            raise ZeroDivisionError
        return await real(self, owner, peer, wish, *more)

    monkeypatch.setattr(Host, "slot", slot)
    key = pair.world.insider["ind.ai/alice"]
    good, bad = await proposal(pair, key), await proposal(pair, key, title="Trap")
    results = await deliver(pair, good.raw, bad.raw, identity=pair.a.identity())
    assert [result.error.reason for result in results] == ["", "UNREACHABLE"]


async def test_a_withdrawal_after_the_commitment_brings_the_receipt_again(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Engine.take

    async def take(self: Engine, outgoing: Outgoing, replies: Any, *more: str) -> None:
        if outgoing.move == "ACCEPT" and outgoing.thread == wanted:
            raise LOST
        await real(self, outgoing, replies, *more)

    wanted: bytes | None = None
    started = asyncio.Event()

    async def held(self: Engine, outgoing: Outgoing, replies: Any, *more: str) -> None:
        if outgoing.move == "PROPOSE":
            await started.wait()
        await take(self, outgoing, replies, *more)

    monkeypatch.setattr(Engine, "take", held)
    thread_id = (await pair.alice.stub.StartMeet(request("Doubt"))).thread.thread_id
    wanted = bytes.fromhex(thread_id)
    started.set()
    async with asyncio.timeout(60):
        waiting = await pair.alice.rest(thread_id, owner_pb2.THREAD_STATE_AWAITING_RECEIPT)
        assert waiting.state == owner_pb2.THREAD_STATE_AWAITING_RECEIPT
        assert (await pair.bob.rest(thread_id)).state == COMMITTED
        await pair.alice.stub.WithdrawThread(owner_pb2.WithdrawThreadRequest(thread_id=thread_id))
        assert (await pair.alice.rest(thread_id)).state == COMMITTED
    theirs = await pair.bob.stub.GetThread(owner_pb2.GetThreadRequest(thread_id=thread_id))
    assert "asks to cancel" in theirs.thread.words


async def test_replayed_acceptances_commit_once(pair: Pair) -> None:
    accept = await stored(pair, "ACCEPT")
    receipt = await stored(pair, "RECEIPT")
    results = await deliver(pair, *[accept] * 8, identity=pair.a.identity())
    assert [list(result.replies) for result in results] == [[receipt]] * 8
