"""Running the same thing over and over at one level of concurrency, and what is said of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Load:
    """One level of concurrency: ms for each exchange, sorted; seconds for all of them; ms of CPU by process
    for one.
    """

    concurrency: int
    latencies_ms: list[float]
    seconds: float
    cpu_ms: dict[str, float] = field(default_factory=dict)
    elsewhere: float = 0.0  # share of the machine's processors that programs outside the measurement took

    @property
    def per_second(self) -> float:
        """Exchanges a second."""
        return len(self.latencies_ms) / self.seconds

    def quantile(self, share: float) -> float:
        """Milliseconds within which this share of the exchanges was done."""
        return quantile(self.latencies_ms, share)

    def figures(self) -> dict[str, Any]:
        """As in the report."""
        return {
            "concurrency": self.concurrency,
            "exchanges": len(self.latencies_ms),
            "per_second": round(self.per_second, 1),
            "p50_ms": round(self.quantile(0.5), 2),
            "p99_ms": round(self.quantile(0.99), 2),
            "cpu_ms": {name: round(ms, 2) for name, ms in self.cpu_ms.items()},
            "elsewhere": round(self.elsewhere, 2),
        }


def quantile(ordered: list[float], share: float) -> float:
    """Of sorted values, by the nearest rank."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def run(exchange: Callable[[], Awaitable[None]], concurrency: int, count: int) -> Load:
    """`exchange` that many times, `concurrency` at once, each beginning when one ends."""
    left = iter(range(count))
    latencies: list[float] = []

    async def work() -> None:
        for _ in left:
            began = time.perf_counter()
            await exchange()
            latencies.append((time.perf_counter() - began) * 1000)

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(concurrency)))
    return Load(concurrency, sorted(latencies), time.perf_counter() - began)
