"""Pulled documents: sealed at rest, and read over a link that is signed and expires.

A link is `/dpi/documents/TOKEN`; the token names owner, document and end, and carries a MAC under a key that
is derived for this alone. Whoever has the link can read until it ends: it is as private as it is kept.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

import asyncpg
from aiohttp import web
from indai.protocol.errors import IndaiError, InvalidInput, NotFound, Reason, Refused
from indai.storage.pool import transaction
from indai.tools.identity import refuse_aadhaar

PATH = "/dpi/documents/"
_KINDS = {
    "application/pdf": "pdf",
    "application/xml": "xml",
    "text/xml": "xml",
    "application/json": "json",
    "image/jpeg": "jpg",
    "image/png": "png",
}
_TEXTS = ("application/xml", "text/xml", "application/json")

Seal = Callable[[bytes, str], bytes]


@dataclass(frozen=True, slots=True)
class Document:
    """One that was pulled. Times in ms."""

    id: str
    name: str
    mime: str
    size: int
    reference: str
    expires_ms: int
    body: bytes = field(default=b"", repr=False)


class Documents:
    """The only writer of `dpi.documents`."""

    def __init__(
        self,
        pool: asyncpg.Pool,
        seal: Seal,
        unseal: Seal,
        link_key: bytes,
        clock: Callable[[], int],
        *,
        link_minutes: int,
        keep_days: int,
    ) -> None:
        self._pool, self._seal, self._unseal, self._key, self._clock = pool, seal, unseal, link_key, clock
        self._link_ms, self._keep_ms = link_minutes * 60_000, keep_days * 86_400_000

    async def keep(
        self, owner: str, person: str, consent: str, reference: str, name: str, mime: str, body: bytes
    ) -> Document:
        """Seal and store it; what has expired goes. Raises InvalidInput for a kind that is not kept, Refused
        for a text with an Aadhaar number in it."""
        if mime not in _KINDS:
            raise InvalidInput(Reason.UNSUPPORTED, "Documents of that type are not kept.")
        now, made = self._clock(), str(uuid.uuid4())
        # Megabytes are searched and sealed: everybody else would wait.
        sealed = await asyncio.to_thread(self._checked, owner, made, mime, body)
        async with transaction(self._pool, [owner]) as connection:
            await connection.execute(
                "DELETE FROM dpi.documents WHERE owner = $1 AND expires_ms <= $2", owner, now
            )
            await connection.execute(
                "INSERT INTO dpi.documents (owner, id, person, consent, reference, name, mime, size, sealed,"
                " created_ms, expires_ms) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
                owner,
                uuid.UUID(made),
                person,
                uuid.UUID(consent),
                reference,
                name,
                mime,
                len(body),
                sealed,
                now,
                now + self._keep_ms,
            )
        return Document(made, name, mime, len(body), reference, now + self._keep_ms)

    async def forget(self, owner: str, person: str) -> None:
        """All of a person's."""
        async with transaction(self._pool, [owner]) as connection:
            await connection.execute(
                "DELETE FROM dpi.documents WHERE owner = $1 AND person = $2", owner, person
            )

    def link(self, owner: str, document: Document) -> tuple[str, int]:
        """A path that reads it, and when it ends (ms)."""
        until = min(self._clock() + self._link_ms, document.expires_ms)
        text = json.dumps([owner, document.id, until], separators=(",", ":")).encode()
        return PATH + _b64(text) + "." + _b64(self._mac(text)), until

    async def read(self, token: str) -> Document:
        """What a link names. Raises Refused(EXPIRED, BAD_SIGNATURE) and NotFound."""
        body, _, mac = token.partition(".")
        try:
            text, given = _unb64(body), _unb64(mac)
        except (binascii.Error, ValueError):
            raise Refused(Reason.BAD_SIGNATURE, "The link is not one of this node.") from None
        if not hmac.compare_digest(given, self._mac(text)):
            raise Refused(Reason.BAD_SIGNATURE, "The link is not one of this node.")
        owner, document, until = json.loads(text)
        now = self._clock()
        if until <= now:
            raise Refused(Reason.EXPIRED, "The link has expired.", hint="ask your agent for a new one")
        async with transaction(self._pool, [owner]) as connection:
            row = await connection.fetchrow(
                "SELECT name, mime, size, reference, expires_ms, sealed FROM dpi.documents"
                " WHERE owner = $1 AND id = $2 AND expires_ms > $3",
                owner,
                uuid.UUID(document),
                now,
            )
        if row is None:
            raise NotFound(Reason.NOT_FOUND, "The document is not kept any more.")
        opened = await asyncio.to_thread(self._unseal, row["sealed"], _context(owner, document))
        return Document(
            document, row["name"], row["mime"], row["size"], row["reference"], row["expires_ms"], opened
        )

    def routes(self) -> list[web.RouteDef]:
        """Where links lead."""
        return [web.get(PATH + "{token}", self._serve)]

    async def _serve(self, request: web.Request) -> web.Response:
        headers = {
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
        }
        try:
            found = await self.read(request.match_info["token"])
        except IndaiError as error:
            return web.Response(status=error.reason.status.http, text=f"{error.message}\n", headers=headers)
        # Never shown in the browser as a page of ours, whatever is in it.
        headers["Content-Disposition"] = f'attachment; filename="document.{_KINDS[found.mime]}"'
        headers["Content-Security-Policy"] = "sandbox"
        return web.Response(body=found.body, content_type=found.mime, headers=headers)

    def _checked(self, owner: str, document: str, mime: str, body: bytes) -> bytes:
        if mime in _TEXTS:
            refuse_aadhaar(body.decode("utf-8", "replace"), "The document")
        return self._seal(body, _context(owner, document))

    def _mac(self, text: bytes) -> bytes:
        return hmac.digest(self._key, text, "sha256")


def _context(owner: str, document: str) -> str:
    return f"dpi document {owner} {document}"


def _b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _unb64(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
