"""Standing permissions of owners: this payee may be paid so much in a period without being asked again.

What a mandate has been used for follows from what is held for its payee, so it is counted where it is
reserved: in the transaction that signs.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from enum import Enum
from zoneinfo import ZoneInfo

import asyncpg
from indai.node.holdings import Holdings
from indai.protocol.errors import InvalidInput, NotFound, ProtocolError, Reason
from indai.protocol.forms import END_OF_TIME_MS, check_price
from indai.storage.pool import transaction

MAX_MANDATES = 1_000


class Period(Enum):
    """How long a mandate's amount is for, in the owner's time zone."""

    DAY = "DAY"
    WEEK = "WEEK"
    MONTH = "MONTH"

    def first_day(self, day: date) -> date:
        """The first day of the period that `day` is in."""
        if self is Period.WEEK:
            return day - timedelta(days=day.weekday())
        return day.replace(day=1) if self is Period.MONTH else day


@dataclass(frozen=True, slots=True)
class Mandate:
    """Minor units; times in ms since the epoch, `revoked_ms` 0 while it holds."""

    id: str
    payee: str
    max_amount_minor: int
    currency: str
    period: Period
    expires_ms: int
    revoked_ms: int = 0
    created_ms: int = 0

    def holds_at(self, now_ms: int) -> bool:
        """Whether it permits anything."""
        return now_ms < self.expires_ms and not self.revoked_ms

    def used_minor(self, held: Holdings, today: date) -> int:
        """Paid or promised to its payee in the period of `today`; what is held carries the owner's day."""
        first = self.period.first_day(today).isoformat()
        return sum(
            each.amount_minor
            for each in held.money.values()
            if each.peer == self.payee and each.currency == self.currency and each.day >= first
        )

    def covers(self, amount_minor: int, held: Holdings, today: date) -> bool:
        """Whether so much more is within it."""
        return self.used_minor(held, today) + amount_minor <= self.max_amount_minor


class Mandates:
    """Every owner's mandates; the only writer of their table."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._known: dict[str, dict[str, Mandate]] = {}

    async def load(self, owners: Iterable[str]) -> None:
        """Read them all."""
        wanted = list(owners)
        if not wanted:
            return
        async with transaction(self._pool, wanted) as connection:
            rows = await connection.fetch("SELECT * FROM node.mandates WHERE owner = ANY($1)", wanted)
        for row in rows:
            fields = {name: row[name] for name in Mandate.__dataclass_fields__}
            found = Mandate(**(fields | {"id": str(row["id"]), "period": Period(row["period"])}))
            self._known.setdefault(row["owner"], {})[found.id] = found

    def of(self, owner: str) -> Sequence[Mandate]:
        """Newest first."""
        return sorted(self._known.get(owner, {}).values(), key=lambda each: -each.created_ms)

    def covering(
        self, owner: str, peer: str, amount: tuple[str, int], held: Holdings, now_ms: int, zone: ZoneInfo
    ) -> Mandate | None:
        """One that permits to pay `peer` this amount (currency, minor units) now."""
        today = datetime.fromtimestamp(now_ms / 1000, zone).date()
        fitting = (m for m in self.of(owner) if (m.payee, m.currency) == (peer, amount[0]))
        return next((m for m in fitting if m.holds_at(now_ms) and m.covers(amount[1], held, today)), None)

    async def add(self, owner: str, mandate: Mandate, now_ms: int) -> Mandate:
        """Store it; the same again for an id that is known. Raises InvalidInput for one that can't be."""
        known = self._known.get(owner, {}).get(mandate.id)
        if known is not None:
            return known
        _check(mandate, now_ms)
        if len(self._known.get(owner, {})) >= MAX_MANDATES:
            raise InvalidInput(Reason.INVALID_ARGUMENT, f"There are at most {MAX_MANDATES} mandates.")
        mandate = replace(mandate, revoked_ms=0, created_ms=now_ms)
        async with transaction(self._pool, [owner]) as connection:
            await connection.execute(
                "INSERT INTO node.mandates (owner, id, payee, max_amount_minor, currency, period, expires_ms,"
                " created_ms) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING",
                owner,
                uuid.UUID(mandate.id),
                mandate.payee,
                mandate.max_amount_minor,
                mandate.currency,
                mandate.period.value,
                mandate.expires_ms,
                now_ms,
            )
        self._known.setdefault(owner, {})[mandate.id] = mandate
        return mandate

    async def revoke(self, owner: str, prefix: str, now_ms: int) -> Mandate:
        """End the one mandate whose id begins so; raises NotFound, InvalidInput for several."""
        found = [m for m in self.of(owner) if len(prefix) >= 6 and m.id.startswith(prefix.lower())]
        if not found:
            raise NotFound(
                Reason.NOT_FOUND, "There is no mandate whose id begins so.", hint="indai mandate list"
            )
        if len(found) > 1:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, "Several mandates begin so.", hint="give more of the id"
            )
        (mandate,) = found
        if mandate.revoked_ms:
            return mandate
        ended = replace(mandate, revoked_ms=now_ms)
        async with transaction(self._pool, [owner]) as connection:
            await connection.execute(
                "UPDATE node.mandates SET revoked_ms = $3 WHERE owner = $1 AND id = $2",
                owner,
                uuid.UUID(mandate.id),
                now_ms,
            )
        self._known[owner][mandate.id] = ended
        return ended


def _check(mandate: Mandate, now_ms: int) -> None:
    try:
        check_price("PAY-01", mandate.max_amount_minor, mandate.currency)
    except ProtocolError as error:
        raise InvalidInput(Reason.INVALID_ARGUMENT, error.message) from None
    if not now_ms < mandate.expires_ms <= END_OF_TIME_MS:
        raise InvalidInput(Reason.INVALID_ARGUMENT, "A mandate ends at a time that is still to come.")
