"""The toolbox: every call of a tool goes through it, whoever wishes it.

    there is such a tool → arguments fit → no identity number → layers, door, channel, session
    → known for a minute? → made concrete → the owner's word, where it is needed → run, in time
    → result fits → in words → one row

A model's call is a wish. What is refused here has done nothing, and a tool that breaks any promise of its
own (hangs, answers too much, answers something else) is a failed call and never a failed turn.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import asyncpg
import structlog
from indai.protocol.errors import IndaiError, InvalidInput, Reason
from indai.tools.approvals import Approvals, Asked, is_code
from indai.tools.cache import ReadCache, key_of
from indai.tools.followed import Followed
from indai.tools.jobs import Jobs
from indai.tools.normalise import Money, fields_of
from indai.tools.outcomes import (
    DECLINED,
    Judged,
    about_thread,
    broken,
    declined,
    dumped,
    failed,
    identity_number,
    judged,
    question,
    raised,
    sentence,
)
from indai.tools.schemas import (
    MAX_ARGUMENTS,
    action_hash,
    check_spec,
    misfit,
    too_large,
    validator,
    without_secrets,
)
from indai.tools.scoping import Refusal, Scoping
from indai.tools.store import CallStore, holder_of
from indai.tools.values import (
    Act,
    Caller,
    Effect,
    Outcome,
    Prepares,
    Progress,
    Spec,
    Status,
    Tool,
    Touch,
    unheard,
)
from indai.tools.words import said
from jsonschema import Draft202012Validator

GRACE_S: Final = 0.5  # what a tool that is told to stop may still take
NO_TOOL: Final = "negotiation"
"""What a followed thread is called in rows that no tool of this conversation began."""
PROGRAM: Final = "api"
"""The channel of an owner's own programs, which look for themselves how a question stands."""
CARRIED_S: Final = 120.0  # longer than any call takes
_THREE: Final = frozenset(Touch)

log = structlog.get_logger(__name__)

ThreadAnswer = Callable[[Caller, str, bool], Awaitable[Mapping[str, Any]]]
"""Answers a negotiation's question by its code, and gives the thread as a result."""

TellOwner = Callable[[str, str, str], Awaitable[bool]]
"""Tells an owner words in their newest conversation, under a key; False when they have none."""

Connected = Callable[[Caller, str], Awaitable[bool]]
"""Whether an integration (e.g. `digilocker`) is connected for a caller."""


async def nothing_connected(_: Caller, __: str) -> bool:
    """Where there are no integrations."""
    return False


@dataclass(frozen=True, slots=True)
class _Known:
    tool: Tool
    spec: Spec
    arguments: Draft202012Validator
    result: Draft202012Validator


