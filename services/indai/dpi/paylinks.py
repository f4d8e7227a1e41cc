"""Pages to pay on that a conversation asked for, and what was paid there split between several.

A link's reference follows from who asked in which turn for what, so the same call makes the same page, also
after a crash on either side of the provider's answer. What was paid is known by the provider's signed webhook
alone. A payment is split once: its row is locked from before the provider is asked what is there until what
was missing is made.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import asyncpg
import structlog
from indai.dpi.consents import check_purpose
from indai.dpi.razorpay import CAPTURED, ENDED, Provider, Transfer, Webhook
from indai.dpi.splits import split
from indai.protocol.errors import InvalidInput, NotFound, Reason, Refused, Unavailable
from indai.storage.pool import transaction

PREFIX: Final = "INL"
DAY_MS: Final = 86_400_000
MAX_DAYS: Final = 90
MAX_A_DAY: Final = 500
MAX_AMOUNT: Final = 10**12
MAX_SHARES: Final = 20
_ACCOUNT: Final = re.compile(r"acc_[A-Za-z0-9]{6,30}")
_CURRENCY: Final = re.compile(r"[A-Z]{3}")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Merchant:
    """An owner's account at the provider."""

    base: str
    key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class PaymentLink:
    """A page. Amounts in minor units, times in ms; `status` is open, paid or ended."""

    reference: str
    link_id: str
    url: str
    purpose: str
    amount_minor: int
    currency: str
    paid_minor: int
    payment_id: str
    status: str
    expires_ms: int


@dataclass(frozen=True, slots=True)
class Share:
    """How much of a payment goes to a linked account, as a weight among all; what it comes to."""

    account: str
    weight: int
    amount_minor: int = 0


_COLUMNS = (
    "reference, link_id, url, purpose, amount_minor, currency, paid_minor, payment_id, status, expires_ms"
)


