"""The engine of goals: looks at what is due, asks the gates, then acts or tells, and notes what it did.

    due → is it met already? → gates → begun (a row) → tell, or act by a tool → what came of it → next

The row of an occasion is written before anything happens and carries its id into what happens: a tool's
request, a notice's key. So an engine that is killed in between does the same again, and it is the same. An
act goes through the toolbox as the owner's own agent: their policy, approvals and ledger hold. No model is
asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID
from zoneinfo import ZoneInfo

import asyncpg
import structlog
from indai.client.tasks import end_tasks
from indai.protocol.errors import IndaiError
from indai.runtime.conversations.values import Clock
from indai.runtime.goals.store import GoalStore
from indai.runtime.goals.values import Goal, day_began, held, next_due
from indai.runtime.words import say
from indai.tools.values import Caller, Outcome, Status, Toolbox, unheard

EVERY_S: Final = 30.0
LOOK_MS: Final = 3_600_000
"""How often waiting threads are looked at."""
MOST_THREADS: Final = 5
"""Told of at one look: the rest at the next."""
RETRY_MS: Final = 900_000


@dataclass(frozen=True, slots=True)
class Seen:
    """A negotiation as goals see it. `waits`: for `them`, for `you`, or nobody (empty); `meets`: a meeting
    that stands or is being asked for; `start_ms` is 0 before there is a time."""

    id: str
    peer: str
    title: str
    waits: str
    meets: bool
    start_ms: int
    changed_ms: int


ThreadsOf = Callable[[str], Awaitable[Sequence[Seen]]]
"""An owner's newest negotiations."""
Tell = Callable[[str, str, str], Awaitable[bool]]
"""Tells an owner (handle, key, words) in their own conversation, once for a key; False when there is none."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How an owner's agent stands: paused; its allowance for the day spent; its tools, and how far it may go
    by its configuration."""

    paused: bool = False
    spent: bool = False
    tools: tuple[str, ...] = ("meet",)
    autonomy: str = "autonomous"
    approvals: frozenset[str] = frozenset()


StandingOf = Callable[[str], Awaitable[Standing]]


@dataclass(frozen=True, slots=True)
class Around:
    """What the engine works with. `language_of`: in which an owner is told things."""

    store: GoalStore
    toolbox: Toolbox
    threads: ThreadsOf
    tell: Tell
    standing: StandingOf
    zone_of: Callable[[str], str]
    language_of: Callable[[str], Awaitable[str]]
    lives_here: Callable[[str], bool]
    clock: Clock


log = structlog.get_logger(__name__)


