"""Sessions of people at the desks, and the codes that begin them.

A session's token is `desk_` and 32 random bytes in base64url; only its SHA-256 is kept. It is what the
browser keeps as a cookie and what the pages show to the node's services, which find the session again in the
database at every call: what is revoked, or runs out, opens nothing from that moment on.

Who presents a token may see its row alone (`indai.presented`, see the migration), and so names no scope.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import asyncpg
from indai.protocol.errors import NotFound, Reason, Refused
from indai.protocol.header import new_id
from indai.storage.pool import transaction, translate_errors
from indai.web.accounts import Account

MINUTE_MS: Final = 60_000
DAY_MS: Final = 86_400_000
LIFE_MS: Final = 30 * DAY_MS
IDLE_MS: Final = 7 * DAY_MS
SEEN_EVERY_MS: Final = 5 * MINUTE_MS
CODE_LIFE_MS: Final = 10 * MINUTE_MS
CODE_LENGTH: Final = 10
_ALPHABET: Final = "23456789ABCDEFGHJKMNPQRSTVWXYZ"  # nothing that is read as something else
_TOKEN: Final = "desk_"  # noqa: S105 - the prefix of tokens

_FIND: Final = "SELECT * FROM web.find_session($1)"


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody signed in. `scope`, `role` and `name` are their account's."""

    id: str
    account: str
    scope: str
    role: str
    name: str
    way: str
    device: str
    created_ms: int
    seen_ms: int
    expires_ms: int
    language: str = ""
    """What they chose for the pages, on every device; empty for nothing."""


