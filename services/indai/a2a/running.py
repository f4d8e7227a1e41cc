"""Tasks under way: an agent's events become durable, then visible, in one order for everybody.

A `Running` has two halves. The producer takes events from the agent as fast as they come. The keeper takes
all that have come, stores the task with them in one write, and only then shows them to those who watch: so
nobody ever sees what a crash could take back, and an agent that answers at once costs one COMMIT.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import structlog
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import InternalError
from google.protobuf.timestamp_pb2 import Timestamp
from indai.a2a.agents import TaskEvent, Turn, status
from indai.a2a.store import TERMINAL, Change, TaskStore
from indai.client.tasks import end_tasks
from indai.protocol.errors import IndaiError

INTERRUPTED = frozenset({pb.TASK_STATE_INPUT_REQUIRED, pb.TASK_STATE_AUTH_REQUIRED})
MAX_UNREAD = 512
"""Events that a watcher may leave unread; one that leaves more is cut off, so that it costs nobody memory."""

log = structlog.get_logger(__name__)

Changed = Callable[[str, str], None]
"""Told of each stored change, by owner and task."""
Clock = Callable[[], int]


class Overtaken(Exception):
    """Another request with the same idempotency key made its task first."""


@dataclass(eq=False, slots=True)
class Watcher:
    """One stream of a task's events."""

    queue: asyncio.Queue[tuple[int, pb.StreamResponse] | None] = field(default_factory=asyncio.Queue)
    cut: bool = False

    def show(self, seq: int, events: list[pb.StreamResponse], *, ended: bool) -> None:
        """Hand on the events of one change."""
        if not self.cut and self.queue.qsize() + len(events) > MAX_UNREAD:
            self.cut = True
            self.queue.put_nowait(None)
        if self.cut:
            return
        for event in events:
            self.queue.put_nowait((seq, event))
        if ended:
            self.queue.put_nowait(None)

    async def events(self, after: int) -> AsyncIterator[pb.StreamResponse]:
        """Events of the changes after `after`, until the task ends. Raises InternalError if it was cut."""
        while (shown := await self.queue.get()) is not None:
            if shown[0] > after:
                yield shown[1]
        if self.cut:
            raise InternalError("The stream was cut; subscribe again.")


class Watchers:
    """Who watches which task."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str], set[Watcher]] = {}

    def add(self, owner: str, task_id: str) -> Watcher:
        """A new watcher, for events from now on."""
        watcher = Watcher()
        self._of.setdefault((owner, task_id), set()).add(watcher)
        return watcher

    def remove(self, owner: str, task_id: str, watcher: Watcher) -> None:
        """It watches no more."""
        found = self._of.get((owner, task_id))
        if found is not None:
            found.discard(watcher)
            if not found:
                del self._of[owner, task_id]

    def show(self, owner: str, task: pb.Task, seq: int, events: list[pb.StreamResponse]) -> None:
        """Hand a change to all, in order; the end of the task is the end of their streams."""
        for watcher in self._of.get((owner, task.id), ()):
            watcher.show(seq, events, ended=task.status.state in TERMINAL)

    def cut(self, owner: str, task_id: str) -> None:
        """End all streams of a task whose changes can't be stored: they must subscribe again."""
        for watcher in self._of.get((owner, task_id), ()):
            watcher.cut = True
            watcher.queue.put_nowait(None)


