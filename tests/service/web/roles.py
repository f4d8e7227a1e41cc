"""Who may call what at the owner's port: a row for each method of the contract, and callers of each role."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
from collections.abc import Mapping
from typing import Final

import indai.v1
from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from indai.client.channels import CheckedChannel
from indai.protocol.errors import IndaiError, Reason, Unavailable
from indai.v1 import desk_pb2
from indai.v1.desk_pb2_grpc import DeskServiceStub

from tests.service.web.tenants import CITIZENS, City

OWNER: Final = frozenset({"owner", "owner at their desk"})
ROOT: Final = frozenset({"operator's token", "operator of the node"})
TOKEN: Final = frozenset({"operator's token"})
RUNNERS: Final = ROOT | {"admin", "operator"}
WORKERS: Final = RUNNERS | {"staff"}
AUDITORS: Final = frozenset({"auditor", "auditor of the node"})
READERS: Final = WORKERS | AUDITORS
COUNTERS: Final = RUNNERS | AUDITORS
GOVERNORS: Final = ROOT | {"admin"}
ANYBODY: Final = READERS | OWNER
NOBODY: Final[frozenset[str]] = frozenset()

INSIDE: Final = {"LedgerService", "PeerService", "PolicyService", "RegistryService"}
"""Not at the owner's port: the cell's own, other nodes', and the public registry."""

SERVICES: Final[Mapping[str, frozenset[str]]] = {
    "A2AKeyService": OWNER,
    "ApprovalService": OWNER,
    "AskingService": OWNER,
    "CalendarService": OWNER,
    "ChannelService": ROOT,
    "CommerceService": OWNER,
    "ConnectionService": OWNER,
    "ConversationService": OWNER,
    "DeskService": GOVERNORS,
    "GoalService": OWNER,
    "GroupService": OWNER,
    "LeavingService": OWNER | ROOT,
    "LendingService": OWNER,
    "LlmService": OWNER | ROOT,
    "MemoryService": OWNER,
    "OperatorService": ROOT,
    "OwnerService": OWNER,
    "RecordService": OWNER | ROOT,
    "SharingService": OWNER,
    "SteeringService": OWNER,
    "TenantDeskService": READERS,
    "TierService": ROOT,
    "ToolService": OWNER,
}
"""Who is admitted to most methods of a service."""
METHODS: Final[Mapping[str, frozenset[str]]] = {
    "ConversationService.AdoptSession": NOBODY,  # the page's own
    "ConversationService.GetPublicProfile": OWNER | ROOT,
    "ConversationService.GetTurn": OWNER | ROOT,
    "ConversationService.HandBackSession": OWNER | ROOT,
    "ConversationService.LinkIdentity": NOBODY,  # a code is said on the channel
    "ConversationService.ListSessionMessages": OWNER | ROOT,
    "ConversationService.ListSessions": OWNER | ROOT,
    "ConversationService.SendAsHuman": OWNER | ROOT,
    "ConversationService.TakeOverSession": OWNER | ROOT,
    "DeskService.CreateSignInCode": OWNER | GOVERNORS,
    "DeskService.ListAccounts": OWNER | COUNTERS,
    "DeskService.ListActs": OWNER | COUNTERS,
    "DeskService.ListDeskSessions": ANYBODY,  # one's own
    "DeskService.RevokeDeskSession": ANYBODY,  # one's own
    "DeskService.WatchDesk": OWNER,
    "LeavingService.ListLeavings": ROOT,
    "LlmService.SetSpendingLimit": ROOT,
    "MemoryService.DeleteDocument": NOBODY,  # the operator's, inside the cell
    "MemoryService.PutDocument": NOBODY,
    "MemoryService.RecordCommitments": NOBODY,  # the node's own
    "OperatorService.ExportNode": TOKEN,
    "OperatorService.PrepareLedgerKey": TOKEN,
    "OperatorService.FollowLedgerKey": TOKEN,
    "TenantDeskService.AnswerConversation": WORKERS,
    "TenantDeskService.GetStageTimes": COUNTERS,
    "TenantDeskService.HandBackConversation": WORKERS,
    "TenantDeskService.ListTenantChannels": COUNTERS,
    "TenantDeskService.ListTenantUsage": COUNTERS,
    "TenantDeskService.ListTenantWork": COUNTERS,
    "TenantDeskService.MoveRequest": WORKERS,
    "TenantDeskService.ReplayTenantLetters": RUNNERS,
    "TenantDeskService.ReplayTenantWork": RUNNERS,
    "TenantDeskService.TakeOverConversation": WORKERS,
}
"""Methods with callers of their own."""
_SHORT_S: Final = 0.5
_LONG_S: Final = 20.0
_REFUSED: Final = (Reason.UNAUTHENTICATED, Reason.PERMISSION_DENIED)


def contract() -> list[ServiceDescriptor]:
    """Every service of every file of the contract."""
    found = []
    for info in pkgutil.iter_modules(indai.v1.__path__):
        if info.name.endswith("_pb2"):
            file = importlib.import_module(f"indai.v1.{info.name}").DESCRIPTOR
            found += file.services_by_name.values()
    return sorted(found, key=lambda each: str(each.name))


def admitted(method: MethodDescriptor) -> frozenset[str]:
    """Who may call it. A KeyError is a method that nobody has decided on yet."""
    name = method.containing_service.name
    return METHODS.get(f"{name}.{method.name}", SERVICES[name])


async def tokens(city: City) -> dict[str, str]:
    """One token for each kind of caller; the owner is one whom no other test needs, since an empty call may
    empty something."""
    owner = await city.b.agent("ind.ai/roles", CITIZENS)
    found = {"owner": owner.token, "operator's token": city.root, "nobody": "indai_" + "A" * 43}
    desk = city.stub(DeskServiceStub, owner.token)
    codes = {"owner at their desk": (await desk.CreateSignInCode(desk_pb2.CreateSignInCodeRequest())).code}
    for role in ("admin", "staff", "operator", "auditor"):
        codes[role] = await city.code("riverton", role, f"{role}@roles.example")
    for role in ("operator", "auditor"):
        codes[f"{role} of the node"] = await city.code("*", role)
    for who, code in codes.items():
        async with city.browser() as browser:
            page = await browser.sign_in(code)
            assert page.status == 200, page.text
            found[who] = next(one.value for one in browser.http.cookie_jar if one.key == "indai-desk")
    return found


async def passes(channel: CheckedChannel, method: MethodDescriptor, *, expected: bool) -> bool:
    """Whether an empty call gets past the question of who makes it. A stream that says nothing and refuses
    nothing has let its caller in; one that ought to refuse is given all the time it needs."""
    streams = bool(method.server_streaming)
    make = channel.unary_stream if streams else channel.unary_unary
    call = make(
        f"/{method.containing_service.full_name}/{method.name}",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=message_factory.GetMessageClass(method.output_type).FromString,
    )
    request = message_factory.GetMessageClass(method.input_type)()
    try:
        async with asyncio.timeout(_SHORT_S if streams and expected else _LONG_S):
            if streams:
                await anext(aiter(call(request)), None)
            else:
                await call(request)
    except TimeoutError:
        return True
    except IndaiError as error:
        if isinstance(error, Unavailable):
            raise  # which says nothing about who calls
        return error.reason not in _REFUSED
    return True
