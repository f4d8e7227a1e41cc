"""Links to pay on and splits: made once, paid by a signed word, split exactly and once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from indai.dpi.paylinks import PaymentLink, Share
from indai.dpi.razorpay import read
from indai.protocol.errors import IndaiError, NotFound, Reason, Unavailable

from tests.service.dpi.conftest import OTHER, OWNER, MakeRoom, Room
from tests.service.node.provider import KEY, Provider, running_provider

SHARES = [Share("acc_Designer1", 1), Share("acc_Weaver001", 1)]


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with running_provider() as found:
        yield found


@pytest.fixture
async def room(make_room: MakeRoom, provider: Provider) -> AsyncIterator[Room]:
    async with make_room("", razorpay=f"{provider.url} {KEY}") as found:
        yield found


async def made(room: Room, turn: str = "s/1", amount: int = 100_001) -> PaymentLink:
    return await room.desk.links.create(OWNER, turn, amount, "INR", "Two lamps", 7)


async def told(room: Room, provider: Provider, link: PaymentLink, event: str, **more: Any) -> bool:
    said = read(provider.word(link.link_id, event, **more))
    assert said is not None
    return await room.desk.links.take(OWNER, said)


async def paid(room: Room, provider: Provider) -> PaymentLink:
    link = await made(room)
    assert await told(room, provider, link, "payment_link.paid", id="pay_A1")
    return await room.desk.links.get(OWNER, link.reference)


async def reason(work: Any) -> Reason:
    with pytest.raises(IndaiError) as raised:
        await work
    assert KEY.split(":")[1] not in str(raised.value)
    return raised.value.reason


async def test_the_same_turn_makes_one_link_also_when_the_answer_is_lost(
    room: Room, provider: Provider
) -> None:
    provider.faults = [0, 200]
    with pytest.raises(Unavailable):
        await made(room)
    first = await made(room)
    assert (await made(room)).url == first.url
    assert len(provider.links) == 1
    assert (await made(room, "s/2")).reference != first.reference
    assert len(provider.links) == 2
    with pytest.raises(NotFound):
        await room.desk.links.get(OTHER, first.reference)


async def test_only_the_whole_amount_in_its_currency_pays_a_link(room: Room, provider: Provider) -> None:
    link = await made(room)
    for wrong in ({"amount": 100_000}, {"currency": "USD"}, {"status": "failed"}):
        assert await told(room, provider, link, "payment.captured", **wrong)
        assert (await room.desk.links.get(OWNER, link.reference)).status == "open"
    for event in ("payment.captured", "payment_link.paid", "payment_link.expired"):
        assert await told(room, provider, link, event, id="pay_A1")
    assert await told(room, provider, link, "payment.captured", id="pay_B2")
    now = await room.desk.links.get(OWNER, link.reference)
    assert (now.status, now.paid_minor, now.payment_id) == ("paid", 100_001, "pay_A1")


async def test_a_word_about_another_link_is_not_ours(room: Room, provider: Provider) -> None:
    link = await made(room)
    provider.links["plink_other"] = provider.links[link.link_id] | {"id": "plink_other", "reference_id": "x"}
    said = read(provider.word("plink_other", "payment_link.paid"))
    assert said is not None
    assert not await room.desk.links.take(OWNER, said)
    assert not await room.desk.links.take(
        OTHER, read(provider.word(link.link_id, "payment_link.paid")) or said
    )


async def test_a_payment_is_split_exactly_and_once_by_several_at_once(room: Room, provider: Provider) -> None:
    link = await paid(room, provider)
    provider.together = 2  # whoever asks waits a moment for a second one, who must not come
    work = [room.desk.links.split(OWNER, link.reference, SHARES, 1) for _ in range(4)]
    first, *others = await asyncio.gather(*work)
    assert [part.amount_minor for part in first] == [33_334, 33_334, 33_333]
    assert all(other == first for other in others)
    transfers = provider.made["pay_A1"]
    assert [(each["recipient"], each["amount"]) for each in transfers] == [
        ("acc_Designer1", 33_334),
        ("acc_Weaver001", 33_334),
    ]


async def test_a_split_whose_answer_was_lost_is_found_and_not_made_again(
    room: Room, provider: Provider
) -> None:
    link = await paid(room, provider)
    provider.faults = [0, 200]
    assert await reason(room.desk.links.split(OWNER, link.reference, SHARES, 0)) is Reason.UNREACHABLE
    provider.made["pay_A1"][1]["status"] = "failed"
    await room.desk.links.split(OWNER, link.reference, SHARES, 0)
    await room.desk.links.split(OWNER, link.reference, SHARES, 0)
    assert [each["amount"] for each in provider.made["pay_A1"]] == [50_001, 50_000, 50_000]


@pytest.mark.parametrize(
    ("shares", "keep", "expected"),
    [
        ([Share("acc_Designer1", 2), SHARES[1]], 1, Reason.ALREADY_EXISTS),
        ([Share("acc_Somebody9", 1), SHARES[1]], 1, Reason.ALREADY_EXISTS),
        ([SHARES[0], SHARES[0]], 1, Reason.INVALID_ARGUMENT),
        ([Share("upi:eve@bank", 1)], 1, Reason.INVALID_ARGUMENT),
        ([Share("acc_Designer1", -1), SHARES[1]], 1, Reason.INVALID_ARGUMENT),
        ([], 1, Reason.INVALID_ARGUMENT),
    ],
)
async def test_another_split_or_a_wrong_one_transfers_nothing(
    room: Room, provider: Provider, shares: list[Share], keep: int, expected: Reason
) -> None:
    link = await paid(room, provider)
    await room.desk.links.split(OWNER, link.reference, SHARES, 1)
    before = list(provider.made["pay_A1"])
    assert await reason(room.desk.links.split(OWNER, link.reference, shares, keep)) is expected
    assert provider.made["pay_A1"] == before


async def test_what_is_not_paid_is_not_split(room: Room, provider: Provider) -> None:
    link = await made(room)
    assert await reason(room.desk.links.split(OWNER, link.reference, SHARES, 1)) is Reason.ILLEGAL_MOVE
    assert provider.made == {}


async def test_amounts_and_times_have_bounds_and_a_day_has_an_end(
    room: Room, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = room.desk.links.create
    for amount, currency, days in (
        (0, "INR", 7),
        (-5, "INR", 7),
        (10**13, "INR", 7),
        (5, "rs", 7),
        (5, "INR", 91),
    ):
        assert await reason(create(OWNER, "t", amount, currency, "Lamps", days)) is Reason.INVALID_ARGUMENT
    assert await reason(create(OTHER, "t", 5, "INR", "Lamps", 7)) is Reason.UNSUPPORTED
    monkeypatch.setattr("indai.dpi.paylinks.MAX_A_DAY", 1)
    await made(room)
    assert await reason(made(room, "s/2")) is Reason.RATE_LIMITED
    assert len(provider.links) == 1
