"""Proposals in Postgres. Every statement sees one tenant's rows.

The row of the persona is locked first, by whoever drafts and whoever decides: so the limits hold, and what
was looked at is what is changed.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from uuid import UUID

import asyncpg
from indai.protocol.errors import NotFound, Reason, Refused
from indai.protocol.quoting import quoted
from indai.runtime.conversations.values import Clock, fresh
from indai.runtime.proposals.values import Proposal, changed
from indai.runtime.proposals.wishes import change_now
from indai.runtime.tiers import Kind
from indai.runtime.tierstore import Named, Row, stored
from indai.storage.pool import transaction

MAX_OPEN: Final = 20
DRAFTS_A_DAY: Final = 20
ACCEPTED_A_DAY: Final = 3
"""Of one persona: who changes all the time is nobody."""

Note = Callable[[asyncpg.Connection, str, str, str, str], Awaitable[None]]
"""Writes who did what to what into a scope's audit log: connection, scope, actor, act, target."""

_PERSONA: Final = """
    SELECT version, config FROM runtime.tiers WHERE tenant = $1 AND kind = 'human' AND slug = $2 FOR UPDATE
"""
_COUNTS: Final = """
    SELECT count(*) FILTER (WHERE state = 'open') AS open,
           count(*) FILTER (WHERE created_at > now() - interval '1 day') AS drafted,
           count(*) FILTER (WHERE state = 'accepted' AND decided_at > now() - interval '1 day') AS accepted
    FROM runtime.persona_proposals WHERE tenant = $1 AND human = $2
"""
_INSERT: Final = """
    INSERT INTO runtime.persona_proposals
        (id, tenant, human, change, wish, reason, created_by, request_id, sessions)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING *
"""
_KNOWN: Final = """
    SELECT * FROM runtime.persona_proposals WHERE tenant = $1 AND request_id = $2 AND request_id <> ''
"""
_LISTED: Final = """
    SELECT * FROM runtime.persona_proposals
    WHERE tenant = $1 AND ($2 = '' OR human = $2) AND ($3 OR state = 'open') AND ($4::uuid IS NULL OR id < $4)
    ORDER BY id DESC LIMIT $5
"""
_DECIDE: Final = """
    UPDATE runtime.persona_proposals
    SET state = $3, decided_by = $4, note = $5, decided_at = now(), version = $6
    WHERE tenant = $1 AND id = $2 RETURNING *
"""


class Proposals:
    """See the module."""

    def __init__(self, pool: asyncpg.Pool, clock: Clock, note: Note) -> None:
        self._pool, self._clock, self._note = pool, clock, note

    async def draft(
        self, tenant: str, human: str, change: Mapping[str, Any], reason: str, by: str, request_id: str = ""
    ) -> Proposal:
        """Store a change that somebody proposes; the same request again is the same proposal. Raises NotFound
        for no such persona, Refused for too many proposals, or for another one under this request id."""
        async with transaction(self._pool, (tenant,)) as connection:
            await persona(connection, tenant, human)
            known = await connection.fetchrow(_KNOWN, tenant, request_id)
            if known is not None:
                return _same(_proposal(known), human, change, reason)
            await room(connection, tenant, human)
            given = (fresh(self._clock), tenant, human, change, reason, by)
            row = await insert(connection, *given, request_id=request_id)
            await self._note(connection, tenant, by, "ProposePersona", f"{human} {given[0].hex}")
        return _proposal(row)

    async def known(
        self, tenant: str, human: str, change: Mapping[str, Any], reason: str, request_id: str
    ) -> Proposal | None:
        """What was drafted under a request id. Raises Refused when that was another proposal."""
        async with transaction(self._pool, (tenant,)) as connection:
            row = await connection.fetchrow(_KNOWN, tenant, request_id)
        return None if row is None else _same(_proposal(row), human, change, reason)

    async def listed(
        self, tenant: str, human: str, before: UUID | None, limit: int, *, decided: bool
    ) -> list[Proposal]:
        """Newest first."""
        async with transaction(self._pool, (tenant,)) as connection:
            rows = await connection.fetch(_LISTED, tenant, human, decided, before, limit)
        return [_proposal(row) for row in rows]

    async def one(self, tenant: str, proposal: UUID) -> Proposal:
        """Raises NotFound."""
        async with transaction(self._pool, (tenant,)) as connection:
            return await _one(connection, tenant, proposal)

    async def reject(self, tenant: str, proposal: UUID, by: str, note: str) -> Proposal:
        """Nothing is changed. Raises NotFound, and Refused for what was accepted."""
        async with transaction(self._pool, (tenant,)) as connection:
            found = await self._locked(connection, tenant, proposal, "rejected")
            if found.state != "open":
                return found
            return await self._decide(connection, found, by, note, None)

    async def accept(
        self, tenant: str, proposal: UUID, by: str, note: str, version: int
    ) -> tuple[Proposal, list[Row]]:
        """The change becomes a version, all in one transaction; gives what has changed. `version`: the one
        that was looked at. Raises NotFound, and Refused for what was rejected, for another version, and for
        too many changes within a day."""
        async with transaction(self._pool, (tenant,)) as connection:
            found = await self._locked(connection, tenant, proposal, "accepted")
            if found.state != "open":
                return found, []
            now, config = await persona(connection, tenant, found.human)
            if now != version:
                raise Refused(
                    Reason.ILLEGAL_MOVE,
                    f"The persona {found.human} is at version {now}, and you looked at {version}.",
                    hint="look again: indai persona proposals",
                )
            counts = await connection.fetchrow(_COUNTS, tenant, found.human)
            if counts["accepted"] >= ACCEPTED_A_DAY:
                raise Refused(
                    Reason.RATE_LIMITED,
                    f"The persona {found.human} was changed {ACCEPTED_A_DAY} times within a day.",
                    hint="wait a day, or apply a configuration: indai persona apply",
                )
            after = changed(config, change_now(found, config), found.human)
            why = f"proposal {proposal.hex[:8]}: {found.reason}"[:200]
            rows = await stored(connection, tenant, [Named(Kind.HUMAN, found.human, after)], by, why)
            made = await self._decide(connection, found, by, note, rows[0].version if rows else now)
        return made, rows

    async def _locked(
        self, connection: asyncpg.Connection, tenant: str, proposal: UUID, wanted: str
    ) -> Proposal:
        """The proposal behind the lock of its persona: open, or decided as is wanted now."""
        await persona(connection, tenant, (await _one(connection, tenant, proposal)).human)
        found = await _one(connection, tenant, proposal)
        if found.state not in ("open", wanted):
            raise Refused(
                Reason.ILLEGAL_MOVE,
                f"This proposal was {found.state} already.",
                hint="propose it again, or restore the version before: indai persona restore",
            )
        return found

    async def _decide(
        self, connection: asyncpg.Connection, found: Proposal, by: str, note: str, version: int | None
    ) -> Proposal:
        state = "rejected" if version is None else "accepted"
        row = await connection.fetchrow(_DECIDE, found.tenant, found.id, state, by, note, version)
        target = f"{found.human} {found.id.hex}" + (f" version {version}" if version else "")
        act = "RejectPersonaProposal" if version is None else "AcceptPersonaProposal"
        await self._note(connection, found.tenant, by, act, target)
        return _proposal(row)


