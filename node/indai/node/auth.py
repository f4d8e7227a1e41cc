"""Bearer tokens: who calls an owner's or the operator's service (RFC 6750, in call metadata).

A token is `indai_` and 32 random bytes in base64url. Only its SHA-256 is kept, so a stolen database opens
nothing; a plain hash is enough because the token has 256 bits of entropy. Hashes are compared in constant
time.

People at the desks show the token of their session instead, `desk_` and 32 random bytes, which is looked up
in the database at each call (`indai.web.sessions`).
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import re
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from indai.protocol.errors import Reason, Refused
from indai.web.accounts import EVERYWHERE, OPERATOR, OWNER
from indai.web.sessions import Session

_SHAPE: Final = re.compile(r"[Bb]earer ((?:indai|desk)_[A-Za-z0-9_-]{43})")
_HINT: Final = "pass the token that was shown when the agent or the node was created"


@dataclass(frozen=True, slots=True)
class NewToken:
    """A fresh token: `text` is shown once and never stored, `sha256` (32 bytes) is stored."""

    text: str = field(repr=False)
    sha256: bytes


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: an owner by their handle, or the operator; with a `session` if it is somebody at a desk, who
    may also be one of a tenant's people and then is neither."""

    owner: str = ""
    operator: bool = False
    session: Session | None = None


Authenticate = Callable[[Any], Awaitable[Caller]]
"""Takes the call's context, gives the caller or raises Refused(UNAUTHENTICATED)."""

FindOwner = Callable[[bytes], Awaitable[str | None]]
"""Gives the handle for a token's SHA-256, or None."""

FindSession = Callable[[bytes], Awaitable[Session | None]]
"""Gives the session in force for a token's SHA-256, or None."""


def new_token() -> NewToken:
    """A token with 256 random bits."""
    text = "indai_" + base64.urlsafe_b64encode(secrets.token_bytes(32)).rstrip(b"=").decode()
    return NewToken(text, token_sha256(text))


def token_sha256(text: str) -> bytes:
    """What is stored of a token."""
    return hashlib.sha256(text.encode()).digest()


def owners(find: FindOwner) -> Authenticate:
    """Admits owners."""

    async def authenticate(context: Any) -> Caller:
        return Caller(owner=await _found(_presented(context), find))

    return authenticate


async def owner_of(token: str, find: FindOwner) -> str:
    """The handle of the owner who shows this token elsewhere than in a call's metadata. Raises Refused."""
    return await _found(token_sha256(token), find)


async def _found(digest: bytes, find: FindOwner) -> str:
    if handle := await find(digest):
        return handle
    raise _unknown()


def operator(expected_sha256: bytes) -> Authenticate:
    """Admits the operator, whose token has this SHA-256."""

    async def authenticate(context: Any) -> Caller:
        if not hmac.compare_digest(_presented(context), expected_sha256):
            raise _unknown()
        return Caller(operator=True)

    return authenticate


def members(find: FindSession, *roles: str) -> Authenticate:
    """Admits people at the desks who have one of these roles, each with their session. A tenant's people are
    neither owner nor operator: the service looks at the session's scope."""

    async def authenticate(context: Any) -> Caller:
        session = await find(_presented(context))
        if session is None:
            raise _unknown()
        if session.role not in roles:
            what = f"This is not for somebody who is {session.role}."
            raise Refused(Reason.PERMISSION_DENIED, what, hint="sign in as somebody else")
        return Caller(
            owner=session.scope if session.role == OWNER else "",
            operator=session.role == OPERATOR and session.scope == EVERYWHERE,
            session=session,
        )

    return authenticate


def operators_at_desks(find: FindSession) -> Authenticate:
    """Admits operators of the whole node at their desk."""
    people = members(find, OPERATOR)

    async def authenticate(context: Any) -> Caller:
        found = await people(context)
        if not found.operator:
            raise Refused(
                Reason.PERMISSION_DENIED,
                "This is for the operator of the whole node.",
                hint="an operator of a tenant has that tenant's desk",
            )
        return found

    return authenticate


def owner_at_desk(find: FindSession) -> FindOwner:
    """The handle of the owner whose session this is."""

    async def owner_of(digest: bytes) -> str | None:
        session = await find(digest)
        return session.scope if session is not None and session.role == OWNER else None

    return owner_of


def either(*ways: Authenticate) -> Authenticate:
    """Admits whom one of `ways` admits."""

    async def authenticate(context: Any) -> Caller:
        for way in ways[:-1]:
            with contextlib.suppress(Refused):
                return await way(context)
        return await ways[-1](context)

    return authenticate


def caller(context: Any) -> Caller:
    """The authenticated caller. Raises Refused when the service was registered without authentication."""
    found = getattr(context, "caller", None)
    if not isinstance(found, Caller):
        raise Refused(Reason.UNAUTHENTICATED, "This call carries no proof of who makes it.", hint=_HINT)
    return found


def _presented(context: Any) -> bytes:
    values = [value for key, value in context.invocation_metadata() or () if key == "authorization"]
    match = _SHAPE.fullmatch(values[0]) if len(values) == 1 and isinstance(values[0], str) else None
    if match is None:
        raise Refused(Reason.UNAUTHENTICATED, "This call needs a token.", hint=_HINT)
    return token_sha256(match[1])


def _unknown() -> Refused:
    return Refused(Reason.UNAUTHENTICATED, "The token is not known here.", hint=_HINT)
