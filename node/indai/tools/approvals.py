"""The owner's word on a call of a tool: durable, for exactly what was shown, once.

    pending -> approved -> done          the owner said yes: it runs, however often the process dies meanwhile
    pending -> declined | expired        nothing happens

A row holds the caller and the arguments that will run, and the hash that binds both. The code is short
enough to be said on a telephone; it opens nothing by itself, since only the owner, known to be the owner, can
answer. It has no hexadecimal digit in it, so it is never taken for the code of a negotiation's question.

What is secret in the arguments waits sealed, and is gone from the row as soon as the question has ended.
"""

from __future__ import annotations

import json
import secrets
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import asyncpg
from indai.protocol.errors import NotFound, Reason, Refused, Unavailable
from indai.storage.pool import transaction
from indai.tools.callers import dump_caller, read_caller
from indai.tools.sealed import Sealed, Sealer
from indai.tools.store import holder_of
from indai.tools.values import Act, Approval, Caller

LETTERS: Final = "ghjkmnpqrstuvwxyz"  # no look-alikes, no hexadecimal digits
CODE_LENGTH: Final = 8
LIFETIME_MS: Final = 24 * 3_600_000
MAX_PENDING: Final = 100  # of one holder: whoever talks to an agent must not be able to flood its owner

_PENDING = "SELECT * FROM tools.approvals WHERE holder = $1 AND state = 'pending' AND expires_ms > $2"
_INSERT = """
    INSERT INTO tools.approvals
        (id, holder, code, action_hash, tool, caller, arguments, terms, why, state, created_ms, expires_ms,
         sealed)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'pending', $10, $11, $12)
    ON CONFLICT DO NOTHING RETURNING id
"""
_ANSWERED = """
    SELECT * FROM tools.approvals WHERE holder = $1 AND answered_ms >= $2
    ORDER BY answered_ms DESC, id LIMIT $3
"""
_ANSWER = """
    UPDATE tools.approvals SET state = $4, answered_ms = $5, answered_by = $6, answered_on = $7,
        sealed = CASE WHEN $4 = 'approved' THEN sealed END
    WHERE holder = $1 AND code = $2 AND state = 'pending' AND expires_ms > $3 RETURNING *
"""
_EXPIRE = """
    UPDATE tools.approvals SET state = 'expired', sealed = NULL
    WHERE holder = $1 AND state = 'pending' AND expires_ms <= $2
        AND ($3::uuid IS NULL OR id = $3)
    RETURNING *
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """One row: what would run, and how it is."""

    id: uuid.UUID
    tool: str
    caller: Caller
    arguments: Mapping[str, Any]
    why: str
    state: str
    created_ms: int
    approval: Approval
    answered_ms: int = 0
    answered_on: str = ""


Also = Callable[[asyncpg.Connection, Asked], Awaitable[None]]
"""What happens in the same transaction."""


async def nothing_more(_: asyncpg.Connection, __: Asked) -> None:
    """Nothing besides."""


class Approvals:
    """The rows. Every query names the holder, and row-level security holds it to that. `changed` is told of
    whom something is asked, or not any more."""

    def __init__(self, pool: asyncpg.Pool, sealer: Sealer | None = None) -> None:
        self._pool, self._sealed = pool, Sealed("approvals", sealer)
        self.changed: Callable[[str], None] = lambda _: None

    async def ask(
        self,
        caller: Caller,
        tool: str,
        act: Act,
        digest: bytes,
        why: str,
        now_ms: int,
        also: Also = nothing_more,
        shown: Act | None = None,
    ) -> tuple[Asked, bool]:
        """The question about exactly this act, and whether it is new: one that waits is not asked twice.
        `also` happens with a new one or not at all. `shown` is the act without what is secret in it, where
        something is: the row has that, and the rest sealed. Raises Refused when too many wait."""
        holder = holder_of(caller)
        async with transaction(self._pool, (holder,)) as connection:
            await connection.execute(_EXPIRE, holder, now_ms, None)
            waiting = await connection.fetch(_PENDING, holder, now_ms)
            known = next((row for row in waiting if row["action_hash"] == digest), None)
            if known is not None:
                return self._asked(known), False
            if len(waiting) >= MAX_PENDING:
                raise Refused(
                    Reason.RATE_LIMITED,
                    "Too many questions wait for the owner already.",
                    hint="answer some: indai inbox",
                )
            asked = _new(caller, tool, act, digest, why, now_ms)
            new = await self._insert(connection, holder, asked, shown)
            if new:
                await also(connection, asked)
            else:  # somebody asked the same at this moment; READ COMMITTED shows it now
                rows = await connection.fetch(f"{_PENDING} AND action_hash = $3", holder, now_ms, digest)
        if new:
            self.changed(holder)
            return asked, True
        if not rows:
            raise Unavailable(
                Reason.DATABASE_UNAVAILABLE, "The question could not be kept.", hint="try again"
            )
        return self._asked(rows[0]), False

    async def _insert(
        self, connection: asyncpg.Connection, holder: str, asked: Asked, shown: Act | None
    ) -> bool:
        whole = {"arguments": dict(asked.arguments), "terms": asked.approval.terms}
        made = await connection.fetchval(
            _INSERT,
            asked.id,
            holder,
            asked.approval.code,
            bytes.fromhex(asked.approval.action_hash),
            asked.tool,
            dump_caller(asked.caller),
            json.dumps(dict((shown or asked).arguments)),
            shown.terms if shown else asked.approval.terms,
            asked.why,
            asked.created_ms,
            asked.approval.expires_at_ms,
            self._sealed.close(asked.id, whole) if shown else None,
        )
        return made is not None

    async def waiting(self, holder: str, now_ms: int) -> Sequence[Asked]:
        """Those that wait, the most urgent first."""
        async with transaction(self._pool, (holder,)) as connection:
            rows = await connection.fetch(f"{_PENDING} ORDER BY expires_ms, id", holder, now_ms)
        return [self._asked(row) for row in rows]

    async def answered(self, holder: str, since_ms: int, limit: int) -> Sequence[Asked]:
        """Those that were answered since then, the newest first."""
        async with transaction(self._pool, (holder,)) as connection:
            rows = await connection.fetch(_ANSWERED, holder, since_ms, limit)
        return [self._asked(row) for row in rows]

    async def take(
        self,
        holder: str,
        code: str,
        *,
        approve: bool,
        by: str,
        now_ms: int,
        also: Also = nothing_more,
        on: str = "",
    ) -> Asked:
        """Take the owner's word, said in the conversation of a channel `on`; `also` happens with it or not at
        all. Raises NotFound for a code that doesn't wait: used, expired or never given."""
        async with transaction(self._pool, (holder,)) as connection:
            state = "approved" if approve else "declined"
            row = await connection.fetchrow(_ANSWER, holder, normalised(code), now_ms, state, now_ms, by, on)
            if row is not None:
                await also(connection, self._asked(row))
        if row is None:
            raise NotFound(
                Reason.NOT_FOUND,
                "No question waits under this code: it was answered, has expired or never was.",
                hint="indai inbox shows those that wait",
            )
        self.changed(holder)
        return self._asked(row)

    async def find(self, holder: str, id: uuid.UUID) -> Asked | None:
        """One row."""
        async with transaction(self._pool, (holder,)) as connection:
            row = await connection.fetchrow(
                "SELECT * FROM tools.approvals WHERE holder = $1 AND id = $2", holder, id
            )
        return self._asked(row) if row else None

    async def outcome(self, holder: str, id: uuid.UUID) -> Mapping[str, Any] | None:
        """What `finish` kept of one."""
        async with transaction(self._pool, (holder,)) as connection:
            text = await connection.fetchval(
                "SELECT outcome FROM tools.approvals WHERE holder = $1 AND id = $2", holder, id
            )
        return json.loads(text) if text else None

    async def finish(self, holder: str, id: uuid.UUID, outcome: Mapping[str, Any]) -> bool:
        """What came of an approved one; False when that was known already."""
        async with transaction(self._pool, (holder,)) as connection:
            done = await connection.fetchval(
                "UPDATE tools.approvals SET state = 'done', outcome = $3, sealed = NULL"
                " WHERE holder = $1 AND id = $2 AND state = 'approved' RETURNING id",
                holder,
                id,
                json.dumps(outcome, ensure_ascii=False),
            )
        return done is not None

    async def expire(self, holder: str, id: uuid.UUID, now_ms: int) -> Asked | None:
        """The row if its time ran out without an answer."""
        async with transaction(self._pool, (holder,)) as connection:
            await connection.execute(_EXPIRE, holder, now_ms, id)
        asked = await self.find(holder, id)
        if asked is None or asked.state != "expired":
            return None
        self.changed(holder)
        return asked

    def _asked(self, row: asyncpg.Record) -> Asked:
        """A row as it will run; one that has ended as far as it is still known."""
        arguments, terms = json.loads(row["arguments"]), row["terms"]
        if row["sealed"] is not None:
            whole = self._sealed.open(row["id"], row["sealed"])
            arguments, terms = whole["arguments"], whole["terms"]
        return Asked(
            row["id"],
            row["tool"],
            read_caller(row["caller"]),
            arguments,
            row["why"],
            row["state"],
            row["created_ms"],
            Approval(row["code"], row["action_hash"].hex(), terms, row["expires_ms"]),
            row["answered_ms"] or 0,
            row["answered_on"],
        )


def is_code(text: str) -> bool:
    """Whether a text has the form of one of these codes; those of negotiations are hexadecimal."""
    code = normalised(text)
    return len(code) == CODE_LENGTH and set(code) <= set(LETTERS)


def normalised(code: str) -> str:
    """A code as it is stored, however it was typed or said."""
    return "".join(code.split()).replace("-", "").lower()


def _new(caller: Caller, tool: str, act: Act, digest: bytes, why: str, now_ms: int) -> Asked:
    code = "".join(secrets.choice(LETTERS) for _ in range(CODE_LENGTH))
    approval = Approval(code, digest.hex(), act.terms, now_ms + LIFETIME_MS)
    return Asked(uuid.uuid4(), tool, caller, dict(act.arguments), why, "pending", now_ms, approval)
