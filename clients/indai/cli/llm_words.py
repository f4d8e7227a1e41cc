"""Money, tokens and ends of answers as people read them, and as `--json` has them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from indai.v1 import llm_pb2 as pb

_MILLION = 1_000_000
FINISHES = {
    pb.FINISH_UNSPECIFIED: "failed",
    pb.FINISH_STOP: "done",
    pb.FINISH_TOOL_CALLS: "tool calls",
    pb.FINISH_LENGTH: "cut at the limit",
    pb.FINISH_FILTERED: "withheld",
    pb.FINISH_INTERRUPTED: "interrupted",
    pb.FINISH_STOPPED: "stopped",
    pb.FINISH_DEGRADED: "degraded",
}


def money(micros: int, currency: str) -> str:
    """Like `0.0012 USD`; what costs nothing is `free`."""
    if not micros:
        return "free"
    amount = Decimal(micros) / _MILLION
    text = f"{amount:f}".rstrip("0").rstrip(".") if amount < 1 else f"{amount:.2f}"
    return f"{text} {currency}"


def price(micros: int) -> str:
    """For a million tokens, in the currency's unit."""
    return f"{(Decimal(micros) / _MILLION).normalize():f}"


def usage_json(usage: pb.TokenUsage) -> dict[str, int]:
    """Tokens."""
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_hit_tokens": usage.cache_hit_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
    }


def scope_json(scope: pb.LlmScope) -> dict[str, Any]:
    """Whose."""
    return {
        "tenant": scope.tenant,
        "binding": scope.binding,
        "owner": scope.owner,
        "session": scope.session,
    }
