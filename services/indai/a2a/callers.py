"""Who calls over A2A: keys that owners give to clients, tokens that stand for a key for an hour, mutual TLS.

    X-API-Key: <key>                                      a key itself
    POST /a2a/oauth/token, client_credentials (RFC 6749)  a token for a key
    Authorization: Bearer <token or key>

A key names its owner and itself in the open, and has 256 random bits; only its SHA-256 is kept. Who shows
nothing is nobody: a stranger at the public door. Who shows something wrong is refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

import asyncpg
import jwt
from aiohttp import web
from indai.a2a.errors import Unauthenticated
from indai.protocol.errors import InvalidInput, NotFound, Reason
from indai.storage.pool import transaction

TOKEN_S = 3_600
_PREFIX = "indai_a2a_"
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_ISSUER = "indai-a2a"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as its owner sees it."""

    name: str
    created_at: datetime
    revoked: bool


class Callers:
    """Issues keys, and tells who calls. `secret` (32 bytes) signs tokens; `clock`: ms since the epoch."""

    def __init__(self, pool: asyncpg.Pool, secret: bytes, clock: Callable[[], int]) -> None:
        self._pool, self._secret, self._clock = pool, secret, clock

    async def create(self, owner: str, name: str) -> str:
        """A new key, shown once. The name of a revoked key can be used again."""
        if not _NAME.fullmatch(name) or len(name) > 60:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, "A key's name has small letters, digits and single hyphens."
            )
        text = _PREFIX + _b64(f"{owner}#{name}".encode()) + "." + _b64(secrets.token_bytes(32))
        async with transaction(self._pool, (owner,)) as connection:
            made = await connection.fetchval(
                "INSERT INTO a2a.api_key AS old (owner, name, sha256) VALUES ($1, $2, $3)"
                " ON CONFLICT (owner, name) DO UPDATE"
                " SET sha256 = excluded.sha256, created_at = now(), revoked_at = NULL"
                " WHERE old.revoked_at IS NOT NULL RETURNING name",
                owner,
                name,
                _digest(text),
            )
        if made is None:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                f"There is a key {name} already.",
                hint="revoke it first, or take another name",
            )
        return text

    async def listed(self, owner: str) -> list[ApiKey]:
        """All keys of an owner."""
        async with transaction(self._pool, (owner,)) as connection:
            rows = await connection.fetch(
                "SELECT name, created_at, revoked_at FROM a2a.api_key WHERE owner = $1 ORDER BY name", owner
            )
        return [ApiKey(row["name"], row["created_at"], row["revoked_at"] is not None) for row in rows]

    async def revoke(self, owner: str, name: str) -> None:
        """The key, and tokens for it, prove nothing from now on."""
        async with transaction(self._pool, (owner,)) as connection:
            done = await connection.execute(
                "UPDATE a2a.api_key SET revoked_at = coalesce(revoked_at, now())"
                " WHERE owner = $1 AND name = $2",
                owner,
                name,
            )
        if done == "UPDATE 0":
            raise NotFound(Reason.NOT_FOUND, f"There is no key {name}.", hint="see: indai a2a key list")

    async def caller_of(self, headers: Mapping[str, str], spki: bytes) -> str:
        """The caller, or nothing for somebody who shows nothing. Raises Unauthenticated."""
        key = headers.get("x-api-key", "")
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if bearer and scheme.lower() != "bearer":
            raise Unauthenticated
        if key:
            return await self._proved(key)
        if bearer:
            return await (self._proved(bearer) if bearer.startswith(_PREFIX) else self._tokened(bearer))
        return f"mtls:{spki.hex()}" if spki else ""

    async def token(self, request: web.Request) -> web.Response:
        """RFC 6749, section 4.4: a key for a token."""
        form = await request.post()
        client, secret = form.get("client_id"), form.get("client_secret")
        if form.get("grant_type") != "client_credentials":
            return web.json_response({"error": "unsupported_grant_type"}, status=400)
        try:
            caller = await self._proved(secret if isinstance(secret, str) else "")
        except Unauthenticated:
            caller = ""
        if not caller or client not in (None, "", caller.removeprefix("key:")):
            return web.json_response({"error": "invalid_client"}, status=401)
        now = self._clock() // 1000
        claims = {"iss": _ISSUER, "sub": caller, "iat": now, "exp": now + TOKEN_S}
        token = jwt.encode(claims, self._secret, algorithm="HS256")
        answer = {"access_token": token, "token_type": "Bearer", "expires_in": TOKEN_S}
        return web.json_response(answer, headers={"Cache-Control": "no-store"})

    async def _tokened(self, token: str) -> str:
        try:
            claims = jwt.decode(
                token,
                self._secret,
                algorithms=["HS256"],
                issuer=_ISSUER,
                options={"require": ["exp", "sub"], "verify_exp": False, "verify_iat": False},
            )
        except jwt.PyJWTError:
            raise Unauthenticated from None
        if claims["exp"] <= self._clock() // 1000:
            raise Unauthenticated("The token has expired; ask for another one.")
        caller = str(claims["sub"])
        owner, _, name = caller.removeprefix("key:").partition("#")
        if await self._kept(owner, name) is None:
            raise Unauthenticated("The key of this token was revoked.")
        return caller

    async def _proved(self, text: str) -> str:
        try:
            named = base64.urlsafe_b64decode(_padded(text.removeprefix(_PREFIX).partition(".")[0])).decode()
        except (binascii.Error, ValueError):
            raise Unauthenticated from None
        owner, _, name = named.partition("#")
        if "," in owner:  # it would name several owners to the database
            raise Unauthenticated
        kept = await self._kept(owner, name)
        if kept is None or not hmac.compare_digest(kept, _digest(text)):
            raise Unauthenticated
        return f"key:{owner}#{name}"

    async def _kept(self, owner: str, name: str) -> bytes | None:
        async with transaction(self._pool, (owner,)) as connection:
            kept: bytes | None = await connection.fetchval(
                "SELECT sha256 FROM a2a.api_key WHERE owner = $1 AND name = $2 AND revoked_at IS NULL",
                owner,
                name,
            )
        return kept


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _padded(text: str) -> str:
    return text + "=" * (-len(text) % 4)