class Running:
    """A task that an agent works on. `task` is what is stored and may be shown; it changes by replacement."""

    def __init__(
        self,
        turn: Turn,
        seq: int,
        events: AsyncIterator[TaskEvent],
        store: TaskStore,
        watchers: Watchers,
        clock: Clock,
    ) -> None:
        self.owner, self.caller = turn.owner, turn.call.caller
        self.task = turn.task
        self.seq = seq
        self._events, self._store = events, store
        self._watchers, self._clock = watchers, clock
        self._came: list[TaskEvent] = []
        self._something = asyncio.Event()
        self._paused = asyncio.Event()
        self._over = asyncio.Event()
        self._canceled = self._released = False
        self._created: tuple[str, bytes] | None = None
        self._first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._keeper: asyncio.Task[None] | None = None

    def start(self, changed: Changed, done: Callable[[Running], None], key: tuple[str, bytes] | None) -> None:
        """Begin. `key` and digest are stored with the task if it is new; `changed` hears of each write, and
        `done` when the agent has nothing more to say."""
        self._created = key
        self._keeper = asyncio.create_task(self._keep(changed, done))

    @property
    def rests(self) -> bool:
        """Whether it waits for somebody; the agent may still have something to say."""
        return self._paused.is_set()

    async def release(self) -> None:
        """Listen to the agent no more, so that another turn can go on with the task as it is stored."""
        self._released = True
        self._something.set()
        await self._over.wait()

    async def stored(self) -> pb.Task:
        """The task after its first write. Raises what the write raised."""
        await asyncio.shield(self._first)
        return self.task

    async def paused(self) -> pb.Task:
        """The task when it has ended or waits for somebody. Raises what its first write raised."""
        await asyncio.shield(self._first)
        await self._paused.wait()
        return self.task

    async def cancel(self) -> pb.Task:
        """Stop the agent; the task is canceled unless it has ended meanwhile."""
        self._canceled = True
        self._something.set()
        return await self.paused()

    async def _keep(self, changed: Changed, done: Callable[[Running], None]) -> None:
        producer = asyncio.create_task(self._produce())
        try:
            while not self._released:
                await self._something.wait()
                self._something.clear()
                if self._canceled and not producer.done():
                    producer.cancel()
                    await asyncio.wait([producer])
                    self._came.append(status(pb.TASK_STATE_CANCELED))
                await self._write(changed)
                ended = self.task.status.state in TERMINAL or (producer.done() and not self._came)
                if ended or self.task.status.state in INTERRUPTED:
                    self._paused.set()
                if ended:
                    return
        except Exception as error:  # noqa: BLE001 - it belongs to those who wait for the write
            self._fail(error)
        finally:
            await end_tasks(producer)
            done(self)
            self._paused.set()
            self._over.set()

    async def _produce(self) -> None:
        self._something.set()
        try:
            async with contextlib.aclosing(self._events) as events:  # type: ignore[type-var]
                async for event in events:
                    self._came.append(event)
                    self._something.set()
        except IndaiError as error:
            # What is wrong on our side is no business of a stranger's.
            log.warning("an agent can't work on a task", task=self.task.id, error=error.message)
            self._came.append(status(pb.TASK_STATE_FAILED, "This agent can't answer at the moment."))
        except Exception as error:  # whatever an agent does, its task must end
            log.error("an agent failed at a task", task=self.task.id, exc_info=error)
            self._came.append(status(pb.TASK_STATE_FAILED, "Something went wrong inside the agent."))
        self._something.set()

    async def _write(self, changed: Changed) -> None:
        """Store all that has come. The commit point of every event is the return of `put`."""
        came, self._came = self._came, []
        first = not self._first.done()
        if not came and not first:
            return
        task = pb.Task()
        task.CopyFrom(self.task)
        shown: list[pb.StreamResponse] = []
        for event in came:
            if task.status.state in TERMINAL:
                break  # nothing follows the end, whatever the agent says
            shown.append(applied(task, event, self._clock()))
        seq = self.seq + 1
        key, digest = self._created or (None, None)
        if not await self._store.put(Change(self.owner, self.caller, task, seq, key, digest)):
            raise Overtaken
        self.task, self.seq, self._created = task, seq, None
        if first:
            self._first.set_result(None)
        self._watchers.show(self.owner, task, seq, shown)
        changed(self.owner, task.id)

    def _fail(self, error: Exception) -> None:
        if not self._first.done():
            self._first.set_exception(error)
            self._first.exception()  # it may be that nobody waits
        if isinstance(error, Overtaken):
            return
        log.error("a task could not be stored", task=self.task.id, exc_info=error)
        self._watchers.cut(self.owner, self.task.id)


def applied(task: pb.Task, said: TaskEvent, now_ms: int) -> pb.StreamResponse:
    """Change the task by what the agent said; gives it with ids, and with the time of a status."""
    event: Any = type(said)()
    event.CopyFrom(said)
    event.task_id, event.context_id = task.id, task.context_id
    if isinstance(event, pb.TaskArtifactUpdateEvent):
        if not event.artifact.artifact_id:
            event.artifact.artifact_id = str(uuid.uuid4())
        _add_artifact(task, event)
        return pb.StreamResponse(artifact_update=event)
    event.status.timestamp.CopyFrom(timestamp(now_ms))
    if event.status.HasField("message"):
        words = event.status.message
        words.message_id = words.message_id or str(uuid.uuid4())
        words.task_id, words.context_id = task.id, task.context_id
    # What an agent says of its task once is true of the task.
    if event.metadata.fields:
        task.metadata.MergeFrom(event.metadata)
    if task.status.HasField("message"):
        task.history.append(task.status.message)
    task.status.CopyFrom(event.status)
    return pb.StreamResponse(status_update=event)


def _add_artifact(task: pb.Task, event: pb.TaskArtifactUpdateEvent) -> None:
    for known in task.artifacts:
        if known.artifact_id == event.artifact.artifact_id:
            if event.append:
                known.parts.extend(event.artifact.parts)
            else:
                known.CopyFrom(event.artifact)
            return
    task.artifacts.append(event.artifact)


def timestamp(now_ms: int) -> Timestamp:
    """Milliseconds since the epoch, as protobuf has them."""
    made = Timestamp()
    made.FromMilliseconds(now_ms)
    return made
