"""What people have consented to, as rows: who, for which purpose, until when, and every use of it.

Nothing is read at a service without a row that is ACTIVE now (`use`), which counts the reading in the same
transaction: two at once can't both take the last one.
"""

from __future__ import annotations

import hmac
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import asyncpg
from indai.protocol.errors import IndaiError, InvalidInput, NotFound, Reason, Refused
from indai.storage.pool import transaction
from indai.tools.identity import refuse_aadhaar

MAX_PURPOSE = 200
ENDED = ("USED", "REJECTED", "REVOKED", "EXPIRED", "FAILED")


@dataclass(frozen=True, slots=True)
class Consent:
    """One row. `handle` and `artefact` are the service's names for it, `signature` is the artefact's;
    `detail` says what was asked for. Times in ms."""

    id: str
    owner: str
    person: str
    kind: str
    purpose: str
    status: str
    expires_ms: int
    created_ms: int
    purpose_code: str = ""
    handle: str = field(default="", repr=False)
    artefact: str = ""
    signature: str = field(default="", repr=False)
    detail: Mapping[str, Any] = field(default_factory=dict)
    uses: int = 0

    def check_active(self, now_ms: int, wanted: str = "ACTIVE") -> None:
        """Raises Refused(PERMISSION_DENIED) unless it permits reading now, or is what is `wanted`."""
        status = "EXPIRED" if self.expires_ms <= now_ms else self.status
        if status != wanted:
            words = {
                "PENDING": "has not been given yet",
                "PAUSED": "is paused",
                "USED": "was for one time, and is used up",
                "EXPIRED": "has expired",
                "REVOKED": "was withdrawn",
            }
            raise Refused(
                Reason.PERMISSION_DENIED,
                f"The consent {words.get(status, 'was not given')}.",
                hint="ask for consent anew" if status in ENDED else "try again when it is active",
            )


_COLUMNS = (
    "id::text, owner, person, kind, purpose, status, expires_ms, created_ms, purpose_code, handle, artefact,"
    " signature, detail,"
    " (SELECT count(*) FROM dpi.uses u WHERE u.owner = c.owner AND u.consent = c.id) AS uses"
)


