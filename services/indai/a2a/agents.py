"""What stands behind A2A: agents, by the tenant that a request names.

A tenant is a handle of this node, in full or by its name under the node's own authority. An agent answers a
message either at once, with a message, or by the events of a task, which the servicer stores and sends on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from a2a.types import a2a_pb2 as pb
from indai.a2a.calls import Call

TaskEvent: TypeAlias = pb.TaskStatusUpdateEvent | pb.TaskArtifactUpdateEvent
"""What an agent says of its task; the servicer fills in the ids and the time."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A message to an agent. `task` is the task that it continues or begins, as it stands before."""

    owner: str
    message: pb.Message
    task: pb.Task
    call: Call


class Agent(Protocol):
    """One agent. Its `handle` owns the rows; `card` is what it says of itself, without interfaces."""

    @property
    def handle(self) -> str: ...

    @property
    def card(self) -> pb.AgentCard: ...

    async def extended(self) -> pb.AgentCard:
        """The card for a caller who has proved who they are; without interfaces."""
        ...

    def message_key(self, message: pb.Message) -> bytes | None:
        """32 bytes that are the same whenever this message comes, if it carries such a thing."""
        ...

    async def reply(self, message: pb.Message, call: Call) -> pb.Message | None:
        """An answer that needs no task, or None."""
        ...

    def work(self, turn: Turn) -> AsyncIterator[TaskEvent]:
        """Works on the task. A state that waits for somebody may be followed by others, as long as the
        iterator goes on; the next message ends it."""
        ...

    def resume(self, turn: Turn) -> AsyncIterator[TaskEvent] | None:
        """What becomes of a task that hasn't ended and that nobody works on, after a restart. Turn's message
        is empty. None: it waits for the next message."""
        ...

    async def cancel(self, task: pb.Task, call: Call) -> bool:
        """Whether a task that hasn't ended may be canceled; takes back what it began."""
        ...


class Agents(Protocol):
    """The agents of this node."""

    async def find(self, tenant: str) -> Agent | None:
        """The agent of `tenant`; the node's default one for an empty text; None for an unknown one."""
        ...


def status(state: pb.TaskState, text: str = "") -> pb.TaskStatusUpdateEvent:
    """An event that changes the task's state, with words for a person."""
    event = pb.TaskStatusUpdateEvent()
    event.status.state = state
    if text:
        event.status.message.role = pb.ROLE_AGENT
        event.status.message.parts.add(text=text)
    return event


def artifact(*parts: pb.Part, name: str = "", artifact_id: str = "") -> pb.TaskArtifactUpdateEvent:
    """An event that adds a whole artifact."""
    made = pb.Artifact(artifact_id=artifact_id, name=name, parts=parts)
    return pb.TaskArtifactUpdateEvent(artifact=made, last_chunk=True)
