"""JSON over HTTP to a provider, answered at once or as server-sent events (WHATWG HTML, 9.2).

The session takes no proxy from the environment and follows no redirect: the key goes where the configuration
says, and nowhere else. The chain keeps the time; here is only a limit for connecting.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
from indai.llm.providers.faults import broken, fault_of, unreachable
from indai.llm.values import JsonObject

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

    async def events(self, path: str, body: JsonObject) -> AsyncGenerator[str, None]:
        """The `data` of each event. Raises ProviderFault."""
        async with self._request(path, body) as response:
            data: list[str] = []
            try:
                async for line in _lines(response.content, self.name):
                    if line.startswith("data:"):
                        data.append(line[5:].removeprefix(" "))
                    elif not line and data:
                        yield "\n".join(data)
                        data.clear()
            except (aiohttp.ClientError, OSError):
                raise broken(self.name) from None
            if data:
                yield "\n".join(data)

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


async def _lines(stream: aiohttp.StreamReader, name: str) -> AsyncIterator[str]:
    """Lines without their ends, which are LF, CRLF or CR."""
    rest, total = b"", 0
    async for piece in stream.iter_any():
        total += len(piece)
        rest += piece
        if len(rest) > MAX_EVENT_BYTES or total > MAX_ANSWER_BYTES:
            raise broken(name)
        *lines, rest = rest.replace(b"\r\n", b"\n").split(b"\n")
        for line in lines:
            yield line.rstrip(b"\r").decode("utf-8", "replace")
    if rest:
        yield rest.decode("utf-8", "replace")


def parsed(text: str, name: str) -> JsonObject:
    """An event's JSON object. Raises ProviderFault(BROKEN)."""
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise broken(name) from None
    if not isinstance(value, dict):
        raise broken(name)
    return value
