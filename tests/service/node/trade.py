"""A shop and its customers: owners on two nodes who pay and book, and the provider whose word counts."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
from indai.cli.home import Home, Run
from indai.client.audit import Report, audit
from indai.client.channels import plain_channel
from indai.node.keystore import open_keystore
from indai.node.secrets import Secrets
from indai.protocol.errors import IndaiError
from indai.protocol.kinds.pay import payment_reference
from indai.v1 import commerce_pb2, desk_pb2, intents_pb2, negotiation_pb2, owner_pb2
from indai.v1.commerce_pb2_grpc import CommerceServiceStub
from indai.v1.desk_pb2_grpc import SteeringServiceStub

from tests.service.node.world import Node, Owner, now_ms
from tests.unit.cli.runs import run

if TYPE_CHECKING:
    from indai.v1.commerce_pb2_grpc import CommerceServiceAsyncStub
    from indai.v1.desk_pb2_grpc import SteeringServiceAsyncStub

DAY = 86_400_000
HOOK_SECRET = "webhook secret"
ADDRESS = "upi:shop@okbank"

BUYERS = """\
version: 1
timezone: Asia/Kolkata
currency: INR
budgets:
  - id: purse
    per_payment: 5000
    per_day: 8000
    per_month: 40000
rules:
  - id: bills
    allow: [pay, book]
    with: anyone
    amount: { max: 2000 }
  - id: bigger
    ask: [pay, book]
    with: anyone
    amount: { min: 2000.01 }
"""

SELLERS = """\
version: 1
timezone: Asia/Kolkata
currency: INR
rules:
  - id: anything
    allow: [pay, book]
    with: anyone
