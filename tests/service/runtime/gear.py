"""Providers and tools for tests of turns: a local server that speaks a provider's wire, and tools that do as
told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from indai.protocol.errors import IndaiError, Reason
from indai.tools.files import FILES
from indai.tools.values import Caller, Effect, Progress, Spec, Touch

from tests.service.llm.upstream import Upstream

QUICK = "{first_token_ms: 30000, stall_ms: 30000, jitter_ms: [0, 0], hedge_ms: 20, max_retry_after_ms: 50}"


def one_provider(upstream: Upstream, limits: str = QUICK) -> str:
    """A gateway's configuration with this server alone. Prices: a rupee for a million tokens."""
    return f"""
version: 1
currency: INR
residence: IN
providers:
  up: {{kind: openai, base_url: "{upstream.address}/v1", country: IN, key: "vault:up"}}
models:
  m: {{provider: up, model: m, input: 1.00, output: 1.00}}
routes:
  default: [m]
limits: {limits}
"""


@dataclass
class Told:
    """A tool that keeps what it was asked. `fails`: how often it fails first; `answer` is its result;
    `files`: it may hand over files."""

    name: str = "search-kb"
    effect: Effect = Effect.READ
    touches: frozenset[Touch] = frozenset()
    doors: frozenset[str] = frozenset({"private", "public", "distribution"})
    answer: dict[str, Any] = field(default_factory=lambda: {"summary": "Nothing."})
    fails: int = 0
    required: tuple[str, ...] = ()
    files: bool = False
    asked: list[dict[str, Any]] = field(default_factory=list)

    @property
    def spec(self) -> Spec:
        return Spec(
            self.name,
            "Looks something up.",
            {
                "type": "object",
                "properties": {"query": {"type": "string"}, "with": {"type": "string"}},
                "additionalProperties": False,
                "required": list(self.required),
            },
            {
                "type": "object",
                "properties": {
                    "summary": {"type": "string", "x-label": "Found", "x-importance": 3},
                    "thread_id": {"type": "string", "x-importance": 1},
                    "files": FILES,
                },
            },
            self.effect,
            self.touches,
            self.doors,
            files=self.files,
        )

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        self.asked.append(dict(arguments))
        if len(self.asked) <= self.fails:
            raise IndaiError(Reason.UNREACHABLE, "The shelf is empty.")
        return self.answer