class PaymentLinks:
    """The only writer of `dpi.payment_links` and `dpi.splits`. `merchant` finds an owner's account and
    raises Refused where there is none."""

    def __init__(
        self,
        pool: asyncpg.Pool,
        provider: Callable[[], Provider],
        merchant: Callable[[str], Awaitable[Merchant]],
        clock: Callable[[], int],
    ) -> None:
        self._pool, self._provider, self._merchant, self._clock = pool, provider, merchant, clock

    async def create(
        self, owner: str, turn: str, amount_minor: int, currency: str, purpose: str, days: int
    ) -> PaymentLink:
        """A page over an amount; the same again for the same `turn` and terms. Raises InvalidInput,
        Refused(RATE_LIMITED), Unavailable."""
        if not 0 < amount_minor <= MAX_AMOUNT or not _CURRENCY.fullmatch(currency):
            raise InvalidInput(Reason.INVALID_ARGUMENT, "That is no amount to be paid.")
        if not 1 <= days <= MAX_DAYS:
            raise InvalidInput(Reason.INVALID_ARGUMENT, f"A page is open for 1 to {MAX_DAYS} days.")
        checked, now = check_purpose(purpose), self._clock()
        reference = _reference(owner, turn, amount_minor, currency, checked)
        if (known := await self._find(owner, reference)) is not None:
            return known
        await self._admit(owner, now)
        merchant = await self._merchant(owner)
        page = await self._provider().open_page(
            merchant.base,
            merchant.key,
            amount_minor=amount_minor,
            currency=currency,
            reference=reference,
            purpose=checked,
            due_ms=now + days * DAY_MS,
        )
        async with transaction(self._pool, [owner]) as connection:
            await connection.execute(
                "INSERT INTO dpi.payment_links (owner, reference, link_id, url, purpose, amount_minor,"
                " currency, status, created_ms, expires_ms)"
                " VALUES ($1, $2, $3, $4, $5, $6, $7, 'open', $8, $9)"
                " ON CONFLICT DO NOTHING",
                owner,
                reference,
                page.id,
                page.url,
                checked,
                amount_minor,
                currency,
                now,
                now + days * DAY_MS,
            )
        return await self.get(owner, reference)

    async def get(self, owner: str, reference: str) -> PaymentLink:
        """An owner's own. Raises NotFound."""
        found = await self._find(owner, reference)
        if found is None:
            raise NotFound(Reason.NOT_FOUND, "There is no such payment link.")
        return found

    async def take(self, owner: str, said: Webhook) -> bool:
        """What the provider has signed about a page of ours; False if it is about none."""
        async with transaction(self._pool, [owner]) as connection:
            row = await connection.fetchrow(
                f"SELECT {_COLUMNS} FROM dpi.payment_links"  # noqa: S608
                " WHERE owner = $1 AND ($2 <> '' AND link_id = $2 OR $3 <> '' AND reference = $3) FOR UPDATE",
                owner,
                said.link_id,
                said.reference,
            )
            if row is None:
                return False
            payment = said.payment
            if said.event in CAPTURED and payment is not None and payment.status == "captured":
                if (payment.amount_minor, payment.currency) != (row["amount_minor"], row["currency"]):
                    log.warning("a payment does not fit its link", owner=owner, reference=row["reference"])
                    return True
                await connection.execute(
                    "UPDATE dpi.payment_links SET status = 'paid', paid_minor = $3, payment_id = $4"
                    " WHERE owner = $1 AND reference = $2 AND status <> 'paid'",
                    owner,
                    row["reference"],
                    payment.amount_minor,
                    payment.id,
                )
            elif said.event in ENDED:
                await connection.execute(
                    "UPDATE dpi.payment_links SET status = 'ended'"
                    " WHERE owner = $1 AND reference = $2 AND status = 'open'",
                    owner,
                    row["reference"],
                )
        return True

    async def parts(
        self, owner: str, reference: str, shares: Sequence[Share], keep: int
    ) -> tuple[Share, ...]:
        """What each gets of a paid link, and (last, with no account) the owner. Raises Refused for one that
        is not paid, InvalidInput for shares that are none."""
        link = await self.get(owner, reference)
        if link.status != "paid":
            raise Refused(Reason.ILLEGAL_MOVE, "That link is not paid yet, so there is nothing to split.")
        accounts = [share.account for share in shares]
        if not 1 <= len(shares) <= MAX_SHARES or len(set(accounts)) != len(accounts):
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, f"A payment is split between 1 and {MAX_SHARES} accounts, each once."
            )
        if not all(_ACCOUNT.fullmatch(account) for account in accounts):
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                "That is no linked account of the provider.",
                hint="the provider's dashboard names them, like acc_IROu8Nod6PXPtZ",
            )
        all_shares = (*shares, Share("", keep))
        amounts = split(link.paid_minor, [share.weight for share in all_shares])
        return tuple(
            Share(share.account, share.weight, amount)
            for share, amount in zip(all_shares, amounts, strict=True)
        )

    async def split(
        self, owner: str, reference: str, shares: Sequence[Share], keep: int
    ) -> tuple[Share, ...]:
        """Have the provider transfer the parts: once, however often it is asked. Raises Refused
        (ALREADY_EXISTS) for another split of the same payment, Unavailable."""
        parts, link = await self.parts(owner, reference, shares, keep), await self.get(owner, reference)
        wanted = [
            Transfer(part.account, part.amount_minor) for part in parts if part.account and part.amount_minor
        ]
        doc = json.dumps([[each.account, each.amount_minor] for each in wanted])
        merchant = await self._merchant(owner)
        async with transaction(self._pool, [owner]) as connection:
            await connection.execute(
                "INSERT INTO dpi.splits (owner, payment_id, currency, amount_minor, shares, created_ms)"
                " VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
                owner,
                link.payment_id,
                link.currency,
                link.paid_minor,
                doc,
                self._clock(),
            )
        async with transaction(self._pool, [owner]) as connection:
            # Held while the provider is asked: two at once would both find nothing, and both pay.
            row = await connection.fetchrow(
                "SELECT shares, done FROM dpi.splits WHERE owner = $1 AND payment_id = $2 FOR UPDATE",
                owner,
                link.payment_id,
            )
            if json.loads(row["shares"]) != json.loads(doc):
                raise Refused(Reason.ALREADY_EXISTS, "That payment is split already, in another way.")
            if not row["done"]:
                await self._provider().transfer(
                    merchant.base, merchant.key, link.payment_id, link.currency, reference, wanted
                )
                await connection.execute(
                    "UPDATE dpi.splits SET done = true WHERE owner = $1 AND payment_id = $2",
                    owner,
                    link.payment_id,
                )
        return parts

    async def _find(self, owner: str, reference: str) -> PaymentLink | None:
        async with transaction(self._pool, [owner]) as connection:
            row = await connection.fetchrow(
                f"SELECT {_COLUMNS} FROM dpi.payment_links WHERE owner = $1 AND reference = $2",  # noqa: S608
                owner,
                reference,
            )
        return PaymentLink(**dict(row)) if row is not None else None

    async def _admit(self, owner: str, now_ms: int) -> None:
        """Strangers may ask for pages too, and each is a row here and at the provider."""
        async with transaction(self._pool, [owner]) as connection:
            made = await connection.fetchval(
                "SELECT count(*) FROM dpi.payment_links WHERE owner = $1 AND created_ms > $2",
                owner,
                now_ms - DAY_MS,
            )
        if made >= MAX_A_DAY:
            raise Unavailable(
                Reason.RATE_LIMITED, "Too many payment links were made today.", hint="try again tomorrow"
            )


def _reference(owner: str, turn: str, *terms: Any) -> str:
    text = json.dumps([owner, turn, *terms], ensure_ascii=False)
    return PREFIX + hashlib.sha256(text.encode()).hexdigest()[:32].upper()


def read_shares(listed: Sequence[Mapping[str, Any]]) -> list[Share]:
    """Shares as a tool is given them."""
    return [Share(str(each["account"]), int(each["weight"])) for each in listed]
