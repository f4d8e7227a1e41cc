"""The page at the payee's provider: made once for each commitment, also on the provider's bad days, and what
its webhooks say of it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest_asyncio
from indai.node.keystore import open_keystore
from indai.node.secrets import Secrets
from indai.protocol.kinds.pay import payment_reference
from indai.v1 import commerce_pb2, owner_pb2

from tests.service.node.conftest import Pair
from tests.service.node.lives import seen, until
from tests.service.node.provider import KEY, Provider, running_provider
from tests.service.node.trade import SELLERS, Trader

POSTED = owner_pb2.COMMITMENT_STATE_POSTED
PENDING = owner_pb2.COMMITMENT_STATE_PENDING


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider() -> AsyncIterator[Provider]:
    async with running_provider() as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shop(pair: Pair, provider: Provider) -> Trader:
    made = Trader(await pair.b.agent("ind.ai/paperwork", SELLERS), pair.b)
    Secrets(pair.b.data, open_keystore(pair.b.data, {}), {}).set("key", KEY)
    await made.is_paid_at(provider_url=provider.url, provider_key_ref="vault:key")
    return made


async def agreed(pair: Pair, shop: Trader) -> owner_pb2.Thread:
    buyer = Trader(await pair.a.agent(f"ind.ai/p{uuid.uuid4().hex[:10]}", SELLERS), pair.a)
    return await shop.rests(await shop.asks_money(buyer.handle, 120_000))


async def page(shop: Trader, thread: owner_pb2.Thread) -> str:
    """The id of the provider's link, once it is there."""
    async with asyncio.timeout(60):
        while True:
            request = commerce_pb2.GetPayLinkRequest(thread_id=thread.thread_id)
            url = (await shop.commerce.GetPayLink(request)).page_url
            if url:
                return url.rpartition("/")[2]
            await asyncio.sleep(0.05)


async def test_one_page_is_made_although_the_provider_fails_after_making_it(
    pair: Pair, shop: Trader, provider: Provider
) -> None:
    provider.faults = [500, 200]  # the look-up fails, then the answer to the creation is cut off
    thread = await agreed(pair, shop)
    link = provider.links[await page(shop, thread)]
    reference = payment_reference(bytes.fromhex(thread.commitment_mid))
    assert [each["reference_id"] for each in provider.links.values()].count(reference) == 1
    assert (link["amount"], link["currency"], link["reference_id"]) == (120_000, "INR", reference)
    for event in ("payment.captured", "payment_link.paid"):  # the same payment, said twice in two ways
        assert await shop.webhook(provider.word(link["id"], event, id="pay_same")) == 200
    await until(shop.owner, thread.thread_id, lambda each: each.commitment_state == POSTED)
    shown = commerce_pb2.GetPayLinkRequest(thread_id=thread.thread_id)
    assert (await shop.commerce.GetPayLink(shown)).arrived_minor == 120_000


async def test_a_page_that_expires_half_paid_posts_what_arrived(
    pair: Pair, shop: Trader, provider: Provider
) -> None:
    thread = await agreed(pair, shop)
    link = await page(shop, thread)
    await shop.webhook(provider.word(link, "payment_link.partially_paid", amount=50_000))
    assert (await seen(shop.owner, thread.thread_id)).commitment_state == PENDING
    await shop.webhook(provider.word(link, "payment_link.expired"))
    await until(shop.owner, thread.thread_id, lambda each: each.commitment_state == POSTED)


async def test_a_page_that_is_closed_unpaid_asks_to_void_and_posts_nothing(
    pair: Pair, shop: Trader, provider: Provider
) -> None:
    thread = await agreed(pair, shop)
    link = await page(shop, thread)
    await shop.webhook(provider.word(link, "payment_link.cancelled"))
    asked = await until(shop.owner, thread.thread_id, lambda each: "asked to call" in each.words)
    assert asked.commitment_state == PENDING