class Consents:
    """The only writer of `dpi.consents` and `dpi.uses`."""

    def __init__(self, pool: asyncpg.Pool, clock: Callable[[], int], key: bytes) -> None:
        self._pool, self._clock, self._key = pool, clock, key

    def id_for(self, owner: str, person: str, turn: str, what: str) -> str:
        """The id of what is asked for in a turn, so that asking again finds it; random without a turn.
        Under a key, since what was asked for may name somebody whose id is not to be kept."""
        if not turn:
            return str(uuid.uuid4())
        text = "\n".join((owner, person, turn, what))
        return str(uuid.UUID(bytes=hmac.digest(self._key, text.encode(), "sha256")[:16], version=4))

    async def add(
        self,
        owner: str,
        person: str,
        kind: str,
        purpose: str,
        expires_ms: int,
        *,
        status: str = "PENDING",
        consent_id: str = "",
        **more: Any,
    ) -> Consent:
        """A new row. Raises InvalidInput for a purpose that is none."""
        checked = check_purpose(purpose)
        made = Consent(
            consent_id or str(uuid.uuid4()),
            owner,
            person,
            kind,
            checked,
            status,
            expires_ms,
            self._clock(),
            **more,
        )
        async with transaction(self._pool, [owner]) as connection:
            await connection.execute(
                "INSERT INTO dpi.consents (owner, id, person, kind, purpose, status, expires_ms, created_ms,"
                " purpose_code, handle, artefact, signature, detail)"
                " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
                owner,
                uuid.UUID(made.id),
                person,
                kind,
                made.purpose,
                status,
                expires_ms,
                made.created_ms,
                made.purpose_code,
                made.handle,
                made.artefact,
                made.signature,
                json.dumps(made.detail),
            )
        return made

    async def find(self, owner: str, person: str, consent_id: str) -> Consent | None:
        """A person's own, if there is such a one."""
        try:
            return await self.get(owner, person, consent_id)
        except NotFound:
            return None

    async def get(self, owner: str, person: str, consent_id: str, kind: str = "") -> Consent:
        """A person's own. Raises NotFound, also for another person's."""
        async with transaction(self._pool, [owner]) as connection:
            row = await connection.fetchrow(
                f"SELECT {_COLUMNS} FROM dpi.consents c WHERE owner = $1 AND id = $2 AND person = $3"  # noqa: S608
                " AND ($4 = '' OR kind = $4)",
                owner,
                _uuid(consent_id),
                person,
                kind,
            )
        if row is None:
            raise NotFound(
                Reason.NOT_FOUND, "There is no such consent.", hint="indai connect status lists them"
            )
        return _consent(row)

    async def by_handle(self, owners: list[str], kind: str, handle: str, artefact: str) -> Consent | None:
        """The one that a service means by its handle, or by the artefact's id."""
        async with transaction(self._pool, owners) as connection:
            row = await connection.fetchrow(
                f"SELECT {_COLUMNS} FROM dpi.consents c WHERE owner = ANY($1) AND kind = $2"  # noqa: S608
                " AND (handle <> '' AND handle = $3 OR artefact <> '' AND artefact = $4) LIMIT 1",
                owners,
                kind,
                handle,
                artefact,
            )
        return _consent(row) if row is not None else None

    async def of(self, owner: str, person: str) -> list[Consent]:
        """A person's, the newest first, at most a hundred."""
        async with transaction(self._pool, [owner]) as connection:
            rows = await connection.fetch(
                f"SELECT {_COLUMNS} FROM dpi.consents c WHERE owner = $1 AND person = $2"  # noqa: S608
                " ORDER BY created_ms DESC, id LIMIT 100",
                owner,
                person,
            )
        return [_consent(row) for row in rows]

    async def change(self, consent: Consent, status: str, **more: Any) -> None:
        """Another status, and what the service says of it now: `artefact`, `signature`, `detail`,
        `expires_ms`. One that has ended stays ended."""
        async with transaction(self._pool, [consent.owner]) as connection:
            await connection.execute(
                "UPDATE dpi.consents SET status = $3, artefact = coalesce($4, artefact),"
                " signature = coalesce($5, signature), detail = coalesce($6, detail),"
                " expires_ms = coalesce($7, expires_ms)"
                " WHERE owner = $1 AND id = $2 AND NOT status = ANY($8)",
                consent.owner,
                uuid.UUID(consent.id),
                status,
                more.get("artefact"),
                more.get("signature"),
                json.dumps(more["detail"]) if "detail" in more else None,
                more.get("expires_ms"),
                list(ENDED),
            )

    async def close(self, consent: Consent, status: str) -> None:
        """End it, and forget what the service calls it."""
        async with transaction(self._pool, [consent.owner]) as connection:
            await connection.execute(
                "UPDATE dpi.consents SET status = $3, handle = '' WHERE owner = $1 AND id = $2"
                " AND NOT status = ANY($4)",
                consent.owner,
                uuid.UUID(consent.id),
                status,
                list(ENDED),
            )

    async def use(
        self,
        consent: Consent,
        what: str,
        *,
        most: int = 0,
        since_ms: int = 0,
        once: bool = False,
        wanted: str = "ACTIVE",
    ) -> None:
        """Count one reading, if the row permits it at this moment. `most` readings since `since_ms`; `once`
        ends it with this one. Raises Refused(PERMISSION_DENIED)."""
        now = self._clock()
        async with transaction(self._pool, [consent.owner]) as connection:
            row = await connection.fetchrow(
                "SELECT status, expires_ms FROM dpi.consents WHERE owner = $1 AND id = $2 FOR UPDATE",
                consent.owner,
                uuid.UUID(consent.id),
            )
            _now(consent, row).check_active(now, wanted)
            done = await connection.fetchval(
                "SELECT count(*) FROM dpi.uses WHERE owner = $1 AND consent = $2 AND at_ms > $3",
                consent.owner,
                uuid.UUID(consent.id),
                since_ms,
            )
            if most and done >= most:
                raise Refused(
                    Reason.PERMISSION_DENIED,
                    f"The consent permits {most} readings in this time, and they are done.",
                    hint="try again later, or ask for another consent",
                )
            await connection.execute(
                "INSERT INTO dpi.uses (owner, id, consent, what, at_ms) VALUES ($1, $2, $3, $4, $5)",
                consent.owner,
                uuid.uuid4(),
                uuid.UUID(consent.id),
                what,
                now,
            )
            if once:
                await connection.execute(
                    "UPDATE dpi.consents SET status = 'USED', handle = '' WHERE owner = $1 AND id = $2",
                    consent.owner,
                    uuid.UUID(consent.id),
                )


def check_purpose(text: str) -> str:
    """What for, in words. Raises InvalidInput for nothing, too much, or what can't be shown."""
    purpose = text.strip()
    if not 3 <= len(purpose) <= MAX_PURPOSE or not purpose.isprintable():
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"A purpose has 3 to {MAX_PURPOSE} characters.",
            hint="say what the data is needed for",
        )
    refuse_aadhaar(purpose, "The purpose")
    return purpose


def _consent(row: asyncpg.Record) -> Consent:
    return Consent(**{**dict(row), "detail": json.loads(row["detail"])})


def _now(consent: Consent, row: asyncpg.Record | None) -> Consent:
    if row is None:
        raise IndaiError(Reason.NOT_FOUND, "The consent is gone.")
    known = {name: getattr(consent, name) for name in ("id", "owner", "person", "kind", "purpose")}
    return Consent(**known, **dict(row), created_ms=consent.created_ms)


def _uuid(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except (ValueError, AttributeError):
        raise NotFound(Reason.NOT_FOUND, "There is no such consent.") from None
