"""HTTP to a service that the operator named: bounded, never redirected, and its faults in our words.

A service is the operator's word, its answers are a stranger's: an answer is read up to a limit, an address
that turns out private is not connected to (unless this node is itself on loopback), a redirect is refused,
and no error text of the service is repeated, since it may quote what was sent.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from indai.client.addresses import is_public, parse_address, resolve
from indai.protocol.errors import IndaiError, Reason, Refused, Unavailable
from yarl import URL

TIMEOUT_S = 10.0
MAX_ANSWER = 1024 * 1024


class Vault(Protocol):
    """Secrets by reference (`indai.node.secrets`), off the event loop."""

    async def get(self, reference: str) -> str:
        """The value behind `vault:NAME`. Raises NotFound."""

    async def set(self, name: str, value: str) -> str:
        """Seal it under a name; the reference."""

    async def remove(self, reference: str) -> None:
        """Forget it, if it is there."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: status, body, headers by name in lower case."""

    status: int
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)

    def json(self) -> dict[str, Any]:
        """The body as a JSON object; empty for anything else."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


def open_session(*, private: bool) -> aiohttp.ClientSession:
    """The session of all services. `private` lets them be on this machine or network."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(resolver=_Screened(private), limit_per_host=8),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": "ind.ai-node"},
    )


class Remote:
    """One service under one base address; `name` is what errors call it."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        name: str,
        base: str,
        *,
        private: bool = False,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.name, self.base = name, base.rstrip("/")
        self._session, self._private, self._timeout_s = session, private, timeout_s

    async def call(self, method: str, path: str, *, max_bytes: int = MAX_ANSWER, **request: Any) -> Answer:
        """An answer of status 200 to 499 but 429. `request` as aiohttp takes it. Raises Unavailable for what
        may pass, Refused(INSECURE) for a redirect or a private address."""
        url = URL(self.base + path, encoded=True)
        # A resolver is not asked about an address that is written out.
        if url.host is None or (_is_ip(url.host) and not self._private and not is_public(url.host)):
            raise Refused(Reason.INSECURE, f"{self.name} is not at a public address.")
        timeout = aiohttp.ClientTimeout(total=self._timeout_s)
        try:
            async with self._session.request(
                method, url, allow_redirects=False, timeout=timeout, **request
            ) as answer:
                body = await _read(answer, max_bytes)
                headers = {name.lower(): value for name, value in answer.headers.items()}
        except TimeoutError:
            raise Unavailable(
                Reason.DEADLINE_EXCEEDED, f"{self.name} took too long.", hint="try again in a minute"
            ) from None
        except (aiohttp.ClientError, OSError, ssl.SSLError, ValueError) as error:
            raise Unavailable(
                Reason.UNREACHABLE, f"{self.name} can't be reached: {type(error).__name__}."
            ) from None
        return self._judged(Answer(answer.status, body, headers))

    def _judged(self, answer: Answer) -> Answer:
        if 300 <= answer.status < 400:
            raise Refused(Reason.INSECURE, f"{self.name} redirects elsewhere, which is not followed.")
        if answer.status == 429:
            wait = answer.headers.get("retry-after", "")
            hint = f"try again in {wait} seconds" if wait.isdigit() and len(wait) < 6 else "try again later"
            raise Unavailable(Reason.RATE_LIMITED, f"{self.name} is asked too often.", hint=hint)
        if answer.status >= 500:
            raise Unavailable(Reason.PROVIDER_FAILED, f"{self.name} answers with status {answer.status}.")
        return answer

    def broken(self, why: str) -> Unavailable:
        """An answer that is not of the documented form."""
        return Unavailable(Reason.PROVIDER_FAILED, f"{self.name} can't be understood: {why}.")

    def refused(self, status: int) -> Refused:
        """A request that the service does not take, and for which there is no better word."""
        return Refused(Reason.PROVIDER_REFUSED, f"{self.name} refuses this with status {status}.")


async def _read(answer: aiohttp.ClientResponse, most: int) -> bytes:
    pieces, size = [], 0
    async for piece in answer.content.iter_chunked(64 * 1024):
        size += len(piece)
        if size > most:
            raise ValueError("an answer too large")
        pieces.append(piece)
    return b"".join(pieces)


def _is_ip(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdigit()


class _Screened(AbstractResolver):
    """Resolves a host at each connection, and leaves out what is not public."""

    def __init__(self, private: bool) -> None:
        self._private = private

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> list[ResolveResult]:
        try:
            found = await resolve(parse_address(f"{host}:{port}"), public_only=not self._private)
        except IndaiError as error:
            raise OSError(error.message) from None
        return [
            ResolveResult(hostname=host, host=at.host, port=port, family=0, proto=0, flags=0) for at in found
        ]

    async def close(self) -> None:
        """Nothing is held open."""
