"""`book` between two nodes: units held while they are offered, times that never overlap beyond what there is,
and of two buyers after the last one exactly one."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from google.protobuf.timestamp_pb2 import Timestamp
from indai.client.channels import plain_channel
from indai.protocol.errors import IndaiError, Reason
from indai.v1 import commerce_pb2, intents_pb2, owner_pb2, sharing_pb2
from indai.v1.sharing_pb2_grpc import SharingServiceStub

from tests.service.node.conftest import Pair
from tests.service.node.lives import busy, until
from tests.service.node.trade import BUYERS, DAY, SELLERS, Trader, audited, verdict
from tests.service.node.world import now_ms

COMMITTED = owner_pb2.THREAD_STATE_COMMITTED
REJECTED = owner_pb2.THREAD_STATE_REJECTED
CANCELLED = owner_pb2.COMMITMENT_STATE_CANCELLED
HOUR = 3_600_000


@dataclass
class Market:
    """A seller on node-b; buyers on node-a."""

    pair: Pair
    seller: Trader

    async def buyer(self, policy: str = BUYERS) -> Trader:
        handle = f"ind.ai/b{uuid.uuid4().hex[:10]}"
        return Trader(await self.pair.a.agent(handle, policy), self.pair.a)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def market(pair: Pair) -> AsyncIterator[Market]:
    yield Market(pair, Trader(await pair.b.agent("ind.ai/market", SELLERS), pair.b))


async def left(market: Market, item: str) -> int:
    listed = await market.seller.commerce.ListStockItems(commerce_pb2.ListStockItemsRequest())
    (found,) = [each for each in listed.items if each.item == item]
    return found.units - found.held


def window(from_ms: int, until_ms: int) -> dict[str, Any]:
    return {"windows": [intents_pb2.Window(start_ms=from_ms, end_ms=until_ms)], "duration_minutes": 60}


async def test_of_ten_buyers_of_the_last_one_exactly_one_gets_it(market: Market) -> None:
    await market.seller.stocks("vase", 1, price_minor=50_000, currency="INR")
    buyers = [await market.buyer() for _ in range(5)]
    asked = await asyncio.gather(
        *(buyer.books(market.seller.handle, "vase") for buyer in buyers for _ in range(2))
    )
    owners = [buyer for buyer in buyers for _ in range(2)]
    ended = await asyncio.gather(*(buyer.rests(each) for buyer, each in zip(owners, asked, strict=True)))
    states = [each.state for each in ended]
    assert (states.count(COMMITTED), states.count(REJECTED)) == (1, 9)
    assert {each.reason for each in ended if each.state == REJECTED} == {"NOT_AVAILABLE"}
    assert await left(market, "vase") == 0


async def test_what_is_offered_is_held_and_released_when_it_is_declined(market: Market) -> None:
    await market.seller.stocks("rug", 1, price_minor=300_000, currency="INR")
    first, second = await market.buyer(), await market.buyer()
    limit: dict[str, Any] = {"max_price_minor": 100_000, "currency": "INR"}
    cheap = await second.rests(await second.books(market.seller.handle, "rug", **limit))
    assert (cheap.state, cheap.reason) == (REJECTED, "NOT_AVAILABLE")  # not at that price
    asking = await first.rests(await first.books(market.seller.handle, "rug"))
    assert asking.state == owner_pb2.THREAD_STATE_ASKING_OWNER
    assert await left(market, "rug") == 0
    late = await second.rests(await second.books(market.seller.handle, "rug"))
    assert (late.state, late.reason) == (REJECTED, "NOT_AVAILABLE")
    (question,) = (await first.owner.stub.ListInbox(owner_pb2.ListInboxRequest())).approvals
    assert "₹3,000.00" in question.terms
    await first.owner.stub.AnswerApproval(owner_pb2.AnswerApprovalRequest(code=question.code))
    async with asyncio.timeout(60):
        while await left(market, "rug") == 0:
            await asyncio.sleep(0.05)
    asking = await second.rests(await second.books(market.seller.handle, "rug"))
    assert asking.state == owner_pb2.THREAD_STATE_ASKING_OWNER


async def test_a_table_is_booked_once_for_each_time_and_stands_in_the_buyers_calendar(market: Market) -> None:
    await market.seller.stocks("table", 1, per_minutes=60, price_minor=20_000, currency="INR")
    at = (now_ms() // HOUR + 48) * HOUR
    buyer = await market.buyer()
    wanted = [buyer.books(market.seller.handle, "table", **window(at, at + 3 * HOUR)) for _ in range(4)]
    ended = [await buyer.rests(each) for each in await asyncio.gather(*wanted)]
    starts = sorted(each.start_time.ToMilliseconds() for each in ended if each.state == COMMITTED)
    assert starts == [at, at + HOUR, at + 2 * HOUR]
    assert [each.reason for each in ended if each.state == REJECTED] == ["NOT_AVAILABLE"]
    booked = next(each for each in ended if each.state == COMMITTED)
    await until(buyer.owner, booked.thread_id, lambda each: each.in_calendar)
    assert busy(market.pair.a, buyer.owner, booked)
    seller = market.pair.b.data / "calendars" / "ind.ai_market.ics"
    assert not seller.exists()


async def test_a_buyer_wants_another_time_instead_and_a_seller_another_price(market: Market) -> None:
    await market.seller.stocks("hall", 1, price_minor=300_000, currency="INR", per_minutes=60)
    buyer, day = await market.buyer(), now_ms() // DAY * DAY + 3 * DAY
    thread = await buyer.books(market.seller.handle, "hall", **window(day, day + HOUR))
    await buyer.rests(thread)
    asked = await buyer.question()
    later = {
        "start_time": Timestamp(seconds=(day + 2 * HOUR) // 1000),
        "end_time": Timestamp(seconds=(day + 3 * HOUR) // 1000),
    }
    assert await buyer.counters(asked.code, **later) == ""
    booked = await until(buyer.owner, thread, lambda each: each.state in (COMMITTED, REJECTED))
    assert (booked.state, booked.start_time) == (COMMITTED, later["start_time"])

    careful = Trader(
        await market.pair.b.agent("ind.ai/careful", SELLERS.replace("allow", "ask")), market.pair.b
    )
    await careful.stocks("chair", 1, price_minor=150_000, currency="INR")
    most: dict[str, Any] = {"max_price_minor": 160_000, "currency": "INR"}
    thread = await buyer.books(careful.handle, "chair", **most)
    await buyer.rests(thread)
    asked = await careful.question()
    assert await careful.counters(asked.code, amount_minor=160_001) == "INVALID_ARGUMENT"  # beyond the wish
    assert await careful.counters(asked.code, **later) == "UNSUPPORTED"
    assert await careful.counters(asked.code, amount_minor=155_000) == ""
    sold = await until(careful.owner, thread, lambda each: each.state in (COMMITTED, REJECTED))
    assert sold.state == COMMITTED, sold


async def test_something_else_is_proposed_from_the_command_line(market: Market) -> None:
    await market.seller.stocks("studio", 1, price_minor=300_000, currency="INR", per_minutes=60)
    buyer, day = await market.buyer(), now_ms() // DAY * DAY + 3 * DAY
    thread = await buyer.books(market.seller.handle, "studio", **window(day, day + HOUR))
    await buyer.rests(thread)
    code = (await buyer.question()).code
    for words in ((), ("--amount", "much"), ("--amount", "9 USD"), ("--when", "some day")):
        refused = await buyer.does("counter", code, *words, status=2)
        assert refused["error"]["message"], words
    booked = await buyer.does("counter", code, "--when", "next week")
    assert (booked["state"], booked["thread"]) == ("COMMITTED", thread)
    assert datetime.fromisoformat(booked["start"]).timestamp() * 1000 != day

    wary = Trader(await market.pair.b.agent("ind.ai/wary", SELLERS.replace("allow", "ask")), market.pair.b)
    await market.seller.is_paid_at()
    asked = await market.seller.asks_money(wary.handle, 50_000)
    await market.seller.rests(asked)
    code = (await wary.question()).code
    untimed = await wary.does("counter", code, "--when", "tomorrow", status=2)
    assert "time of this cannot be changed" in untimed["error"]["message"]
    paid = await wary.does("counter", code, "--amount", "450.50")
    assert (paid["state"], paid["commitment_state"]) == ("COMMITTED", "PENDING")
    gone = await wary.does("counter", code, "--amount", "400", status=3)
    assert gone["error"]["reason"] == "NOT_FOUND"


async def test_a_late_cancel_costs_the_fee_and_frees_the_time(market: Market) -> None:
    at = (now_ms() // HOUR + 3) * HOUR
    terms = {"cancel_before_minutes": 60, "free_before_minutes": 7 * 1440, "fee_percent": 50}
    await market.seller.stocks("room", 1, per_minutes=60, price_minor=40_000, currency="INR", **terms)
    buyer = await market.buyer()
    booked = await buyer.rests(await buyer.books(market.seller.handle, "room", **window(at, at + HOUR)))
    assert booked.state == COMMITTED
    request = owner_pb2.CancelCommitmentRequest(thread_id=booked.thread_id, sentence="Sorry.")
    await buyer.owner.stub.CancelCommitment(request)
    for trader, who in ((buyer, "You owe ind.ai/market"), (market.seller, f"{buyer.handle} owes you")):
        await until(trader.owner, booked.thread_id, lambda each: each.commitment_state == CANCELLED)
        lines = await trader.owner.stub.ListJournal(owner_pb2.ListJournalRequest(thread_id=booked.thread_id))
        assert [e.words for e in lines.entries if e.event == "owed"] == [
            f"{who} ₹200.00 for cancelling this late."
        ]
    again = await buyer.rests(await buyer.books(market.seller.handle, "room", **window(at, at + HOUR)))
    assert again.state == COMMITTED


async def test_cancelling_in_time_costs_nothing(market: Market) -> None:
    at = (now_ms() // HOUR + 72) * HOUR
    terms = {"cancel_before_minutes": 60, "free_before_minutes": 1440, "fee_percent": 50}
    await market.seller.stocks("hall", 1, per_minutes=60, price_minor=40_000, currency="INR", **terms)
    buyer = await market.buyer()
    booked = await buyer.rests(await buyer.books(market.seller.handle, "hall", **window(at, at + HOUR)))
    await buyer.owner.stub.CancelCommitment(owner_pb2.CancelCommitmentRequest(thread_id=booked.thread_id))
    await until(buyer.owner, booked.thread_id, lambda each: each.commitment_state == CANCELLED)
    lines = await buyer.owner.stub.ListJournal(owner_pb2.ListJournalRequest(thread_id=booked.thread_id))
    assert [e.words for e in lines.entries if e.event == "owed"] == []


async def test_what_is_not_in_stock_is_refused(market: Market) -> None:
    await market.seller.stocks("lamp", 3)
    buyer = await market.buyer()
    for item, quantity, more in (
        ("nothing", 1, {}),
        ("lamp", 4, {}),
        ("lamp", 1, window(now_ms() + DAY, now_ms() + 2 * DAY)),
    ):
        thread = await buyer.rests(await buyer.books(market.seller.handle, item, quantity, **more))
        assert (thread.state, thread.reason) == (REJECTED, "NOT_AVAILABLE")
    anyone = await market.buyer(SELLERS)
    free = await anyone.rests(await anyone.books(market.seller.handle, "lamp", 3))
    assert free.state == COMMITTED
    await market.seller.commerce.RemoveStockItem(commerce_pb2.RemoveStockItemRequest(item="lamp"))
    with pytest.raises(IndaiError) as caught:
        await market.seller.commerce.RemoveStockItem(commerce_pb2.RemoveStockItemRequest(item="lamp"))
    assert caught.value.reason is Reason.NOT_FOUND


@pytest.mark.rule("QRY-02")
async def test_a_price_is_told_to_whom_the_rules_would_sell_and_holds_nothing(market: Market) -> None:
    await market.seller.stocks("mirror", 2, price_minor=70_000, currency="INR")
    buyer, other = await market.buyer(), await market.buyer()

    async def price(who: Trader, item: str, quantity: int) -> sharing_pb2.QueryPeerResponse:
        address = who.node.info.addresses["owner"]
        wish = intents_pb2.BookWish(item=item, title=item, quantity=quantity)
        async with plain_channel(address, token=who.owner.token) as channel:
            asked = sharing_pb2.QueryPeerRequest(peer=market.seller.handle, price=wish)
            return await SharingServiceStub(channel).QueryPeer(asked)

    told = await price(buyer, "mirror", 2)
    assert (told.available, told.price_minor, told.currency) == (True, 140_000, "INR")
    assert await left(market, "mirror") == 2
    assert not (await price(buyer, "mirror", 3)).available
    assert not (await price(buyer, "unicorn", 1)).available
    await other.rests(await other.books(market.seller.handle, "mirror"))
    assert not (await price(buyer, "mirror", 2)).available
    only_meets = "version: 1\ntimezone: UTC\nrules:\n  - {allow: meet, with: anyone}\n"
    wary = await market.pair.b.agent("ind.ai/wary-shop", only_meets)
    closed = Market(market.pair, Trader(wary, market.pair.b))
    await closed.seller.stocks("mirror", 2, price_minor=70_000, currency="INR")
    for item in ("mirror", "unicorn"):  # which of them there is, is not told either
        asked = sharing_pb2.QueryPeerRequest(
            peer=wary.handle, price=intents_pb2.BookWish(item=item, title=item, quantity=1)
        )
        async with plain_channel(buyer.node.info.addresses["owner"], token=buyer.owner.token) as channel:
            with pytest.raises(IndaiError, match="POLICY_DENIED"):
                await SharingServiceStub(channel).QueryPeer(asked)


async def test_both_exports_are_valid(market: Market, tmp_path: Path) -> None:
    await market.seller.stocks("book", 2, price_minor=10_000, currency="INR")
    buyer = await market.buyer()
    thread = await buyer.rests(await buyer.books(market.seller.handle, "book", 2))
    assert verdict(await audited(tmp_path, buyer, market.seller), thread.commitment_mid) == "VALID"
