"""How fast callers may submit and handles may change: a token bucket, and a look at the history itself."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from indai.protocol.errors import Reason, Unavailable
from indai.protocol.operations import RECOVER, TOMBSTONE, TRANSFER, Chain, Type

MAX_CALLERS = 50_000
HANDLE_OPERATIONS = 60  # of one handle in an hour
HOUR_MS = 3_600_000
# What an owner needs most when a thief is busy is never made to wait.
_UNLIMITED = (RECOVER, TOMBSTONE, TRANSFER)


@dataclass(frozen=True, slots=True)
class Rate:
    """`burst` at once, and one more every `every_ms`."""

    burst: int
    every_ms: int


class TokenBuckets:
    """One bucket for each key; the keys seen longest ago are forgotten, and with them what they used up."""

    def __init__(self, rate: Rate, clock: Callable[[], int], *, max_keys: int = MAX_CALLERS) -> None:
        self._rate = rate
        self._clock = clock
        self._max_keys = max_keys
        # Per key: the time at which its bucket is full again. That one number is the whole bucket.
        self._full_at: OrderedDict[str, int] = OrderedDict()

    def take(self, key: str) -> None:
        """Take one; raises Unavailable(RATE_LIMITED) with the time after which there is one."""
        now, rate = self._clock(), self._rate
        full_at = max(self._full_at.pop(key, now), now) + rate.every_ms
        wait = full_at - now - rate.burst * rate.every_ms
        self._full_at[key] = full_at if wait <= 0 else full_at - rate.every_ms
        while len(self._full_at) > self._max_keys:
            self._full_at.popitem(last=False)
        if wait > 0:
            raise limited("There are too many requests from this caller.", wait)


def check_pace(chain: Chain, operation_type: Type, time_ms: int) -> None:
    """Raises Unavailable(RATE_LIMITED) for a handle that changes too often; only what was logged counts."""
    if operation_type in _UNLIMITED or len(chain.history) < HANDLE_OPERATIONS:
        return
    wait = chain.history[-HANDLE_OPERATIONS].time_ms + HOUR_MS - time_ms
    if wait > 0:
        raise limited(f"{chain.handle} has changed {HANDLE_OPERATIONS} times within an hour.", wait)


def limited(message: str, wait_ms: int) -> Unavailable:
    """The error of a limit, with when to come again."""
    return Unavailable(
        Reason.RATE_LIMITED,
        message,
        hint=f"try again in {-(-wait_ms // 1000)} s",
        metadata={"retry_after_ms": str(wait_ms)},
    )
