"""The agent `tck`, for the published conformance kit: what it does follows from the message's id.

The kit drives a server through its scenarios by prefixes of `messageId`. The agent exists only where it was
asked for (`indai up --conformance`), on loopback, without authentication.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from a2a.types import a2a_pb2 as pb
from google.protobuf import json_format, struct_pb2
from indai.a2a.agents import Agent, TaskEvent, Turn, artifact, status
from indai.a2a.calls import Call

RESUBSCRIBE_S: Final = 4.0
_WORKING: Final = status(pb.TASK_STATE_WORKING)
_COMPLETED: Final = status(pb.TASK_STATE_COMPLETED)


def _text(text: str) -> list[TaskEvent]:
    return [artifact(pb.Part(text=text))]


def _data() -> pb.Part:
    value = struct_pb2.Value()
    json_format.ParseDict({"key": "value", "count": 42}, value)
    return pb.Part(data=value)


def _file(content: bytes = b"Generated file content") -> pb.Part:
    return pb.Part(raw=content, filename="output.txt", media_type="text/plain")


def _chunks() -> list[TaskEvent]:
    first = pb.TaskArtifactUpdateEvent(
        artifact=pb.Artifact(artifact_id="chunked", parts=[pb.Part(text="chunk-1 ")])
    )
    last = pb.TaskArtifactUpdateEvent(
        artifact=pb.Artifact(artifact_id="chunked", parts=[pb.Part(text="chunk-2")]),
        append=True,
        last_chunk=True,
    )
    return [first, last]


def _stream(*between: TaskEvent) -> list[TaskEvent]:
    return [_WORKING, *between, _COMPLETED]


_SCENARIOS: Final[dict[str, Callable[[], Sequence[TaskEvent]]]] = {
    "tck-complete-task": lambda: [status(pb.TASK_STATE_COMPLETED, "Hello from TCK")],
    "tck-artifact-text": lambda: [*_text("Generated text content"), _COMPLETED],
    "tck-artifact-file-url": lambda: [
        artifact(
            pb.Part(url="https://example.com/output.txt", filename="output.txt", media_type="text/plain")
        ),
        _COMPLETED,
    ],
    "tck-artifact-file": lambda: [artifact(_file(), name="output.txt"), _COMPLETED],
    "tck-artifact-data": lambda: [artifact(_data()), _COMPLETED],
    "tck-input-required": lambda: [status(pb.TASK_STATE_INPUT_REQUIRED, "Tell me more")],
    "tck-reject-task": lambda: [status(pb.TASK_STATE_REJECTED, "rejected")],
    "tck-stream-001": lambda: _stream(*_text("Stream hello from TCK")),
    "tck-stream-002": lambda: [_COMPLETED],
    "tck-stream-003": lambda: _stream(*_text("Stream task lifecycle")),
    "tck-stream-ordering-001": lambda: _stream(*_text("Ordered output")),
    "tck-stream-artifact-text": lambda: _stream(*_text("Streamed text content")),
    "tck-stream-artifact-file": lambda: _stream(artifact(_file(), name="output.txt")),
    "tck-stream-artifact-chunked": lambda: _stream(*_chunks()),
}
_MESSAGE: Final = "tck-message-response"
_RESUBSCRIBE: Final = "test-resubscribe-message-id"


class Tck:
    """The agent of the conformance kit."""

    handle = "tck"

    def __init__(self) -> None:
        self.card = pb.AgentCard(
            name="tck",
            description="Answers the scenarios of the A2A conformance kit.",
            version="1",
            default_input_modes=["text/plain", "application/json"],
            default_output_modes=["text/plain", "application/json"],
            capabilities=pb.AgentCapabilities(
                streaming=True, push_notifications=True, extended_agent_card=True
            ),
        )
        self.card.skills.add(
            id="conformance",
            name="Conformance scenarios",
            description="Does what the prefix of a message's id asks for.",
            tags=["conformance"],
            examples=["tck-complete-task"],
        )

    async def extended(self) -> pb.AgentCard:
        """The kit asks for no more."""
        return self.card

    def message_key(self, message: pb.Message) -> bytes | None:
        """None: nothing here is signed."""
        return None

    async def reply(self, message: pb.Message, call: Call) -> pb.Message | None:
        """`tck-message-response` is answered without a task."""
        if not message.message_id.startswith(_MESSAGE):
            return None
        return pb.Message(
            message_id=str(uuid.uuid4()),
            context_id=message.context_id,
            role=pb.ROLE_AGENT,
            parts=[pb.Part(text="Direct message response")],
        )

    async def work(self, turn: Turn) -> AsyncIterator[TaskEvent]:
        """The scenario whose prefix is the longest that fits; any other message completes at once."""
        message_id = turn.message.message_id
        if message_id.startswith(_RESUBSCRIBE):
            yield _WORKING
            await asyncio.sleep(RESUBSCRIBE_S)
            yield _COMPLETED
            return
        fitting = max((prefix for prefix in _SCENARIOS if message_id.startswith(prefix)), key=len, default="")
        for event in _SCENARIOS.get(fitting, _SCENARIOS["tck-complete-task"])():
            yield event

    def resume(self, turn: Turn) -> AsyncIterator[TaskEvent] | None:
        """What was worked on when the process ended has failed."""
        if turn.task.status.state == pb.TASK_STATE_INPUT_REQUIRED:
            return None
        return _interrupted()

    async def cancel(self, task: pb.Task, call: Call) -> bool:
        """Always: nothing was begun."""
        return True


async def _interrupted() -> AsyncIterator[TaskEvent]:
    yield status(pb.TASK_STATE_FAILED, "The server was restarted.")


class ConformanceAgents:
    """Only the kit's agent, as the node's default."""

    def __init__(self) -> None:
        self._tck = Tck()

    async def find(self, tenant: str) -> Agent | None:
        """`tck`, by its name or by none."""
        return self._tck if tenant in ("", "tck") else None
