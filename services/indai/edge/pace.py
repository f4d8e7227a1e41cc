"""How fast: buckets of tokens, for what a provider takes and for what one sender may bring. Pure: time is
passed in, in seconds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

MOST_KEYS: Final = 50_000


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at_s: float


class Pace:
    """A bucket for each key: `burst` at once, then `per_second`."""

    def __init__(self, per_second: float, burst: float) -> None:
        self._rate = per_second
        self._burst = max(burst, 1.0)
        self._buckets: OrderedDict[Hashable, _Bucket] = OrderedDict()

    def wait_s(self, key: Hashable, now_s: float) -> float:
        """Seconds until one more is allowed; 0 when it is."""
        return max(0.0, (1.0 - self._filled(key, now_s).tokens) / self._rate)

    def take(self, key: Hashable, now_s: float) -> bool:
        """Take one, if one is allowed."""
        bucket = self._filled(key, now_s)
        if bucket.tokens < 1.0 - 1e-9:
            return False
        bucket.tokens -= 1.0
        return True

    def give_back(self, key: Hashable, now_s: float) -> None:
        """One that was taken was not used."""
        bucket = self._filled(key, now_s)
        bucket.tokens = min(self._burst, bucket.tokens + 1.0)

    def full(self, key: Hashable, now_s: float) -> bool:
        """Whether the key has all of its burst again."""
        return self._filled(key, now_s).tokens >= self._burst

    def _filled(self, key: Hashable, now_s: float) -> _Bucket:
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(self._burst, now_s)
            if len(self._buckets) > MOST_KEYS:
                # The one that was used longest ago is the fullest.
                self._buckets.popitem(last=False)
        else:
            passed = max(0.0, now_s - bucket.at_s)
            bucket.tokens = min(self._burst, bucket.tokens + passed * self._rate)
            self._buckets.move_to_end(key)
        bucket.at_s = max(bucket.at_s, now_s)
        return bucket