class NodeToolbox:
    """All tools of a node; see `indai.tools.values.Toolbox`."""

    def __init__(
        self,
        tools: Iterable[Tool],
        calls: CallStore,
        approvals: Approvals,
        clock: Callable[[], int],
        money: Money,
        scoping: Scoping | None = None,
        connected: Connected = nothing_connected,
        jobs: Jobs | None = None,
        threads: ThreadAnswer | None = None,
        tell_owner: TellOwner | None = None,
    ) -> None:
        self._tools: dict[str, _Known] = {}
        self._calls = calls
        self._approvals = approvals
        self._clock = clock
        self._money = money
        self._scoping = scoping or Scoping()
        self._connected = connected
        self._jobs = jobs
        self._threads = threads
        self._tell_owner = tell_owner
        self.followed = Followed(jobs) if jobs is not None else None
        self._cache = ReadCache()
        for tool in tools:
            self.add(tool)

    def add(self, tool: Tool) -> None:
        """One more tool. Raises InvalidInput for a bad specification or a name that is taken."""
        spec = tool.spec
        check_spec(spec)
        if spec.name in self._tools:
            raise InvalidInput(Reason.ALREADY_EXISTS, f"There are two tools called {spec.name}.")
        self._tools[spec.name] = _Known(tool, spec, validator(spec.arguments), validator(spec.result))

    def specs(self) -> tuple[Spec, ...]:
        """All tools, by name."""
        return tuple(self._tools[name].spec for name in sorted(self._tools))

    def offered(self, names: Sequence[str], door: str, channel: str) -> tuple[Spec, ...]:
        """See `Toolbox`; in the order of the binding's list."""
        specs = (self._tools[name].spec for name in dict.fromkeys(names) if name in self._tools)
        return tuple(spec for spec in specs if self._scoping.offers(spec, door, channel))

    async def call(
        self,
        caller: Caller,
        names: Sequence[str],
        name: str,
        arguments: Mapping[str, Any],
        progress: Progress,
    ) -> Outcome:
        """See `Toolbox`."""
        known = self._tools.get(name)
        if known is None:
            return failed("UNKNOWN_TOOL", f"There is no tool {name[:60]!r}.")
        if outcome := _unfit(known, arguments):
            return outcome
        try:
            return await self._admitted(known, caller, names, dict(arguments), progress)
        except IndaiError as error:
            log.warning("tool not called", tool=name, reason=error.reason.name)
            return raised(error).outcome

    async def _admitted(
        self,
        known: _Known,
        caller: Caller,
        names: Sequence[str],
        arguments: dict[str, Any],
        progress: Progress,
    ) -> Outcome:
        spec, before = known.spec, await self._calls.before(caller, known.spec.name)
        connected = not spec.needs or await self._connected(caller, spec.needs)
        refusal = self._scoping.refusal(caller, names, spec, connected, before.disabled)
        if refusal is None and caller.autonomy == "draft" and is_outside_act(spec):
            refusal = Refusal("DRAFT_ONLY", "This agent only drafts; nothing was sent.")
        digest = action_hash(caller, spec.name, arguments)
        if refusal is not None:
            outcome = failed(refusal.code, refusal.words)
            return await self._noted(known, caller, digest, arguments, Judged(outcome))
        key = key_of(caller, spec.name, digest)
        if spec.effect is Effect.READ and (hit := self._cache.get(key, self._clock())):
            return await self._noted(known, caller, digest, arguments, Judged(hit), cached=True)
        # OUTSIDE is of a call alone: what this turn has read stays in the model's context, what it did not.
        caller = replace(caller, context=caller.context | (before.touched - {Touch.OUTSIDE}))
        act, problem = await self._prepared(known, caller, arguments)
        if problem is not None:
            return await self._noted(known, caller, digest, arguments, problem)
        digest = action_hash(caller, spec.name, act.arguments)
        if why := why_ask(spec, caller):
            return await self._ask(known, caller, act, digest, why)
        outcome = await self._run(known, caller, act, digest, progress)
        if spec.effect is Effect.READ and outcome.status is Status.DONE:
            self._cache.put(key, outcome, self._clock())
        return outcome

    async def _prepared(
        self, known: _Known, caller: Caller, arguments: dict[str, Any]
    ) -> tuple[Act, Judged | None]:
        if not isinstance(known.tool, Prepares):
            return Act(arguments, self._terms(known.spec, caller, arguments)), None
        try:
            async with asyncio.timeout(known.spec.timeout_s):
                return await known.tool.prepare(caller, arguments), None
        except TimeoutError:
            problem = broken("TIMEOUT", f"{known.spec.name} took too long.", retryable=True)
        except IndaiError as error:
            problem = raised(error)
        except Exception as error:  # noqa: BLE001 - the boundary: a tool's own failure ends its call alone
            problem = self._unforeseen(known.spec, error)
        return Act(arguments, ""), problem

    async def _ask(self, known: _Known, caller: Caller, act: Act, digest: bytes, why: str) -> Outcome:
        if not caller.owner:
            outcome = failed(
                "NEEDS_OWNER", f"{known.spec.name} needs the word of an owner, and there is none here."
            )
            return await self._noted(known, caller, digest, act.arguments, Judged(outcome))
        name, now_ms = known.spec.name, self._clock()
        shown = self._shown(known.spec, caller, act)
        asked, new = await self._approvals.ask(caller, name, act, digest, why, now_ms, self._expiring, shown)
        if new and self._tell_owner is not None and caller.person != caller.owner:
            words = (
                f"A visitor's wish waits for your word.\n{act.terms}\n\nThe code is {asked.approval.code}."
            )
            await self._tell_owner(caller.owner, words, f"tool-question:{asked.id}")
        words = question(why, asked.approval, caller.language)
        outcome = Outcome(Status.NEEDS_APPROVAL, words, code="NEEDS_APPROVAL", approval=asked.approval)
        if caller.person != caller.owner:  # what is asked, and the code, are between the owner and this node
            outcome = replace(outcome, words="The owner is asked first.", approval=None)
        elif shown is not None:
            row = replace(
                outcome, words=question(why, replace(asked.approval, terms=shown.terms), caller.language)
            )
            await self._noted(known, caller, digest, act.arguments, Judged(row))
            return outcome
        return await self._noted(known, caller, digest, act.arguments, Judged(outcome))

    async def answer(self, caller: Caller, code: str, *, approve: bool) -> Outcome:
        """See `Toolbox`. Only the owner, proved to be them and at their own door."""
        if caller.door != "private" or not caller.verified or caller.person != caller.owner:
            return failed("NOT_ALLOWED", "Only the owner may answer that, once it is proved who they are.")
        if self._threads is not None and not is_code(code):
            return await self._about_thread(caller, code, approve=approve)
        try:
            asked = await self._approvals.take(
                holder_of(caller),
                code,
                approve=approve,
                by=caller.person,
                now_ms=self._clock(),
                also=partial(self._answered, caller.session),
                on="" if caller.channel == PROGRAM else caller.channel,
            )
        except IndaiError as error:
            return raised(error).outcome
        outcome = await self.carry_out(asked) if approve else _declined(caller.language)
        if self._jobs is not None and asked.caller.session != caller.session:
            told = outcome if approve else declined(asked)
            await self._jobs.push(asked.caller, replace(told, about=str(asked.id)))
        return replace(outcome, words=sentence(outcome, caller.language))

    async def _about_thread(self, caller: Caller, code: str, *, approve: bool) -> Outcome:
        """A question of a negotiation, which the owner's own service answers."""
        if self.followed is None:
            return await self._said_of_thread(caller, code, approve=approve)
        typed = "".join(code.split()).lower()
        with self.followed.answering(caller, typed):
            outcome = await self._said_of_thread(caller, code, approve=approve)
            if outcome.status is not Status.FAILED:
                await self.followed.answered(caller, typed)
        if outcome.status in (Status.RUNNING, Status.NEEDS_APPROVAL):
            await self.followed.begin(caller, NO_TOOL, outcome)
        return outcome

    async def _said_of_thread(self, caller: Caller, code: str, *, approve: bool) -> Outcome:
        assert self._threads is not None  # noqa: S101 - the only caller has looked
        try:
            result = await self._threads(caller, code, approve)
        except IndaiError as error:
            return raised(error).outcome
        if not approve:
            return _declined(caller.language)
        self._cache.forget(caller)
        outcome = about_thread(result)
        return replace(outcome, words=sentence(outcome, caller.language))

    async def _expiring(self, connection: asyncpg.Connection, asked: Asked) -> None:
        """With a question: what tells when its time has run out."""
        await self._with(
            connection, asked, "expire", (asked.approval.expires_at_ms - self._clock()) / 1000 + 1
        )

    async def _answered(self, session: str, connection: asyncpg.Connection, asked: Asked) -> None:
        """With the owner's word from a session: what carries it out, and tells who asked elsewhere, should
        this process die before it has."""
        if asked.state == "approved" or session != asked.caller.session:
            await self._with(connection, asked, "approved", CARRIED_S, answered_in=session)

    async def _with(
        self, connection: asyncpg.Connection, asked: Asked, kind: str, delay_s: float, **more: str
    ) -> None:
        if self._jobs is not None:
            about, key = {"approval": str(asked.id), **more}, str(asked.id)
            await self._jobs.put(connection, asked.caller, kind, asked.tool, about, delay_s=delay_s, key=key)

    async def carry_out(self, asked: Asked, progress: Progress | None = None) -> Outcome:
        """Run what was approved, exactly as it was shown; again after a crash, until its outcome is kept."""
        known = self._tools.get(asked.tool)
        if known is None:
            return failed("UNKNOWN_TOOL", f"There is no tool {asked.tool} any more.")
        digest = action_hash(asked.caller, asked.tool, asked.arguments)
        if digest.hex() != asked.approval.action_hash:
            return failed("CHANGED", "What was approved is not what is stored; nothing has happened.")
        act = Act(asked.arguments, asked.approval.terms)
        outcome = await self._run(known, asked.caller, act, digest, progress or unheard)
        await self._approvals.finish(holder_of(asked.caller), asked.id, dumped(outcome))
        return outcome

    async def _run(
        self,
        known: _Known,
        caller: Caller,
        act: Act,
        digest: bytes,
        progress: Progress,
        *,
        in_job: bool = False,
    ) -> Outcome:
        if known.spec.long_running and self._jobs is not None and not in_job:
            return await self._later(known, caller, act, digest)
        begun = time.perf_counter()
        found = await self._tried(known, caller, act.arguments, progress)
        latency_ms = round((time.perf_counter() - begun) * 1000)
        if known.spec.effect is not Effect.READ:
            self._cache.forget(caller)
        found = await self._followed(known, caller, found)
        return await self._noted(known, caller, digest, act.arguments, found, latency_ms=latency_ms)

    async def _later(self, known: _Known, caller: Caller, act: Act, digest: bytes) -> Outcome:
        """A tool that takes long runs as a job; the session is told when it ends."""
        assert self._jobs is not None  # noqa: S101 - the only caller has looked
        name = known.spec.name
        kept = without_secrets(known.spec.arguments, act.arguments)
        shown = None if kept == act.arguments else kept
        job = await self._jobs.add(caller, "run", name, act.arguments, key=digest.hex(), shown=shown)
        outcome = Outcome(Status.RUNNING, "I am working on it, and will tell you.", job=str(job))
        return await self._noted(known, caller, digest, act.arguments, Judged(outcome))

    async def _followed(self, known: _Known, caller: Caller, found: Judged) -> Judged:
        """What goes on with others, or waits for the owner, is followed by a job; the session is told how it
        ends, unless it has just heard."""
        outcome = found.outcome
        if self.followed is None or not outcome.thread:
            return found
        if outcome.status is Status.DONE and known.spec.effect is not Effect.READ:
            await self.followed.told(caller, outcome.thread)
        if outcome.status not in (Status.RUNNING, Status.NEEDS_APPROVAL):
            return found
        if outcome.status is Status.NEEDS_APPROVAL:
            if caller.channel != PROGRAM:
                await self.followed.begin(caller, known.spec.name, outcome)
            return found
        job = await self.followed.begin(caller, known.spec.name, outcome)
        return replace(found, outcome=replace(outcome, job=job))

    async def run_later(self, caller: Caller, name: str, arguments: Mapping[str, Any]) -> Outcome:
        """What a job runs, with the arguments that were taken when it was made."""
        known = self._tools.get(name)
        if known is None:
            return failed("UNKNOWN_TOOL", f"There is no tool {name} any more.")
        digest = action_hash(caller, name, arguments)
        return await self._run(known, caller, Act(arguments, ""), digest, unheard, in_job=True)

    def told(self, caller: Caller, name: str, result: Mapping[str, Any]) -> Outcome:
        """A later result of a tool's, in words."""
        if name == NO_TOOL:
            return about_thread(result)
        known = self._tools[name]
        return judged(caller, known.spec, known.result, result, self._money).outcome

    async def _tried(
        self, known: _Known, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Judged:
        spec = known.spec
        running = asyncio.ensure_future(known.tool.run(caller, arguments, progress))
        try:
            done, _ = await asyncio.wait({running}, timeout=spec.timeout_s)
        except asyncio.CancelledError:
            running.cancel()
            raise
        if not done:
            await _let_go(running)
            return broken(
                "TIMEOUT", f"{spec.name} did not answer in {spec.timeout_s:g} seconds.", retryable=True
            )
        try:
            return judged(caller, spec, known.result, running.result(), self._money)
        except IndaiError as error:
            return raised(error)
        except asyncio.CancelledError:
            return broken("INTERNAL", f"{spec.name} gave up.", retryable=True)
        except Exception as error:  # noqa: BLE001 - the boundary: a tool's own failure ends its call alone
            return self._unforeseen(spec, error)

    def _unforeseen(self, spec: Spec, error: Exception) -> Judged:
        # Its text may hold what the tool was given: only its kind is kept.
        log.error("tool failed", tool=spec.name, error=type(error).__name__)
        return broken("INTERNAL", f"{spec.name} does not work at the moment.")

    async def _noted(
        self,
        known: _Known,
        caller: Caller,
        digest: bytes,
        arguments: Mapping[str, Any],
        found: Judged,
        *,
        cached: bool = False,
        latency_ms: int = 0,
    ) -> Outcome:
        kept = without_secrets(known.spec.arguments, arguments)
        await self._calls.note(
            caller,
            known.spec,
            digest,
            kept,
            found.outcome,
            faulty=found.faulty,
            cached=cached,
            latency_ms=latency_ms,
            now_ms=self._clock(),
        )
        return found.outcome

    def _shown(self, spec: Spec, caller: Caller, act: Act) -> Act | None:
        """An act as its row may have it; None where nothing is left out."""
        kept = without_secrets(spec.arguments, act.arguments)
        return None if kept == act.arguments else Act(kept, self._terms(spec, caller, kept))

    def _terms(self, spec: Spec, caller: Caller, arguments: Mapping[str, Any]) -> str:
        about = replace(spec, result=spec.arguments, touches=frozenset())
        shown = fields_of(about, arguments, caller.time_zone, self._money)
        head = spec.description.split(". ")[0].rstrip(".")
        return "\n".join([f"{spec.name}: {head}", *(f"  {each.label}: {each.text}" for each in shown)])


def why_ask(spec: Spec, caller: Caller) -> str:
    """Why the owner must be asked before a call; empty when their rules alone decide."""
    if spec.name in caller.approvals:
        return "You want to be asked before each use of this."
    if spec.effect is Effect.IRREVERSIBLE:
        return "This cannot be taken back."
    if caller.autonomy == "supervised" and is_outside_act(spec):
        return "This agent acts only with your word."
    # What its own result will hold is read only after the act.
    read = caller.context | (spec.touches - {Touch.UNTRUSTED})
    if Touch.OUTSIDE in spec.touches and read >= _THREE:
        return "Words of outsiders were read before this, beside what is yours alone."
    return ""


def is_outside_act(spec: Spec) -> bool:
    """Whether a call does something to somebody else, or tells them something."""
    return spec.effect is not Effect.READ and Touch.OUTSIDE in spec.touches


def _unfit(known: _Known, arguments: Mapping[str, Any]) -> Outcome | None:
    if too_large(arguments, MAX_ARGUMENTS):
        return failed("BAD_ARGUMENTS", "The arguments are too large.", retryable=True)
    if problem := misfit(known.arguments, arguments):
        return failed("BAD_ARGUMENTS", f"The arguments do not fit: {problem}.", retryable=True)
    return identity_number(arguments, "The request")


def _declined(language: str) -> Outcome:
    return Outcome(Status.DONE, said(DECLINED, language), code="DECLINED")


async def _let_go(running: asyncio.Future[Any]) -> None:
    """Tell a tool to stop, and don't wait for one that doesn't."""
    running.cancel()
    await asyncio.wait({running}, timeout=GRACE_S)
    running.add_done_callback(lambda done: done.cancelled() or done.exception())
