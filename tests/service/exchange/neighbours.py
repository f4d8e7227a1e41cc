"""Who lives where, and what tests do with them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indai.client.audit import Report, audit
from indai.client.channels import plain_channel
from indai.protocol.kinds.share import Consent, Fetch, Mode, Unit
from indai.v1 import asking_pb2, owner_pb2, sharing_pb2
from indai.v1.asking_pb2_grpc import AskingServiceStub
from indai.v1.memory_pb2_grpc import MemoryServiceStub
from indai.v1.sharing_pb2_grpc import SharingServiceStub

from tests.service.node.world import Node, Owner, World, now_ms

if TYPE_CHECKING:
    from indai.v1.asking_pb2_grpc import AskingServiceAsyncStub
    from indai.v1.memory_pb2_grpc import MemoryServiceAsyncStub
    from indai.v1.sharing_pb2_grpc import SharingServiceAsyncStub

DAY = 86_400_000
ALICES = """\
version: 1
timezone: Asia/Kolkata
rules:
  - { id: mine, allow: [share, ask], with: anyone, started_by: me }
  - { id: gifts, allow: share, with: ind.ai/bob, items: received/* }
"""
BOBS = """\
version: 1
timezone: Asia/Kolkata
defaults: { unmatched: ask }
circles:
  friends: [ind.ai/alice]
visibility:
  - { id: open, to: anyone, documents: tag/published }
  - { id: friends, to: friends, profile: [email, city], documents: tag/friends, calendar: busy }
rules:
  - { id: long, deny: share, items: profile/city, retention: { min: 400d } }
  - { id: secrets, deny: share, items: profile/pan }
  - { id: questions, allow: ask, with: friends, request: false }
  - { id: coffee, allow: meet, with: friends }
  - { id: gossip, deny: ask, with: anyone, topic: gossip }
"""
OFFICES = """\
version: 1
timezone: Asia/Kolkata
visibility:
  - { id: published, to: anyone, documents: tag/published }
rules:
  - { id: filed, allow: ask, with: verified, request: true, require_receipt: true, peer_limit: 50 }
  - { id: answers, allow: ask, with: anyone, request: false, cite_sources: true }
"""


@dataclass
class Friend:
    """An owner with all their services."""

    owner: Owner
    sharing: SharingServiceAsyncStub
    asking: AskingServiceAsyncStub
    memory: MemoryServiceAsyncStub

    @property
    def handle(self) -> str:
        return self.owner.handle

    async def has(self, **fields: str) -> None:
        for name, value in fields.items():
            await self.sharing.SetProfileField(sharing_pb2.SetProfileFieldRequest(name=name, value=value))

    async def document(self, name: str, text: str, *tags: str) -> None:
        request = sharing_pb2.PutSharedDocumentRequest(
            name=name, title=name, media_type="text/plain", content=text.encode(), tags=tags
        )
        await self.sharing.PutSharedDocument(request)

    async def wants(self, peer: str, consent: Consent | None = None, **what: str) -> owner_pb2.Thread:
        """Ask for a field or a document; the thread when it rests."""
        request = sharing_pb2.AskForShareRequest(
            request_id=str(uuid.uuid4()), peer=peer, consent=(consent or agreed()).to_pb(), **what
        )
        return await self.rest((await self.sharing.AskForShare(request)).thread)

    async def asks(self, peer: str, question: str, topic: str = "") -> asking_pb2.GetAnswerResponse:
        """Ask; what came of it when the thread rests."""
        request = asking_pb2.AskQuestionRequest(
            request_id=str(uuid.uuid4()), peer=peer, question=question, topic=topic
        )
        thread = await self.rest((await self.asking.AskQuestion(request)).thread)
        return await self.asking.GetAnswer(asking_pb2.GetAnswerRequest(thread_id=thread.thread_id))

    async def files(self, office: str, subject: str, text: str = "", **more: str) -> owner_pb2.Thread:
        """File a request; the thread when it rests."""
        request = asking_pb2.FileRequestRequest(
            request_id=str(uuid.uuid4()), office=office, subject=subject, text=text, **more
        )
        return await self.rest((await self.asking.FileRequest(request)).thread)

    async def rest(self, thread: owner_pb2.Thread) -> owner_pb2.Thread:
        return await self.owner.rest(thread.thread_id)

    async def read(self, thread: owner_pb2.Thread) -> sharing_pb2.ReadSharedResponse:
        return await self.sharing.ReadShared(sharing_pb2.ReadSharedRequest(thread_id=thread.thread_id))

    async def consents(self) -> list[sharing_pb2.ConsentArtefact]:
        return list((await self.sharing.ListConsents(sharing_pb2.ListConsentsRequest())).consents)

    async def inbox(self) -> list[owner_pb2.Approval]:
        return list((await self.owner.stub.ListInbox(owner_pb2.ListInboxRequest())).approvals)

    async def words(self, thread_id: str) -> list[str]:
        request = owner_pb2.GetThreadRequest(thread_id=thread_id)
        return [message.words for message in (await self.owner.stub.GetThread(request)).messages]


@dataclass
class Neighbours:
    """alice and mallory on node-a; bob and the office on node-b, which remembers."""

    world: World
    a: Node
    b: Node
    alice: Friend
    bob: Friend
    office: Friend
    mallory: Friend

    async def audited(self, folder: Path, *friends: Friend) -> Report:
        paths = []
        for one in friends:
            path = folder / f"{one.handle.rpartition('/')[2]}.jsonl"
            with path.open("wb") as file:
                async for part in one.owner.stub.ExportOwner(owner_pb2.ExportOwnerRequest()):
                    file.write(part.lines)
            paths.append(path)
        registry = await self.world.mirror(folder / "registry.jsonl")
        return audit(paths, registry, self.world.policy.policy)


def friend(owner: Owner, node: Node) -> Friend:
    channel = plain_channel(node.info.addresses["owner"], token=owner.token)
    stubs: tuple[Callable[[Any], Any], ...] = (SharingServiceStub, AskingServiceStub, MemoryServiceStub)
    return Friend(owner, *(stub(channel) for stub in stubs))


def agreed(**changes: Any) -> Consent:
    """To send a letter: read once, kept for a month."""
    now = now_ms()
    values: dict[str, Any] = {
        "purpose_code": "101",
        "purpose_text": "To send a letter",
        "mode": Mode.STORE,
        "fetch": Fetch.ONETIME,
        "data_life_unit": Unit.MONTH,
        "data_life_value": 1,
        "from_ms": now - 60_000,
        "to_ms": now + 30 * DAY,
    }
    return Consent(**values | changes)