class GoalEngine:
    """See the module."""

    def __init__(self, around: Around) -> None:
        self._around = around
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, with what came due while nobody looked."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop; what was begun is done again by the next start, and is the same."""
        await end_tasks(self._task)

    def wake(self) -> None:
        """Something is due sooner than was thought."""
        self._woken.set()

    async def _run(self) -> None:
        while True:
            try:
                for owner in await self._around.store.owners():
                    if self._around.lives_here(owner):
                        await self.step(owner)
            except IndaiError as error:
                log.warning("goals not looked at", reason=error.reason.name)
            try:
                async with asyncio.timeout(EVERY_S):
                    await self._woken.wait()
            except TimeoutError:
                continue
            self._woken.clear()

    async def step(self, owner: str) -> None:
        """All that is due for one owner. A goal that fails holds up no other."""
        for goal in await self._around.store.due(owner, self._around.clock()):
            try:
                await self._one(goal)
            except asyncpg.ForeignKeyViolationError:
                continue  # it was removed meanwhile
            except IndaiError as error:
                log.warning("a goal was not looked at", goal=goal.id.hex, reason=error.reason.name)
                await self._around.store.move_on(goal, goal.due_ms, self._around.clock() + RETRY_MS)

    async def _one(self, goal: Goal) -> None:
        match goal.kind:
            case "meet":
                await self._meet(goal)
            case "remind":
                await self._remind(goal)
            case _:
                await self._follow_up(goal)

    async def _held(self, goal: Goal, act: UUID, thread: str = "") -> bool:
        """Whether a gate holds the goal back; it is looked at again when the gate may be open."""
        around, now_ms, zone = self._around, self._around.clock(), self._zone(goal.owner)
        gates = await around.store.gates(goal.owner)
        done = await around.store.done_since(goal.owner, day_began(now_ms, zone))
        agent = await around.standing(goal.owner)
        found = held(gates, now_ms, zone, done, paused=agent.paused, spent=agent.spent)
        if found is None:
            return False
        await around.store.note(goal, act, "held", found.why, now_ms, thread)
        await around.store.move_on(goal, goal.due_ms, found.look_ms)
        return True

    async def _meet(self, goal: Goal) -> None:
        around, now_ms = self._around, self._around.clock()
        since = now_ms - goal.every_ms
        for seen in await around.threads(goal.owner):
            if seen.peer == goal.person and seen.meets and (seen.start_ms or now_ms) >= since:
                await around.store.note(goal, goal.act_id(), "met", "", now_ms, seen.id)
                await self._next(goal, max(now_ms, seen.start_ms) + goal.every_ms)
                return
        if await self._begun_or_held(goal):
            return
        language = await around.language_of(goal.owner)
        if not goal.may_act:
            await self._tell(goal, say("goal_meet", language, person=goal.person))
            return
        outcome = await self._ask_for_meeting(goal, language)
        if outcome.status is Status.FAILED:
            if outcome.retryable:
                await around.store.move_on(goal, goal.due_ms, now_ms + RETRY_MS)
                return
            await self._end(goal, "failed", outcome.words)
            return
        did = "asked" if outcome.status is Status.NEEDS_APPROVAL or outcome.approval else "acted"
        acted = say("goal_acted", language, person=goal.person)
        # Nobody was asked yet where the owner is asked first.
        words = outcome.words if did == "asked" and outcome.words else f"{acted} {outcome.words}".strip()
        await around.tell(goal.owner, f"goal {goal.act_id().hex}", words)
        await self._end(goal, did, outcome.words, outcome.thread)

    async def _ask_for_meeting(self, goal: Goal, language: str) -> Outcome:
        around, act = self._around, goal.act_id()
        agent = await around.standing(goal.owner)
        caller = Caller(
            tenant="personal",
            binding="",
            owner=goal.owner,
            session="",
            person=goal.owner,
            door="private",
            channel="api",
            verified=True,
            language=language,
            time_zone=self._zone(goal.owner).key,
            now_ms=around.clock(),
            turn=act.hex,  # names the request: the same occasion asks once
            autonomy=agent.autonomy,
            approvals=agent.approvals,
        )
        wish = {"with": goal.person, "duration_minutes": goal.minutes, "when": "this week"}
        if goal.words:
            wish["title"] = goal.words
        return await around.toolbox.call(caller, agent.tools, "meet", wish, unheard)

    async def _remind(self, goal: Goal) -> None:
        if not await self._begun_or_held(goal):
            language = await self._around.language_of(goal.owner)
            await self._tell(goal, say("goal_remind", language, words=goal.words))

    async def _follow_up(self, goal: Goal) -> None:
        """Each thread once for each stretch of waiting."""
        around, now_ms, told = self._around, self._around.clock(), 0
        for seen in await around.threads(goal.owner):
            if not seen.waits or now_ms - seen.changed_ms < goal.every_ms or told >= MOST_THREADS:
                continue
            act = goal.act_id(seen.id, seen.changed_ms)
            if await around.store.ended(goal, act):
                continue
            if await self._held(goal, act, seen.id):
                return
            await around.store.note(goal, act, "begun", "", now_ms, seen.id)
            language = await around.language_of(goal.owner)
            hours = str((now_ms - seen.changed_ms) // 3_600_000)
            words = say(f"goal_waits_{seen.waits}", language, person=seen.peer, about=seen.title, hours=hours)
            heard = await around.tell(goal.owner, f"goal {act.hex}", words)
            await around.store.note(goal, act, "told" if heard else "failed", words, now_ms, seen.id)
            told += 1
        await around.store.move_on(goal, now_ms, now_ms + min(LOOK_MS, goal.every_ms))

    async def _begun_or_held(self, goal: Goal) -> bool:
        """True where there is nothing to do now; else the occasion is begun."""
        act, around = goal.act_id(), self._around
        if await around.store.ended(goal, act):
            await self._next(goal, next_due(goal, around.clock()))
            return True
        if await self._held(goal, act):
            return True
        await around.store.note(goal, act, "begun", "", around.clock())
        return False

    async def _tell(self, goal: Goal, words: str) -> None:
        heard = await self._around.tell(goal.owner, f"goal {goal.act_id().hex}", words)
        await self._end(goal, "told" if heard else "failed", words if heard else "NO_CONVERSATION")

    async def _end(self, goal: Goal, did: str, words: str, thread: str = "") -> None:
        now_ms = self._around.clock()
        await self._around.store.note(goal, goal.act_id(), did, words, now_ms, thread)
        await self._next(goal, next_due(goal, now_ms))

    async def _next(self, goal: Goal, due_ms: int) -> None:
        await self._around.store.move_on(goal, due_ms, due_ms)

    def _zone(self, owner: str) -> ZoneInfo:
        return ZoneInfo(self._around.zone_of(owner) or "Asia/Kolkata")
