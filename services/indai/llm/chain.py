"""One generation: models are tried in order under one deadline until one answers.

What was released is never taken back, so a model is given up for another only before its first text. A stream
that breaks later ends as INTERRUPTED: the text so far stands, and no tool is called. Tool calls are released
only when the stream has ended well. `stop` ends a generation at once, at whatever it waits for; leaving the
generator does too. Both abort the request upstream.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from indai.llm.attempt import Attempt, Line, monotonic_ms
from indai.llm.breaker import Breaker
from indai.llm.config import Limits
from indai.llm.retry import Next, Step, after, blames_provider, fewer
from indai.llm.routing import Candidate
from indai.llm.values import (
    Counted,
    Event,
    Fault,
    Finish,
    Finished,
    ModelRequest,
    Provider,
    ProviderFault,
    TextDelta,
    ToolCall,
)


@dataclass(frozen=True, slots=True)
class Started:
    """A model has begun to answer."""

    candidate: Candidate


@dataclass(frozen=True, slots=True)
class Ended:
    """The end. `attempt` is the one that answered, None when no model did."""

    finish: Finish
    attempt: Attempt | None = None
    tool_calls: tuple[ToolCall, ...] = ()


Released = Started | TextDelta | Ended


@dataclass(frozen=True, slots=True)
class Setting:
    """What all generations of a gateway share. `random` gives numbers in [0, 1)."""

    provider: Callable[[str], Awaitable[Provider]]
    breakers: Mapping[str, Breaker]
    limits: Limits
    random: Callable[[], float]


class _Stopped(Exception):
    """`stop` was called."""


class Chain:
    """One generation; `run` once. `request` gives what a candidate is to be asked, with so many output tokens
    at most (0: as many as were asked for)."""

    def __init__(
        self,
        setting: Setting,
        candidates: Sequence[Candidate],
        request: Callable[[Candidate, int], ModelRequest],
        deadline_ms: int,
        *,
        hedge: bool = False,
    ) -> None:
        self._setting = setting
        self._candidates = candidates
        self._request = request
        self._deadline = monotonic_ms() + deadline_ms
        self._hedge = hedge
        self._stopped = False
        self._waiting: asyncio.Timeout | None = None
        self._out: set[str] = set()
        self.attempts: list[Attempt] = []
        self.skipped: list[str] = []

    def stop(self) -> None:
        """End it now."""
        self._stopped = True
        if self._waiting is not None:
            self._waiting.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> AsyncGenerator[Released, None]:
        """Yields `Started`, texts, and one `Ended` at the end."""
        try:
            if self._stopped:
                raise _Stopped
            for place, candidate in enumerate(self._candidates):
                async with contextlib.aclosing(self._try_model(place, candidate)) as events:
                    async for event in events:
                        yield event
                        if isinstance(event, Ended):
                            return
            yield Ended(Finish.DEGRADED)
        except _Stopped:
            answered = next((each for each in self.attempts if each.finish is Finish.STOPPED), None)
            yield Ended(Finish.STOPPED, answered)

    async def _try_model(self, place: int, candidate: Candidate) -> AsyncGenerator[Released, None]:
        """One model, twice at most; yields nothing when it did not answer."""
        tokens = 0
        for number in (1, 2):
            if candidate.provider in self._out or self._left_ms() <= 0 or not self._admitted(candidate):
                return
            try:
                async with contextlib.aclosing(self._answer(place, tokens)) as events:
                    async for event in events:
                        yield event
                return
            except ProviderFault as fault:
                step = after(fault, number, self._setting.limits, self._setting.random())
            if not await self._goes_on(candidate, step):
                return
            tokens = fewer(self._request(candidate, 0).max_output_tokens) if step.fewer_tokens else 0

    async def _goes_on(self, candidate: Candidate, step: Step) -> bool:
        """Pause before the same model is asked again; False when it is not."""
        if step.next is Next.PROVIDER:
            self._out.add(candidate.provider)
        if step.next is not Next.SAME or step.pause_ms >= self._left_ms():
            return False
        with contextlib.suppress(TimeoutError):
            async with self._within(step.pause_ms):
                await asyncio.get_running_loop().create_future()
        return True

    def _admitted(self, candidate: Candidate) -> bool:
        breaker = self._setting.breakers[candidate.provider]
        if breaker.allow():
            return True
        self.skipped.append(f"{candidate.name}: {candidate.provider} is kept out. {breaker.problem}")
        return False

    async def _answer(self, place: int, tokens: int) -> AsyncGenerator[Released, None]:
        """A whole answer; raises ProviderFault when it fails before any text."""
        line, event = await self._first(place, tokens)
        attempt = line.attempt
        try:
            while True:
                if isinstance(event, TextDelta):
                    if not attempt.released:
                        yield Started(attempt.candidate)
                    attempt.released += len(event.text)
                    yield event
                elif isinstance(event, Counted):
                    attempt.usage = event.usage
                elif isinstance(event, Finished):
                    attempt.usage = event.usage
                    if event.finish is Finish.STOP and not attempt.released:
                        name = attempt.candidate.provider
                        raise ProviderFault(Fault.BROKEN, f"{name} gave an empty answer.")
                    attempt.end(event.finish)
                    if not attempt.released:
                        yield Started(attempt.candidate)
                    yield Ended(event.finish, attempt, event.tool_calls)
                    return
                event = await self._following(line)
        except ProviderFault as fault:
            self._blame(attempt, fault)
            if not attempt.released:
                raise
            attempt.finish = Finish.INTERRUPTED
            yield Ended(Finish.INTERRUPTED, attempt)
        except _Stopped:
            attempt.end(Finish.STOPPED)
            raise
        finally:
            if not attempt.ended_ms:
                attempt.end(Finish.STOPPED, "The caller left.")
            await line.close()

    async def _first(self, place: int, tokens: int) -> tuple[Line, Event]:
        """The stream that speaks first, with its first event. One that is silent for `hedge_ms` gets company
        of the next model when this generation hedges."""
        tasks: dict[asyncio.Task[Event], Line] = {}
        won: Line | None = None
        self._call(tasks, self._candidates[place], tokens)
        try:
            async with self._within(self._setting.limits.first_token_ms):
                second = self._second(place) if self._hedge else None
                if second is not None:
                    done, _ = await asyncio.wait(tasks, timeout=self._setting.limits.hedge_ms / 1000)
                    if not done and self._setting.breakers[second.provider].allow():
                        self._call(tasks, second, tokens)
                while True:
                    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        line = tasks.pop(task)
                        try:
                            event = task.result()
                        except ProviderFault as fault:
                            self._blame(line.attempt, fault)
                            await line.close()
                            if not tasks:
                                raise
                        else:
                            won = line
                            self._setting.breakers[line.attempt.candidate.provider].succeed()
                            return line, event
        except TimeoutError:
            raise self._silent(tasks) from None
        finally:
            await self._give_up(list(tasks.values()), won)

    def _call(self, tasks: dict[asyncio.Task[Event], Line], candidate: Candidate, tokens: int) -> None:
        line = Line(self._setting.provider, candidate, self._request(candidate, tokens))
        self.attempts.append(line.attempt)
        tasks[line.call()] = line

    def _second(self, place: int) -> Candidate | None:
        """The model to race against, of another provider if there is one."""
        breakers = self._setting.breakers
        rest = [
            each
            for each in self._candidates[place + 1 :]
            if each.provider not in self._out and not breakers[each.provider].is_open
        ]
        own = self._candidates[place].provider
        return next((each for each in rest if each.provider != own), rest[0] if rest else None)

    async def _give_up(self, lines: Sequence[Line], won: Line | None) -> None:
        """Abort the streams that were not first."""
        for line in lines:
            if not line.attempt.ended_ms:
                winner = won.attempt.candidate.name if won else ""
                line.attempt.end(
                    Finish.STOPPED, f"{winner} answered first." if winner else "It was given up."
                )
                self._setting.breakers[line.attempt.candidate.provider].abandon()
            await line.close()

    async def _following(self, line: Line) -> Event:
        try:
            async with self._within(self._setting.limits.stall_ms):
                return await line.next()
        except TimeoutError:
            raise self._slow(line.attempt.candidate, "fell silent") from None

    def _silent(self, tasks: Mapping[asyncio.Task[Event], Line]) -> ProviderFault:
        """The fault of those that have not said a word; the first of them stands for all."""
        faults = []
        for line in tasks.values():
            fault = self._slow(line.attempt.candidate, "said nothing")
            self._blame(line.attempt, fault)
            faults.append(fault)
        return faults[0]

    def _slow(self, candidate: Candidate, what: str) -> ProviderFault:
        return ProviderFault(Fault.TIMEOUT, f"{candidate.provider} {what} for too long.")

    def _blame(self, attempt: Attempt, fault: ProviderFault) -> None:
        attempt.fail(fault)
        breaker = self._setting.breakers[attempt.candidate.provider]
        if blames_provider(fault):
            breaker.fail(fault.message, fault.retry_after_ms)
        else:
            breaker.abandon()

    def _left_ms(self) -> float:
        return self._deadline - monotonic_ms()

    @contextlib.asynccontextmanager
    async def _within(self, limit_ms: float) -> AsyncIterator[None]:
        """Raises TimeoutError after `limit_ms` or at the deadline, whichever is first, and _Stopped as soon
        as `stop` is called."""
        if self._stopped:
            raise _Stopped
        try:
            async with asyncio.timeout(max(0, min(limit_ms, self._left_ms())) / 1000) as self._waiting:
                yield
        except TimeoutError:
            if self._stopped:
                raise _Stopped from None
            raise
        finally:
            self._waiting = None
