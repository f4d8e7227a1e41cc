"""What a payment provider's signed webhooks make of pending payments. Nothing else posts them.

A webhook counts once for each of the provider's payments, however often it comes: the amount stands in a row
under the payment's id, and the commitment is posted when the rows together are just what is pending. What
does not fit (another currency, more than is pending, no such commitment) is told to the owner and posts
nothing. A failed attempt changes nothing, since the payer may try again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog
from aiohttp import web
from indai.dpi.paylinks import PaymentLinks
from indai.dpi.razorpay import CAPTURED, ENDED, FAILED, SIGNATURE_HEADER, Payment, Webhook, is_signed, read
from indai.node import named
from indai.node.engine import Engine
from indai.node.kinds.money import spoken
from indai.node.pay_accounts import HOOK_PATH, PayAccounts
from indai.node.secrets import Secrets
from indai.node.settlement import Settlement
from indai.node.store import Store
from indai.protocol.errors import IndaiError, Unavailable
from indai.protocol.kinds.pay import PayTerms
from indai.protocol.lifecycle import State

_ARRIVED = """
SELECT coalesce(sum(amount_minor), 0)::bigint FROM node.payments WHERE owner = $1 AND mid = $2
"""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Pending:
    """An agreed payment to an owner."""

    owner: str
    thread: bytes
    mid: bytes
    terms: PayTerms
    state: State


class Payments:
    """Takes webhooks for every owner of this node."""

    def __init__(
        self,
        store: Store,
        engine: Engine,
        accounts: PayAccounts,
        secrets: Secrets,
        clock: Callable[[], int],
        links: PaymentLinks | None = None,
    ) -> None:
        self._store = store
        self._engine = engine
        self._accounts = accounts
        self._secrets = secrets
        self._clock = clock
        self._settlement = Settlement(store, engine)
        self._links = links

    def routes(self) -> list[web.RouteDef]:
        """Where providers call."""
        return [web.post(HOOK_PATH + "{hook}", self._called)]

    async def _called(self, request: web.Request) -> web.Response:
        """404 for nobody's path, 401 for what the provider did not sign, 503 to have it come again."""
        owner = self._accounts.owner_of(request.match_info["hook"])
        reference = self._accounts.get(owner).webhook_secret_ref if owner else ""
        if owner is None or not reference:
            return web.Response(status=404)
        body = await request.read()
        try:
            secret = await asyncio.to_thread(self._secrets.get, reference)
        except IndaiError as error:
            log.error("webhook secret not to be had", owner=owner, reason=error.reason.name)
            return web.Response(status=503)
        if not is_signed(body, request.headers.get(SIGNATURE_HEADER, ""), secret):
            log.warning("webhook refused", owner=owner)
            return web.Response(status=401)
        said = read(body)
        if said is None:
            return web.Response(status=400)
        try:
            await self.take(owner, said)
        except Unavailable as error:
            log.warning("webhook put off", owner=owner, reason=error.reason.name, error=error.message)
            return web.Response(status=503)
        return web.Response(status=200)

    async def take(self, owner: str, said: Webhook) -> None:
        """What the provider has signed. Raises Unavailable when it is to be said again."""
        if said.event not in (*CAPTURED, *ENDED, FAILED):
            return
        if self._links is not None and await self._links.take(owner, said):
            return
        pending = await self.find(owner, said)
        if pending is None:
            if said.payment and said.event in CAPTURED:
                await self._tell(
                    owner, None, "UNKNOWN_PAYMENT", f"{_what(said.payment)} is for nothing agreed."
                )
            return
        if said.event == FAILED:
            await self._tell(owner, pending, "PAYMENT_FAILED", "An attempt to pay this has failed.")
        elif said.event in ENDED:
            await self._ended(pending)
        elif said.payment is not None and said.payment.status == "captured":
            await self._captured(pending, said.payment)

    async def find(self, owner: str, said: Webhook) -> Pending | None:
        """The agreed payment to this owner that a webhook is about."""
        found = await named.payments(self._store, owner, said.reference, said.link_id)
        return await self.of(owner, *found) if found else None

    async def of(self, owner: str, thread: bytes, mid: bytes) -> Pending | None:
        """A thread's payment, if it is one to this owner."""
        state = await self._engine.state(owner, thread)
        side = state.side if state else None
        if side is None or side.life is None or not isinstance(side.terms, PayTerms):
            return None
        if side.life.sequencer == side.owner:
            return None
        return Pending(owner, thread, mid, side.terms, side.life.state)

    async def arrived(self, owner: str, mid: bytes) -> int:
        """What the provider says has arrived for a commitment, minor units."""
        async with self._store.scope(owner) as connection:
            found: int = await connection.fetchval(
                _ARRIVED,
                owner,
                mid,
            )
        return found

    async def _captured(self, pending: Pending, payment: Payment) -> None:
        terms = pending.terms
        if payment.currency != terms.currency:
            await self._tell(
                pending.owner, pending, "WRONG_CURRENCY", f"{_what(payment)} is in another currency."
            )
            return
        arrived = await self._count(pending, payment)
        if arrived is None:
            what = f"{_what(payment)} is more than is pending, and posts nothing."
            await self._tell(pending.owner, pending, "OVER_PENDING", what)
        elif arrived == terms.amount_minor:
            await self._post(pending, arrived)
        else:
            what = (
                f"{spoken(arrived, terms.currency)} of {spoken(terms.amount_minor, terms.currency)} arrived."
            )
            await self._tell(pending.owner, pending, "PARTIAL", what)

    async def _count(self, pending: Pending, payment: Payment) -> int | None:
        """All that has arrived with this payment, once; None when it would be more than is pending. Two
        webhooks at once wait for each other at the row of the commitment's thread."""
        async with self._store.scope(pending.owner) as connection:
            await connection.execute(
                "SELECT FROM node.threads WHERE owner = $1 AND thread = $2 FOR UPDATE",
                pending.owner,
                pending.thread,
            )
            known = await connection.fetchrow(
                "SELECT mid, amount_minor FROM node.payments WHERE owner = $1 AND payment_id = $2",
                pending.owner,
                payment.id,
            )
            arrived: int = await connection.fetchval(
                _ARRIVED,
                pending.owner,
                pending.mid,
            )
            if known is not None:
                same = (known["mid"], known["amount_minor"]) == (pending.mid, payment.amount_minor)
                return arrived if same else None
            if arrived + payment.amount_minor > pending.terms.amount_minor:
                return None
            await connection.execute(
                "INSERT INTO node.payments (owner, payment_id, mid, amount_minor, received_ms)"
                " VALUES ($1, $2, $3, $4, $5)",
                pending.owner,
                payment.id,
                pending.mid,
                payment.amount_minor,
                self._clock(),
            )
            return arrived + payment.amount_minor

    async def _ended(self, pending: Pending) -> None:
        """Nobody can pay any more: what arrived is posted, or, where nothing did, the payment voided."""
        arrived = await self.arrived(pending.owner, pending.mid)
        if arrived:
            await self._post(pending, arrived)
        elif not pending.state.ended:
            said = "The provider's page was closed, and nothing was paid."
            await self._settle(
                pending, self._settlement.void(pending.owner, pending.mid, "PAGE_CLOSED", said)
            )

    async def _post(self, pending: Pending, amount_minor: int) -> None:
        said = f"{spoken(amount_minor, pending.terms.currency)} arrived."
        await self._settle(pending, self._settlement.post(pending.owner, pending.mid, amount_minor, said))

    async def _settle(self, pending: Pending, work: Awaitable[None]) -> None:
        """A refusal for good (it has expired, say) is told; one that may pass is the provider's to repeat."""
        try:
            await work
        except Unavailable:
            raise
        except IndaiError as error:
            await self._tell(pending.owner, pending, error.reason.name, f"Not recorded: {error.message}")

    async def _tell(self, owner: str, pending: Pending | None, reason: str, said: str) -> None:
        """A line in the owner's journal, once."""
        async with self._store.scope(owner) as connection:
            await connection.execute(
                "INSERT INTO node.journal (owner, at_ms, thread, mid, peer, event, reason, words)"
                " SELECT $1, $2, $3, $4, '', 'payment', $5, $6 WHERE NOT EXISTS (SELECT FROM node.journal"
                " WHERE owner = $1 AND thread IS NOT DISTINCT FROM $3 AND reason = $5 AND words = $6)",
                owner,
                self._clock(),
                pending.thread if pending else None,
                pending.mid if pending else None,
                reason,
                said,
            )


def _what(payment: Payment) -> str:
    return f"The provider's payment {payment.id} over {spoken(payment.amount_minor, payment.currency)}"
