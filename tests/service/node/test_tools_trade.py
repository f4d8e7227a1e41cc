"""Paying and booking as tools: what is agreed is what the owner read, to the paisa."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from indai.edge.media import MediaStore
from indai.node.kinds.money import spoken
from indai.node.outgoing import MEDIA, keeper
from indai.protocol.errors import Reason, Refused
from indai.tools.desk import Desk
from indai.tools.intents.proving import Export
from indai.tools.intents.table import intents
from indai.tools.intents.threads import ThreadsOf
from indai.tools.room import room
from indai.tools.values import Caller, Status, unheard

from tests.databases import pooled
from tests.service.node.conftest import Pair
from tests.service.node.trade import BUYERS, SELLERS, Trader
from tests.service.node.world import Node
from tests.service.tooling import Talk, desk_of, people, talk


@dataclass
class Street:
    """A shop on node-b, and a buyer on node-a with tools."""

    shop: Trader
    buyer: Talk
    folder: Path
    node: Node
    desk: Desk
    pool: asyncpg.Pool


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def street(pair: Pair, shared_database: tuple[str, str]) -> AsyncIterator[Street]:
    shop = Trader(await pair.b.agent("ind.ai/lamps", SELLERS), pair.b)
    await shop.is_paid_at()
    await shop.stocks("lamp-7", 5, price_minor=50_000, currency="INR")
    buyer = await pair.a.agent("ind.ai/buyer", BUYERS)
    async with pooled(shared_database[0], 2) as pool:
        desk = desk_of(pair.world, pair.a, buyer)
        yield Street(
            shop,
            talk(pool, buyer, intents(lambda _: desk, people(pair.world), spoken, keeper(pair.a.data))),
            pair.a.data,
            pair.a,
            desk,
            pool,
        )


async def test_a_payment_asks_first_and_gives_the_link_to_pay_by(street: Street) -> None:
    name, arguments = street.buyer.wish("Pay ₹1,500 to lamps")
    caller = replace(street.buyer.caller(), approvals=frozenset({"pay"}))
    asked = await street.buyer.call(name, arguments, caller)
    assert asked.status is Status.NEEDS_APPROVAL
    assert asked.approval is not None
    assert asked.approval.terms.startswith("Pay ind.ai/lamps ₹1,500.00")
    paid = await street.buyer.box.answer(street.buyer.caller(), asked.approval.code, approve=True)
    assert (paid.result["state"], paid.result["amount_minor"]) == ("agreed", 150_000), paid
    assert paid.result["pay_link"].startswith("upi://pay?")
    # The same link for another telephone's camera; no model sees that there is a file.
    (code,) = paid.files
    assert (code.file_name, code.media_type) == ("pay.png", "image/png")
    picture = MediaStore(street.folder / MEDIA).get(code.reference)
    assert picture.startswith(b"\x89PNG")
    assert len(picture) == code.size
    assert "media:" not in str(paid.fields)


@pytest.mark.parametrize("wish", ["Pay ₹500 to lamps every month", "lamps ko har mahine 500 rupaye do"])
async def test_what_is_to_be_paid_every_month_is_not_taken_for_one_payment(street: Street, wish: str) -> None:
    name, arguments = street.buyer.wish(wish)
    caller = replace(street.buyer.caller(), approvals=frozenset({"pay"}))
    outcome = await street.buyer.call(name, arguments, caller)
    assert (name, outcome.status, outcome.code) == ("pay", Status.FAILED, "PAID_ONCE")
    assert outcome.approval is None
    assert "A payment is made once" in outcome.words


@pytest.mark.parametrize("rupees", [0, -5, 10.005, 1e15, "100"])
async def test_an_amount_that_is_none_is_refused(street: Street, rupees: object) -> None:
    outcome = await street.buyer.call("pay", {"with": "lamps", "rupees": rupees})
    assert outcome.status is Status.FAILED
    assert outcome.code in ("BAD_ARGUMENTS", "INVALID_ARGUMENT")


async def test_above_the_owners_budget_nothing_is_agreed(street: Street) -> None:
    outcome = await street.buyer.call("pay", {"with": "lamps", "rupees": 5000.01})
    assert outcome.status is Status.FAILED or outcome.result["state"] == "refused", outcome
    assert "pay_link" not in outcome.result


async def test_something_is_booked_at_its_price(street: Street) -> None:
    booked = await street.buyer.call("book", {"with": "lamps", "item": "lamp-7", "quantity": 2})
    assert booked.result["state"] == "agreed", booked
    assert not booked.files  # an article has no time
    dear = await street.buyer.call("book", {"with": "lamps", "item": "lamp-7", "max_rupees": 10})
    assert dear.status is Status.FAILED or dear.result["state"] != "agreed"


async def test_what_is_booked_for_a_time_comes_with_its_invitation(street: Street) -> None:
    await street.shop.stocks("table", 2, per_minutes=30, price_minor=100, currency="INR")
    wish = {"with": "lamps", "item": "table", "when": "next week", "time": "13:00"}
    booked = await street.buyer.call("book", wish)
    assert booked.result["state"] == "agreed", booked
    (file,) = booked.files
    invitation = MediaStore(street.folder / MEDIA).get(file.reference)
    assert (file.file_name, file.media_type) == ("meeting.ics", "text/calendar")
    assert b"METHOD:REQUEST" in invitation
    assert b"SUMMARY:table" in invitation


async def test_a_yes_to_a_request_for_money_brings_the_link_to_pay_by_again_after_a_kill(
    street: Street,
) -> None:
    asked = await street.shop.asks_money(street.buyer.owner.handle, 250_000, "Chandelier")
    await street.shop.rests(asked)  # it has arrived, and waits for the buyer's word
    question = await Trader(street.buyer.owner, street.node).question()
    threads = ThreadsOf(lambda _: street.desk, keeper(street.folder))
    caller = street.buyer.caller()
    await threads.answer(caller, question.code, True)
    await _agreed(threads, caller, asked)
    # Said again by who was cut off: the same.
    first, again = [await threads.answer(caller, question.code, True) for _ in range(2)]
    assert first == again
    assert (first["state"], first["with"]) == ("agreed", "ind.ai/lamps")
    assert first["pay_link"].startswith("upi://pay?")
    assert [each["file_name"] for each in first["files"]] == ["pay.png"]
    # Who is paid gets neither.
    shop = desk_of(street.shop.node.world, street.shop.node, street.shop.owner)
    shops = ThreadsOf(lambda _: shop, keeper(street.folder))
    theirs = await _agreed(shops, replace(caller, owner="ind.ai/lamps"), asked)
    assert not {"pay_link", "files"} & theirs.keys()


async def test_exports_of_an_owner_together_take_up_so_much_and_then_wait(street: Street) -> None:
    now = 1_795_408_200_000
    caller, folder = replace(street.buyer.caller(), now_ms=now), street.folder / MEDIA
    small = room(street.pool, lambda: now, most_bytes=300_000)

    def kept() -> int:
        return sum(1 for _ in folder.glob("??/*"))

    for _ in range(2):  # the same again is one file
        await small(caller.owner, b"a" * 200_000)
    before = kept()
    both = [small(caller.owner, bytes([each]) * 60_000) for each in range(2)]
    (refused,) = [each for each in await asyncio.gather(*both, return_exceptions=True) if each]
    assert isinstance(refused, Refused)
    assert refused.message.endswith("take up 0 of 0 MB; there is room again in 30 days.")
    await small("ind.ai/somebody", b"b" * 200_000)
    tight = room(street.pool, lambda: now, most_bytes=200_100)
    export = Export(lambda _: street.desk, keeper(street.folder), tight)
    with pytest.raises(Refused) as error:
        await export.run(caller, {}, unheard)
    assert error.value.reason is Reason.RATE_LIMITED
    assert kept() == before  # what is refused is not kept either
    now += 30 * 86_400_000
    await small(caller.owner, b"c" * 299_000)
    assert (await Export(lambda _: street.desk, keeper(street.folder)).run(caller, {}, unheard))["files"]


async def _agreed(threads: ThreadsOf, caller: Caller, thread: str) -> Mapping[str, Any]:
    """The thread as a result, once this side holds it as agreed."""
    async with asyncio.timeout(60):
        while (found := await threads.look(caller, thread))["state"] != "agreed":
            await asyncio.sleep(0.02)
    return found
