"""Tasks belong to their caller; pages, keys and histories are as the specification says; on all bindings."""

from __future__ import annotations

import asyncio

import pytest
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import (
    ContentTypeNotSupportedError,
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
    VersionNotSupportedError,
)
from indai.a2a import conformance, running, servicer

from tests.service.a2a.conftest import BINDINGS, Node, Started, context, message

pytestmark = pytest.mark.parametrize("binding", BINDINGS)


async def test_what_another_caller_made_looks_like_what_is_missing(node: Node, binding: str) -> None:
    ann, ben = await node.client(binding), await node.client(binding, "ben")
    task = (await ann.send_message(message("tck-input-required"), context=context())).task
    config = pb.TaskPushNotificationConfig(task_id=task.id, url="http://127.0.0.1:9/hook")
    kept = await ann.create_task_push_notification_config(config, context=context())
    for caller, task_id in ((ben, task.id), (ann, "7d3b1c52-0000-4000-8000-000000000000"), (ann, "none")):
        seen = context("ben" if caller is ben else "ann")
        with pytest.raises(TaskNotFoundError):
            await caller.get_task(pb.GetTaskRequest(id=task_id), context=seen)
        with pytest.raises(TaskNotFoundError):
            await caller.cancel_task(pb.CancelTaskRequest(id=task_id), context=seen)
        with pytest.raises(TaskNotFoundError):
            await caller.send_message(message("tck-complete-task", task_id=task_id), context=seen)
        with pytest.raises(TaskNotFoundError):
            await anext(caller.subscribe(pb.SubscribeToTaskRequest(id=task_id), context=seen))
        wanted = pb.GetTaskPushNotificationConfigRequest(task_id=task_id, id=kept.id)
        with pytest.raises(TaskNotFoundError):
            await caller.get_task_push_notification_config(wanted, context=seen)
    assert not (await ben.list_tasks(pb.ListTasksRequest(), context=context("ben"))).tasks


async def test_a_task_that_has_ended_takes_nothing_more(node: Node, binding: str) -> None:
    client = await node.client(binding)
    task = (await client.send_message(message("tck-complete-task"), context=context())).task
    with pytest.raises(UnsupportedOperationError):
        await client.send_message(message("tck-complete-task", task_id=task.id), context=context())
    with pytest.raises(TaskNotCancelableError):
        await client.cancel_task(pb.CancelTaskRequest(id=task.id), context=context())
    with pytest.raises(UnsupportedOperationError):
        await anext(client.subscribe(pb.SubscribeToTaskRequest(id=task.id), context=context()))


async def test_an_aadhaar_number_is_refused_before_anything_is_stored(node: Node, binding: str) -> None:
    client = await node.client(binding)
    asked = message("tck-complete-task", "My Aadhaar is 2999 2849 6545.")
    with pytest.raises(InvalidParamsError) as refused:
        await client.send_message(asked, context=context())
    assert "6545" not in str(refused.value)
    for number in ("२९९९ २८४९ ६५४५", 299928496545):
        structured = message("tck-complete-task")
        structured.message.parts.add().data.struct_value.update({"aadhaar": {"number": number}})
        with pytest.raises(InvalidParamsError):
            await client.send_message(structured, context=context())
    assert not (await client.list_tasks(pb.ListTasksRequest(), context=context())).tasks


async def test_a_task_that_waits_can_be_canceled_once(node: Node, binding: str) -> None:
    client = await node.client(binding)
    task = (await client.send_message(message("tck-input-required"), context=context())).task
    watching = client.subscribe(pb.SubscribeToTaskRequest(id=task.id), context=context())
    assert (await anext(watching)).task.status.state == pb.TASK_STATE_INPUT_REQUIRED
    done = await client.cancel_task(pb.CancelTaskRequest(id=task.id), context=context())
    assert done.status.state == pb.TASK_STATE_CANCELED
    assert [event.status_update.status.state async for event in watching] == [pb.TASK_STATE_CANCELED]
    with pytest.raises(TaskNotCancelableError):
        await client.cancel_task(pb.CancelTaskRequest(id=task.id), context=context())


async def test_the_context_must_be_that_of_the_task(node: Node, binding: str) -> None:
    client = await node.client(binding)
    task = (await client.send_message(message("tck-input-required"), context=context())).task
    with pytest.raises(InvalidParamsError):
        await client.send_message(
            message("tck-complete-task", task_id=task.id, context_id="another"), context=context()
        )
    kept = message("tck-complete-task", context_id="mine")
    assert (await client.send_message(kept, context=context())).task.context_id == "mine"


async def test_history_is_as_long_as_was_asked_for(node: Node, binding: str) -> None:
    client = await node.client(binding)
    task = (await client.send_message(message("tck-input-required"), context=context())).task
    await client.send_message(message("tck-complete-task", task_id=task.id), context=context())
    for length, expected in ((0, 0), (1, 1), (2, 2), (50, 3)):
        request = pb.GetTaskRequest(id=task.id, history_length=length)
        assert len((await client.get_task(request, context=context())).history) == expected
    with pytest.raises(InvalidParamsError):
        await client.get_task(pb.GetTaskRequest(id=task.id, history_length=-1), context=context())
    short = message("tck-complete-task")
    short.configuration.history_length = 0
    assert not (await client.send_message(short, context=context())).task.history


