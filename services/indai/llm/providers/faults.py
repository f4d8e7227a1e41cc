"""What a provider's failure means, by HTTP status and headers.

A provider's own words never get into a fault: they may quote the prompt, or the key that was sent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from indai.llm.values import Fault, ProviderFault

MAX_RETRY_AFTER_MS: Final = 3_600_000
_KINDS: Final = {
    401: Fault.AUTH,
    402: Fault.AUTH,  # no credit left with the provider: as for a refused key, only the owner can help
    403: Fault.AUTH,
    404: Fault.NOT_FOUND,
    408: Fault.TIMEOUT,
    429: Fault.RATE_LIMITED,
}
_WORDS: Final = {
    Fault.AUTH: "refused the key",
    Fault.NOT_FOUND: "does not know the model or the address",
    Fault.RATE_LIMITED: "has had too many requests",
    Fault.REJECTED: "rejected the request",
    Fault.SERVER: "failed",
    Fault.TIMEOUT: "took too long",
}


def fault_of(name: str, status: int, headers: Mapping[str, str]) -> ProviderFault:
    """The fault for an answer with this status."""
    fault = _KINDS.get(status) or (Fault.SERVER if status >= 500 else Fault.REJECTED)
    return named(name, fault, f" ({status})", retry_after_ms(headers))


def named(name: str, fault: Fault, detail: str = "", retry_after_ms: int | None = None) -> ProviderFault:
    """A fault in words."""
    return ProviderFault(fault, f"{name} {_WORDS[fault]}{detail}.", retry_after_ms=retry_after_ms)


def broken(name: str) -> ProviderFault:
    """The stream ended in the middle, or what came makes no sense."""
    return ProviderFault(Fault.BROKEN, f"{name} sent a broken answer.")


def unreachable(name: str) -> ProviderFault:
    """No connection."""
    return ProviderFault(Fault.UNREACHABLE, f"{name} can't be reached.")


def retry_after_ms(headers: Mapping[str, str]) -> int | None:
    """`Retry-After` (RFC 9110, 10.2.3) in seconds or as a date, which counts from the answer's own `Date`."""
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = _until(text, headers.get("date", ""))
    if not math.isfinite(seconds):
        return None
    return min(MAX_RETRY_AFTER_MS, max(0, math.ceil(seconds * 1000)))


def _until(text: str, date: str) -> float:
    try:
        then = parsedate_to_datetime(text)
        now = parsedate_to_datetime(date) if date else datetime.now(UTC)
        return (then - now).total_seconds()
    except (ValueError, TypeError):
        return math.nan