"""


@dataclass
class Trader:
    """An owner who pays and sells."""

    owner: Owner
    node: Node

    @property
    def handle(self) -> str:
        return self.owner.handle

    @property
    def commerce(self) -> CommerceServiceAsyncStub:
        address = self.node.info.addresses["owner"]
        return CommerceServiceStub(plain_channel(address, token=self.owner.token))

    @property
    def steering(self) -> SteeringServiceAsyncStub:
        return SteeringServiceStub(plain_channel(self.node.info.addresses["owner"], token=self.owner.token))

    async def question(self) -> owner_pb2.Approval:
        """The one that waits for this owner, as soon as it is there."""
        async with asyncio.timeout(60):
            while not (waiting := (await self.owner.stub.ListInbox(owner_pb2.ListInboxRequest())).approvals):
                await asyncio.sleep(0.01)
        (found,) = waiting
        return found

    async def counters(self, code: str, **change: Any) -> str:
        """Say something else instead; why that is refused, or nothing."""
        try:
            await self.steering.CounterApproval(desk_pb2.CounterApprovalRequest(code=code, **change))
        except IndaiError as error:
            return error.reason.name
        return ""

    async def does(self, *words: str, status: int = 0) -> Any:
        """The object that a command of this owner prints; its event loop is its own, so it gets a thread."""
        home, info = Home(self.node.data), self.node.info
        home.run_file.write_text(json.dumps(Run(os.getpid(), info.node, dict(info.addresses)).to_json()))
        token = home.token_file(self.handle)
        token.parent.mkdir(exist_ok=True)
        token.write_text(self.owner.token)
        token.chmod(0o600)
        at = ("--as", self.handle, "--data", str(self.node.data), "--json")
        done = await asyncio.to_thread(run, *words, *at)
        assert done.exit_code == status, (done.stdout, done.stderr)
        # Meanwhile the nodes, in this process too, log to the same stream.
        return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))

    async def start(self, peer: str, **intent: Any) -> str:
        """Begin; the thread's id."""
        request = owner_pb2.StartIntentRequest(request_id=str(uuid.uuid4()), peer=peer, **intent)
        return (await self.owner.stub.StartIntent(request)).thread.thread_id

    async def asks_money(self, peer: str, amount_minor: int, purpose: str = "Lamp", **more: Any) -> str:
        """A request for money."""
        fields: dict[str, Any] = {
            "direction": 1,
            "payee": ADDRESS,
            "currency": "INR",
            "due_ms": now_ms() + DAY,
        }
        wish = intents_pb2.PayWish(amount_minor=amount_minor, purpose=purpose, **(fields | more))
        return await self.start(peer, wish=negotiation_pb2.Propose(pay=wish))

    async def pays(self, peer: str, amount_minor: int, purpose: str = "Lamp", **more: Any) -> str:
        """An offer of money to a known address."""
        fields: dict[str, Any] = {"payee": ADDRESS, "currency": "INR", "due_ms": now_ms() + DAY}
        terms = intents_pb2.PayTerms(amount_minor=amount_minor, purpose=purpose, **(fields | more))
        return await self.start(peer, pay=terms)

    async def books(self, peer: str, item: str, quantity: int = 1, **more: Any) -> str:
        """A wish to book."""
        wish = intents_pb2.BookWish(item=item, title=item, quantity=quantity, **more)
        return await self.start(peer, wish=negotiation_pb2.Propose(book=wish))

    async def rests(self, thread: str) -> owner_pb2.Thread:
        return await self.owner.rest(thread)

    async def stocks(self, item: str, units: int, **more: Any) -> None:
        wanted = commerce_pb2.StockItem(item=item, title=f"The {item}", units=units, **more)
        await self.commerce.SetStockItem(commerce_pb2.SetStockItemRequest(item=wanted))

    async def is_paid_at(self, address: str = ADDRESS, **more: str) -> commerce_pb2.PayAccount:
        """An account whose provider signs with HOOK_SECRET."""
        store = Secrets(self.node.data, open_keystore(self.node.data, {}), {})
        store.set("hook", HOOK_SECRET)
        account = commerce_pb2.PayAccount(payee=address, name="Shop", webhook_secret_ref="vault:hook", **more)
        request = commerce_pb2.SetPayAccountRequest(account=account)
        return (await self.commerce.SetPayAccount(request)).account

    async def webhook(self, body: bytes, signature: str | None = None) -> int:
        """A call at this owner's webhook, signed as the provider does; the status."""
        account = (await self.commerce.GetPayAccount(commerce_pb2.GetPayAccountRequest())).account
        signed = hmac.new(HOOK_SECRET.encode(), body, hashlib.sha256).hexdigest()
        url = f"http://{self.node.info.addresses['http']}{account.webhook_path}"
        headers = {"X-Razorpay-Signature": signed if signature is None else signature}
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, data=body, headers=headers) as answer,
        ):
            return answer.status


def captured(mid: str, amount_minor: int, **changes: Any) -> bytes:
    """The provider's word that money arrived for a commitment."""
    payment = {
        "id": f"pay_{uuid.uuid4().hex[:14]}",
        "entity": "payment",
        "amount": amount_minor,
        "currency": "INR",
        "status": "captured",
        "captured": True,
        "method": "upi",
        "notes": {"reference_id": payment_reference(bytes.fromhex(mid))},
    }
    event = str(changes.pop("event", "payment.captured"))
    return json.dumps(
        {
            "entity": "event",
            "event": event,
            "contains": ["payment"],
            "payload": {"payment": {"entity": payment | changes}},
            "created_at": now_ms() // 1000,
        }
    ).encode()


async def audited(folder: Path, *traders: Trader) -> Report:
    """The audit of these owners' exports."""
    paths = []
    for trader in traders:
        path = folder / f"{trader.handle.rpartition('/')[2]}.jsonl"
        with path.open("wb") as file:
            async for part in trader.owner.stub.ExportOwner(owner_pb2.ExportOwnerRequest()):
                file.write(part.lines)
        paths.append(path)
    world = traders[0].node.world
    return audit(paths, await world.mirror(folder / "registry.jsonl"), world.policy.policy)


def verdict(report: Report, mid: str) -> str:
    """What the audit says of one commitment."""
    return next(each.verdict.name for each in report.commitments if each.mid == mid)
