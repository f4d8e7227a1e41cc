"""What one peer may read of an owner: the only place that an answer to its question can come from.

Profile fields and documents that the owner's rules would share with this peer, for no stated purpose, without
asking; and of memory what the door for agents shows: public knowledge, and the relationship with this very
peer. Nothing private is read and then left out: it is never read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import structlog
from indai.client.obligations import value_of
from indai.node.belongings import Belonging, Belongings
from indai.node.duties import answered
from indai.node.extraction import Text
from indai.node.kinds.acquaintance import Acquaintance, common
from indai.node.policies import Policies
from indai.protocol.errors import IndaiError
from indai.v1 import memory_pb2, policy_pb2

if TYPE_CHECKING:
    from indai.v1.memory_pb2_grpc import MemoryServiceAsyncStub

MAX_FACTS = 64  # decided in one call
MAX_DOCUMENTS = 8  # read for one question
MAX_TEXT = 64 << 10
RECALL_LIMIT, RECALL_TOKENS, RECALL_S = 12, 2_000, 4.0

log = structlog.get_logger(__name__)


class Slices:
    """Reads the slice for one question."""

    def __init__(
        self, policies: Policies, belongings: Belongings, memory: MemoryServiceAsyncStub | None
    ) -> None:
        self._policies = policies
        self._belongings = belongings
        self._memory = memory

    async def read(
        self,
        owner: str,
        peer: str,
        question: str,
        known: Acquaintance,
        now_ms: int,
        redacted: Sequence[str] = (),
    ) -> list[Text]:
        """Texts that may be quoted to `peer`."""
        access = memory_pb2.Access(tenant=owner, door=memory_pb2.DOOR_AGENT, peer=peer)
        base = common(peer, now_ms, known, outgoing=False)
        return await self._read(owner, question, base, access, redacted)

    async def read_public(self, owner: str, question: str, stranger: policy_pb2.Facts) -> list[Text]:
        """Texts that may be quoted to somebody who proves nobody; `stranger`: what is known of them."""
        access = memory_pb2.Access(tenant=owner, door=memory_pb2.DOOR_PUBLIC)
        return await self._read(owner, question, stranger, access, ())

    async def _read(
        self,
        owner: str,
        question: str,
        base: policy_pb2.Facts,
        access: memory_pb2.Access,
        redacted: Sequence[str],
    ) -> list[Text]:
        things = [*await self._belongings.fields(owner), *await self._belongings.documents(owner)]
        shown = await self._shown(owner, things, base, redacted)
        fields = [Text(f"profile: {thing.name}", "", _said(thing)) for thing in shown if _is_field(thing)]
        papers = [thing.item for thing in shown if not _is_field(thing) and _is_text(thing)]
        read = await self._belongings.find_all(owner, papers[:MAX_DOCUMENTS]) if papers else []
        documents = [Text(thing.title, thing.item, _decoded(thing)) for thing in read]
        return [*fields, *documents, *await self._recalled(owner, access, question)]

    async def _shown(
        self,
        owner: str,
        things: Sequence[Belonging],
        base: policy_pb2.Facts,
        redacted: Sequence[str],
    ) -> list[Belonging]:
        shown: list[Belonging] = []
        for first in range(0, len(things), MAX_FACTS):
            part = things[first : first + MAX_FACTS]
            facts = []
            for thing in part:
                fact = policy_pb2.Facts()
                fact.CopyFrom(base)
                fact.ClearField("ask")
                fact.share.item = thing.item
                fact.share.tags.extend(thing.tags)
                facts.append(fact)
            request = policy_pb2.DecideRequest(owner=owner, facts=facts)
            decisions = (await self._policies.decide(request)).decisions
            for thing, decision in zip(part, decisions, strict=True):
                taken = {*redacted, *value_of(decision.obligations, "redact").split(",")} - {""}
                hidden = thing.name in taken if _is_field(thing) else bool(taken)
                if answered(decision, "share") == policy_pb2.OUTCOME_PERMIT and not hidden:
                    shown.append(thing)
        return shown

    async def _recalled(self, owner: str, access: memory_pb2.Access, question: str) -> list[Text]:
        if self._memory is None:
            return []
        request = memory_pb2.RecallRequest(
            access=access, query=question, limit=RECALL_LIMIT, budget_tokens=RECALL_TOKENS
        )
        try:
            hits = (await self._memory.Recall(request, timeout=RECALL_S)).hits
        except IndaiError as error:
            # Less is known then; the owner may still be asked.
            log.warning("memory not asked", owner=owner, reason=error.reason.name, error=error.message)
            return []
        # Only the owner's own words: what the peer said itself is no answer to it.
        return [
            Text(hit.source_id[:200] or "memory", "", hit.text)
            for hit in hits
            if hit.trust == memory_pb2.TRUST_OWNER
            and hit.kind
            in (memory_pb2.MEMORY_KIND_TURN, memory_pb2.MEMORY_KIND_DOCUMENT, memory_pb2.MEMORY_KIND_FACT)
            and hit.scope.kind in (memory_pb2.SCOPE_KIND_PUBLIC, memory_pb2.SCOPE_KIND_RELATIONSHIP)
        ]


def _is_field(thing: Belonging) -> bool:
    return thing.item.startswith("profile/")


def _is_text(thing: Belonging) -> bool:
    return thing.media_type.startswith("text/") and thing.size_bytes <= MAX_TEXT


def _said(thing: Belonging) -> str:
    name = thing.name.replace("-", " ").replace("_", " ").replace(".", " ")
    return f"{name}: {_decoded(thing)}"


def _decoded(thing: Belonging) -> str:
    return thing.content.decode("utf-8", "replace")
