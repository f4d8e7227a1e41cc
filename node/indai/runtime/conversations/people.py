"""People and the identities by which channels know them.

An identity belongs to one person. The handle of an owner is one person on every channel, since a key or a
token has proved it, and a browser is one, whether it writes or speaks; everything else is joined only by a
code that the person carries from one channel to another. Whoever has a handle can't be joined to somebody
else: a code that they were talked into saying would hand their agent over.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import Final
from uuid import UUID

import asyncpg
from indai.protocol.errors import InvalidInput, NotFound, Reason, Refused
from indai.runtime.conversations.rows import also_see, seeing
from indai.runtime.conversations.values import CHANNELS, HANDLE, Clock, Person, fresh
from indai.v1 import conversation_pb2 as pb

KINDS: Final = frozenset(
    {"phone", "business_scoped_id", "telegram_id", "slack_id", "web_session", HANDLE, "email"}
)
MAX_VALUE: Final = 200
MAX_NAME: Final = 100
CODE_LIFE_MS: Final = 600_000
# Without those that are taken for one another: 0 O, 1 I L, 5 S, 8 B.
ALPHABET: Final = "ACDEFGHJKMNPQRTUVWXYZ234679"
CODE_LENGTH: Final = 8

_FIND = "SELECT * FROM runtime.who($1, $2, $3, $4)"  # the person is seen from here on
_ADD = """
    INSERT INTO runtime.identities (id, person, channel, kind, value, verified, display_name, verified_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, CASE WHEN $6 THEN now() END) ON CONFLICT DO NOTHING RETURNING id
"""
# Open sessions of one person ($1), at one handle ($3) or anywhere, with another's ($2) at the same place.
_PAIRS = """
    SELECT gone.id, gone.owner, kept.id AS into FROM runtime.sessions gone
    LEFT JOIN runtime.sessions kept ON kept.person = $2 AND kept.status <> 'closed'
    AND (kept.owner, kept.tenant, kept.binding) = (gone.owner, gone.tenant, gone.binding)
    WHERE gone.person = $1 AND gone.status <> 'closed' AND ($3::text IS NULL OR gone.handle = $3)
    FOR UPDATE OF gone
"""
_LIKE = """
    WITH made AS (
        INSERT INTO runtime.sessions
            (id, owner, tenant, binding, handle, door, person, scope_person, status, taken_by, handovers,
             channel, account, language, time_zone, last_text, segment, state, last_active_at)
        SELECT $1, owner, tenant, binding, handle, door, $3, $3, status, taken_by, handovers, channel,
            account, language, time_zone, last_text, $2, state, last_active_at
        FROM runtime.sessions WHERE id = $4
        RETURNING owner, channel
    )
    INSERT INTO runtime.segments (id, owner, session, channel) SELECT $2, owner, $1, channel FROM made
