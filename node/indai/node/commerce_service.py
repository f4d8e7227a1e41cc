"""Stock, mandates and payment accounts over RPC. Every call is scoped to the owner that the token names."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import Any

from indai.node import named, views
from indai.node.agents import Agents
from indai.node.auth import caller
from indai.node.engine import Engine
from indai.node.holdings import Holdings
from indai.node.mandates import Mandate, Mandates, Period
from indai.node.pay_accounts import HOOK_PATH, PayAccount, PayAccounts
from indai.node.payments import Payments
from indai.node.stock import Shelf, StockItem, most_held
from indai.node.store import Store
from indai.node.upi import upi_link
from indai.protocol.errors import InvalidInput, NotFound, Reason, Refused
from indai.protocol.handles import Handle
from indai.protocol.kinds.pay import PayTerms, payment_reference
from indai.v1 import commerce_pb2 as pb
from indai.v1 import commerce_pb2_grpc

_PERIODS = {
    pb.MANDATE_PERIOD_DAY: Period.DAY,
    pb.MANDATE_PERIOD_WEEK: Period.WEEK,
    pb.MANDATE_PERIOD_MONTH: Period.MONTH,
}
_ITEM = tuple(StockItem.__dataclass_fields__)
_ACCOUNT = ("payee", "name", "webhook_secret_ref", "provider_url", "provider_key_ref")
DAY_MS = 86_400_000


class CommerceServicer(commerce_pb2_grpc.CommerceServiceServicer):
    """CommerceService."""

    def __init__(
        self,
        store: Store,
        agents: Agents,
        engine: Engine,
        shelf: Shelf,
        mandates: Mandates,
        accounts: PayAccounts,
        payments: Payments,
        clock: Callable[[], int],
    ) -> None:
        self._store = store
        self._agents = agents
        self._engine = engine
        self._shelf = shelf
        self._mandates = mandates
        self._accounts = accounts
        self._payments = payments
        self._clock = clock

    async def SetStockItem(self, request: pb.SetStockItemRequest, context: Any) -> pb.SetStockItemResponse:
        """Offer it from now on, on these terms."""
        owner = caller(context).owner
        item = StockItem(**{name: getattr(request.item, name) for name in _ITEM})
        await self._shelf.set(owner, item)
        return pb.SetStockItemResponse(item=pb.StockItem(**asdict(item)))

    async def ListStockItems(
        self, request: pb.ListStockItemsRequest, context: Any
    ) -> pb.ListStockItemsResponse:
        """By name, with what is held."""
        owner, now = caller(context).owner, self._clock()
        held = await self._shelf.held(owner, now)
        items = [
            pb.StockItem(
                **asdict(item), held=most_held(held, name, *((now, _LATER) if item.per_minutes else (0, 0)))
            )
            for name, item in sorted(self._shelf.of(owner).items())
        ]
        return pb.ListStockItemsResponse(items=items)

    async def RemoveStockItem(
        self, request: pb.RemoveStockItemRequest, context: Any
    ) -> pb.RemoveStockItemResponse:
        """Offer it no more."""
        await self._shelf.remove(caller(context).owner, request.item)
        return pb.RemoveStockItemResponse()

    async def AddMandate(self, request: pb.AddMandateRequest, context: Any) -> pb.AddMandateResponse:
        """Permit it from now on."""
        owner, said = caller(context).owner, request.mandate
        if said.period not in _PERIODS:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, "A mandate is for a day, a week or a month.", hint="--every month"
            )
        mandate = Mandate(
            _uuid(request.request_id),
            str(Handle.parse(said.payee)),
            said.max_amount_minor,
            said.currency,
            _PERIODS[said.period],
            views.milliseconds(said.expire_time),
        )
        added = await self._mandates.add(owner, mandate, self._clock())
        return pb.AddMandateResponse(mandate=await self._mandate(owner, added))

    async def ListMandates(self, request: pb.ListMandatesRequest, context: Any) -> pb.ListMandatesResponse:
        """Newest first, with what is used up."""
        owner = caller(context).owner
        held = await self._held(owner)
        found = [await self._mandate(owner, each, held) for each in self._mandates.of(owner)]
        return pb.ListMandatesResponse(mandates=found)

    async def RevokeMandate(self, request: pb.RevokeMandateRequest, context: Any) -> pb.RevokeMandateResponse:
        """Permit nothing more under it."""
        owner = caller(context).owner
        ended = await self._mandates.revoke(owner, request.mandate_id, self._clock())
        return pb.RevokeMandateResponse(mandate=await self._mandate(owner, ended))

    async def SetPayAccount(self, request: pb.SetPayAccountRequest, context: Any) -> pb.SetPayAccountResponse:
        """Be paid there from now on."""
        wanted = PayAccount(**{name: getattr(request.account, name) for name in _ACCOUNT})
        account = await self._accounts.set(caller(context).owner, wanted)
        return pb.SetPayAccountResponse(account=_account(account))

    async def GetPayAccount(self, request: pb.GetPayAccountRequest, context: Any) -> pb.GetPayAccountResponse:
        """As it is kept."""
        return pb.GetPayAccountResponse(account=_account(self._accounts.get(caller(context).owner)))

    async def GetPayLink(self, request: pb.GetPayLinkRequest, context: Any) -> pb.GetPayLinkResponse:
        """How an agreed payment is made: only once it stands, since its reference is the commitment's."""
        owner = caller(context).owner
        row = await self._thread(owner, request.thread_id)
        state = await self._engine.state(owner, row["thread"])
        terms = state.side.terms if state else None
        if state is None or state.side.life is None or not isinstance(terms, PayTerms):
            raise Refused(
                Reason.ILLEGAL_MOVE, "There is no agreed payment in this thread.", hint="indai threads"
            )
        mid: bytes = state.columns["mid"]
        paid = state.side.life.sequencer != state.side.owner
        name = (self._accounts.get(owner).name if paid else "") or (owner if paid else row["peer"])
        return pb.GetPayLinkResponse(
            payee=terms.payee,
            amount_minor=terms.amount_minor,
            currency=terms.currency,
            reference=payment_reference(mid),
            upi_link=upi_link(terms, mid, name),
            page_url=row["url"] or "",
            arrived_minor=await self._payments.arrived(owner, mid),
            purpose=terms.purpose,
            due_time=views.timestamp(terms.due_ms),
        )

    async def _thread(self, owner: str, prefix: str) -> Any:
        text = prefix.strip().lower()
        if not 6 <= len(text) <= 32 or set(text) - set("0123456789abcdef"):
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                "A thread is named by 6 to 32 hexadecimal digits of its id.",
                hint="indai threads lists them",
            )
        found = await named.threads(self._store, owner, text)
        if len(found) != 1:
            how = "Several threads begin" if found else "There is no thread that begins"
            raise NotFound(Reason.NOT_FOUND, f"{how} with {text}.", hint="indai threads lists yours")
        async with self._store.scope(owner) as connection:
            return await connection.fetchrow(
                "SELECT t.thread, t.peer, l.url FROM node.threads t"
                " LEFT JOIN node.pay_links l USING (owner, mid) WHERE t.owner = $1 AND t.thread = $2",
                owner,
                found[0],
            )

    async def _mandate(self, owner: str, mandate: Mandate, held: Holdings | None = None) -> pb.Mandate:
        today = datetime.fromtimestamp(self._clock() / 1000, self._agents.get(owner).zone).date()
        held = held or await self._held(owner)
        return pb.Mandate(
            mandate_id=mandate.id,
            payee=mandate.payee,
            max_amount_minor=mandate.max_amount_minor,
            currency=mandate.currency,
            period=next(number for number, period in _PERIODS.items() if period is mandate.period),
            expire_time=views.timestamp(mandate.expires_ms),
            revoke_time=views.timestamp(mandate.revoked_ms or None),
            used_minor=mandate.used_minor(held, today),
        )

    async def _held(self, owner: str) -> Holdings:
        loaded = await self._store.load([owner], [], [owner], self._clock() - 2 * DAY_MS)
        return loaded.reserved[owner]


_LATER = 1 << 61  # after every booking


def _account(account: PayAccount) -> pb.PayAccount:
    fields = {name: getattr(account, name) for name in _ACCOUNT}
    return pb.PayAccount(**fields, webhook_path=HOOK_PATH + account.hook if account.hook else "")


def _uuid(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, "request_id must be a UUID.", fields={"request_id": "not a UUID"}
        ) from None
