"""The rows: whose call it was, what one attempt at a provider came to, and what an owner is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from indai.llm.values import Finish, ModelClass, Usage


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose call it is. `tenant` and `binding` are slugs, `owner` a handle; see LlmScope in the contract."""

    tenant: str
    binding: str = ""
    owner: str = ""
    session: str = ""


@dataclass(frozen=True, slots=True)
class CallRow:
    """One attempt at a provider, as stored. `finish` is None when it failed."""

    id: bytes
    generation: bytes
    attempt: int
    scope: Scope
    model_class: ModelClass
    provider: str
    model: str
    why: str
    started_ms: int
    usage: Usage
    cost_micros: int
    currency: str
    latency_ms: int
    ttft_ms: int
    finish: Finish | None
    error: str
    tokens_by_tier: Mapping[str, int] = field(default_factory=dict)
    stage_ms: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DayCost:
    """One day of one binding."""

    tenant: str
    binding: str
    day: str
    calls: int
    failed: int
    usage: Usage
    cost_micros: int
    currency: str


@dataclass(frozen=True, slots=True)
class SpendingLimit:
    """A limit with what is spent and held in the running period. `key`: tenant, binding, owner; `period`:
    day, month, credit."""

    tenant: str
    key: str
    subject: str
    period: str
    limit_micros: int
    spent_micros: int = 0
    reserved_micros: int = 0


@dataclass(frozen=True, slots=True)
class Notice:
    """Something an owner should know."""

    kind: str
    subject: str
    message: str
    first_ms: int = 0
    last_ms: int = 0
    times: int = 1