"""


class Raced(Exception):
    """Another call made the same person at the same moment: begin again."""


def never_here() -> NotFound:
    """Somebody who is looked for and has never written."""
    return NotFound(Reason.NOT_FOUND, "This person has never written here.")


def check_identity(identity: pb.Identity) -> None:
    """Raises InvalidInput for an identity that no channel of ours gives."""
    wrong = {}
    if identity.channel not in CHANNELS:
        wrong["channel"] = f"must be one of {', '.join(sorted(CHANNELS))}"
    if identity.kind not in KINDS:
        wrong["kind"] = f"must be one of {', '.join(sorted(KINDS))}"
    if not 0 < len(identity.value) <= MAX_VALUE or not identity.value.isprintable():
        wrong["value"] = f"must have 1 to {MAX_VALUE} printable characters"
    if len(identity.display_name) > MAX_NAME:
        wrong["display_name"] = f"must have at most {MAX_NAME} characters"
    if wrong:
        raise InvalidInput(Reason.INVALID_ARGUMENT, "The identity is wrong.", fields=wrong)


async def known(connection: asyncpg.Connection, identity: pb.Identity) -> Person | None:
    """Who this is, if they were here before. The transaction names the identity."""
    row = await connection.fetchrow(_FIND, identity.kind, identity.value, identity.verified, identity.channel)
    return _person(row) if row else None


async def met(connection: asyncpg.Connection, identity: pb.Identity, clock: Clock) -> Person:
    """Who this is; somebody new is put down. The transaction names the identity. Raises Raced."""
    row = await connection.fetchrow(_FIND, identity.kind, identity.value, identity.verified, identity.channel)
    if row is not None and row["channel"] == identity.channel:
        return _person(row)
    person = row["person"] if row is not None else fresh(clock)
    await also_see(connection, people=[person])
    if row is None:
        await connection.execute(
            "INSERT INTO runtime.users (id, display_name) VALUES ($1, $2)", person, identity.display_name
        )
    made = await connection.fetchval(
        _ADD,
        fresh(clock),
        person,
        identity.channel,
        identity.kind,
        identity.value,
        identity.verified,
        identity.display_name,
    )
    if made is None:
        raise Raced
    handles = await connection.fetchval("SELECT runtime.handles_of($1)", person)
    return Person(person, made, tuple(handles), identity.display_name)


def _person(row: asyncpg.Record) -> Person:
    return Person(row["person"], row["id"], tuple(row["handles"]), row["display_name"])


class People:
    """Codes that join identities."""

    def __init__(self, pool: asyncpg.Pool, clock: Clock) -> None:
        self._pool, self._clock = pool, clock

    async def find(self, identity: pb.Identity) -> Person:
        """Raises NotFound for somebody who never was here."""
        check_identity(identity)
        async with seeing(self._pool, identity=identity) as connection:
            person = await known(connection, identity)
        if person is None:
            raise never_here()
        return person

    async def meet(self, identity: pb.Identity) -> Person:
        """Who this is; somebody new is put down."""
        check_identity(identity)
        try:
            async with seeing(self._pool, identity=identity) as connection:
                return await met(connection, identity, self._clock)
        except Raced:
            async with seeing(self._pool, identity=identity) as connection:
                return await met(connection, identity, self._clock)

    async def make_code(self, identity: pb.Identity) -> tuple[str, int]:
        """A fresh code and when it expires, ms."""
        _check_verified(identity)
        code = "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))
        expires_ms = self._clock() + CODE_LIFE_MS
        digest = hashlib.sha256(code.encode()).digest()
        await self.meet(identity)
        async with seeing(self._pool, identity=identity, code=digest) as connection:
            person = await met(connection, identity, self._clock)
            await connection.execute(
                "INSERT INTO runtime.link_codes (sha256, person, expires_at)"
                " VALUES ($1, $2, to_timestamp($3 / 1000.0))",
                digest,
                person.id,
                expires_ms,
            )
        return code, expires_ms

    async def link(self, identity: pb.Identity, code: str) -> list[str]:
        """Join; gives the channels that the person now has. Raises NotFound, Refused."""
        _check_verified(identity)
        digest = hashlib.sha256(written(code).encode()).digest()
        async with seeing(self._pool, identity=identity, code=digest) as connection:
            row = await connection.fetchrow(
                "UPDATE runtime.link_codes SET used_at = now() WHERE sha256 = $1 AND used_at IS NULL"
                " AND expires_at > to_timestamp($2 / 1000.0) RETURNING person",
                digest,
                self._clock(),
            )
            if row is None:
                raise NotFound(
                    Reason.NOT_FOUND,
                    "This code is not known, was used, or has expired.",
                    hint="make another one: it is good for ten minutes",
                )
            joined = await met(connection, identity, self._clock)
            if joined.id != row["person"]:
                if joined.handles:
                    raise Refused(
                        Reason.PERMISSION_DENIED,
                        f"This identity belongs to the owner of {joined.handles[0]}.",
                        hint="unlink it there first",
                    )
                await _join(connection, joined.id, row["person"])
            return await _channels(connection, row["person"])

    async def adopt(self, visitor: pb.Identity, identity: pb.Identity, handle: str) -> bool:
        """Take over what an unproved visitor said at a handle; whether there was anything. Raises Refused for
        somebody who is not proved, and for words that are somebody's already."""
        _check_verified(identity)
        check_identity(visitor)
        if visitor.verified or visitor.kind == HANDLE:
            raise Refused(Reason.PERMISSION_DENIED, "Only what nobody has proved to be theirs is taken over.")
        keeper = await self.meet(identity)
        try:
            return await self._adopted(visitor, keeper, handle)
        except asyncpg.UniqueViolationError:  # they wrote under their handle at this very moment
            return await self._adopted(visitor, keeper, handle)

    async def _adopted(self, visitor: pb.Identity, keeper: Person, handle: str) -> bool:
        async with seeing(self._pool, identity=visitor) as connection:
            stranger = await known(connection, visitor)
            if stranger is None or stranger.handles or stranger.id == keeper.id:
                return False
            return bool(await _adopt(connection, stranger.id, keeper.id, handle, self._clock))

    async def unlink(self, identity: pb.Identity) -> None:
        """Part an identity from its person. Raises NotFound, Refused for a handle."""
        _check_verified(identity)
        if identity.kind == HANDLE:
            raise Refused(
                Reason.PERMISSION_DENIED,
                "A handle can't be parted from its owner.",
                hint="unlink the other identity instead",
            )
        async with seeing(self._pool, identity=identity) as connection:
            person = await known(connection, identity)
            if person is None:
                raise NotFound(Reason.NOT_FOUND, "This identity is linked to nobody.")
            alone = fresh(self._clock)
            await also_see(connection, people=[person.id, alone])
            await connection.execute("INSERT INTO runtime.users (id) VALUES ($1)", alone)
            await connection.execute(
                "UPDATE runtime.identities SET person = $1 WHERE id = $2", alone, person.identity
            )


