"""A person whose agent has really told, paid, spent and handed on: what the rarer rooms of a desk show."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import pytest_asyncio
from indai.client.channels import plain_channel
from indai.client.handlekeys import delegate
from indai.protocol.handlestate import Delegation
from indai.v1 import commerce_pb2, llm_pb2, owner_pb2, registry_pb2
from indai.v1.llm_pb2_grpc import LlmServiceStub

from tests.service.exchange.neighbours import friend
from tests.service.node.trade import BUYERS, Trader
from tests.service.node.world import Owner, now_ms
from tests.service.web.conftest import HOUR_MS, Desks

DEVS = BUYERS.replace(
    "rules:\n",
    "circles: { friends: [ind.ai/asha] }\nvisibility:\n"
    "  - { id: friends, to: friends, profile: [email, city] }\nrules:\n",
)
ASHAS = """\
version: 1
timezone: Asia/Kolkata
currency: INR
rules:
  - { id: mine, allow: [share, ask], with: anyone, started_by: me }
  - { id: money, allow: pay, with: anyone }
"""


@dataclass
class Household:
    """dev on node-b, whom asha on node-a asks for data and for money, and who has a sub-agent."""

    dev: Owner
    asha: Trader


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def household(desks: Desks) -> Household:
    """What a person's agent has really told, paid, spent and handed on."""
    dev = await desks.b.agent("ind.ai/dev", DEVS)
    asha = await desks.a.agent("ind.ai/asha", ASHAS)
    giver, asker = friend(dev, desks.b), friend(asha, desks.a)
    await giver.has(email="dev@example.org", city="Pune")
    for field in ("email", "email", "city"):
        thread = await asker.wants("ind.ai/dev", field=field)
        assert thread.state == owner_pb2.THREAD_STATE_COMMITTED, thread.words
        await asker.read(thread)
    found = Household(dev, Trader(asha, desks.a))
    await _pays_under_a_mandate(desks, found)
    await _hands_on(desks, dev)
    await _spends(desks, dev)
    return found


async def _pays_under_a_mandate(desks: Desks, house: Household) -> None:
    payer = Trader(house.dev, desks.b)
    wanted = commerce_pb2.Mandate(
        payee="ind.ai/asha",
        max_amount_minor=300_000,
        currency="INR",
        period=commerce_pb2.MANDATE_PERIOD_MONTH,
    )
    wanted.expire_time.FromMilliseconds(now_ms() + 30 * 24 * HOUR_MS)
    request = commerce_pb2.AddMandateRequest(request_id=str(uuid.uuid4()), mandate=wanted)
    await payer.commerce.AddMandate(request)
    await house.asha.is_paid_at()
    paid = await house.asha.rests(await house.asha.asks_money("ind.ai/dev", 250_050))
    assert paid.state == owner_pb2.THREAD_STATE_COMMITTED, paid.words


async def _hands_on(desks: Desks, dev: Owner) -> None:
    handle, world = f"{dev.handle}/shopping", desks.world
    await desks.b.agent(handle, BUYERS, below=dev.handle)
    subject = (await world.resolver().resolve(handle)).subject_id
    life = (now_ms() - 1_000, now_ms() + 24 * HOUR_MS)
    given = Delegation(handle, subject, ("pay",), *life, (("INR", 100_000),), depth=1)
    chain = (await world.resolver().resolve(dev.handle)).chain
    operation = delegate(chain, world.rotation[dev.handle], given, now_ms=now_ms())
    await world.stub().SubmitOperation(registry_pb2.SubmitOperationRequest(operation=operation.raw))


async def _spends(desks: Desks, dev: Owner) -> None:
    """A credit that the node's operator has put there, and two calls of a model that has a price."""
    address = desks.b.info.addresses["owner"]
    credit = llm_pb2.SpendingLimit(
        tenant="personal",
        key=llm_pb2.LIMIT_KEY_OWNER,
        subject=dev.handle,
        period=llm_pb2.LIMIT_PERIOD_CREDIT,
        limit_micros=250_000_000,
    )
    root = (desks.b.data / "operator.token").read_text().strip()
    operator = LlmServiceStub(plain_channel(address, token=root))
    await operator.SetSpendingLimit(llm_pb2.SetSpendingLimitRequest(limit=credit))
    model = LlmServiceStub(plain_channel(address, token=dev.token))
    said = llm_pb2.ChatMessage(role=llm_pb2.MESSAGE_ROLE_USER, text="Write a line about rain " * 40)
    for _ in range(2):
        async for _ in model.Generate(llm_pb2.GenerateRequest(messages=[said]), timeout=60):
            pass
