"""`pay` between two nodes: limits that two offers never exceed together, mandates, and a provider's signed
webhook as the only thing that posts."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from indai.client.handlekeys import delegate
from indai.protocol.errors import IndaiError, Reason
from indai.protocol.handlestate import Delegation
from indai.protocol.kinds.pay import payment_reference
from indai.v1 import commerce_pb2, desk_pb2, owner_pb2, registry_pb2

from tests.service.node.conftest import Jump, Pair
from tests.service.node.lives import seen, until
from tests.service.node.trade import ADDRESS, BUYERS, DAY, SELLERS, Trader, audited, captured, verdict
from tests.service.node.world import now_ms

COMMITTED = owner_pb2.THREAD_STATE_COMMITTED
REJECTED = owner_pb2.THREAD_STATE_REJECTED
OPEN = {owner_pb2.THREAD_STATE_ON_HOLD, owner_pb2.THREAD_STATE_NEGOTIATING}
POSTED = owner_pb2.COMMITMENT_STATE_POSTED


@dataclass
class Street:
    """A shop on node-b and its customers on node-a, each with budgets of their own."""

    pair: Pair
    shop: Trader

    async def customer(self, policy: str = BUYERS) -> Trader:
        handle = f"ind.ai/c{uuid.uuid4().hex[:10]}"
        return Trader(await self.pair.a.agent(handle, policy), self.pair.a)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def street(pair: Pair) -> AsyncIterator[Street]:
    shop = Trader(await pair.b.agent("ind.ai/lamps", SELLERS), pair.b)
    await shop.is_paid_at()
    yield Street(pair, shop)


async def test_a_request_is_offered_accepted_and_posted_by_the_providers_word_alone(street: Street) -> None:
    buyer, shop = await street.customer(), street.shop
    thread = await shop.rests(await shop.asks_money(buyer.handle, 150_000))
    assert (thread.state, thread.reason) == (COMMITTED, "")
    assert thread.commitment_state == owner_pb2.COMMITMENT_STATE_PENDING
    with pytest.raises(IndaiError) as caught:  # no owner's word makes it paid
        await buyer.owner.stub.FulfilCommitment(owner_pb2.FulfilCommitmentRequest(thread_id=thread.thread_id))
    assert caught.value.reason is Reason.ILLEGAL_MOVE
    body = captured(thread.commitment_mid, 150_000)
    assert await shop.webhook(body, signature="00" * 32) == 401
    assert (await seen(shop.owner, thread.thread_id)).commitment_state != POSTED
    assert [await shop.webhook(body) for _ in range(3)] == [200] * 3
    for trader in (shop, buyer):
        paid = await until(trader.owner, thread.thread_id, lambda each: each.commitment_state == POSTED)
        assert paid.commitment_mid == thread.commitment_mid
    link = await buyer.commerce.GetPayLink(commerce_pb2.GetPayLinkRequest(thread_id=thread.thread_id))
    assert link.reference == payment_reference(bytes.fromhex(thread.commitment_mid))
    assert link.upi_link.startswith("upi://pay?pa=shop@okbank&")
    assert f"&tr={link.reference}&" in link.upi_link
    assert "&am=1500.00&cu=INR" in link.upi_link


async def test_a_payer_begins_without_an_address_and_is_told_the_payees(street: Street) -> None:
    buyer = await street.customer()
    wish: dict[str, Any] = {"direction": 2, "payee": ""}
    thread = await buyer.rests(await buyer.asks_money(street.shop.handle, 50_000, **wish))
    assert thread.state == COMMITTED
    link = await buyer.commerce.GetPayLink(commerce_pb2.GetPayLinkRequest(thread_id=thread.thread_id))
    assert link.payee == ADDRESS


async def test_a_payee_who_wants_to_be_asked_tells_the_address_and_is_asked_about_the_offer(
    street: Street, tmp_path: Path
) -> None:
    """Saying where one is paid agrees to nothing; what the rules leave to the owner is the concrete offer."""
    buyer = await street.customer(CAREFUL)
    careful = Trader(await street.pair.b.agent(f"ind.ai/p{uuid.uuid4().hex[:8]}", CAREFUL), street.pair.b)
    await careful.is_paid_at()
    begun = await buyer.asks_money(careful.handle, 90_000, direction=2, payee="")
    waiting = await buyer.rests(begun)
    assert waiting.state == owner_pb2.THREAD_STATE_ON_HOLD
    (question,) = (await careful.owner.stub.ListInbox(owner_pb2.ListInboxRequest())).approvals
    await careful.owner.stub.AnswerApproval(owner_pb2.AnswerApprovalRequest(code=question.code, approve=True))
    thread = await until(buyer.owner, begun, lambda each: each.state not in OPEN)
    assert thread.state == COMMITTED
    report = await audited(tmp_path, buyer, careful)
    assert verdict(report, thread.commitment_mid) == "VALID"


async def test_an_address_that_is_not_the_payees_is_refused(street: Street) -> None:
    buyer = await street.customer()
    thread = await buyer.rests(await buyer.pays(street.shop.handle, 1_000, payee="upi:thief@bank"))
    assert (thread.state, thread.reason) == (REJECTED, "NOT_AVAILABLE")
    right = await buyer.rests(await buyer.pays(street.shop.handle, 1_000))
    assert right.state == COMMITTED


async def test_of_twenty_requests_at_once_just_as_many_are_signed_as_a_day_allows(street: Street) -> None:
    buyer, shop = await street.customer(), street.shop
    asked = await asyncio.gather(*(shop.asks_money(buyer.handle, 150_000) for _ in range(20)))
    ended = await asyncio.gather(*(shop.rests(each) for each in asked))
    states = [each.state for each in ended]
    assert (states.count(COMMITTED), states.count(REJECTED)) == (5, 15)  # 8000 a day, 1500 each
    assert {each.reason for each in ended if each.state == REJECTED} == {"POLICY_DENIED"}
    again = await shop.rests(await shop.asks_money(buyer.handle, 50_000))
    assert again.state == COMMITTED
    assert (await shop.rests(await shop.asks_money(buyer.handle, 100))).state == REJECTED


async def test_a_days_limit_counts_payments_made_one_after_another(street: Street) -> None:
    buyer, shop = await street.customer(), street.shop
    threads = [await shop.rests(await shop.asks_money(buyer.handle, 200_000)) for _ in range(5)]
    assert [each.state for each in threads] == [COMMITTED] * 4 + [REJECTED]


async def test_a_payer_names_another_amount_once_and_it_is_paid_without_a_second_question(
    street: Street,
) -> None:
    buyer, shop = await street.customer(), street.shop
    thread = await shop.asks_money(buyer.handle, 300_000)
    await shop.rests(thread)
    question = await buyer.question()
    seen = await buyer.steering.GetQuestion(desk_pb2.GetQuestionRequest(code=question.code))
    assert (seen.amount_minor, seen.currency) == (300_000, "INR")
    assert (seen.changes_amount, seen.changes_time) == (True, False)
    assert await buyer.counters(question.code, amount_minor=600_000) == "POLICY_DENIED"  # 5000 for one
    assert await buyer.counters(question.code, amount_minor=300_000) == "INVALID_ARGUMENT"
    assert await buyer.counters(question.code, amount_minor=-1) == "INVALID_ARGUMENT"
    assert await buyer.question() == question  # nothing was sent: it still waits
    assert await buyer.counters(question.action_hash, amount_minor=250_000) == ""
    assert await buyer.counters(question.action_hash, amount_minor=240_000) == "THREAD_CLOSED"
    paid = await until(shop.owner, thread, lambda each: each.state in (COMMITTED, REJECTED))
    assert paid.state == COMMITTED, paid
    shown = await buyer.owner.stub.GetThread(owner_pb2.GetThreadRequest(thread_id=thread))
    moves = ["PROPOSE", "HOLD", "COUNTER", "COUNTER", "OFFER", "ACCEPT", "RECEIPT"]
    assert [one.move for one in shown.messages] == moves
    assert "2,500.00" in shown.messages[4].words


async def test_a_mandate_is_the_owners_yes_within_its_amount_and_period(street: Street) -> None:
    buyer, shop = await street.customer(), street.shop
    asked = await shop.rests(await shop.asks_money(buyer.handle, 250_000))
    assert asked.state == owner_pb2.THREAD_STATE_ON_HOLD  # without it the owner is asked
    wanted = commerce_pb2.Mandate(
        payee=shop.handle, max_amount_minor=300_000, currency="INR", period=commerce_pb2.MANDATE_PERIOD_MONTH
    )
    wanted.expire_time.FromMilliseconds(now_ms() + 30 * DAY)
    request = commerce_pb2.AddMandateRequest(request_id=str(uuid.uuid4()), mandate=wanted)
    first, again = [(await buyer.commerce.AddMandate(request)).mandate for _ in range(2)]
    assert first == again
    assert (await shop.rests(await shop.asks_money(buyer.handle, 250_000))).state == COMMITTED
    (used,) = (await buyer.commerce.ListMandates(commerce_pb2.ListMandatesRequest())).mandates
    assert used.used_minor == 250_000
    over = await shop.rests(await shop.asks_money(buyer.handle, 250_000))
    assert over.state == owner_pb2.THREAD_STATE_ON_HOLD
    beyond = await shop.rests(await shop.asks_money(buyer.handle, 600_000))
    assert (beyond.state, beyond.reason) == (REJECTED, "POLICY_DENIED")  # a mandate never beats a refusal


async def test_a_revoked_mandate_permits_nothing(street: Street) -> None:
    buyer, shop = await street.customer(), street.shop
    wanted = commerce_pb2.Mandate(
        payee=shop.handle, max_amount_minor=300_000, currency="INR", period=commerce_pb2.MANDATE_PERIOD_DAY
    )
    wanted.expire_time.FromMilliseconds(now_ms() + DAY)
    request = commerce_pb2.AddMandateRequest(request_id=str(uuid.uuid4()), mandate=wanted)
    made = (await buyer.commerce.AddMandate(request)).mandate
    ended = commerce_pb2.RevokeMandateRequest(mandate_id=made.mandate_id[:8])
    assert (await buyer.commerce.RevokeMandate(ended)).mandate.HasField("revoke_time")
    thread = await shop.rests(await shop.asks_money(buyer.handle, 250_000))
    assert thread.state == owner_pb2.THREAD_STATE_ON_HOLD


async def test_a_key_signs_for_no_more_than_the_record_lets_it(street: Street) -> None:
    handle = f"ind.ai/k{uuid.uuid4().hex[:10]}"
    limited = await street.pair.a.agent(handle, SELLERS, limits=(("INR", 100_000),))
    buyer, shop = Trader(limited, street.pair.a), street.shop
    assert (await shop.rests(await shop.asks_money(handle, 100_000))).state == COMMITTED
    refused = await shop.rests(await shop.asks_money(handle, 100_001))
    assert (refused.state, refused.reason) == (REJECTED, "PERMISSION_DENIED")
    with pytest.raises(IndaiError) as caught:
        await buyer.pays(shop.handle, 100_001)
    assert caught.value.reason is Reason.PERMISSION_DENIED


async def journal(trader: Trader, thread: str) -> list[str]:
    request = owner_pb2.ListJournalRequest(thread_id=thread)
    entries = (await trader.owner.stub.ListJournal(request)).entries
    return [entry.reason for entry in entries if entry.event == "payment"]


async def pending(street: Street, amount_minor: int = 100_000) -> owner_pb2.Thread:
    buyer = await street.customer()
    thread = await street.shop.rests(await street.shop.asks_money(buyer.handle, amount_minor))
    assert thread.state == COMMITTED
    return thread


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"amount": 100_001}, "OVER_PENDING"),
        ({"currency": "USD"}, "WRONG_CURRENCY"),
        ({"amount": 99_999}, "PARTIAL"),
        ({"event": "payment.failed", "status": "failed"}, "PAYMENT_FAILED"),
    ],
)
async def test_what_does_not_fit_posts_nothing_and_is_told_once(
    street: Street, changes: dict[str, Any], reason: str
) -> None:
    thread = await pending(street)
    body = captured(thread.commitment_mid, 100_000, **changes)
    assert [await street.shop.webhook(body) for _ in range(2)] == [200, 200]
    assert await journal(street.shop, thread.thread_id) == [reason]
    now = await seen(street.shop.owner, thread.thread_id)
    assert now.commitment_state == owner_pb2.COMMITMENT_STATE_PENDING


async def test_parts_are_added_up_once_each_and_never_beyond_what_is_pending(street: Street) -> None:
    thread, shop = await pending(street), street.shop
    half = captured(thread.commitment_mid, 60_000)
    results = await asyncio.gather(*(shop.webhook(half) for _ in range(5)))
    assert results == [200] * 5
    assert await shop.webhook(captured(thread.commitment_mid, 60_000)) == 200
    link = await shop.commerce.GetPayLink(commerce_pb2.GetPayLinkRequest(thread_id=thread.thread_id))
    assert link.arrived_minor == 60_000
    assert await shop.webhook(captured(thread.commitment_mid, 40_000)) == 200
    await until(shop.owner, thread.thread_id, lambda each: each.commitment_state == POSTED)


async def test_a_webhook_counts_only_as_it_was_signed_and_where_it_belongs(street: Street) -> None:
    thread, shop = await pending(street), street.shop
    body = captured(thread.commitment_mid, 100_000)
    doc = json.loads(body)
    doc["payload"]["payment"]["entity"]["amount"] = 1
    good = await shop.webhook(body, signature="é")
    assert good == 401
    assert await shop.webhook(b"{}") == 400
    assert await shop.webhook(b"[" * 100_000) == 400
    assert await shop.webhook(captured("00" * 32, 100_000)) == 200  # nobody's reference
    state = (await seen(shop.owner, thread.thread_id)).commitment_state
    assert state == owner_pb2.COMMITMENT_STATE_PENDING
    stranger = Trader(await street.pair.b.agent(f"ind.ai/s{uuid.uuid4().hex[:8]}", SELLERS), street.pair.b)
    await stranger.is_paid_at()
    assert await stranger.webhook(body) == 200  # signed for another account: not its owner's commitment
    state = (await seen(shop.owner, thread.thread_id)).commitment_state
    assert state == owner_pb2.COMMITMENT_STATE_PENDING


async def test_both_exports_are_valid(street: Street, tmp_path: Path) -> None:
    buyer, shop = await street.customer(), street.shop
    thread = await shop.rests(await shop.asks_money(buyer.handle, 70_000))
    await shop.webhook(captured(thread.commitment_mid, 70_000))
    for trader in (shop, buyer):
        await until(trader.owner, thread.thread_id, lambda each: each.commitment_state == POSTED)
    report = await audited(tmp_path, buyer, shop)
    assert verdict(report, thread.commitment_mid) == "VALID"


async def sub_agent(street: Street, above: Trader, name: str, budget_minor: int) -> Trader:
    """An agent of `above` on the same node, which may spend so much."""
    pair, handle = street.pair, f"{'/'.join(above.handle.split('/')[:2])}/{name}"
    below = Trader(await pair.a.agent(handle, BUYERS, below=above.handle), pair.a)
    resolver = pair.world.resolver()
    subject = (await resolver.resolve(handle)).subject_id
    given = Delegation(
        handle, subject, ("pay",), now_ms() - 1_000, now_ms() + DAY, (("INR", budget_minor),), depth=1
    )
    chain = (await resolver.resolve(above.handle)).chain
    operation = delegate(chain, pair.world.rotation[above.handle], given, now_ms=now_ms())
    request = registry_pb2.SubmitOperationRequest(operation=operation.raw)
    await pair.world.stub().SubmitOperation(request)
    return below


@pytest.mark.rule("REG-37")
async def test_sub_agents_together_spend_no_more_than_was_delegated(street: Street) -> None:
    """Budgets are summed over everybody below a delegation, also when they sign at the same moment."""
    top, shop = await street.customer(), street.shop
    work = await sub_agent(street, top, "work", 100_000)
    travel = await sub_agent(street, work, "travel", 80_000)
    asked = await asyncio.gather(*(shop.asks_money(travel.handle, 30_000) for _ in range(4)))
    ended = [(await shop.rests(each)).state for each in asked]
    assert (ended.count(COMMITTED), ended.count(REJECTED)) == (2, 2), ended
    paid = [(await shop.rests(await shop.asks_money(work.handle, 30_000))).state for _ in range(2)]
    assert paid == [COMMITTED, REJECTED]
    # What is under no delegation counts for none.
    assert (await shop.rests(await shop.asks_money(top.handle, 60_000))).state == COMMITTED


ONE_PAYMENT = """\
version: 1
timezone: Asia/Kolkata
currency: INR
rules:
  - { id: all, allow: pay, with: anyone, per_month: 5000 }