async def persona(connection: asyncpg.Connection, tenant: str, human: str) -> tuple[int, dict[str, Any]]:
    """A persona's newest version and configuration, locked. Raises NotFound."""
    row = await connection.fetchrow(_PERSONA, tenant, human)
    if row is None:
        raise NotFound(
            Reason.NOT_FOUND,
            f"{tenant or 'This node'} has no persona {quoted(human)}.",
            hint="see what there is: indai persona list",
        )
    return row["version"], json.loads(row["config"])


async def room(connection: asyncpg.Connection, tenant: str, human: str) -> None:
    """Raises Refused when a persona has too many proposals to read."""
    counts = await connection.fetchrow(_COUNTS, tenant, human)
    if counts["open"] >= MAX_OPEN or counts["drafted"] >= DRAFTS_A_DAY:
        raise Refused(
            Reason.RATE_LIMITED,
            f"The persona {human} has {counts['open']} open proposals, and {counts['drafted']} of this day.",
            hint="decide on some: indai persona proposals",
        )


async def insert(
    connection: asyncpg.Connection,
    proposal: UUID,
    tenant: str,
    human: str,
    change: Mapping[str, Any],
    reason: str,
    by: str,
    *,
    wish: str = "",
    request_id: str = "",
    session: UUID | None = None,
) -> asyncpg.Record:
    """A new row, open."""
    return await connection.fetchrow(
        _INSERT,
        proposal,
        tenant,
        human,
        json.dumps(change),
        wish,
        reason,
        by,
        request_id,
        [session] if session else [],
    )


async def _one(connection: asyncpg.Connection, tenant: str, proposal: UUID) -> Proposal:
    row = await connection.fetchrow(
        "SELECT * FROM runtime.persona_proposals WHERE tenant = $1 AND id = $2", tenant, proposal
    )
    if row is None:
        raise NotFound(
            Reason.NOT_FOUND, "There is no such proposal.", hint="see: indai persona proposals --decided"
        )
    return _proposal(row)


def _same(known: Proposal, human: str, change: Mapping[str, Any], reason: str) -> Proposal:
    if (known.human, known.change, known.reason) != (human, change, reason):
        raise Refused(Reason.ID_REUSE, "This request id was another proposal.")
    return known


def _proposal(row: asyncpg.Record) -> Proposal:
    return Proposal(
        row["id"],
        row["tenant"],
        row["human"],
        row["state"],
        json.loads(row["change"]),
        row["wish"],
        row["reason"],
        row["created_by"],
        row["created_at"],
        len(row["sessions"]),
        row["decided_by"],
        row["note"],
        row["decided_at"],
        row["version"],
    )
