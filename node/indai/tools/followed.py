"""Negotiations that conversations wait to hear of: followed by a job each, and told of once.

A question that was asked in a conversation may be answered anywhere: there, at the desk, by a command. Where
it is answered elsewhere its job tells what came of it; where it is answered in the conversation itself, the
turn tells, and the job goes. Rows alone say what is waited for, so a kill loses nothing; what is kept in
memory only makes it faster.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID

import structlog
from indai.client.tasks import end_tasks
from indai.protocol.errors import IndaiError
from indai.tools.jobs import Job, Jobs
from indai.tools.store import holder_of
from indai.tools.values import Caller, Outcome

FOLLOW_S: Final = 5.0
AGAIN_S: Final = 1.0
TRIES: Final = 5
"""How often a job is woken that runs just now, and may have looked too early."""

log = structlog.get_logger(__name__)


class Followed:
    """See the module."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._waits: defaultdict[tuple[str, str], set[UUID]] = defaultdict(set)
        self._changed: dict[UUID, int] = {}
        self._here: Counter[tuple[str, str]] = Counter()
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def begin(self, caller: Caller, tool: str, outcome: Outcome) -> str:
        """Follow the thread of an outcome that goes on, or waits for the owner's word; the job's id."""
        about, key, delay_s = {"thread_id": outcome.thread}, outcome.thread, FOLLOW_S
        if outcome.approval is not None:
            about["question"] = outcome.approval.action_hash
            # It looks at once, so that the answer wakes it.
            key, delay_s = f"{outcome.thread}:{outcome.approval.action_hash}", 0.0
        return str(await self._jobs.add(caller, "follow", tool, about, delay_s=delay_s, key=key))

    async def told(self, caller: Caller, thread: str) -> None:
        """The conversation has just heard how a thread ended, by what was done in it."""
        holder = holder_of(caller)
        self._over(holder, await self._jobs.drop(holder, caller.session, thread=thread))

    @contextmanager
    def answering(self, caller: Caller, code: str) -> Iterator[None]:
        """While this conversation answers the question itself, its job keeps quiet."""
        key = (caller.session, code)
        self._here[key] += 1
        try:
            yield
        finally:
            self._here[key] -= 1
            self._here += Counter()  # without those that are 0

    async def answered(self, caller: Caller, code: str) -> None:
        """The turn tells what came of it: the question's job is over."""
        holder = holder_of(caller)
        self._over(holder, await self._jobs.drop(holder, caller.session, code=code))

    def waits(self, job: Job) -> None:
        """A job that looks, before it does: from now on it is woken by each change."""
        self._waits[job.holder, job.arguments["thread_id"]].add(job.id)
        self._changed.pop(job.id, None)

    def ends(self, job: Job) -> None:
        """A job that is over."""
        self._over(job.holder, {job.id})

    def _over(self, holder: str, ids: set[UUID]) -> None:
        for key in [key for key, waiting in self._waits.items() if key[0] == holder and waiting & ids]:
            self._waits[key] -= ids
            if not self._waits[key]:
                del self._waits[key]

    async def is_told_here(self, job: Job) -> bool:
        """Whether the conversation itself answers the question of a job, or has: then the turn tells. To be
        asked after the look that shows an answer."""
        question = job.arguments.get("question", "")
        if question and any(
            session == job.caller.session and question.startswith(code) for session, code in self._here
        ):
            return True
        return not await self._jobs.is_waiting(job.holder, job.id)

    def changed(self, holder: str, thread: str) -> None:
        """Something of a thread (hex) has changed: who waits for it looks at once. Returns at once."""
        if ids := self._waits.get((holder, thread)):
            self._changed.update(dict.fromkeys(ids, TRIES))
            self._news.set()

    def doubted(self, holder: str) -> None:
        """Anything of a holder's may have changed."""
        for owner, thread in list(self._waits):
            if owner == holder:
                self.changed(owner, thread)

    def start(self) -> None:
        """Begin to wake jobs."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop; the jobs are looked at later by themselves."""
        await end_tasks(self._task)

    async def _run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                woken = await self._jobs.wake(list(self._changed))
            except IndaiError as error:
                log.warning("followed negotiations wait", reason=error.reason.name)
                woken = set()
            self._changed = {
                id: left - 1 for id, left in self._changed.items() if id not in woken and left > 1
            }
            if self._changed:
                await asyncio.sleep(AGAIN_S)
                self._news.set()
