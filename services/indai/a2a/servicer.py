"""The eleven operations of A2A 1.0 (section 3.1), for all three bindings.

A method takes the request as the published protobuf message and the `Call`; it raises the SDK's `A2AError`.
A binding does nothing but translate. Another caller's task and a missing one look alike.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import (
    ContentTypeNotSupportedError,
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a.utils.task import apply_history_length, validate_history_length, validate_page_size
from google.protobuf.json_format import MessageToDict
from indai.a2a.agents import Agent, Agents, TaskEvent, Turn, status
from indai.a2a.calls import Call
from indai.a2a.cards import CardIssuer
from indai.a2a.errors import TooManyRequests, Unauthenticated
from indai.a2a.push import PushConfigs
from indai.a2a.required import check_required
from indai.a2a.running import INTERRUPTED, Clock, Overtaken, Running, Watcher, Watchers, applied, timestamp
from indai.a2a.store import DEFAULT_PAGE, TERMINAL, Change, Stored, TaskStore, digest_of
from indai.tools.identity import holds_aadhaar

MAX_RUNNING = 256
"""Tasks of one caller that may be worked on at once."""
MAX_PARTS = 100


class _Key(NamedTuple):
    """An Idempotency-Key and the digest of the request that came with it."""

    key: str
    digest: bytes


class A2AServicer:
    """Serves the agents of this node. `clock`: ms since the epoch."""

    def __init__(
        self, agents: Agents, store: TaskStore, push: PushConfigs, cards: CardIssuer, clock: Clock
    ) -> None:
        self._agents, self._store, self._push, self._cards = agents, store, push, cards
        self._clock = clock
        self._watchers = Watchers()
        self._running: dict[tuple[str, str], Running] = {}
        self._of: dict[str, set[Running]] = {}

    async def send_message(self, request: pb.SendMessageRequest, call: Call) -> pb.SendMessageResponse:
        """The agent's answer: a message, or the task when it has ended, waits for somebody, or was stored."""
        agent = await self._admitted(request)
        key = _key_of(agent, request, call)
        task = await self._repeated(agent, key, call)
        if task is None:
            direct = await self._direct(agent, request.message, call)
            if direct is not None:
                return pb.SendMessageResponse(message=direct)
            stored = await self._task_for(agent, request.message, call)
            try:
                running = await self._run(agent, stored, request, call, key)
                at_once = request.configuration.return_immediately
                task = await (running.stored() if at_once else running.paused())
            except Overtaken:
                task = await self._overtaken(agent, key, call)
        return pb.SendMessageResponse(task=_shortened(task, request.configuration))

    async def send_streaming_message(
        self, request: pb.SendMessageRequest, call: Call
    ) -> AsyncIterator[pb.StreamResponse]:
        """One message; or the task as it began and then its events, until it ends or waits for somebody."""
        agent = await self._admitted(request)
        key = _key_of(agent, request, call)
        known = await self._repeated(agent, key, call)
        if known is not None:
            yield pb.StreamResponse(task=_shortened(known, request.configuration))
            return
        direct = await self._direct(agent, request.message, call)
        if direct is not None:
            yield pb.StreamResponse(message=direct)
            return
        stored = await self._task_for(agent, request.message, call)
        # Watched from before its first change, so none is missed.
        with self._watched(agent, stored.task.id) as watcher:
            try:
                running = await self._run(agent, stored, request, call, key)
                await running.stored()
            except Overtaken:
                known = await self._overtaken(agent, key, call)
                yield pb.StreamResponse(task=_shortened(known, request.configuration))
                return
            yield pb.StreamResponse(task=_shortened(stored.task, request.configuration))
            async for event in watcher.events(stored.seq):
                yield event
                if event.status_update.status.state in INTERRUPTED:
                    return

    async def get_task(self, request: pb.GetTaskRequest, call: Call) -> pb.Task:
        """A task of the caller's, as it is stored."""
        check_required(request)
        validate_history_length(request)
        agent = await self._agent(request.tenant)
        return apply_history_length((await self._stored(agent, request.id, call)).task, request)

    async def list_tasks(self, request: pb.ListTasksRequest, call: Call) -> pb.ListTasksResponse:
        """The caller's tasks, newest first; none for a caller who proves nobody."""
        check_required(request)
        validate_history_length(request)
        if request.HasField("page_size"):
            validate_page_size(request.page_size)
        agent = await self._agent(request.tenant)
        if not call.caller:
            return pb.ListTasksResponse(page_size=request.page_size or DEFAULT_PAGE)
        page = await self._store.page(agent.handle, call.caller, request)
        for at, task in enumerate(page.tasks):
            if not request.include_artifacts:
                task.ClearField("artifacts")
            page.tasks[at].CopyFrom(apply_history_length(task, request))
        return page

    async def cancel_task(self, request: pb.CancelTaskRequest, call: Call) -> pb.Task:
        """The task, canceled. Raises TaskNotCancelableError if it has ended before."""
        check_required(request)
        agent = await self._agent(request.tenant)
        running = self._running.get((agent.handle, request.id))
        if running is not None and running.caller == call.caller:
            if not await agent.cancel(running.task, call):
                raise TaskNotCancelableError
            task = await running.cancel()
            if task.status.state != pb.TASK_STATE_CANCELED:
                raise TaskNotCancelableError
            return task
        stored = await self._stored(agent, request.id, call)
        if stored.task.status.state in TERMINAL or not await agent.cancel(stored.task, call):
            raise TaskNotCancelableError
        event = applied(stored.task, status(pb.TASK_STATE_CANCELED), self._clock())
        seq = stored.seq + 1
        await self._store.put(Change(agent.handle, call.caller, stored.task, seq))
        self._watchers.show(agent.handle, stored.task, seq, [event])
        self._push.changed(agent.handle, request.id)
        return stored.task

    async def subscribe_to_task(
        self, request: pb.SubscribeToTaskRequest, call: Call
    ) -> AsyncIterator[pb.StreamResponse]:
        """The task as it is, then its events until it ends."""
        check_required(request)
        agent = await self._agent(request.tenant)
        with self._watched(agent, request.id) as watcher:
            stored = await self._stored(agent, request.id, call)
            if stored.task.status.state in TERMINAL:
                raise UnsupportedOperationError("The task has ended; get it instead.")
            yield pb.StreamResponse(task=stored.task)
            async for event in watcher.events(stored.seq):
                yield event

    async def create_push_config(
        self, request: pb.TaskPushNotificationConfig, call: Call
    ) -> pb.TaskPushNotificationConfig:
        """Stores where the caller wants to be told of a task."""
        check_required(request)
        agent = await self._agent(request.tenant)
        stored = await self._stored(agent, request.task_id, call)
        return await self._push.put(agent.handle, request, stored.seq)

    async def get_push_config(
        self, request: pb.GetTaskPushNotificationConfigRequest, call: Call
    ) -> pb.TaskPushNotificationConfig:
        """One of a task's."""
        check_required(request)
        agent = await self._agent(request.tenant)
        await self._stored(agent, request.task_id, call)
        for config in await self._push.of(agent.handle, request.task_id):
            if config.id == request.id:
                return config
        raise TaskNotFoundError("This task has no such push notification configuration.")

    async def list_push_configs(
        self, request: pb.ListTaskPushNotificationConfigsRequest, call: Call
    ) -> pb.ListTaskPushNotificationConfigsResponse:
        """All of a task's: there are few, so there is one page."""
        check_required(request)
        agent = await self._agent(request.tenant)
        await self._stored(agent, request.task_id, call)
        return pb.ListTaskPushNotificationConfigsResponse(
            configs=await self._push.of(agent.handle, request.task_id)
        )

    async def delete_push_config(
        self, request: pb.DeleteTaskPushNotificationConfigRequest, call: Call
    ) -> None:
        """Gone, however often it is asked for."""
        check_required(request)
        agent = await self._agent(request.tenant)
        await self._stored(agent, request.task_id, call)
        await self._push.delete(agent.handle, request.task_id, request.id)

    async def get_extended_card(self, request: pb.GetExtendedAgentCardRequest, call: Call) -> pb.AgentCard:
        """The card for callers who prove who they are."""
        if not call.caller:
            raise Unauthenticated
        return await self._cards.extended(await self._agent(request.tenant))

    async def _agent(self, tenant: str) -> Agent:
        agent = await self._agents.find(tenant)
        if agent is None:
            raise TaskNotFoundError("No such agent or task here.")
        return agent

    async def _admitted(self, request: pb.SendMessageRequest) -> Agent:
        check_required(request)
        validate_history_length(request.configuration)
        if len(request.message.parts) > MAX_PARTS:
            raise InvalidParamsError(f"A message has at most {MAX_PARTS} parts.")
        agent = await self._agent(request.tenant)
        accepted = {*agent.card.default_input_modes, *(m for s in agent.card.skills for m in s.input_modes)}
        for part in request.message.parts:
            if part.media_type and part.media_type not in accepted:
                raise ContentTypeNotSupportedError(
                    f"{part.media_type[:80]!r} is not taken here; send {' or '.join(sorted(accepted))}."
                )
            said = MessageToDict(part.data) if part.HasField("data") else part.text
            if holds_aadhaar(said):
                raise InvalidParamsError("The message has an Aadhaar number in it, which is not taken.")
        return agent

    async def _direct(self, agent: Agent, message: pb.Message, call: Call) -> pb.Message | None:
        if message.task_id:
            return None
        direct = await agent.reply(message, call)
        if direct is not None and not direct.context_id:
            direct.context_id = str(uuid.uuid4())
        return direct

    async def _repeated(self, agent: Agent, key: _Key | None, call: Call) -> pb.Task | None:
        """The task that this very request made before, by its idempotency key."""
        before = await self._store.created_by(agent.handle, call.caller, key.key) if key else None
        if key is None or before is None:
            return None
        digest, task_id = before
        if digest != key.digest:
            raise InvalidParamsError("This Idempotency-Key came with another request before.")
        return (await self._stored(agent, task_id, call)).task

    async def _overtaken(self, agent: Agent, key: _Key | None, call: Call) -> pb.Task:
        """The task of a request with the same key that was stored a moment before this one."""
        task = await self._repeated(agent, key, call)
        if task is None:
            raise TaskNotFoundError
        return task

    @contextmanager
    def _watched(self, agent: Agent, task_id: str) -> Iterator[Watcher]:
        watcher = self._watchers.add(agent.handle, task_id)
        try:
            yield watcher
        finally:
            self._watchers.remove(agent.handle, task_id, watcher)

    async def _run(
        self, agent: Agent, stored: Stored, request: pb.SendMessageRequest, call: Call, key: _Key | None
    ) -> Running:
        """Let the agent work; with an idempotency key or a webhook, when the task is stored."""
        task = stored.task
        mine = self._of.get(call.caller, ())
        if len(mine) >= MAX_RUNNING and sum(not each.rests for each in mine) >= MAX_RUNNING:
            raise TooManyRequests
        wanted = request.configuration.task_push_notification_config
        if request.configuration.HasField("task_push_notification_config"):
            await self._push.check(wanted)
        turn = Turn(agent.handle, request.message, task, call)
        running = self._listen(turn, stored.seq, agent.work(turn), None if stored.seq else key)
        if key or wanted.url:
            await running.stored()
        if wanted.url:
            wanted.task_id = task.id
            await self._push.put(agent.handle, wanted, 0)
        return running

    async def _task_for(self, agent: Agent, message: pb.Message, call: Call) -> Stored:
        """The task that the message continues, or a new one. The message is in its history."""
        if message.task_id:
            stored = await self._stored(agent, message.task_id, call)
            if message.context_id and message.context_id != stored.task.context_id:
                raise InvalidParamsError("The message's context is not that of its task.")
            if stored.task.status.state in TERMINAL:
                raise UnsupportedOperationError("The task has ended; begin another one.")
            running = self._running.get((agent.handle, message.task_id))
            if running is not None:
                if not running.rests:
                    raise UnsupportedOperationError("The task is being worked on; wait for it.")
                await running.release()
                stored = Stored(running.task, running.seq)
            task = pb.Task()
            task.CopyFrom(stored.task)
            if task.status.HasField("message"):
                task.history.append(task.status.message)
                task.status.ClearField("message")
            task.status.state = pb.TASK_STATE_WORKING
            stored = Stored(task, stored.seq)
        else:
            task = pb.Task(id=str(uuid.uuid4()), context_id=message.context_id or str(uuid.uuid4()))
            task.status.state = pb.TASK_STATE_SUBMITTED
            stored = Stored(task, 0)
        task.status.timestamp.CopyFrom(timestamp(self._clock()))
        message.task_id, message.context_id = task.id, task.context_id
        task.history.append(message)
        return stored

    async def _stored(self, agent: Agent, task_id: str, call: Call) -> Stored:
        running = self._running.get((agent.handle, task_id))
        if running is not None and running.caller == call.caller and running.seq:
            return Stored(running.task, running.seq)
        stored = await self._store.get(agent.handle, call.caller, task_id)
        if stored is None:
            raise TaskNotFoundError
        if stored.task.status.state not in TERMINAL and (agent.handle, task_id) not in self._running:
            task = pb.Task()
            task.CopyFrom(stored.task)
            turn = Turn(agent.handle, pb.Message(), task, call)
            events = agent.resume(turn)
            if events is not None:
                await self._listen(turn, stored.seq, events, None).stored()
        return stored

    def _listen(self, turn: Turn, seq: int, events: AsyncIterator[TaskEvent], key: _Key | None) -> Running:
        running = Running(turn, seq, events, self._store, self._watchers, self._clock)
        self._running[turn.owner, turn.task.id] = running
        self._of.setdefault(running.caller, set()).add(running)
        running.start(self._push.changed, self._done, key)
        return running

    def _done(self, running: Running) -> None:
        if self._running.get((running.owner, running.task.id)) is running:
            del self._running[running.owner, running.task.id]
        mine = self._of[running.caller]
        mine.discard(running)
        if not mine:
            del self._of[running.caller]


def _key_of(agent: Agent, request: pb.SendMessageRequest, call: Call) -> _Key | None:
    """The client's own key, or that of the signed message. Taken before anything fills in the request's ids.

    A signed message is its caller's key only for a caller who is somebody: else whoever caught it on its way
    could ask what became of it.
    """
    if call.idempotency_key:
        return _Key(call.idempotency_key, digest_of(request))
    mid = agent.message_key(request.message) if call.caller and not request.message.task_id else None
    return _Key(f"mid:{mid.hex()}", mid) if mid else None


def _shortened(task: pb.Task, configuration: pb.SendMessageConfiguration) -> pb.Task:
    return apply_history_length(task, configuration)
