"""Addresses of agents' files, for people and providers that fetch them: `/channels/-/files/TICKET/NAME`.

A ticket says which file it is, as what it is shown and until when, under a code of ours: nobody else makes
one, and nothing is kept of it. Whoever has the address has the file, so it is good for a week. Files come as
attachments that no browser runs (RFC 6266; Content-Security-Policy `sandbox`).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from aiohttp import web
from indai.edge.media import MediaStore
from indai.protocol.errors import IndaiError, NotFound, Reason
from indai.v1 import conversation_pb2 as pb

PATH: Final = "/channels/-/files"
KEPT_MS: Final = 7 * 86_400_000
"""For how long an address is good."""
_PURPOSE: Final = b"indai edge file\x00"
_CODE: Final = 16  # bytes
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cache-Control": "private, no-store",
    "Referrer-Policy": "no-referrer",
    "X-Robots-Tag": "noindex",
}


class Files:
    """Makes addresses and serves what is behind them. `key`: whoever has it makes addresses of ours; `clock`:
    ms since the epoch; `url`: where the HTTP port is reached, known when it is asked."""

    def __init__(
        self, store: MediaStore, key: bytes, clock: Callable[[], int], url: Callable[[], str]
    ) -> None:
        self._store, self._key, self._clock, self._url = store, key, clock, url

    def link(self, media: pb.Media) -> str:
        """Where a file is fetched from for a week; nothing where this program is not reached."""
        base = self._url().rstrip("/")
        if not base or not media.reference:
            return ""
        until = self._clock() + KEPT_MS
        said = [media.reference, media.media_type, until]
        body = base64.urlsafe_b64encode(json.dumps(said).encode()).decode().rstrip("=")
        return f"{base}{PATH}/{body}.{self._code(body, media.file_name)}/{quote(media.file_name or 'file')}"

    def routes(self) -> tuple[web.RouteDef, ...]:
        """What the HTTP port serves of it."""
        return (web.get(f"{PATH}/{{ticket}}/{{name}}", self.serve),)

    async def serve(self, request: web.Request) -> web.Response:
        """The file. 404 for an address that is not ours, is over, or whose file is gone."""
        name = request.match_info["name"]
        try:
            reference, media_type = self._read(request.match_info["ticket"], name)
            content = await asyncio.to_thread(self._store.get, reference)
        except IndaiError as error:
            said = {"reason": error.reason.name, "message": error.message}
            return web.json_response(said, status=error.reason.status.http, headers=_HEADERS)
        shown = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
        return web.Response(body=content, content_type=media_type, headers=_HEADERS | shown)

    def _read(self, ticket: str, name: str) -> tuple[str, str]:
        body, _, code = ticket.partition(".")
        if not hmac.compare_digest(self._code(body, name).encode(), code.encode("utf-8", "replace")):
            raise _gone()
        try:
            # Ours, so it is what `link` has written.
            reference, media_type, until = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        except (ValueError, binascii.Error):
            raise _gone() from None
        if self._clock() >= until:
            raise _gone()
        return str(reference), str(media_type)

    def _code(self, body: str, name: str) -> str:
        text = f"{body}\n{name or 'file'}".encode("utf-8", "replace")
        code = hmac.new(self._key, _PURPOSE + text, hashlib.sha256).digest()[:_CODE]
        return base64.urlsafe_b64encode(code).decode().rstrip("=")


def _gone() -> NotFound:
    return NotFound(Reason.NOT_FOUND, "There is no such file, or its address is over.")
