"""The conformance agent's scenarios, on all three bindings, by the published SDK's client."""

from __future__ import annotations

from typing import Any

import pytest
from a2a.types import a2a_pb2 as pb
from google.protobuf import json_format
from indai.a2a import conformance

from tests.service.a2a.conftest import BINDINGS, Node, context, message

pytestmark = pytest.mark.parametrize("binding", BINDINGS)

ENDS: dict[str, tuple[int, dict[str, Any] | None]] = {
    "tck-complete-task-1": (pb.TASK_STATE_COMPLETED, None),
    "tck-artifact-text-1": (pb.TASK_STATE_COMPLETED, {"text": "Generated text content"}),
    "tck-artifact-file-1": (
        pb.TASK_STATE_COMPLETED,
        {"raw": "R2VuZXJhdGVkIGZpbGUgY29udGVudA==", "filename": "output.txt", "mediaType": "text/plain"},
    ),
    "tck-artifact-file-url-1": (
        pb.TASK_STATE_COMPLETED,
        {"url": "https://example.com/output.txt", "filename": "output.txt", "mediaType": "text/plain"},
    ),
    "tck-artifact-data-1": (pb.TASK_STATE_COMPLETED, {"data": {"key": "value", "count": 42.0}}),
    "tck-input-required-1": (pb.TASK_STATE_INPUT_REQUIRED, None),
    "tck-reject-task-1": (pb.TASK_STATE_REJECTED, None),
}

STREAMS: dict[str, list[str]] = {
    "tck-stream-001": ["working", "Stream hello from TCK", "completed"],
    "tck-stream-002": ["completed"],
    "tck-stream-003": ["working", "Stream task lifecycle", "completed"],
    "tck-stream-ordering-001": ["working", "Ordered output", "completed"],
    "tck-stream-artifact-text": ["working", "Streamed text content", "completed"],
    "tck-stream-artifact-file": ["working", "output.txt", "completed"],
    "tck-stream-artifact-chunked": ["working", "chunk-1 ", "chunk-2", "completed"],
}


@pytest.mark.parametrize("message_id", ENDS)
async def test_a_message_ends_as_its_scenario_says(node: Node, binding: str, message_id: str) -> None:
    client = await node.client(binding)
    task = (await client.send_message(message(message_id), context=context())).task
    state, part = ENDS[message_id]
    assert task.status.state == state
    assert task.id
    assert task.context_id
    assert [said.message_id for said in task.history] == [message_id]
    shown = [json_format.MessageToDict(one) for made in task.artifacts for one in made.parts]
    assert shown == ([part] if part else [])
    again = await client.get_task(pb.GetTaskRequest(id=task.id), context=context())
    assert again == task


async def test_words_come_with_the_state(node: Node, binding: str) -> None:
    client = await node.client(binding)
    done = (await client.send_message(message("tck-complete-task"), context=context())).task
    assert done.status.message.parts[0].text == "Hello from TCK"
    refused = (await client.send_message(message("tck-reject-task"), context=context())).task
    assert refused.status.message.parts[0].text == "rejected"


async def test_a_message_may_be_answered_without_a_task(node: Node, binding: str) -> None:
    client = await node.client(binding)
    answer = await client.send_message(message("tck-message-response"), context=context())
    assert answer.message.parts[0].text == "Direct message response"
    assert answer.message.role == pb.ROLE_AGENT
    assert answer.message.context_id
    events = [
        event
        async for event in client.send_message_streaming(message("tck-message-response"), context=context())
    ]
    assert [event.WhichOneof("payload") for event in events] == ["message"]
    assert not (await client.list_tasks(pb.ListTasksRequest(), context=context())).tasks


@pytest.mark.parametrize("message_id", STREAMS)
async def test_a_stream_tells_the_task_and_then_its_events_in_order(
    node: Node, binding: str, message_id: str
) -> None:
    client = await node.client(binding)
    events = [event async for event in client.send_message_streaming(message(message_id), context=context())]
    assert events[0].task.status.state == pb.TASK_STATE_SUBMITTED
    assert [_told(event) for event in events[1:]] == STREAMS[message_id]
    stored = await client.get_task(pb.GetTaskRequest(id=events[0].task.id), context=context())
    assert stored.status.state == pb.TASK_STATE_COMPLETED


async def test_chunks_of_one_artifact_are_joined(node: Node, binding: str) -> None:
    client = await node.client(binding)
    request = message("tck-stream-artifact-chunked")
    events = [event async for event in client.send_message_streaming(request, context=context())]
    chunks = [event.artifact_update for event in events if event.HasField("artifact_update")]
    assert [(one.append, one.last_chunk) for one in chunks] == [(False, False), (True, True)]
    assert len({one.artifact.artifact_id for one in chunks}) == 1
    task = await client.get_task(pb.GetTaskRequest(id=events[0].task.id), context=context())
    assert [part.text for part in task.artifacts[0].parts] == ["chunk-1 ", "chunk-2"]


async def test_a_lost_stream_goes_on_where_the_task_is(
    node: Node, binding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conformance, "RESUBSCRIBE_S", 0.3)
    client = await node.client(binding)
    stream = client.send_message_streaming(message("test-resubscribe-message-id-1"), context=context())
    task_id = (await anext(stream)).task.id
    assert _told(await anext(stream)) == "working"
    await stream.aclose()
    events = [
        event async for event in client.subscribe(pb.SubscribeToTaskRequest(id=task_id), context=context())
    ]
    assert events[0].task.status.state == pb.TASK_STATE_WORKING
    assert [_told(event) for event in events[1:]] == ["completed"]


async def test_a_task_that_waits_goes_on_with_the_next_message(node: Node, binding: str) -> None:
    client = await node.client(binding)
    asked = (await client.send_message(message("tck-input-required"), context=context())).task
    more = message("tck-complete-task-2", task_id=asked.id)
    done = (await client.send_message(more, context=context())).task
    assert (done.id, done.context_id) == (asked.id, asked.context_id)
    assert done.status.state == pb.TASK_STATE_COMPLETED
    assert [said.message_id for said in done.history if said.role == pb.ROLE_USER] == [
        "tck-input-required",
        "tck-complete-task-2",
    ]


async def test_who_wants_no_waiting_gets_the_task_at_once(
    node: Node, binding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conformance, "RESUBSCRIBE_S", 30.0)
    client = await node.client(binding)
    request = message("test-resubscribe-message-id-2")
    request.configuration.return_immediately = True
    task = (await client.send_message(request, context=context())).task
    assert task.status.state in (pb.TASK_STATE_SUBMITTED, pb.TASK_STATE_WORKING)
    canceled = await client.cancel_task(pb.CancelTaskRequest(id=task.id), context=context())
    assert canceled.status.state == pb.TASK_STATE_CANCELED


def _told(event: pb.StreamResponse) -> str:
    if event.HasField("status_update"):
        return pb.TaskState.Name(event.status_update.status.state).removeprefix("TASK_STATE_").lower()
    part = event.artifact_update.artifact.parts[0]
    return str(part.text or part.filename)