class Sessions:
    """Begins, finds, lists and ends sessions. `clock`: ms since the epoch."""

    def __init__(self, pool: asyncpg.Pool, clock: Callable[[], int]) -> None:
        self._pool, self._clock = pool, clock

    async def code(self, account: Account, browser: str = "") -> tuple[str, int]:
        """A code that signs the account in, once, and when it expires (ms). With `browser`, only the one that
        is called so may use it: see `redeem`."""
        text = "".join(secrets.choice(_ALPHABET) for _ in range(CODE_LENGTH))
        expires = self._clock() + CODE_LIFE_MS
        async with transaction(self._pool, (account.scope,)) as connection:
            await connection.execute(
                "INSERT INTO web.sign_in_codes (code_sha256, scope, account, expires_ms, browser)"
                " VALUES ($1, $2, $3, $4, $5)",
                _code_digest(text),
                account.scope,
                uuid.UUID(account.id),
                expires,
                browser,
            )
        return f"{text[:5]}-{text[5:]}", expires

    async def redeem(self, code: str, device: str, browser: str) -> str:
        """The token of a new session for a code. Raises Refused for a code that is wrong, used, too old or
        another browser's, all in the same words."""
        digest, now = _code_digest(code), self._clock()
        async with self._presented(digest) as connection:
            row = await connection.fetchrow(
                "SELECT scope, account FROM web.sign_in_codes WHERE code_sha256 = $1", digest
            )
        if row is None:
            raise _bad_code()
        async with transaction(self._pool, (row["scope"],)) as connection:
            # The one statement decides between two who use the code at the same moment.
            account = await connection.fetchrow(
                "UPDATE web.sign_in_codes c SET used_ms = $2 FROM web.accounts a"
                " WHERE c.code_sha256 = $1 AND c.used_ms IS NULL AND c.expires_ms > $2"
                " AND c.browser IN ('', $3)"
                " AND a.id = c.account AND a.scope = c.scope AND a.revoked_ms IS NULL"
                " RETURNING a.id, a.scope",
                digest,
                now,
                browser,
            )
            if account is None:
                raise _bad_code()
            return await self._begin(connection, account["scope"], account["id"], "code", device)

    async def begin(self, account: Account, way: str, device: str) -> str:
        """The token of a new session; shown once, to the browser."""
        async with transaction(self._pool, (account.scope,)) as connection:
            return await self._begin(connection, account.scope, uuid.UUID(account.id), way, device)

    async def _begin(
        self, connection: asyncpg.Connection, scope: str, account: uuid.UUID, way: str, device: str
    ) -> str:
        token = _TOKEN + base64.urlsafe_b64encode(secrets.token_bytes(32)).rstrip(b"=").decode()
        now = self._clock()
        await connection.execute(
            "INSERT INTO web.sessions"
            " (token_sha256, id, scope, account, way, device, created_ms, seen_ms, expires_ms)"
            " VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8)",
            _digest(token),
            uuid.UUID(bytes=new_id(now, os.urandom(10))),
            scope,
            account,
            way,
            device[:100],
            now,
            now + LIFE_MS,
        )
        return token

    async def find(self, digest: bytes) -> Session | None:
        """The session whose token has this SHA-256, if it is in force."""
        now = self._clock()
        with translate_errors():
            row = await self._pool.fetchrow(_FIND, digest)
        if row is None or row["account_revoked_ms"] is not None or not _is_live(row, now):
            return None
        if now - row["seen_ms"] >= SEEN_EVERY_MS:
            async with transaction(self._pool, (row["scope"],)) as connection:
                await connection.execute(
                    "UPDATE web.sessions SET seen_ms = $2 WHERE token_sha256 = $1", digest, now
                )
        return _session(row)

    async def find_token(self, token: str) -> Session | None:
        """The session of a token, if it is in force."""
        return await self.find(_digest(token)) if token.startswith(_TOKEN) else None

    async def listed(self, scope: str, account: str = "") -> list[Session]:
        """Sessions in force of a scope, or of one account in it, the newest first."""
        now = self._clock()
        async with transaction(self._pool, (scope,)) as connection:
            rows = await connection.fetch(
                "SELECT s.*, a.role, a.name FROM web.sessions s JOIN web.accounts a ON a.id = s.account"
                " WHERE s.scope = $1 AND ($2::uuid IS NULL OR s.account = $2) AND s.revoked_ms IS NULL"
                " AND s.expires_ms > $3 AND s.seen_ms > $4 ORDER BY s.created_ms DESC LIMIT 500",
                scope,
                uuid.UUID(account) if account else None,
                now,
                now - IDLE_MS,
            )
        return [_session(row) for row in rows]

    async def revoke(self, scope: str, session: str, account: str = "") -> None:
        """End a session of a scope (of one account in it); raises NotFound."""
        async with transaction(self._pool, (scope,)) as connection:
            done = await connection.execute(
                "UPDATE web.sessions SET revoked_ms = $4 WHERE scope = $1 AND id = $2"
                " AND ($3::uuid IS NULL OR account = $3) AND revoked_ms IS NULL",
                scope,
                _uuid(session),
                uuid.UUID(account) if account else None,
                self._clock(),
            )
        if done == "UPDATE 0":
            raise _no_session()

    @asynccontextmanager
    async def _presented(self, digest: bytes) -> AsyncIterator[asyncpg.Connection]:
        """A transaction that sees the row of this hash alone."""
        async with transaction(self._pool) as connection:
            await connection.execute("SELECT set_config('indai.presented', $1, true)", digest.hex())
            yield connection


def _is_live(row: Mapping[str, Any], now: int) -> bool:
    return bool(row["expires_ms"] > now and row["seen_ms"] > now - IDLE_MS)


def _session(row: Mapping[str, Any]) -> Session:
    return Session(
        str(row["id"]),
        str(row["account"]),
        row["scope"],
        row["role"],
        row["name"],
        row["way"],
        row["device"],
        row["created_ms"],
        row["seen_ms"],
        row["expires_ms"],
        json.loads(row.get("settings") or "{}").get("language", ""),
    )


def _uuid(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise _no_session() from None


def _no_session() -> NotFound:
    return NotFound(Reason.NOT_FOUND, "There is no such session.", hint="see: indai desk sessions")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def _code_digest(code: str) -> bytes:
    return _digest("".join(code.upper().split()).replace("-", ""))


def _bad_code() -> Refused:
    return Refused(
        Reason.UNAUTHENTICATED,
        "This code does not sign anybody in here: it is mistyped, was used, is more than ten minutes old,"
        " or was sent for another browser.",
        hint="ask for a new one in this browser, or print one: indai desk code",
    )
