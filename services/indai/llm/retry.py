"""What follows a failed attempt. Pure.

    fault                           first time                         second time
    no first token, 5xx, broken     the same model after a pause (1)   next model
    429                             the same model, after what the     next provider
                                    provider says if that is soon (2)
    401, 403                        next provider; the owner is told   -
    any other 4xx                   next model                         -

(1) 300 to 800 ms by default; after a time-out with half the output tokens.
(2) A longer `retry-after` closes the provider until then (`indai.llm.breaker`), and the next one is tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from indai.llm.config import Limits
from indai.llm.values import Fault, ProviderFault

LEAST_OUTPUT_TOKENS = 64


class Next(Enum):
    """Where to go on."""

    SAME = "the same model again"
    MODEL = "the next model"
    PROVIDER = "the next provider"


@dataclass(frozen=True, slots=True)
class Step:
    """Where to go on, and after how long."""

    next: Next
    pause_ms: int = 0
    fewer_tokens: bool = False


_FAULTS_OF_THE_REQUEST = (Fault.REJECTED, Fault.NOT_FOUND)


def after(fault: ProviderFault, attempt: int, limits: Limits, chance: float) -> Step:
    """The step after the `attempt`th failure (from 1) of one model; `chance` is in [0, 1)."""
    if fault.fault is Fault.AUTH:
        return Step(Next.PROVIDER)
    if fault.fault in _FAULTS_OF_THE_REQUEST:
        return Step(Next.MODEL)
    if attempt > 1:
        return Step(Next.PROVIDER if fault.fault is Fault.RATE_LIMITED else Next.MODEL)
    if fault.retry_after_ms is not None and fault.retry_after_ms > limits.max_retry_after_ms:
        return Step(Next.PROVIDER)
    low, high = limits.jitter_ms
    pause = low + round((high - low) * chance)
    return Step(Next.SAME, max(pause, fault.retry_after_ms or 0), fault.fault is Fault.TIMEOUT)


def blames_provider(fault: ProviderFault) -> bool:
    """True when the provider is at fault, not what it was asked: its breaker counts it."""
    return fault.fault not in _FAULTS_OF_THE_REQUEST


def fewer(tokens: int) -> int:
    """Output tokens for the attempt after a time-out."""
    return max(min(tokens, LEAST_OUTPUT_TOKENS), tokens // 2)
