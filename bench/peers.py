"""What our nodes are set beside: the same two round trips between two processes, by others' means.

    python -m bench.peers echo SIZE SIZE    a plain gRPC server that answers with so many bytes
    python -m bench.peers a2a SIZE SIZE     the published A2A SDK's server over its gRPC transport, in memory

Each prints its address and serves until its standard input ends. An exchange is two calls, one after the
other. The A2A exchange is one task: the first message leaves it waiting for input, as an offer does; the
second completes it. Nothing is signed, nothing is stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import uvloop
from grpc import aio, method_handlers_generic_handler, unary_unary_rpc_method_handler

Exchange = Callable[[], Awaitable[None]]
ECHO = ("bench.Echo", "Call")


@contextlib.asynccontextmanager
async def peer(kind: str, sizes: Sequence[int]) -> AsyncIterator[Exchange]:
    """A server of `kind` in a process of its own, and an exchange with it. `sizes`: of the four messages."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.peers",
        kind,
        str(sizes[1]),
        str(sizes[3]),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    address = (await process.stdout.readline()).decode().strip()
    try:
        async with aio.insecure_channel(address) as channel:
            client = {"echo": _echo_client, "a2a": _a2a_client}[kind]
            yield client(channel, sizes)
    finally:
        process.stdin.close()
        await process.wait()


def _echo_client(channel: aio.Channel, sizes: Sequence[int]) -> Exchange:
    call: Any = channel.unary_unary("/" + "/".join(ECHO))

    async def exchange() -> None:
        await call(b"\0" + bytes(sizes[0] - 1), timeout=30)
        await call(b"\1" + bytes(sizes[2] - 1), timeout=30)

    return exchange


def _a2a_client(channel: aio.Channel, sizes: Sequence[int]) -> Exchange:
    from a2a.client.transports.grpc import GrpcTransport  # noqa: PLC0415 - only for this comparison
    from a2a.types import a2a_pb2 as pb  # noqa: PLC0415

    transport = GrpcTransport(channel, _card())
    texts = ("o" * sizes[0], "a" * sizes[2])

    async def exchange() -> None:
        task_id = context_id = ""
        for number, text in enumerate(texts):
            message = pb.Message(
                message_id=os.urandom(16).hex(),
                role=pb.ROLE_USER,
                parts=[pb.Part(text=text)],
                task_id=task_id,
                context_id=context_id,
            )
            task = (await transport.send_message(pb.SendMessageRequest(message=message))).task
            task_id, context_id = task.id, task.context_id
            wanted = pb.TASK_STATE_COMPLETED if number else pb.TASK_STATE_INPUT_REQUIRED
            if task.status.state != wanted:
                raise RuntimeError(f"the task is {pb.TaskState.Name(task.status.state)}")

    return exchange


def _card() -> Any:
    from a2a.types import a2a_pb2 as pb  # noqa: PLC0415

    return pb.AgentCard(
        name="bench",
        description="Answers two messages.",
        version="1",
        capabilities=pb.AgentCapabilities(),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        supported_interfaces=[
            pb.AgentInterface(url="127.0.0.1", protocol_binding="GRPC", protocol_version="1.0")
        ],
        skills=[pb.AgentSkill(id="meet", name="meet", description="Meets.", tags=["meet"])],
    )


def _serve_echo(server: aio.Server, offer: int, receipt: int) -> None:
    answers = {0: bytes(offer), 1: bytes(receipt)}

    async def call(request: bytes, _: Any) -> bytes:
        return answers[request[0]]

    handler = method_handlers_generic_handler(ECHO[0], {ECHO[1]: unary_unary_rpc_method_handler(call)})
    server.add_generic_rpc_handlers([handler])


def _serve_a2a(server: aio.Server, offer: int, receipt: int) -> None:
    from a2a.helpers.proto_helpers import new_task_from_user_message  # noqa: PLC0415
    from a2a.server.agent_execution import AgentExecutor  # noqa: PLC0415
    from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler  # noqa: PLC0415
    from a2a.server.tasks import InMemoryTaskStore, TaskUpdater  # noqa: PLC0415
    from a2a.types import a2a_pb2 as pb  # noqa: PLC0415
    from a2a.types import a2a_pb2_grpc  # noqa: PLC0415

    class Agent(AgentExecutor):
        async def execute(self, context: Any, event_queue: Any) -> None:
            task = context.current_task
            is_new = task is None
            if task is None:
                task = new_task_from_user_message(context.message)
                await event_queue.enqueue_event(task)
            updater = TaskUpdater(event_queue, task.id, task.context_id)
            answer = updater.new_agent_message([pb.Part(text="r" * (offer if is_new else receipt))])
            await (updater.requires_input(answer) if is_new else updater.complete(answer))

        async def cancel(self, context: Any, event_queue: Any) -> None:
            raise NotImplementedError

    handler = DefaultRequestHandler(Agent(), InMemoryTaskStore(), _card())
    add: Any = a2a_pb2_grpc.add_A2AServiceServicer_to_server
    add(GrpcHandler(handler), server)


async def _serve(kind: str, offer: int, receipt: int) -> None:
    server = aio.server(options=[("grpc.so_reuseport", 0)])
    {"echo": _serve_echo, "a2a": _serve_a2a}[kind](server, offer, receipt)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"127.0.0.1:{port}", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop(0)


if __name__ == "__main__":
    uvloop.run(_serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
