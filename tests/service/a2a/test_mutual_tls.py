"""Mutual TLS on the gRPC binding: a key that the caller holds is who they are."""

from __future__ import annotations

import pytest
from a2a.types import a2a_pb2 as pb
from a2a.types import a2a_pb2_grpc
from indai.a2a.callers import Callers
from indai.a2a.grpc_binding import GrpcBinding
from indai.client.tls import make_node_identity, pinned_channel
from indai.node.server import RpcServer, TlsMode, a2a_credentials
from indai.node.service import Service
from indai.protocol.errors import IndaiError

from tests.service.a2a.conftest import NOW, Node

SERVER, ANN, BEN = (make_node_identity(f"ind.ai/{name}") for name in ("server", "ann", "ben"))
VERSION = (("a2a-version", "1.0"),)


async def test_a_task_belongs_to_the_key_that_made_it(node: Node) -> None:
    callers = Callers(node.push._pool, bytes(32), lambda: NOW)
    add = a2a_pb2_grpc.add_A2AServiceServicer_to_server
    server = await RpcServer.start(
        "127.0.0.1:0",
        [Service(add, GrpcBinding(node.servicer, callers.caller_of))],
        credentials=a2a_credentials("127.0.0.1:0", TlsMode.ALWAYS, SERVER),
    )
    try:
        ann, ben = [
            await pinned_channel(server.address, SERVER.spki_sha256, identity) for identity in (ANN, BEN)
        ]
        async with ann, ben:
            anns, bens = a2a_pb2_grpc.A2AServiceStub(ann), a2a_pb2_grpc.A2AServiceStub(ben)  # type: ignore[no-untyped-call]
            said = pb.Message(message_id="tck-input-required", role=pb.ROLE_USER, parts=[pb.Part(text="x")])
            task = (await anns.SendMessage(pb.SendMessageRequest(message=said), metadata=VERSION)).task
            wanted = pb.GetTaskRequest(id=task.id)
            assert (await anns.GetTask(wanted, metadata=VERSION)).id == task.id
            with pytest.raises(IndaiError, match="NOT_FOUND"):
                await bens.GetTask(wanted, metadata=VERSION)
            card = await anns.GetExtendedAgentCard(pb.GetExtendedAgentCardRequest(), metadata=VERSION)
            assert card.name == "tck"
    finally:
        await server.stop(0.1)
