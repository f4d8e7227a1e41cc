"""Files that people send: fetched from the provider's own hosts only, of bounded size, judged by their bytes,
kept by their hash in the data directory."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
import ssl
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from indai.edge.accounts import Served
from indai.edge.channels.base import Attachment, Fate, Request, json_or_nothing
from indai.edge.http import Http
from indai.edge.sniffing import HEAD, sniff
from indai.protocol.errors import InvalidInput, NotFound, Reason, Refused, Unavailable
from indai.v1 import conversation_pb2 as pb

MOST_BYTES: Final = 20 * 1024 * 1024
FILES_S: Final = 30 * 86_400.0
"""How long files are kept that came in or went out."""
_PIECE: Final = 64 * 1024
_SCHEME: Final = "media:"

Transcribe = Callable[[bytes, str, str], Awaitable[str]]
"""Bytes, media type, language or nothing: what was said. Raises IndaiError."""


class MediaStore:
    """Files by the SHA-256 of what is in them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, content: bytes) -> str:
        """Keep a file; gives its reference."""
        digest = hashlib.sha256(content).hexdigest()
        path = self._path(digest)
        try:
            os.utime(path)  # what is kept again is kept longer
        except FileNotFoundError:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft = path.with_name(f".{secrets.token_hex(6)}")
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        return _SCHEME + digest

    def get(self, reference: str) -> bytes:
        """What is in a file. Raises NotFound."""
        digest = reference.removeprefix(_SCHEME)
        known = reference.startswith(_SCHEME) and len(digest) == 64 and set(digest) <= set("0123456789abcdef")
        try:
            if known:
                return self._path(digest).read_bytes()
        except FileNotFoundError:
            pass
        raise NotFound(Reason.NOT_FOUND, "There is no such file.")

    def sweep(self, before_s: float) -> int:
        """Erase what was last kept before a moment (seconds since the epoch); gives how many files."""
        count = 0
        for path in self._folder.glob("??/*") if self._folder.is_dir() else ():
            with contextlib.suppress(FileNotFoundError):  # somebody else erases as well
                if path.stat().st_mtime < before_s:
                    path.unlink()
                    count += 1
        return count

    def _path(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest


class Fetcher:
    """Fetches what messages bring."""

    def __init__(self, http: Http, store: MediaStore, *, most_bytes: int = MOST_BYTES) -> None:
        self._http = http
        self._store = store
        self._most = most_bytes

    async def fetch(self, attachment: Attachment, served: Served) -> tuple[pb.Media, bytes]:
        """The file as it is kept, and its bytes. Raises Unavailable when it may come later, InvalidInput or
        Refused when it will never be taken."""
        adapter, account = served.adapter, served.account
        found = {}
        if (first := adapter.locate(attachment, account)) is not None:
            said = await self._http.send(first)
            if not 200 <= said.status < 300:
                raise _failed(adapter.judge(said.status, said.headers, said.body).fate)
            found = json_or_nothing(said.body)
        request = adapter.download(attachment, found, account)
        check_host(request, adapter.hosts, account.setting("api"))
        content = await self._download(request)
        media_type = sniff(content[:HEAD], attachment.media_type)
        if not media_type:
            raise Refused(Reason.UNSUPPORTED, "This kind of file is not taken.")
        reference = await asyncio.to_thread(self._store.put, content)
        media = pb.Media(
            kind=attachment.kind,
            media_type=media_type,
            reference=reference,
            size=len(content),
            file_name=Path(attachment.file_name).name[:200],
        )
        return media, content

    async def _download(self, request: Request) -> bytes:
        pieces = bytearray()
        try:
            async with self._http.open(request) as answer:
                if answer.status != 200:
                    raise _failed(Fate.AGAIN if answer.status >= 429 else Fate.DEAD)
                if (answer.content_length or 0) > self._most:
                    raise _too_large(self._most)
                async for piece in answer.content.iter_chunked(_PIECE):
                    pieces += piece
                    if len(pieces) > self._most:
                        raise _too_large(self._most)
        except TimeoutError:
            raise Unavailable(Reason.DEADLINE_EXCEEDED, "The file did not come in time.") from None
        except (aiohttp.ClientError, OSError, ssl.SSLError, ValueError):
            raise Unavailable(Reason.UNREACHABLE, "The file's host can't be reached.") from None
        return bytes(pieces)


def check_host(request: Request, hosts: Sequence[str], api: str) -> None:
    """Raises Refused for an address that is not the provider's: a message must not make us call others.
    Another address of the API (`api`) stands for all of the provider's."""
    try:
        url, own = urlsplit(request.url), urlsplit(api)
        host, port = (url.hostname or "").lower(), url.port
        named = bool(api) and (url.scheme, host, port) == (own.scheme, own.hostname, own.port)
    except ValueError:
        host, port, named = "", None, False
    listed = any(host == name or (name.startswith(".") and host.endswith(name)) for name in hosts)
    if not (named or (listed and url.scheme == "https" and port in (None, 443))):
        raise Refused(Reason.PERMISSION_DENIED, "The file is not on one of the provider's hosts.")


def _failed(fate: Fate) -> Exception:
    if fate in (Fate.DEAD, Fate.SENT):
        return InvalidInput(Reason.NOT_FOUND, "The provider has no such file.")
    return Unavailable(Reason.UNREACHABLE, "The provider does not give the file now.")


def _too_large(most: int) -> InvalidInput:
    return InvalidInput(Reason.TOO_LARGE, f"A file has at most {most // (1024 * 1024)} MB.")