def written(code: str) -> str:
    """A code as it is kept, however it was typed."""
    return "".join(char for char in code.upper() if char in ALPHABET)


async def _join(connection: asyncpg.Connection, gone: UUID, kept: UUID) -> None:
    """Everything of `gone` becomes `kept`'s; two sessions at the same place become one."""
    await also_see(connection, people=[gone, kept])
    sessions = await connection.fetch(_PAIRS, gone, kept, None)
    await also_see(connection, owner=",".join(sorted({row["owner"] for row in sessions})))
    for row in sessions:
        if row["into"] is None:
            await connection.execute("UPDATE runtime.sessions SET person = $1 WHERE id = $2", kept, row["id"])
        else:
            await _merge(connection, row["id"], row["into"])
    await connection.execute("UPDATE runtime.turns SET person = $1 WHERE person = $2", kept, gone)
    await connection.execute("UPDATE runtime.outbound SET person = $1 WHERE person = $2", kept, gone)
    await connection.execute("UPDATE runtime.identities SET person = $1 WHERE person = $2", kept, gone)


async def _adopt(
    connection: asyncpg.Connection, gone: UUID, kept: UUID, handle: str, clock: Clock
) -> Sequence[asyncpg.Record]:
    """What `gone` said at one handle goes into a session of `kept`'s own, with a memory of its own: whoever
    uses the browser later is nobody again, and must not find there what was said under the handle."""
    await also_see(connection, people=[gone, kept])
    sessions: Sequence[asyncpg.Record] = await connection.fetch(_PAIRS, gone, kept, handle)
    await also_see(connection, owner=",".join(sorted({row["owner"] for row in sessions})))
    for row in sessions:
        into = row["into"]
        if into is None:
            into = fresh(clock)
            await connection.execute(_LIKE, into, fresh(clock), kept, row["id"])
        await _merge(connection, row["id"], into)
        for table in ("turns", "outbound"):
            await connection.execute(
                f"UPDATE runtime.{table} SET person = $1 WHERE session = $2",  # noqa: S608 - two names of ours
                kept,
                row["id"],
            )
    return sessions


async def _merge(connection: asyncpg.Connection, gone: UUID, into: UUID) -> None:
    """One session's messages into another; what is still being answered there follows."""
    await connection.execute("UPDATE runtime.messages SET session = $1 WHERE session = $2", into, gone)
    await connection.execute(
        "UPDATE runtime.sessions SET status = 'closed', merged_into = $2 WHERE id = $1", gone, into
    )


async def _channels(connection: asyncpg.Connection, person: UUID) -> list[str]:
    await also_see(connection, people=[person])
    rows: Sequence[asyncpg.Record] = await connection.fetch(
        "SELECT channel FROM runtime.identities WHERE person = $1 GROUP BY channel"
        " ORDER BY max(last_used_at) DESC, channel",
        person,
    )
    return [row["channel"] for row in rows]


def _check_verified(identity: pb.Identity) -> None:
    check_identity(identity)
    if not identity.verified:
        raise Refused(
            Reason.UNAUTHENTICATED,
            "Only an identity that the channel has proved can be linked.",
            hint="sign in first",
        )
