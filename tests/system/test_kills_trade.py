"""A payer's and a seller's node are killed with SIGKILL at each step of `pay` and `book`: what is spent, sold
and left is right afterwards, to the last unit."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import pytest
from indai.client.audit import Verdict
from indai.v1 import intents_pb2, negotiation_pb2, owner_pb2

from tests.service.node.trade import ADDRESS, SELLERS, Trader, audited
from tests.service.node.world import now_ms
from tests.system.test_kills import (
    DAY,
    ENDS_S,
    Pair,
    died_everywhere,
    keep_alive,
    node_of,
    repeated,
    two_nodes,
)

pytestmark = pytest.mark.system

# Where first the payer's node dies, and then the seller's: one life after the other.
STEPS = ("after-offer", "before-receipt", "after-commit")
DEALS = 2  # of each kind while nodes die
PRICE = 100_000
BUYERS = f"""\
version: 1
timezone: UTC
currency: INR
rules:
  - {{ id: money, allow: pay, with: anyone, per_month: {(DEALS + 1) * PRICE // 100} }}
  - {{ id: things, allow: book, with: anyone }}
"""


async def settles(starter: Trader, peer: str, propose: negotiation_pb2.Propose) -> owner_pb2.Thread:
    """One intent, asked for again and again under one id, until it has ended on the starter's side."""
    request = owner_pb2.StartIntentRequest(request_id=str(uuid.uuid4()), peer=peer, wish=propose)
    started = await repeated(lambda: starter.owner.stub.StartIntent(request, timeout=5))
    asked = owner_pb2.GetThreadRequest(thread_id=started.thread.thread_id)
    async with asyncio.timeout(ENDS_S):
        while True:
            thread = (await repeated(lambda: starter.owner.stub.GetThread(asked, timeout=5))).thread
            if thread.state in (owner_pb2.THREAD_STATE_COMMITTED, owner_pb2.THREAD_STATE_REJECTED):
                return thread
            await asyncio.sleep(0.05)


def money() -> negotiation_pb2.Propose:
    return negotiation_pb2.Propose(
        pay=intents_pb2.PayWish(
            direction=intents_pb2.PAY_DIRECTION_REQUEST,
            payee=ADDRESS,
            amount_minor=PRICE,
            currency="INR",
            purpose="Lamp",
            due_ms=now_ms() + DAY,
        )
    )


def lamp() -> negotiation_pb2.Propose:
    return negotiation_pb2.Propose(book=intents_pb2.BookWish(item="lamp", title="lamp", quantity=1))


async def traders(pair: Pair) -> tuple[Trader, Trader]:
    a, b = node_of(pair.world, pair.a), node_of(pair.world, pair.b)
    buyer = Trader(await a.agent("ind.ai/buyer", BUYERS), a)
    shop = Trader(await b.agent("ind.ai/shop", SELLERS), b)
    await shop.is_paid_at()
    await shop.stocks("lamp", DEALS + 1)
    return buyer, shop


@pytest.mark.timeout(300)
async def test_payers_and_sellers_killed_at_every_step_promise_each_thing_once(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as pair:
        buyer, shop = await traders(pair)
        mids = []
        # Who pays, and who sells, makes the offer.
        deals = ((pair.a, shop, "ind.ai/buyer", money), (pair.b, buyer, "ind.ai/shop", lamp))
        for victim, starter, peer, propose in deals:
            await victim.stop()
            await victim.start(*STEPS)
            finished = asyncio.Event()
            guard = asyncio.create_task(keep_alive(victim, finished))
            for _ in range(DEALS):
                mids.append(await settles(starter, peer, propose()))
                assert mids[-1].state == owner_pb2.THREAD_STATE_COMMITTED, mids[-1].reason
            await died_everywhere(victim)
            finished.set()
            await guard
        # Just one of each is left, of the month's money as of the lamps.
        for _, starter, peer, propose in deals:
            last, over = [await settles(starter, peer, propose()) for _ in range(2)]
            states = [last.state, over.state]
            assert states == [owner_pb2.THREAD_STATE_COMMITTED, owner_pb2.THREAD_STATE_REJECTED]
            mids.append(last)
        report = await audited(tmp_path, buyer, shop)
        assert not report.findings
        assert sorted(one.mid for one in report.commitments) == sorted(each.commitment_mid for each in mids)
        assert {one.verdict for one in report.commitments} == {Verdict.VALID}