"""
CAREFUL = "version: 1\ntimezone: UTC\ncurrency: INR\nrules:\n  - { id: all, ask: pay, with: anyone }\n"
MINUTE = 60_000


async def decline(payee: Trader) -> None:
    (question,) = (await payee.owner.stub.ListInbox(owner_pb2.ListInboxRequest())).approvals
    await payee.owner.stub.AnswerApproval(owner_pb2.AnswerApprovalRequest(code=question.code, approve=False))


@pytest.mark.rule("REG-37")
async def test_a_sub_agents_payment_that_falls_through_is_no_longer_counted_above(street: Street) -> None:
    """The hold goes in a batch of the sub-agent's alone; what was counted above goes with it."""
    top, shop = await street.customer(), street.shop
    careful = Trader(await street.pair.b.agent(f"ind.ai/p{uuid.uuid4().hex[:8]}", CAREFUL), street.pair.b)
    await careful.is_paid_at()
    work = await sub_agent(street, top, "work", 100_000)
    offered = await work.rests(await work.pays(careful.handle, 80_000))
    assert offered.state == owner_pb2.THREAD_STATE_ON_HOLD
    meanwhile = await shop.rests(await shop.asks_money(work.handle, 30_000))
    assert (meanwhile.state, meanwhile.reason) == (REJECTED, "PERMISSION_DENIED")
    await decline(careful)
    await until(work.owner, offered.thread_id, lambda each: each.state not in OPEN)
    again = await shop.rests(await shop.asks_money(work.handle, 100_000))
    assert again.state == COMMITTED
    assert (await shop.rests(await shop.asks_money(work.handle, 100))).state == REJECTED


