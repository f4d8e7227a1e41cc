"""JSON over HTTP to a provider, answered at once or as server-sent events (WHATWG HTML, 9.2).

The session takes no proxy from the environment and follows no redirect: the key goes where the configuration
says, and nowhere else. The chain keeps the time; here is only a limit for connecting.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
from indai.llm.providers.faults import broken, fault_of, unreachable
from indai.llm.values import Event, JsonObject, ProviderFault, TextDelta

CONNECT_S: Final = 5.0
MAX_EVENT_BYTES: Final = 4 * 1024 * 1024
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024


class JsonClient:
    """Requests to one provider; `headers` carry its key."""

    def __init__(self, name: str, address: str, headers: Mapping[str, str]) -> None:
        self.name = name
        self._address = address
        self._headers = {"Content-Type": "application/json", **headers}
        self._session: aiohttp.ClientSession | None = None

    def __repr__(self) -> str:
        return f"JsonClient({self.name}, {self._address})"

    async def close(self) -> None:
        """Let connections go."""
        if self._session is not None:
            await self._session.close()

    async def post(self, path: str, body: JsonObject) -> JsonObject:
        """The whole answer. Raises ProviderFault."""
        async with self._request(path, body) as response:
            try:
                answer = json.loads(await response.content.read(MAX_ANSWER_BYTES))
            except (aiohttp.ClientError, OSError, ValueError, RecursionError):
                raise broken(self.name) from None
        if not isinstance(answer, dict):
            raise broken(self.name)
        return answer

    async def events(self, path: str, body: JsonObject) -> AsyncGenerator[list[str], None]:
        """The `data` of the events, as many as have come at once. Raises ProviderFault."""
        async with self._request(path, body) as response:
            decoder = EventDecoder(self.name)
            try:
                async for piece in response.content.iter_any():
                    if events := decoder.feed(piece):
                        yield events
            except (aiohttp.ClientError, OSError):
                raise broken(self.name) from None
            if events := decoder.feed(b"\n\n"):
                yield events

    @asynccontextmanager
    async def _request(self, path: str, body: JsonObject) -> AsyncIterator[aiohttp.ClientResponse]:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
                headers=self._headers,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        raw = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        try:
            response = await self._session.post(f"{self._address}{path}", data=raw, allow_redirects=False)
        except (aiohttp.ClientError, OSError):
            raise unreachable(self.name) from None
        try:
            if response.status != 200:
                raise fault_of(self.name, response.status, response.headers)
            yield response
        finally:
            # Not released into the pool: what may still come belongs to a request that is over.
            if not response.content.at_eof():
                response.close()
            response.release()


class EventDecoder:
    """Server-sent events out of bytes that come in pieces; lines end in LF or CRLF."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._rest = b""
        self._total = 0
        self._data: list[str] = []

    def feed(self, piece: bytes) -> list[str]:
        """The `data` of each event that is whole now. Raises ProviderFault for too much."""
        self._total += len(piece)
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > MAX_EVENT_BYTES or self._total > MAX_ANSWER_BYTES:
            raise broken(self._name)
        events = []
        for line in lines:
            text = line.removesuffix(b"\r").decode("utf-8", "replace")
            if text.startswith("data:"):
                self._data.append(text[5:].removeprefix(" "))
            elif not text and self._data:
                events.append("\n".join(self._data))
                self._data.clear()
        return events


def parsed(text: str, name: str) -> JsonObject:
    """An event's JSON object. Raises ProviderFault(BROKEN)."""
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise broken(name) from None
    if not isinstance(value, dict):
        raise broken(name)
    return value


def joined(events: Iterable[Event]) -> Iterator[Event]:
    """Texts that follow each other as one: what came at once is passed on at once, also before a fault."""
    text = ""
    try:
        for event in events:
            if isinstance(event, TextDelta):
                text += event.text
                continue
            if text:
                yield TextDelta(text)
                text = ""
            yield event
    except ProviderFault:
        if text:
            yield TextDelta(text)
        raise
    if text:
        yield TextDelta(text)
