"""One contract over both transports: a socket and the in-process channel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from indai.client.channels import CheckedChannel, bearer, plain_channel
from indai.client.rpc import MAX_TEXT_BYTES
from indai.node.auth import Authenticate, caller, new_token, operator, owners
from indai.node.inprocess import local_channel
from indai.node.server import RpcServer
from indai.node.service import Service
from indai.protocol.errors import (
    IndaiError,
    InvalidInput,
    NotFound,
    ProtocolError,
    Reason,
    Refused,
    Unavailable,
)
from indai.v1 import owner_pb2 as pb
from indai.v1.owner_pb2_grpc import OwnerServiceServicer, OwnerServiceStub, add_OwnerServiceServicer_to_server

if TYPE_CHECKING:
    from indai.v1.owner_pb2_grpc import OwnerServiceAsyncStub

Behaviour = Callable[[Any, Any], Awaitable[Any]]
Connect = Callable[..., Awaitable["OwnerServiceAsyncStub"]]


class Scripted(OwnerServiceServicer):
    """Answers GetThread and WatchThread as a test says."""

    def __init__(self, get: Any = None, watch: Any = None) -> None:
        self._get, self._watch = get, watch

    async def GetThread(self, request: Any, context: Any) -> Any:  # noqa: N802
        return await self._get(request, context)

    async def WatchThread(self, request: Any, context: Any) -> Any:  # noqa: N802
        async for response in self._watch(request, context):
            yield response


@pytest.fixture(params=["socket", "in-process"])
async def connect(request: pytest.FixtureRequest) -> AsyncIterator[Connect]:
    """Gives a stub of a scripted owner service, over the transport under test."""
    open_things: list[Any] = []

    async def make(
        get: Any = None, watch: Any = None, *, authenticate: Authenticate | None = None, token: str = ""
    ) -> OwnerServiceAsyncStub:
        scripted: Any = Scripted(get, watch)  # type: ignore[abstract]
        service = Service(add_OwnerServiceServicer_to_server, scripted, authenticate)
        channel: CheckedChannel
        if request.param == "socket":
            server = await RpcServer.start("127.0.0.1:0", [service])
            channel = plain_channel(server.address, token=token)
            open_things.extend([channel.close, lambda: server.stop(0)])
        else:
            channel = local_channel([service], metadata=bearer(token))
        return OwnerServiceStub(channel)

    yield make
    for close in open_things:
        await close()


def answering(error: Exception) -> Behaviour:
    async def get(request: Any, context: Any) -> Any:
        raise error

    return get


async def test_a_request_and_its_response_arrive(connect: Connect) -> None:
    async def get(request: pb.GetThreadRequest, context: Any) -> pb.GetThreadResponse:
        return pb.GetThreadResponse(thread=pb.Thread(thread_id=request.thread_id))

    stub = await connect(get)
    answer = await stub.GetThread(pb.GetThreadRequest(thread_id="ab"))
    assert answer.thread.thread_id == "ab"


async def test_neither_side_can_change_the_others_message(connect: Connect) -> None:
    kept = pb.GetThreadResponse(thread=pb.Thread(title="mine"))

    async def get(request: pb.GetThreadRequest, context: Any) -> pb.GetThreadResponse:
        request.thread_id = "changed"
        return kept

    stub = await connect(get)
    request = pb.GetThreadRequest(thread_id="ab")
    answer = await stub.GetThread(request)
    answer.thread.title = "theirs"
    assert (request.thread_id, kept.thread.title) == ("ab", "mine")


@pytest.mark.parametrize(
    "error",
    [
        InvalidInput(Reason.INVALID_HANDLE, "No handle.", hint="say one", fields={"peer": "is empty"}),
        NotFound(Reason.NOT_FOUND, "There is no such thread."),
        Refused(Reason.POLICY_DENIED, "Not allowed.", metadata={"thread": "ab"}),
        Unavailable(Reason.STALE_HEAD, "The head is old.", hint="wait"),
        Unavailable(Reason.RATE_LIMITED, "Too much."),
        ProtocolError(Reason.BAD_SIGNATURE, "It is forged.", rule="ENV-01"),
        ProtocolError(Reason.BAD_PROOF, "It does not verify."),
    ],
    ids=lambda error: error.reason.name,
)
async def test_an_error_arrives_as_it_was_raised(connect: Connect, error: IndaiError) -> None:
    stub = await connect(answering(error))
    with pytest.raises(IndaiError) as caught:
        await stub.GetThread(pb.GetThreadRequest())
    assert type(caught.value) is type(error)
    assert vars(caught.value) == vars(error)


async def test_texts_of_any_length_and_script_still_arrive(connect: Connect) -> None:
    long = "नमस्ते 🙏" * 2000
    error = InvalidInput(
        Reason.INVALID_ARGUMENT, long, hint=long, fields={f"{i}{long}": long for i in range(50)},
        metadata={f"k{i}": long for i in range(50)},
    )  # fmt: skip
    stub = await connect(answering(error))
    with pytest.raises(InvalidInput) as caught:
        await stub.GetThread(pb.GetThreadRequest())
    assert caught.value.reason is Reason.INVALID_ARGUMENT
    assert caught.value.message.startswith("नमस्ते")
    assert len(caught.value.message.encode()) <= MAX_TEXT_BYTES


async def test_an_unforeseen_error_gives_its_id_and_never_its_text(
    connect: Connect, capfd: pytest.CaptureFixture[str]
) -> None:
    stub = await connect(answering(RuntimeError("password=hunter2")))
    with pytest.raises(IndaiError) as caught:
        await stub.GetThread(pb.GetThreadRequest())
    assert caught.value.reason is Reason.INTERNAL
    assert "hunter2" not in str(vars(caught.value))
    assert caught.value.metadata["error_id"] in capfd.readouterr().err


async def test_a_deadline_ends_the_call_on_both_sides(connect: Connect) -> None:
    cancelled = asyncio.Event()

    async def get(request: Any, context: Any) -> Any:
        if not request.thread_id:
            return pb.GetThreadResponse()
        assert 0 < context.time_remaining() <= 0.6
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            cancelled.set()

    stub = await connect(get)
    await stub.GetThread(pb.GetThreadRequest())  # to connect takes none of the time of what follows
    with pytest.raises(Unavailable) as caught:
        await stub.GetThread(pb.GetThreadRequest(thread_id="ab"), timeout=0.5)
    assert caught.value.reason is Reason.DEADLINE_EXCEEDED
    assert "GetThread" in caught.value.message
    await asyncio.wait_for(cancelled.wait(), 60)


async def test_a_call_without_a_deadline_gets_one(connect: Connect) -> None:
    seen = []

    async def get(request: Any, context: Any) -> pb.GetThreadResponse:
        seen.append(context.time_remaining())
        return pb.GetThreadResponse()

    stub = await connect(get)
    await stub.GetThread(pb.GetThreadRequest())
    assert 5 < seen[0] <= 11  # gRPC rounds a deadline up on its way


async def test_cancelling_the_caller_cancels_the_servicer(connect: Connect) -> None:
    entered, left = asyncio.Event(), asyncio.Event()

    async def get(request: Any, context: Any) -> Any:
        entered.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            left.set()

    stub = await connect(get)
    task = asyncio.ensure_future(stub.GetThread(pb.GetThreadRequest()))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(left.wait(), 60)


async def test_a_stream_arrives_in_order_and_ends(connect: Connect) -> None:
    async def watch(request: Any, context: Any) -> AsyncIterator[pb.WatchThreadResponse]:
        for i in range(5):
            yield pb.WatchThreadResponse(thread=pb.Thread(title=str(i)))

    stub = await connect(watch=watch)
    titles = [r.thread.title async for r in stub.WatchThread(pb.WatchThreadRequest())]
    assert titles == ["0", "1", "2", "3", "4"]


async def test_an_error_in_a_stream_arrives_after_what_came_before(connect: Connect) -> None:
    async def watch(request: Any, context: Any) -> AsyncIterator[pb.WatchThreadResponse]:
        yield pb.WatchThreadResponse()
        raise NotFound(Reason.NOT_FOUND, "It is gone.")

    stub = await connect(watch=watch)
    responses = aiter(stub.WatchThread(pb.WatchThreadRequest()))
    assert await anext(responses) == pb.WatchThreadResponse()
    with pytest.raises(NotFound, match="It is gone"):
        await anext(responses)


async def test_leaving_a_stream_ends_it_at_the_servicer(connect: Connect) -> None:
    left = asyncio.Event()

    async def watch(request: Any, context: Any) -> AsyncIterator[pb.WatchThreadResponse]:
        try:
            yield pb.WatchThreadResponse()
            await asyncio.get_running_loop().create_future()
        finally:
            left.set()

    stub = await connect(watch=watch)
    stream: Any = stub.WatchThread(pb.WatchThreadRequest())
    async for _ in stream:
        break
    await stream.aclose()
    await asyncio.wait_for(left.wait(), 60)


async def test_a_stream_has_a_deadline(connect: Connect) -> None:
    async def watch(request: Any, context: Any) -> AsyncIterator[pb.WatchThreadResponse]:
        yield pb.WatchThreadResponse()
        await asyncio.get_running_loop().create_future()

    stub = await connect(watch=watch)
    with pytest.raises(Unavailable) as caught:
        [r async for r in stub.WatchThread(pb.WatchThreadRequest(), timeout=0.2)]
    assert caught.value.reason is Reason.DEADLINE_EXCEEDED


async def test_an_owner_is_known_by_their_token(connect: Connect) -> None:
    token = new_token()

    async def find(sha256: bytes) -> str | None:
        return "ind.ai/alice" if sha256 == token.sha256 else None

    async def get(request: Any, context: Any) -> pb.GetThreadResponse:
        assert context.time_remaining() > 0
        return pb.GetThreadResponse(thread=pb.Thread(title=caller(context).owner))

    stub = await connect(get, authenticate=owners(find), token=token.text)
    assert (await stub.GetThread(pb.GetThreadRequest())).thread.title == "ind.ai/alice"
    for wrong in ("", new_token().text, "short"):
        stub = await connect(get, authenticate=owners(find), token=wrong)
        with pytest.raises(Refused) as caught:
            await stub.GetThread(pb.GetThreadRequest())
        assert caught.value.reason is Reason.UNAUTHENTICATED
        assert caught.value.hint


async def test_a_stream_is_admitted_before_it_begins(connect: Connect) -> None:
    token, begun = new_token(), []

    async def watch(request: Any, context: Any) -> AsyncIterator[pb.WatchThreadResponse]:
        begun.append(caller(context).operator)
        yield pb.WatchThreadResponse()

    stub = await connect(watch=watch, authenticate=operator(token.sha256), token=new_token().text)
    with pytest.raises(Refused):
        [r async for r in stub.WatchThread(pb.WatchThreadRequest())]
    assert begun == []
    stub = await connect(watch=watch, authenticate=operator(token.sha256), token=token.text)
    assert len([r async for r in stub.WatchThread(pb.WatchThreadRequest())]) == 1
    assert begun == [True]


async def test_a_caller_is_unknown_where_no_one_is_authenticated(connect: Connect) -> None:
    async def get(request: Any, context: Any) -> Any:
        return caller(context)

    stub = await connect(get)
    with pytest.raises(Refused) as caught:
        await stub.GetThread(pb.GetThreadRequest())
    assert caught.value.reason is Reason.UNAUTHENTICATED


async def test_a_servicer_may_end_the_call_with_a_status_of_its_own(connect: Connect) -> None:
    async def get(request: Any, context: Any) -> Any:
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "no more")

    stub = await connect(get)
    with pytest.raises(Unavailable) as caught:
        await stub.GetThread(pb.GetThreadRequest())
    assert caught.value.reason is Reason.RATE_LIMITED
