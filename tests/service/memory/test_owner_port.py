"""The owner's port: the token says whose memory it is, and a request can only narrow that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from indai.client.channels import bearer
from indai.node import auth
from indai.node.inprocess import local_channel
from indai.node.memory_service import OwnerMemoryServicer
from indai.node.service import Service
from indai.protocol.errors import IndaiError, Reason
from indai.runtime.conversations.forgetting import Forgetting
from indai.v1 import memory_pb2 as pb
from indai.v1.memory_pb2_grpc import MemoryServiceStub, add_MemoryServiceServicer_to_server

from tests.service.memory.rooms import ALICE, BOB, Room, fan, private, turn


@pytest.fixture
def as_owner(room: Room) -> Callable[[str], Any]:
    """A stub of the owner's port for a handle, or for nobody."""
    inner = MemoryServiceStub(local_channel([Service(add_MemoryServiceServicer_to_server, room.service)]))
    tokens = {handle: auth.new_token() for handle in (ALICE, BOB)}
    digests = {token.sha256: handle for handle, token in tokens.items()}

    async def owner_of(digest: bytes) -> str | None:
        return digests.get(digest)

    servicer = OwnerMemoryServicer(inner, Forgetting(room.pool, inner, lambda: room.now))
    services = [Service(add_MemoryServiceServicer_to_server, servicer, auth.owners(owner_of))]

    def stub(handle: str) -> Any:
        metadata = bearer(tokens[handle].text) if handle else ()
        return MemoryServiceStub(local_channel(services, metadata=metadata))

    return stub


async def test_the_tenant_is_the_token_s_owner(room: Room, as_owner: Callable[[str], Any]) -> None:
    await as_owner(ALICE).Remember(pb.RememberRequest(turns=[turn("alice's secret")]))
    assert len((await as_owner(ALICE).Recall(pb.RecallRequest(query="secret"))).hits) == 1
    assert not (await as_owner(BOB).Recall(pb.RecallRequest(query="secret"))).hits
    parts = [part async for part in as_owner(ALICE).Export(pb.ExportRequest())]
    assert b"alice's secret" in b"".join(part.lines for part in parts)
    narrowed = pb.RecallRequest(query="secret", access=pb.Access(door=pb.DOOR_PUBLIC))
    assert not (await as_owner(ALICE).Recall(narrowed)).hits


async def test_another_tenant_a_door_of_end_users_and_no_token_are_refused(
    room: Room, as_owner: Callable[[str], Any]
) -> None:
    for handle, access, reason in (
        (BOB, private(ALICE), Reason.PERMISSION_DENIED),
        (BOB, fan("fan-1", BOB), Reason.PERMISSION_DENIED),
        ("", private(ALICE), Reason.UNAUTHENTICATED),
    ):
        stub = as_owner(handle)
        for call in (
            stub.Recall(pb.RecallRequest(access=access, query="x")),
            stub.ListFacts(pb.ListFactsRequest(access=access)),
            stub.Forget(pb.ForgetRequest(access=access, key="k")),
            stub.Import(pb.ImportRequest(access=access)),
            anext(aiter(stub.Export(pb.ExportRequest(access=access)))),
        ):
            with pytest.raises(IndaiError) as refused:
                await call
            assert refused.value.reason is reason


async def test_every_method_of_the_service_is_passed_on_or_refused(as_owner: Callable[[str], Any]) -> None:
    for name, method in pb.DESCRIPTOR.services_by_name["MemoryService"].methods_by_name.items():
        assert name in vars(OwnerMemoryServicer), name
        call = getattr(as_owner(ALICE), name)(getattr(pb, method.input_type.name)())
        try:
            await (anext(aiter(call)) if method.server_streaming else call)
            reason = None
        except IndaiError as error:
            reason = error.reason
        assert reason not in (Reason.INTERNAL, Reason.UNSUPPORTED), name  # what UNIMPLEMENTED becomes
    with pytest.raises(IndaiError, match="ledger"):
        await as_owner(ALICE).RecordCommitments(pb.RecordCommitmentsRequest())
