"""One generation from request to rows: class, models, money, the chain, personal data, the end.

    choose the class -> candidates -> reserve the most it can cost -> chain -> store rows and settle -> done

Rows and money are stored before the last event is given out, since who has the end may leave. When storing
fails then, it is tried again in the background. A caller who leaves in the middle aborts the provider's
stream; what was used until then is stored all the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import asyncpg
import structlog
from indai.llm.asking import asking, model_request, searched
from indai.llm.attempt import monotonic_ms
from indai.llm.breaker import Breaker
from indai.llm.chain import Chain, Ended, Setting, Started
from indai.llm.config import Config
from indai.llm.generation import Generation, estimated_size
from indai.llm.local.provider import MakeEmbedder
from indai.llm.pii import Restorer, Scrubber
from indai.llm.providers.registry import Providers, Secret
from indai.llm.records import CallRow, Notice, Scope
from indai.llm.routing import LABELS, Candidate, Choice, candidates, choose_class, classified
from indai.llm.store import Store
from indai.llm.toolcheck import checked
from indai.llm.values import (
    Fault,
    Finish,
    Message,
    ModelClass,
    ModelRequest,
    Role,
    TextDelta,
    ToolCall,
    Usage,
)
from indai.llm.wire import Asked
from indai.protocol.errors import IndaiError, NotFound, Reason, Refused
from indai.protocol.header import RANDOM_BYTES, new_id

DEGRADED: Final = "I can't answer right now. Please try again in a little while."
CLASSIFIER_MS: Final = 2_000
RESERVED_FOR_MS: Final = 120_000  # beyond the deadline
STORE_TRIES: Final = 6
_CLASSIFY: Final = (
    "Decide whether the person's last message needs a capable assistant (several steps, tools, judgement, a "
    "complaint) or not. Answer with one word: simple or complex."
)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Accepted:
    """Checked, and paid for as far as can be known."""

    generation: bytes


@dataclass(frozen=True, slots=True)
class Done:
    """The end, stored."""

    finish: Finish
    usage: Usage
    cost_micros: int
    currency: str
    problems: tuple[str, ...]
    ttft_ms: int
    total_ms: int
    attempts: int
    answered_by: Candidate | None


Told = Accepted | Started | TextDelta | ToolCall | Done


class Gateway:
    """All generations of this process. `clock`: ms since the epoch."""

    def __init__(
        self,
        config: Config,
        store: Store,
        secret: Secret,
        clock: Callable[[], int],
        embedder: MakeEmbedder | None = None,
    ) -> None:
        self.config = config
        self.providers = Providers(config, secret, embedder)
        self.breakers = {name: Breaker(lambda: int(monotonic_ms())) for name in config.providers}
        self._store = store
        self._clock = clock
        self._setting = Setting(self.providers.get, self.breakers, config.limits, random.random)
        self._running: dict[bytes, Generation] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Store what is not stored yet, and let connections go."""
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self.providers.close()

    def stop(self, scope: Scope, generation: bytes) -> bool:
        """End a running generation; False when none of that id runs here for that tenant and owner."""
        found = self._running.get(generation)
        if found is None or (found.asked.scope.tenant, found.asked.scope.owner) != (
            scope.tenant,
            scope.owner,
        ):
            return False
        found.stopped = True  # also while the class is being found, or between two chains
        if found.chain is not None:
            found.chain.stop()
        return True

    async def generate(self, asked: Asked) -> AsyncGenerator[Told, None]:
        """Yields `Accepted`, `Started`, texts and tool calls, and `Done`. Raises before `Accepted` only."""
        if asked.model and asked.model not in self.config.models:
            raise NotFound(
                Reason.NOT_FOUND, f"There is no model {asked.model}.", hint="see: indai llm models"
            )
        one = self._begin(asked)
        self._running[one.id] = one
        try:
            tried = await self._prepare(one)
            yield Accepted(one.id)
            async with contextlib.aclosing(self._answer(one, tried)) as told:
                async for each in told:
                    yield each
        finally:
            self._running.pop(one.id, None)
            if not one.settled:
                one.settled = True
                self.settle_later(one.id, asked.scope, one.rows(None, self.config.currency, self._id))

    def _begin(self, asked: Asked) -> Generation:
        asked = replace(asked, deadline_ms=asked.deadline_ms or self.config.limits.deadline_ms)
        now = self._clock()
        identifier = asked.generation or new_id(now, os.urandom(RANDOM_BYTES))
        if identifier in self._running:
            raise Refused(Reason.ALREADY_EXISTS, "A generation of that id is running.")
        choice = choose_class(asked.model_class, asked.strategy, asked.messages, has_tools=bool(asked.tools))
        return Generation(asked, identifier, monotonic_ms(), now, choice, Scrubber(asked.allowed_pii))

    async def _prepare(self, one: Generation) -> list[Candidate]:
        """The models to try, with the money for the dearest of them held."""
        asked = one.asked
        size = one.size = estimated_size(asked)

        def ceiling(tried: Sequence[Candidate]) -> int:
            return max((each.price.ceiling(size, asked.max_output_tokens) for each in tried), default=0)

        tried = candidates(self.config, one.choice, asked.model)
        most = ceiling(tried)
        if one.choice.ask:
            most += ceiling(candidates(self.config, Choice(ModelClass.CHEAP, ""), ""))
        hedged = 2 if one.choice.model_class is ModelClass.VOICE else 1
        try:
            if most:
                await self._store.reserve(
                    one.id, asked.scope, self._clock(), hedged * most, asked.deadline_ms + RESERVED_FOR_MS
                )
        except Refused as full:
            await self._tell(one, Notice("OVER_BUDGET", full.metadata.get("limit", ""), full.message))
            tried = [each for each in tried if not each.price.ceiling(size, asked.max_output_tokens)]
            if not tried:
                one.settled = True
                raise
            one.problems.append(f"{full.message} Only models that cost nothing are asked.")
            one.choice = replace(one.choice, ask=False)
        if one.choice.ask:
            one.choice = classified(one.choice, await self._classify(one))
            tried = candidates(self.config, one.choice, asked.model)
        return tried

    async def _classify(self, one: Generation) -> str:
        """The word of a model of the cheap class; empty when it gives none in time."""
        words = Message(Role.USER, _last_user_text(one.asked))
        request = ModelRequest("", (words,), static=_CLASSIFY, max_output_tokens=8, labels=LABELS)
        choice = Choice(ModelClass.CHEAP, "class cheap (classifier)")
        limit = min(CLASSIFIER_MS, one.asked.deadline_ms // 4)
        chain = Chain(
            self._setting, candidates(self.config, choice, "")[:1], asking(request, one.scrubber), limit
        )
        one.chain = chain
        said = ""
        async with contextlib.aclosing(chain.run()) as events:
            async for event in events:
                said += event.text if isinstance(event, TextDelta) else ""
        one.past, one.chain = chain.attempts, None
        return next((label for label in LABELS if label in said.lower()), "")

    async def _answer(self, one: Generation, tried: Sequence[Candidate]) -> AsyncGenerator[Told, None]:
        asked = one.asked
        ask = asking(model_request(asked), one.scrubber)
        await searched(ask, tried, one.size)
        left = asked.deadline_ms - round(monotonic_ms() - one.began_ms)
        one.chain = Chain(
            self._setting,
            tried,
            ask,
            left,
            hedge=one.choice.model_class is ModelClass.VOICE,
        )
        if one.stopped:
            one.chain.stop()
        restorer = Restorer(one.scrubber)
        abroad = False
        async with contextlib.aclosing(one.chain.run()) as events:
            async for event in events:
                if isinstance(event, Started):
                    abroad = event.candidate.abroad
                    yield event
                elif isinstance(event, TextDelta):
                    text = restorer.take(event.text) if abroad else event.text
                    if text:
                        yield TextDelta(text)
                else:
                    if rest := restorer.rest():
                        yield TextDelta(rest)
                    async for told in self._finish(one, event, abroad):
                        yield told

    async def _finish(
        self, one: Generation, ended: Ended, abroad: bool
    ) -> AsyncGenerator[TextDelta | ToolCall | Done, None]:
        if ended.finish is Finish.DEGRADED:
            yield TextDelta(one.asked.degraded_text or DEGRADED)
        tools = {tool.name: tool for tool in one.asked.tools}
        for call in checked(ended.tool_calls, tools):
            restored = one.scrubber.restore(call.arguments_json) if abroad else call.arguments_json
            yield replace(call, arguments_json=restored)
        await self._warn(one, ended)
        rows = one.rows(ended, self.config.currency, self._id)
        await self._settle(one, rows)
        yield self._done(one, ended, rows)

    def _done(self, one: Generation, ended: Ended, rows: Sequence[CallRow]) -> Done:
        chain = one.chain
        failed = [each.error for each in one.attempts if each.error and each.finish is not Finish.STOPPED]
        answered = ended.attempt
        return Done(
            finish=ended.finish,
            usage=sum((row.usage for row in rows), Usage()),
            cost_micros=sum(row.cost_micros for row in rows),
            currency=self.config.currency,
            problems=(*one.problems, *(chain.skipped if chain else ()), *failed),
            ttft_ms=round(answered.first_ms - one.began_ms) if answered and answered.first_ms else 0,
            total_ms=round(monotonic_ms() - one.began_ms),
            attempts=len(one.attempts),
            answered_by=answered.candidate if answered else None,
        )

    def _id(self) -> bytes:
        return new_id(self._clock(), os.urandom(RANDOM_BYTES))

    async def _warn(self, one: Generation, ended: Ended) -> None:
        """Tell the owner what only they can mend."""
        refused = {each.candidate.provider: each.error for each in one.attempts if each.fault is Fault.AUTH}
        for provider, words in refused.items():
            await self.providers.forget(provider)
            await self._tell(one, Notice("PROVIDER_KEY_REFUSED", provider, words))
        if ended.finish is Finish.DEGRADED:
            words = "No model answered; the person got the polite sentence."
            await self._tell(one, Notice("ALL_MODELS_FAILED", one.choice.model_class.value, words))

    async def _tell(self, one: Generation, notice: Notice) -> None:
        log.warning("llm notice", kind=notice.kind, subject=notice.subject, message=notice.message)
        try:
            await self._store.note(one.asked.scope, notice, self._clock())
        except IndaiError as error:
            log.error("notice not stored", kind=notice.kind, reason=error.reason.name)

    async def _settle(self, one: Generation, rows: list[CallRow]) -> None:
        one.settled = True
        if not await self.settled(one.id, one.asked.scope, rows):
            one.problems.append("The call could not be recorded yet; it is tried again.")

    async def settled(self, generation: bytes, scope: Scope, rows: Sequence[CallRow]) -> bool:
        """Store rows and book what they cost; False when that has to be tried again, in the background."""
        try:
            await self._store.settle(generation, scope, self._clock(), rows)
        except IndaiError as error:
            log.error("call not stored", reason=error.reason.name)
            self.settle_later(generation, scope, rows)
            return False
        return True

    def settle_later(self, generation: bytes, scope: Scope, rows: Sequence[CallRow]) -> None:
        """The same in the background, for a caller who has left."""
        self._in_background(self._settle_again(generation, scope, rows))

    async def _settle_again(self, generation: bytes, scope: Scope, rows: Sequence[CallRow]) -> None:
        """Until it is stored or there is no hope; ids make storing it twice impossible."""
        for number in range(STORE_TRIES):
            try:
                await self._store.settle(generation, scope, self._clock(), rows)
            except asyncpg.UniqueViolationError:
                return  # it was stored, and the answer to that was lost
            except IndaiError as error:
                log.error("call not stored", reason=error.reason.name, tries=number + 1)
                await asyncio.sleep(0.2 * 2**number)
            else:
                return

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _last_user_text(asked: Asked) -> str:
    found = next((each.text for each in reversed(asked.messages) if each.role is Role.USER), "")
    return found[-4000:]
