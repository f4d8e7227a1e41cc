"""Recall: what bears on the message, from memory, through the door at which the person stands.

Memory that is away is left out and noted: an agent without memories still answers. What anybody but the owner
said is marked, so that the prompt quotes it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import UUID

from indai.protocol.errors import IndaiError
from indai.runtime.composed import Composed
from indai.runtime.conversations.values import Turn
from indai.runtime.prompt import MAX_FACTS, MAX_GRAPH, Scored
from indai.runtime.tiers import Binding
from indai.v1 import memory_pb2 as pb

if TYPE_CHECKING:
    from indai.v1.memory_pb2_grpc import MemoryServiceAsyncStub

TIMEOUT_S: Final = 1.5
_MAX_QUERY: Final = 4_000
_MOST_OPINIONS: Final = 200  # compared with what is said; the prompt shows a few
_SHOWN_OPINIONS: Final = 5
_LIGHT: Final = 2  # hits of an agent with light memory

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Recalled:
    """What was found. `opinions`: topic and what the agent said of it; `notes`: why something is missing."""

    hits: tuple[Scored, ...] = ()
    facts: tuple[Scored, ...] = ()
    graph: tuple[str, ...] = ()
    opinions: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def untrusted(self) -> bool:
        """Whether words of outsiders are among it."""
        return any(each.outsider for each in (*self.hits, *self.facts))

    def opinions_for(self, query: str) -> tuple[str, ...]:
        """A few for the prompt: those that the question touches first."""
        asked = query.casefold()
        order = sorted(self.opinions, key=lambda each: each[0] not in asked)
        return tuple(f"{topic}: {' '.join(stance.split())}" for topic, stance in order[:_SHOWN_OPINIONS])

    def trusted(self) -> Recalled:
        """Without the words of outsiders."""
        return Recalled(
            tuple(each for each in self.hits if not each.outsider),
            tuple(each for each in self.facts if not each.outsider),
            self.graph,
            self.opinions,
            self.notes,
        )


def access(turn: Turn, composed: Composed) -> pb.Access:
    """The door of memory for a turn: made from what is verified, so a visitor can't name a private scope."""
    place = turn.session.place
    peer = turn.handles[0] if turn.handles and turn.request.sender.verified else ""
    return door_of(place.door, place.owner, peer, turn.session.scope_person, composed.binding, place.binding)


def door_of(door: str, owner: str, peer: str, person: UUID, binding: Binding, slug: str) -> pb.Access:
    """The same from its parts. `peer`: the visitor's proved handle, or empty."""
    if door == "private":
        return pb.Access(tenant=owner, door=pb.DOOR_PRIVATE)
    if door == "public":
        return pb.Access(tenant=owner, door=pb.DOOR_PUBLIC, peer=peer)
    return pb.Access(
        tenant=owner,
        door=pb.DOOR_DISTRIBUTION,
        person=person.hex,
        binding=slug,
        team=binding.team,
        human=binding.human,
    )


async def recall(
    memory: MemoryServiceAsyncStub | None, turn: Turn, composed: Composed, query: str, *, simple: bool = False
) -> Recalled:
    """What memory has for a question; nothing where there is no memory. For a `simple` one only the agent's
    own opinions, which its answer is compared with."""
    limit = composed.agent.recall_limit
    if composed.agent.memory == "light":
        limit = min(limit, _LIGHT)
    if composed.team.memory_depth is not None:
        limit = min(limit, composed.team.memory_depth)
    if memory is None or not limit or not query:
        return Recalled()
    door, notes = access(turn, composed), []

    async def attempt(name: str, call: Awaitable[T]) -> T | None:
        try:
            return await call
        except IndaiError as error:
            notes.append(f"{name}: {error.reason.name}")
            return None

    if simple:
        listed = pb.ListOpinionsRequest(access=door, page_size=_MOST_OPINIONS)
        opined = await attempt("opinions", memory.ListOpinions(listed, timeout=TIMEOUT_S))
        return Recalled(opinions=_held(opined), notes=tuple(notes))
    asked = pb.RecallRequest(
        access=door,
        query=query[:_MAX_QUERY],
        limit=limit,
        facts=MAX_FACTS,
        relations=MAX_GRAPH,
        opinions=_MOST_OPINIONS,
    )
    found = await attempt("recall", memory.Recall(asked, timeout=TIMEOUT_S))
    if found is None:
        return Recalled(notes=tuple(notes))
    return Recalled(
        hits=tuple(map(_hit, found.hits)),
        facts=tuple(map(_fact, found.facts)),
        graph=tuple(_edge(each) for each in found.relations if _own(each)),
        opinions=_held(found),
        notes=tuple(notes),
    )


def _held(found: pb.ListOpinionsResponse | pb.RecallResponse | None) -> tuple[tuple[str, str], ...]:
    return tuple((each.topic, each.stance) for each in found.opinions) if found else ()


def _hit(hit: pb.Hit) -> Scored:
    who = f"{hit.speaker}: " if hit.speaker else ""
    when = hit.said_time.ToDatetime().strftime("%d %b %Y") if hit.HasField("said_time") else ""
    text = f"{who}{hit.text}" + (f" ({when})" if when else "")
    return Scored(text, hit.score, hit.trust != pb.TRUST_OWNER)


def _own(edge: pb.Relation) -> bool:
    """An edge says not whose word it is; what lies in a relationship may be the other side's."""
    return edge.scope.kind != pb.SCOPE_KIND_RELATIONSHIP


def _edge(edge: pb.Relation) -> str:
    return f"{edge.subject} {edge.predicate} {edge.object}"


def _fact(fact: pb.Fact) -> Scored:
    value = json.loads(fact.value_json)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return Scored(f"{fact.key}: {text}", fact.confidence, fact.trust != pb.TRUST_OWNER)
