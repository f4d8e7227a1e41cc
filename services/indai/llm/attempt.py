"""One call to a provider while it runs, and what it came to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

from indai.llm.routing import Candidate
from indai.llm.values import Event, Fault, Finish, ModelRequest, Provider, ProviderFault, Usage


def monotonic_ms() -> float:
    """For durations."""
    return time.monotonic() * 1000


@dataclass(slots=True)
class Attempt:
    """One call, as it went. Times are of the monotonic clock, in ms; `usage` is what the provider counted,
    None if it said nothing; `error` is empty when it went well; `released` counts characters of text."""

    candidate: Candidate
    started_ms: float
    first_ms: float = 0
    ended_ms: float = 0
    usage: Usage | None = None
    finish: Finish | None = None
    fault: Fault | None = None
    error: str = ""
    released: int = 0

    def end(self, finish: Finish | None, error: str = "") -> None:
        """It is over."""
        self.ended_ms, self.finish, self.error = monotonic_ms(), finish, error

    def fail(self, fault: ProviderFault) -> None:
        """It is over, without an answer."""
        self.fault = fault.fault
        self.end(None, fault.message)


class Line:
    """A stream of events from one provider."""

    def __init__(
        self, provider: Callable[[str], Awaitable[Provider]], candidate: Candidate, request: ModelRequest
    ) -> None:
        self._provider = provider
        self._request = request
        self._stream: AsyncGenerator[Event, None] | None = None
        self.attempt = Attempt(candidate, monotonic_ms())
        self._first: asyncio.Task[Event] | None = None

    def call(self) -> asyncio.Task[Event]:
        """Send the request; the task ends with the first event, or with ProviderFault."""
        self._first = asyncio.ensure_future(self._open())
        return self._first

    async def _open(self) -> Event:
        provider = await self._provider(self.attempt.candidate.provider)
        self._stream = provider.stream(self._request)
        first = await self.next()
        self.attempt.first_ms = monotonic_ms()
        return first

    async def next(self) -> Event:
        """The following event. Raises ProviderFault, also when the stream ends without its end."""
        if self._stream is None or (event := await anext(self._stream, None)) is None:
            raise ProviderFault(
                Fault.BROKEN, f"{self.attempt.candidate.provider} ended its answer in the middle."
            )
        return event

    async def close(self) -> None:
        """Abort what runs, upstream too."""
        if self._first is not None and not self._first.done():
            self._first.cancel()
            await asyncio.wait([self._first])
        if self._stream is not None:
            await self._stream.aclose()
