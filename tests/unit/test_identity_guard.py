"""No method that admits its caller takes an Aadhaar number, in whatever field, script or depth."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor
from indai.node.auth import Caller
from indai.node.identity_guard import PASSES, check_request
from indai.node.inprocess import local_channel
from indai.node.service import Service
from indai.protocol.errors import Reason, Refused
from indai.tools.identity import LEFT_OUT, without_aadhaar
from indai.v1 import conversation_pb2, owner_pb2, tools_pb2
from indai.v1.owner_pb2_grpc import OwnerServiceServicer, OwnerServiceStub, add_OwnerServiceServicer_to_server

NUMBER = "2999 2849 6545"
SAID = f"My Aadhaar is {NUMBER}."


def requests() -> list[tuple[str, Any]]:
    """(method, class of its request) of every method of the contract."""
    found = []
    for path in sorted((Path(owner_pb2.__file__).parent).glob("*.proto")):
        file = import_module(f"indai.v1.{path.stem}_pb2").DESCRIPTOR
        for service in file.services_by_name.values():
            found += [
                (f"/{service.full_name}/{each.name}", message_factory.GetMessageClass(each.input_type))
                for each in service.methods
            ]
    return found


def places(message: Any, depth: int = 0) -> list[Any]:
    """A message of the same class for each text field in it, with the number there and nothing else."""
    found = []
    for field in message.DESCRIPTOR.fields:
        if field.type == FieldDescriptor.TYPE_STRING:
            made = type(message)()
            if field.is_repeated:
                getattr(made, field.name).append(SAID)
            else:
                setattr(made, field.name, SAID)
            found.append(made)
        elif field.type == FieldDescriptor.TYPE_MESSAGE and depth < 3:
            if field.message_type.GetOptions().map_entry:
                continue
            for inner in places(message_factory.GetMessageClass(field.message_type)(), depth + 1):
                made = type(message)()
                place = getattr(made, field.name)
                place.add().CopyFrom(inner) if field.is_repeated else place.CopyFrom(inner)
                found.append(made)
    return found


def test_no_text_field_of_any_method_takes_an_aadhaar_number() -> None:
    checked = 0
    for method, kind in requests():
        for message in places(kind()):
            if method in PASSES:
                check_request(method, message)
                continue
            with pytest.raises(Refused) as refused:
                check_request(method, message)
            assert refused.value.reason is Reason.POLICY_DENIED
            assert NUMBER not in str(refused.value)
            checked += 1
    assert checked > 300


def test_a_map_a_field_s_name_and_another_script_count_and_other_numbers_do_not() -> None:
    devanagari = owner_pb2.StartMeetRequest(title="आधार २९९९ २८४९ ६५४५")
    with pytest.raises(Refused):
        check_request("/x", devanagari)
    mapped = conversation_pb2.SendMessageRequest()
    mapped.message.text = SAID
    check_request(next(iter(PASSES)), mapped)
    with pytest.raises(Refused):
        check_request("/x", mapped)
    by_name = tools_pb2.CallToolRequest(tool="note", arguments_json='{"aadhaar": "299928496545"}')
    with pytest.raises(Refused):
        check_request("/x", by_name)
    for title in ("Call +91 98765 43210", "UTR 299928496545", "Aadhaar camp at 10:30", "आधार केंद्र 2026"):
        check_request("/x", owner_pb2.StartMeetRequest(title=title))


async def test_a_call_is_refused_before_its_servicer_sees_it() -> None:
    seen: list[Any] = []

    class Servicer(OwnerServiceServicer):
        async def StartMeet(  # noqa: N802
            self, request: Any, context: Any
        ) -> owner_pb2.StartMeetResponse:
            seen.append(request)
            return owner_pb2.StartMeetResponse()

        async def WatchThread(self, request: Any, context: Any) -> Any:  # noqa: N802
            seen.append(request)
            yield owner_pb2.WatchThreadResponse()

    async def admit(_: object) -> Caller:
        return Caller(owner="ind.ai/alice")

    servicer: Any = Servicer()  # type: ignore[abstract]
    channel = local_channel([Service(add_OwnerServiceServicer_to_server, servicer, admit)])
    stub: Any = OwnerServiceStub(channel)
    with pytest.raises(Refused) as refused:
        await stub.StartMeet(owner_pb2.StartMeetRequest(title=SAID))
    assert refused.value.reason is Reason.POLICY_DENIED
    with pytest.raises(Refused):
        _ = [each async for each in stub.WatchThread(owner_pb2.WatchThreadRequest(thread_id=SAID))]
    assert seen == []
    await stub.StartMeet(owner_pb2.StartMeetRequest(title="Tea"))
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (f"My aadhaar: {NUMBER}, call me", f"My aadhaar: {LEFT_OUT}, call me"),
        ("मेरा आधार नंबर २९९९-२८४९-६५४५ और कल मिलें", f"मेरा आधार नंबर {LEFT_OUT} और कल मिलें"),
        ("The UTR is 299928496545", "The UTR is 299928496545"),
        (f"aadhaar {NUMBER}, and hers: 2999-2849-6545", f"aadhaar {LEFT_OUT}, and hers: {LEFT_OUT}"),
    ],
)
def test_a_number_is_taken_out_of_what_is_said(text: str, kept: str) -> None:
    assert without_aadhaar(text) == kept


def test_whoever_was_asked_for_it_needs_no_word_beside_it() -> None:
    assert without_aadhaar("299928496545", asked=True) == LEFT_OUT
    assert without_aadhaar("299928496546 and 12", asked=True) == "299928496546 and 12"
