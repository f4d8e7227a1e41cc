"""Runs turns: one at a time for a session, sessions beside each other.

A turn that a killed node left is run again if nothing of its answer was released; its tools are idempotent by
turn. If sentences had gone out already, or it was run twice, it ends with plain words: a message that kills
its node must not do so for ever.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final
from uuid import UUID

import asyncpg
import structlog
from indai.client.tasks import end_tasks
from indai.protocol.errors import IndaiError, Reason
from indai.runtime.conversations.hub import Hub
from indai.runtime.conversations.rows import every_owner
from indai.runtime.conversations.talk import Talk
from indai.runtime.conversations.turns import STOPS, TurnStore
from indai.runtime.conversations.values import Thought, Turn
from indai.runtime.words import say
from indai.storage.hearing import Hearing, Listener
from indai.v1 import conversation_pb2 as pb

TURN_S: Final = 120.0
MAX_ATTEMPTS: Final = 2
AT_ONCE: Final = 64
MOST_UNWANTED: Final = 1_000
"""Of turns that other processes were told to end: each hears of all."""
RETRY_S: Final = (0.1, 0.5, 2.0, 5.0)

Think = Callable[[Turn, Talk], Awaitable[Thought]]
"""The pipeline: says what it does through the talk, and gives what is to be stored."""
Ended = Callable[[str], None]
"""Told the owner whose turn has ended: memory has something to take."""

log = structlog.get_logger(__name__)


class Runner:
    """See the module."""

    def __init__(self, pool: asyncpg.Pool, store: TurnStore, hub: Hub, think: Think, ended: Ended) -> None:
        self._pool, self._store, self._hub, self._think, self._ended = pool, store, hub, think, ended
        self._wanted: set[UUID] = set()
        self._sessions: dict[UUID, asyncio.Task[None]] = {}
        self._thinking: dict[UUID, asyncio.Task[Thought]] = {}
        self._current: dict[UUID, UUID] = {}  # the turn that a session thinks about
        self._running: dict[UUID, str] = {}  # the owners of the turns that are thought about
        self._ending: set[UUID] = set()  # thought about no more, and not stored yet
        self._unwanted: OrderedDict[UUID, None] = OrderedDict()  # to be ended, and not begun here yet
        self._looks: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(AT_ONCE)

    async def start(self, hearing: Hearing) -> None:
        """Take over what an earlier node left, and hear which turns are to end."""
        await hearing.add(Listener(STOPS, self._told_to_stop, again=self._look_for_stops))
        owners = await every_owner(self._pool)
        for owner, session in await self._store.left_over(owners):
            self.submit(owner, session)

    async def close(self) -> None:
        """Leave what runs as it is: the next start takes it over."""
        await end_tasks(*self._sessions.values(), *self._looks)

    def submit(self, owner: str, session: UUID) -> None:
        """A session has a turn to run."""
        self._wanted.add(session)
        if session not in self._sessions:
            self._sessions[session] = asyncio.create_task(self._run(owner, session))

    async def stop(self, owner: str, turn: UUID) -> bool:
        """End a turn, whichever process runs it; False when it has ended already."""
        if turn in self._ending:  # its row says so a moment later
            return False
        task = self._thinking.get(turn)
        if task is None:
            return await self._store.drop_queued(owner, turn) or await self._store.ask_to_stop(
                owner, turn=turn
            )
        task.cancel()
        return True

    def _told_to_stop(self, payload: str) -> None:
        turn = UUID(payload)
        if (task := self._thinking.get(turn)) is not None:
            task.cancel()
            return
        # Another's, or one that this process has claimed and not begun.
        self._unwanted[turn] = None
        while len(self._unwanted) > MOST_UNWANTED:
            self._unwanted.popitem(last=False)

    def _look_for_stops(self) -> None:
        """What was told while nothing was heard stands in the rows."""
        look = asyncio.create_task(self._stop_what_is_asked())
        self._looks.add(look)
        look.add_done_callback(self._looks.discard)

    async def _stop_what_is_asked(self) -> None:
        try:
            for turn in await self._store.asked_to_stop(dict(self._running)):
                self._told_to_stop(turn.hex)
        except IndaiError as error:
            log.warning("which turns are to end could not be read", reason=error.reason.name)

    async def stop_session(self, owner: str, session: UUID) -> None:
        """End the running turn of a session, if there is one."""
        turn = self._current.get(session)
        if turn is not None:
            await self.stop(owner, turn)
        else:
            await self._store.ask_to_stop(owner, session=session)

    async def _run(self, owner: str, session: UUID) -> None:
        try:
            while session in self._wanted:
                self._wanted.discard(session)
                async with self._room:
                    while (turn := await self._claimed(owner, session)) is not None:
                        await self._one(turn)
        finally:
            del self._sessions[session]

    async def _claimed(self, owner: str, session: UUID) -> Turn | None:
        for pause in RETRY_S:
            try:
                return await self._store.claim(owner, session)
            except IndaiError as error:
                log.warning("a turn could not be claimed", reason=error.reason.name)
                await asyncio.sleep(pause)
        return await self._store.claim(owner, session)

    async def _one(self, turn: Turn) -> None:
        talk = Talk(turn, self._store, self._hub)
        try:
            thought = _without_thinking(turn) or await self._thought(turn, talk)
            self._ending.add(turn.id)
            await self._end(turn, talk, thought)
        finally:
            self._ending.discard(turn.id)
        self._ended(turn.owner)

    async def _thought(self, turn: Turn, talk: Talk) -> Thought:
        task = self._thinking[turn.id] = asyncio.ensure_future(self._think(turn, talk))
        self._current[turn.session.id], self._running[turn.id] = turn.id, turn.owner
        if turn.id in self._unwanted:
            task.cancel()
        try:
            done, _ = await asyncio.wait({task}, timeout=TURN_S)
            if not done:
                await end_tasks(task)
                return _failed(turn, talk, Reason.DEADLINE_EXCEEDED.name, "too_slow")
            return self._result(turn, talk, task)
        finally:
            if not task.done():  # this node stops
                await end_tasks(task)
            del self._thinking[turn.id], self._current[turn.session.id], self._running[turn.id]
            self._unwanted.pop(turn.id, None)

    def _result(self, turn: Turn, talk: Talk, task: asyncio.Task[Thought]) -> Thought:
        if task.cancelled():
            return Thought(pb.Reply(text=" ".join(talk.sentences)), ending="stopped")
        error = task.exception()
        if error is None:
            return task.result()
        if isinstance(error, IndaiError):
            log.warning("a turn failed", turn=turn.id.hex, reason=error.reason.name, error=error.message)
            return _failed(turn, talk, error.reason.name, "error")
        log.error("a turn failed", turn=turn.id.hex, exc_info=error)
        return _failed(turn, talk, Reason.INTERNAL.name, "error")

    async def _end(self, turn: Turn, talk: Talk, thought: Thought) -> None:
        """A database that is away for a moment must not cost the answer."""
        for pause in (*RETRY_S, None):
            try:
                await talk.end(thought)
            except IndaiError as error:
                if pause is None or error.reason is Reason.LOG_FENCED:
                    log.error("an answer could not be stored", turn=turn.id.hex, reason=error.reason.name)
                    return
                await asyncio.sleep(pause)
            else:
                return


def _without_thinking(turn: Turn) -> Thought | None:
    if turn.session.status == "handed_off":
        return Thought(pb.Reply(), ending="handed_off", reason="HANDED_OFF")
    if turn.attempts > MAX_ATTEMPTS or (turn.attempts > 1 and turn.said):
        words = say("interrupted", turn.session.language)
        text = " ".join((*turn.said, words))
        return Thought(pb.Reply(text=text), ending="failed", reason="INTERRUPTED")
    return None


def _failed(turn: Turn, talk: Talk, reason: str, key: str) -> Thought:
    words = say(key, turn.session.language)
    talk.sentence(words)
    return Thought(pb.Reply(text=" ".join(talk.sentences)), ending="failed", reason=reason)
