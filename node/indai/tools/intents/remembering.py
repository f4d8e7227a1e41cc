"""Memory as tools: keep something, look for it, forget it; and what an administrator wrote down.

Memory checks the door of each call again: at a public door only what is public is found.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from indai.protocol.errors import InvalidInput, Reason
from indai.tools.desk import request_id
from indai.tools.intents.common import arguments
from indai.tools.normalise import one_line
from indai.tools.values import Act, Caller, Effect, Progress, Spec, Touch
from indai.v1 import memory_pb2 as pb

if TYPE_CHECKING:
    from indai.v1.memory_pb2_grpc import MemoryServiceAsyncStub

_QUERY: Final = {"type": "string", "minLength": 1, "maxLength": 1_000, "x-label": "About"}
_OWN: Final = {"type": "string", "x-importance": 3}
_NEAR: Final = 0.4  # of the best score
_MOST: Final = 5
_OUTSIDE: Final = {"type": "string", "x-untrusted": True}
_FOUND: Final = {
    "type": "object",
    "properties": {
        "remembered": {"type": "array", "items": _OWN},
        "others_said": {"type": "array", "items": _OUTSIDE, "x-label": "others said"},
        "count": {"type": "integer"},
    },
    "required": ["remembered", "count"],
}
_PASSAGES: Final = {
    "type": "object",
    "properties": {
        "passages": {
            "type": "array",
            "items": {
                "type": "object",
                # Who wrote a document down is not whose words are in it: it is quoted like all that came from
                # outside.
                "properties": {"text": {**_OUTSIDE, "x-importance": 3}, "source": {"type": "string"}},
            },
        },
        "count": {"type": "integer"},
    },
    "required": ["passages", "count"],
}


def access_of(caller: Caller) -> pb.Access:
    """The door of memory for a caller, made from what is verified."""
    tenant = caller.owner or caller.tenant
    if caller.door == "private":
        return pb.Access(tenant=tenant, door=pb.DOOR_PRIVATE)
    if caller.door == "public":
        peer = caller.person if caller.verified and "/" in caller.person else ""
        return pb.Access(tenant=tenant, door=pb.DOOR_PUBLIC, peer=peer)
    return pb.Access(
        tenant=tenant,
        door=pb.DOOR_DISTRIBUTION,
        person=caller.person,
        binding=caller.binding,
        team=caller.team,
        human=caller.human,
    )


@dataclass(frozen=True, slots=True)
class Remember:
    """Keeps what the owner says, in the owner's private memory."""

    memory: MemoryServiceAsyncStub

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        text = {"type": "string", "minLength": 1, "maxLength": 2_000, "x-label": "Text"}
        done = {"type": "object", "properties": {"kept": {"type": "string", "x-importance": 3}}}
        return Spec(
            "remember",
            "Keep something the owner wants remembered.",
            arguments(("text",), text=text),
            done,
            Effect.ACT,
            # It is kept as the owner's own word: with words of outsiders in view it is not done unasked.
            frozenset({Touch.PRIVATE, Touch.OUTSIDE}),
        )

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`."""
        text = one_line(arguments["text"], 2_000)
        turn = pb.Turn(
            source_id=request_id(caller, "remember", text),
            session=caller.session,
            speaker=caller.person,
            role=pb.SPEAKER_ROLE_PERSON,
            text=text,
        )
        await self.memory.Remember(pb.RememberRequest(access=access_of(caller), turns=[turn]))
        return {"kept": text}


@dataclass(frozen=True, slots=True)
class Recall:
    """Looks for what was said, agreed and known."""

    memory: MemoryServiceAsyncStub

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        return Spec(
            "recall",
            "Look for something that was said, agreed or remembered before.",
            arguments(("query",), query=_QUERY),
            _FOUND,
            Effect.READ,
            frozenset({Touch.PRIVATE}),
        )

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`."""
        request = pb.RecallRequest(access=access_of(caller), query=arguments["query"], limit=8)
        asked = " ".join(arguments["query"].split()).casefold()
        found = [each for each in (await self.memory.Recall(request)).hits if each.text.casefold() != asked]
        # The question itself answers nothing, and what is far behind the best is about something else.
        best = max((each.score for each in found), default=0.0)
        hits = [each for each in found if each.score >= best * _NEAR][:_MOST]
        own = [each.text for each in hits if each.trust == pb.TRUST_OWNER]
        others = [f"{each.speaker}: {each.text}" for each in hits if each.trust != pb.TRUST_OWNER]
        return {"remembered": own, "others_said": others, "count": len(hits)}


Forgets = Callable[[pb.ForgetRequest, str], Awaitable[pb.ForgetResponse]]
"""Forgets in memory and wherever else words are kept; the turn in which it was asked for goes, too."""


@dataclass(frozen=True, slots=True)
class Forget:
    """Removes what is remembered about something: by its key, or the memories that answer a question best."""

    memory: MemoryServiceAsyncStub
    forgets: Forgets

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        done = {"type": "object", "properties": {"removed": {"type": "integer", "x-importance": 3}}}
        return Spec(
            "forget",
            "Forget for good what is remembered about something. The owner is asked first.",
            arguments(("about",), about=_QUERY),
            done,
            Effect.IRREVERSIBLE,
            frozenset({Touch.PRIVATE}),
        )

    async def prepare(self, caller: Caller, arguments: Mapping[str, Any]) -> Act:
        """See `Prepares`: the owner sees exactly what will be gone."""
        request = pb.RecallRequest(access=access_of(caller), query=arguments["about"], limit=_MOST)
        hits = (await self.memory.Recall(request)).hits
        if not hits:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                "Nothing is remembered about that.",
                metadata={"code": "NOTHING_REMEMBERED"},
            )
        lines = [f"  {one_line(each.text, 200)}" for each in hits]
        return Act({"ids": [each.id for each in hits]}, "\n".join(["Forget for good", *lines]))

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`."""
        removed = 0
        for each in arguments["ids"]:
            answer = await self.forgets(pb.ForgetRequest(access=access_of(caller), id=each), caller.turn)
            removed += bool(sum(answer.removed.values()))
        return {"removed": removed}


@dataclass(frozen=True, slots=True)
class SearchKnowledge:
    """Searches what administrators wrote down for an agent's team, and the owner's own documents."""

    memory: MemoryServiceAsyncStub

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        return Spec(
            "search-kb",
            "Search the documents that belong to this agent: product pages, rules, notes.",
            arguments(("query",), query=_QUERY),
            _PASSAGES,
            doors=frozenset({"private", "public", "distribution"}),
        )

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`."""
        request = pb.SearchDocumentsRequest(access=access_of(caller), query=arguments["query"], limit=5)
        hits = (await self.memory.SearchDocuments(request)).hits
        return {"passages": _passages(hits), "count": len(hits)}


def _passages(hits: Sequence[pb.Hit]) -> list[dict[str, str]]:
    return [{"text": each.text, "source": each.source_id} for each in hits]