@pytest.mark.parametrize("how", ["reject", "withdraw", "void", "lapse", "expire"])
async def test_money_of_a_payment_that_falls_through_may_be_spent_again(
    street: Street, jump: Jump, how: str, tmp_path: Path
) -> None:
    buyer, shop = await street.customer(ONE_PAYMENT), street.shop
    careful = Trader(await street.pair.b.agent(f"ind.ai/p{uuid.uuid4().hex[:8]}", CAREFUL), street.pair.b)
    await careful.is_paid_at()
    payee = shop if how in ("void", "expire") else careful
    past = {
        "lapse": 8 * MINUTE,
        "expire": 16 * MINUTE,
    }  # each later than the one before: clocks don't go back
    due: dict[str, Any] = {"due_ms": now_ms() + past[how] - 3 * MINUTE} if how in past else {}
    offered = await buyer.rests(await buyer.pays(payee.handle, 500_000, **due))
    assert offered.state == (COMMITTED if payee is shop else owner_pb2.THREAD_STATE_ON_HOLD)
    meanwhile = await shop.rests(await shop.asks_money(buyer.handle, 100))
    assert (meanwhile.state, meanwhile.reason) == (REJECTED, "POLICY_DENIED")  # it is reserved
    if how == "reject":
        await decline(careful)
    elif how == "withdraw":
        request = owner_pb2.WithdrawThreadRequest(thread_id=offered.thread_id)
        await buyer.owner.stub.WithdrawThread(request)
    elif how == "void":
        called_off = owner_pb2.CancelCommitmentRequest(thread_id=offered.thread_id)
        for each in (shop, buyer):  # nobody alone: the terms say no time until when
            await each.owner.stub.CancelCommitment(called_off)
    else:
        jump(now_ms() + past[how])
    ends = {"void": owner_pb2.COMMITMENT_STATE_VOIDED, "expire": owner_pb2.COMMITMENT_STATE_EXPIRED}
    await until(
        buyer.owner,
        offered.thread_id,
        lambda each: each.commitment_state == ends[how] if how in ends else each.state not in OPEN,
    )
    again = await shop.rests(await shop.asks_money(buyer.handle, 500_000, due_ms=now_ms() + DAY))
    assert again.state == COMMITTED
    over = await shop.rests(await shop.asks_money(buyer.handle, 100))
    assert over.state == REJECTED  # and once only
    if how in ends:
        report = await audited(tmp_path, buyer, payee)
        (judged,) = (one for one in report.commitments if one.mid == offered.commitment_mid)
        assert (judged.verdict.name, judged.state) == ("VALID", f"{how.upper().removesuffix('E')}ED")