async def test_tasks_are_listed_newest_first_in_pages_that_hold(node: Node, binding: str) -> None:
    client = await node.client(binding)
    made = []
    for number in range(5):
        node.time[0] += 1_000
        name = "tck-complete-task" if number % 2 else "tck-artifact-text"
        made.append((await client.send_message(message(name, context_id="c"), context=context())).task.id)
    first = await client.list_tasks(pb.ListTasksRequest(page_size=2), context=context())
    assert [task.id for task in first.tasks] == made[:2:-1]
    assert (first.total_size, first.page_size) == (5, 2)
    node.time[0] += 1_000
    await client.send_message(message("tck-complete-task"), context=context())
    rest = await client.list_tasks(
        pb.ListTasksRequest(page_size=5, page_token=first.next_page_token), context=context()
    )
    assert [task.id for task in rest.tasks] == made[2::-1]
    assert not rest.next_page_token
    assert not any(task.artifacts for task in rest.tasks)
    whole = await client.list_tasks(
        pb.ListTasksRequest(context_id="c", include_artifacts=True), context=context()
    )
    assert [bool(task.artifacts) for task in whole.tasks] == [True, False, True, False, True]
    rejected = pb.ListTasksRequest(status=pb.TASK_STATE_REJECTED)
    assert not (await client.list_tasks(rejected, context=context())).tasks
    for wrong in (pb.ListTasksRequest(page_size=101), pb.ListTasksRequest(page_token="!x")):
        with pytest.raises(InvalidParamsError):
            await client.list_tasks(wrong, context=context())


async def test_a_key_makes_one_task_however_often_it_comes(node: Node, binding: str) -> None:
    client = await node.client(binding)
    keyed = context(**{"Idempotency-Key": "order-1"})
    answers = await asyncio.gather(
        *(client.send_message(message("tck-artifact-text"), context=keyed) for _ in range(8))
    )
    assert len({answer.task.id for answer in answers}) == 1
    with pytest.raises(InvalidParamsError):
        await client.send_message(message("tck-artifact-text", "something else"), context=keyed)
    # A message's id is no key: clients use it again.
    other = (await client.send_message(message("tck-artifact-text"), context=context())).task
    assert other.id != answers[0].task.id
    another = await node.client(binding, "ben")
    theirs = context("ben", **{"Idempotency-Key": "order-1"})
    task = (await another.send_message(message("tck-artifact-text"), context=theirs)).task
    assert task.id != answers[0].task.id


async def test_requests_that_lack_something_name_it(node: Node, binding: str) -> None:
    client = await node.client(binding)
    nothing = pb.SendMessageRequest(message=pb.Message(role=pb.ROLE_USER))
    with pytest.raises(InvalidParamsError) as caught:
        await client.send_message(nothing, context=context())
    if binding == "grpc":
        named = {error["field"] for error in (caught.value.data or {})["errors"]}
        assert {"message.message_id", "message.parts"} <= named
    odd = message("tck-complete-task")
    odd.message.parts[0].media_type = "application/x-unheard-of"
    with pytest.raises(ContentTypeNotSupportedError):
        await client.send_message(odd, context=context())
    stranger = message("tck-complete-task")
    stranger.tenant = "stranger"
    with pytest.raises(TaskNotFoundError):
        await client.send_message(stranger, context=context())


@pytest.mark.parametrize("version", ["0.3", "2.0", "one"])
async def test_only_one_version_is_spoken(node: Node, binding: str, version: str) -> None:
    client = await node.client(binding)
    with pytest.raises(VersionNotSupportedError):
        await client.list_tasks(pb.ListTasksRequest(), context=context(**{"A2A-Version": version}))
    assert await client.list_tasks(pb.ListTasksRequest(), context=context(**{"A2A-Version": "1.0.1"}))


async def test_two_streams_of_one_task_see_the_same(
    node: Node, binding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conformance, "RESUBSCRIBE_S", 0.3)
    client = await node.client(binding)
    stream = client.send_message_streaming(message("test-resubscribe-message-id"), context=context())
    task_id = (await anext(stream)).task.id
    watching = client.subscribe(pb.SubscribeToTaskRequest(id=task_id), context=context())
    await anext(watching)
    one = [event async for event in stream]
    two = [event async for event in watching]
    assert one[-1] == two[-1]
    assert one[-1].status_update.status.state == pb.TASK_STATE_COMPLETED


async def test_one_caller_has_only_so_many_tasks_worked_on(
    node: Node, binding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conformance, "RESUBSCRIBE_S", 30.0)
    monkeypatch.setattr(servicer, "MAX_RUNNING", 3)
    client = await node.client(binding)
    request = message("test-resubscribe-message-id")
    request.configuration.return_immediately = True
    tasks = [(await client.send_message(request, context=context())).task for _ in range(3)]
    with pytest.raises(Exception, match=r"too many tasks|429"):
        await client.send_message(request, context=context())
    other = await node.client(binding, "ben")
    assert (await other.send_message(message("tck-complete-task"), context=context("ben"))).task.id
    await client.cancel_task(pb.CancelTaskRequest(id=tasks[0].id), context=context())
    assert (await client.send_message(request, context=context())).task.id


async def test_a_stream_that_nobody_reads_is_cut_and_the_task_goes_on(
    node: Node, binding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "MAX_UNREAD", 2)
    watchers = running.Watchers()
    watcher = watchers.add("tck", "1")
    task = pb.Task(id="1")
    for seq in range(1, 5):
        watchers.show("tck", task, seq, [pb.StreamResponse()])
    with pytest.raises(Exception, match="cut"):
        _ = [event async for event in watcher.events(0)]


async def test_tasks_outlive_the_process(start: Started, binding: str) -> None:
    first = await start()
    client = await first.client(binding)
    asked = (await client.send_message(message("tck-input-required"), context=context())).task
    await first.stack.aclose()
    second = await start()
    again = await second.client(binding)
    assert await again.get_task(pb.GetTaskRequest(id=asked.id), context=context()) == asked
    done = await again.send_message(message("tck-complete-task", task_id=asked.id), context=context())
    assert done.task.status.state == pb.TASK_STATE_COMPLETED
