"""Requests to providers: one session, a deadline for each, no redirects, answers of bounded size."""

from __future__ import annotations

import io
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import aiohttp
from indai.edge.channels.base import Request
from indai.protocol.errors import Reason, Unavailable

TIMEOUT_S: Final = 20.0
MOST_ANSWER: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Said:
    """A provider's answer; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: str


class Http:
    """A session; an async context manager."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=self._timeout, cookie_jar=aiohttp.DummyCookieJar())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def send(self, request: Request) -> Said:
        """Raises Unavailable (UNREACHABLE, DEADLINE_EXCEEDED); what it says names no address: some hold a
        token."""
        try:
            async with self.open(request) as answer:
                body = await answer.content.read(MOST_ANSWER)
                while len(body) < MOST_ANSWER and (
                    more := await answer.content.read(MOST_ANSWER - len(body))
                ):
                    body += more
                headers = {name.lower(): value for name, value in answer.headers.items()}
                return Said(answer.status, headers, body.decode("utf-8", "replace"))
        except TimeoutError:
            raise Unavailable(Reason.DEADLINE_EXCEEDED, "The provider did not answer in time.") from None
        except (aiohttp.ClientError, OSError, ssl.SSLError, ValueError) as error:
            kind = type(error).__name__
            raise Unavailable(Reason.UNREACHABLE, f"The provider can't be reached ({kind}).") from None

    def open(self, request: Request) -> aiohttp.client._RequestContextManager:
        """A request whose answer is read piece by piece."""
        assert self._session is not None  # noqa: S101 - it is open
        return self._session.request(
            request.method,
            request.url,
            headers=dict(request.headers),
            json=request.json,
            data=_data(request),
            allow_redirects=False,
        )


def _data(request: Request) -> aiohttp.FormData | dict[str, str] | io.BytesIO | None:
    """What is sent besides JSON: a form, with a file in it or without, or bytes."""
    if request.body is not None:
        return io.BytesIO(request.body)
    if request.file is None:
        return None if request.form is None else dict(request.form)
    parts = aiohttp.FormData(dict(request.form or {}))
    name, file = request.file
    parts.add_field(name, io.BytesIO(file.content), content_type=file.media_type, filename=file.name)
    return parts
