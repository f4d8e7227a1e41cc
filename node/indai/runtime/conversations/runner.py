"""Runs turns: one at a time for a session, sessions beside each other.

A turn that a killed node left is run again if nothing of its answer was released; its tools are idempotent by
turn. If sentences had gone out already, or it was run twice, it ends with plain words: a message that kills
its node must not do so for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final
from uuid import UUID

import asyncpg
import structlog
from indai.protocol.errors import IndaiError, Reason
from indai.runtime.conversations.hub import Hub
from indai.runtime.conversations.rows import every_owner
from indai.runtime.conversations.talk import Talk
from indai.runtime.conversations.turns import TurnStore
from indai.runtime.conversations.values import Thought, Turn
from indai.runtime.words import say
from indai.v1 import conversation_pb2 as pb

TURN_S: Final = 120.0
MAX_ATTEMPTS: Final = 2
AT_ONCE: Final = 64
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
        self._room = asyncio.Semaphore(AT_ONCE)

    async def start(self) -> None:
        """Take over what an earlier node left."""
        owners = await every_owner(self._pool)
        for owner, session in await self._store.left_over(owners):
            self.submit(owner, session)

    async def close(self) -> None:
        """Leave what runs as it is: the next start takes it over."""
        tasks = list(self._sessions.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def submit(self, owner: str, session: UUID) -> None:
        """A session has a turn to run."""
        self._wanted.add(session)
        if session not in self._sessions:
            self._sessions[session] = asyncio.create_task(self._run(owner, session))

    async def stop(self, owner: str, turn: UUID) -> bool:
        """End a turn; False when it has ended already."""
        task = self._thinking.get(turn)
        if task is None:
            return await self._store.drop_queued(owner, turn)
        task.cancel()
        return True

    async def stop_session(self, owner: str, session: UUID) -> None:
        """End the running turn of a session, if there is one."""
        turn = self._current.get(session)
        if turn is not None:
            await self.stop(owner, turn)

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
        thought = _without_thinking(turn) or await self._thought(turn, talk)
        await self._end(turn, talk, thought)
        self._ended(turn.owner)

    async def _thought(self, turn: Turn, talk: Talk) -> Thought:
        task = self._thinking[turn.id] = asyncio.ensure_future(self._think(turn, talk))
        self._current[turn.session.id] = turn.id
        try:
            done, _ = await asyncio.wait({task}, timeout=TURN_S)
            if not done:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                return _failed(turn, talk, Reason.DEADLINE_EXCEEDED.name, "too_slow")
            return self._result(turn, talk, task)
        finally:
            if not task.done():  # this node stops
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            del self._thinking[turn.id], self._current[turn.session.id]

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
