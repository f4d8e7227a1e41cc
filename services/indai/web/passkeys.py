"""Passkeys (W3C Web Authentication, level 3): a key in a person's device signs them in.

The ceremonies are checked by py_webauthn. A challenge is not stored: it carries its own time and a code of
ours (HMAC), is good for five minutes, once, and for one ceremony of one session or visitor. A passkey is
found by the hash of its id, as a session is by that of its token.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import asyncpg
import webauthn
from indai.protocol.errors import InvalidInput, NotFound, Reason, Refused
from indai.storage.pool import transaction
from indai.web.accounts import Account, Accounts
from indai.web.sessions import MINUTE_MS, Session
from indai.web.site import Place
from webauthn.helpers import base64url_to_bytes
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

CHALLENGE_LIFE_MS: Final = 5 * MINUTE_MS
MAX_PASSKEYS: Final = 20
_REQUIRED: Final = UserVerificationRequirement.REQUIRED


@dataclass(frozen=True, slots=True)
class Passkey:
    """One of an account's. `digest`: SHA-256 of its id, 32 bytes."""

    digest: bytes
    name: str
    created_ms: int
    used_ms: int


class Passkeys:
    """Keeps passkeys and checks the ceremonies. `secret` (32 bytes) makes challenges."""

    def __init__(
        self, pool: asyncpg.Pool, accounts: Accounts, secret: bytes, clock: Callable[[], int]
    ) -> None:
        self._pool, self._accounts, self._secret, self._clock = pool, accounts, secret, clock
        self._used: OrderedDict[bytes, int] = OrderedDict()

    async def offer(self, session: Session, place: Place) -> str:
        """JSON that `navigator.credentials.create` takes."""
        known = await self._rows(session.scope, session.account)
        options = webauthn.generate_registration_options(
            rp_id=_rp_id(place),
            rp_name="ind.ai",
            user_id=uuid.UUID(session.account).bytes,
            user_name=session.name,
            challenge=self._challenge(f"add {session.id}"),
            authenticator_selection=AuthenticatorSelectionCriteria(
                resident_key=ResidentKeyRequirement.REQUIRED, user_verification=_REQUIRED
            ),
            exclude_credentials=[PublicKeyCredentialDescriptor(id=row["credential_id"]) for row in known],
        )
        return webauthn.options_to_json(options)

    async def add(self, session: Session, place: Place, credential: str, name: str) -> None:
        """Keep the passkey that a browser made for this session's offer. Raises Refused."""
        if len(await self._rows(session.scope, session.account)) >= MAX_PASSKEYS:
            raise InvalidInput(Reason.TOO_LARGE, f"{MAX_PASSKEYS} passkeys are enough.", hint="remove one")
        value = _read(credential)
        try:
            made = webauthn.verify_registration_response(
                credential=value,
                expected_challenge=self._answered(value, f"add {session.id}"),
                expected_rp_id=_rp_id(place),
                expected_origin=_origins(place),
                require_user_verification=True,
            )
        except (WebAuthnException, ValueError, KeyError, TypeError):
            raise _refused() from None
        async with transaction(self._pool, (session.scope,)) as connection:
            added = await connection.execute(
                "INSERT INTO web.passkeys (credential_sha256, credential_id, scope, account, public_key,"
                " sign_count, name, created_ms) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
                " ON CONFLICT DO NOTHING",
                hashlib.sha256(made.credential_id).digest(),
                made.credential_id,
                session.scope,
                uuid.UUID(session.account),
                made.credential_public_key,
                made.sign_count,
                name[:60],
                self._clock(),
            )
        if added != "INSERT 0 1":
            raise _refused()

    def ask(self, visitor: str, place: Place) -> str:
        """JSON that `navigator.credentials.get` takes, for whoever has a passkey here."""
        options = webauthn.generate_authentication_options(
            rp_id=_rp_id(place), challenge=self._challenge(f"ask {visitor}"), user_verification=_REQUIRED
        )
        return webauthn.options_to_json(options)

    async def account_of(self, visitor: str, place: Place, credential: str) -> Account:
        """Whose passkey signed this visitor's challenge. Raises Refused."""
        value = _read(credential)
        try:
            digest = hashlib.sha256(base64url_to_bytes(str(value["rawId"]))).digest()
        except (ValueError, KeyError, TypeError):
            raise _refused() from None
        async with transaction(self._pool) as connection:
            await connection.execute("SELECT set_config('indai.presented', $1, true)", digest.hex())
            row = await connection.fetchrow("SELECT * FROM web.passkeys WHERE credential_sha256 = $1", digest)
        if row is None:
            raise _refused()
        try:
            signed = webauthn.verify_authentication_response(
                credential=value,
                expected_challenge=self._answered(value, f"ask {visitor}"),
                expected_rp_id=_rp_id(place),
                expected_origin=_origins(place),
                credential_public_key=row["public_key"],
                credential_current_sign_count=row["sign_count"],
                require_user_verification=True,
            )
        except (WebAuthnException, ValueError, KeyError, TypeError):
            raise _refused() from None
        account = await self._accounts.with_id(row["scope"], str(row["account"]))
        async with transaction(self._pool, (row["scope"],)) as connection:
            # A count that does not grow is a copy's, or an answer that is used again.
            counted = await connection.execute(
                "UPDATE web.passkeys SET sign_count = $2, used_ms = $3"
                " WHERE credential_sha256 = $1 AND (sign_count < $2 OR (sign_count = 0 AND $2 = 0))",
                digest,
                signed.new_sign_count,
                self._clock(),
            )
        if account is None or counted != "UPDATE 1":
            raise _refused()
        return account

    async def listed(self, scope: str, account: str) -> list[Passkey]:
        """An account's, the oldest first."""
        return [
            Passkey(row["credential_sha256"], row["name"], row["created_ms"], row["used_ms"] or 0)
            for row in await self._rows(scope, account)
        ]

    async def remove(self, scope: str, account: str, digest: bytes) -> None:
        """Raises NotFound for one that is not the account's."""
        async with transaction(self._pool, (scope,)) as connection:
            done = await connection.execute(
                "DELETE FROM web.passkeys WHERE scope = $1 AND account = $2 AND credential_sha256 = $3",
                scope,
                uuid.UUID(account),
                digest,
            )
        if done == "DELETE 0":
            raise NotFound(Reason.NOT_FOUND, "There is no such passkey.")

    async def _rows(self, scope: str, account: str) -> list[asyncpg.Record]:
        async with transaction(self._pool, (scope,)) as connection:
            rows: list[asyncpg.Record] = await connection.fetch(
                "SELECT * FROM web.passkeys WHERE scope = $1 AND account = $2 ORDER BY created_ms",
                scope,
                uuid.UUID(account),
            )
        return rows

    def _challenge(self, purpose: str) -> bytes:
        """48 bytes: 8 of time, 16 at random, 24 of a code over both and the purpose."""
        head = self._clock().to_bytes(8, "big") + secrets.token_bytes(16)
        return head + self._code(head, purpose)

    def _answered(self, credential: dict[str, Any], purpose: str) -> bytes:
        """The challenge that the browser signed, if it is one of ours for this purpose and not too old."""
        data = json.loads(base64url_to_bytes(credential["response"]["clientDataJSON"]))
        challenge = base64url_to_bytes(data["challenge"])
        head, code = challenge[:24], challenge[24:]
        age = self._clock() - int.from_bytes(head[:8], "big")
        if not hmac.compare_digest(code, self._code(head, purpose)) or not 0 <= age <= CHALLENGE_LIFE_MS:
            raise _refused()
        if head in self._used:
            raise _refused()
        self._used[head] = self._clock()
        while self._used and next(iter(self._used.values())) < self._clock() - CHALLENGE_LIFE_MS:
            self._used.popitem(last=False)
        return challenge

    def _code(self, head: bytes, purpose: str) -> bytes:
        return hmac.new(self._secret, b"passkey:" + head + purpose.encode(), hashlib.sha256).digest()[:24]


def _rp_id(place: Place) -> str:
    return urlsplit(place.url).hostname or ""


def _origins(place: Place) -> list[str]:
    return [place.url]


def _read(credential: str) -> dict[str, Any]:
    try:
        value = json.loads(credential)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise _refused()
    return value


def _refused() -> Refused:
    return Refused(
        Reason.UNAUTHENTICATED,
        "This passkey signs nobody in here.",
        hint="sign in with a code: indai desk code",
    )
