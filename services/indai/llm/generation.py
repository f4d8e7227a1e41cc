"""What one generation gathers while it runs, and the rows that it leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from indai.llm.attempt import Attempt, monotonic_ms
from indai.llm.chain import Chain, Ended
from indai.llm.pii import Scrubber
from indai.llm.pricing import estimate_tokens
from indai.llm.records import CallRow
from indai.llm.routing import Choice
from indai.llm.values import Finish, Tool, Usage
from indai.llm.wire import Asked


@dataclass(slots=True)
class Generation:
    """What one generation gathers. `began_ms` is of the monotonic clock, `wall_ms` of the epoch's."""

    asked: Asked
    id: bytes
    began_ms: float
    wall_ms: int
    choice: Choice
    scrubber: Scrubber
    chain: Chain | None = None
    past: list[Attempt] = field(default_factory=list)  # the classifier's
    problems: list[str] = field(default_factory=list)
    size: int = 0  # tokens of the prompt, estimated
    settled: bool = False
    stopped: bool = False

    @property
    def attempts(self) -> list[Attempt]:
        """All calls to providers, the classifier's first."""
        return [*self.past, *(self.chain.attempts if self.chain else ())]

    def rows(self, ended: Ended | None, currency: str, new_id: Callable[[], bytes]) -> list[CallRow]:
        """A row for each attempt; a degraded answer has one of its own, and nothing of it costs."""
        free = ended is not None and ended.finish is Finish.DEGRADED
        rows = [
            self._row(new_id(), number, attempt, currency, free=free)
            for number, attempt in enumerate(self.attempts, start=1)
        ]
        if free:
            rows.append(self._degraded_row(new_id(), len(rows) + 1, currency))
        return rows

    def _row(self, identifier: bytes, number: int, attempt: Attempt, currency: str, *, free: bool) -> CallRow:
        candidate = attempt.candidate
        usage = _usage(self.asked, attempt)
        latency = round((attempt.ended_ms or monotonic_ms()) - attempt.started_ms)
        ttft = round(attempt.first_ms - attempt.started_ms) if attempt.first_ms else 0
        return CallRow(
            id=identifier,
            generation=self.id,
            attempt=number,
            scope=self.asked.scope,
            model_class=self.choice.model_class,
            provider=candidate.provider,
            model=candidate.name,
            why=candidate.why,
            started_ms=self.wall_ms + round(attempt.started_ms - self.began_ms),
            usage=usage,
            cost_micros=0 if free else candidate.price.cost(usage),
            currency=currency,
            latency_ms=latency,
            ttft_ms=ttft,
            finish=attempt.finish,
            error=attempt.error,
            tokens_by_tier=self.asked.tokens_by_tier,
            stage_ms={**self.asked.stage_ms, "llm_ttft": ttft, "llm_total": latency},
        )

    def _degraded_row(self, identifier: bytes, number: int, currency: str) -> CallRow:
        return CallRow(
            id=identifier,
            generation=self.id,
            attempt=number,
            scope=self.asked.scope,
            model_class=self.choice.model_class,
            provider="",
            model="",
            why=f"{self.choice.why}; no model answered",
            started_ms=self.wall_ms,
            usage=Usage(),
            cost_micros=0,
            currency=currency,
            latency_ms=round(monotonic_ms() - self.began_ms),
            ttft_ms=0,
            finish=Finish.DEGRADED,
            error="",
            tokens_by_tier=self.asked.tokens_by_tier,
            stage_ms=self.asked.stage_ms,
        )


def _usage(asked: Asked, attempt: Attempt) -> Usage:
    """What the provider counted. Where a stream did not come to its end that may be the beginning only: then
    the text that was released counts as well, and without any count the prompt by its estimate."""
    if attempt.finish not in (Finish.INTERRUPTED, Finish.STOPPED) or not attempt.released:
        return attempt.usage or Usage()
    counted = attempt.usage or Usage(estimated_size(asked))
    return replace(counted, output_tokens=max(counted.output_tokens, attempt.released // 3 + 1))


def estimated_size(asked: Asked) -> int:
    """Tokens of the prompt, estimated."""
    parts = [asked.static, asked.dynamic]
    for each in asked.messages:
        parts.append(each.text)
        parts += [call.arguments_json for call in each.tool_calls]
        parts += [result.content for result in each.tool_results]
    tools = sum(_tool_size(tool) for tool in asked.tools)
    return sum(map(estimate_tokens, parts)) + tools


def _tool_size(tool: Tool) -> int:
    return estimate_tokens(tool.description) + estimate_tokens(str(tool.schema))
