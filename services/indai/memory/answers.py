"""Values as answers."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from google.protobuf.timestamp_pb2 import Timestamp
from indai.memory import requests
from indai.memory.access import Scope
from indai.memory.facts import Record
from indai.memory.graph import Edge
from indai.memory.interfaces import Hit, Trust
from indai.memory.knowledge import Document
from indai.memory.listing import JobState
from indai.memory.ranking import tokens_of
from indai.memory.states import Entry, Opinion
from indai.memory.turns import Heard
from indai.v1 import memory_pb2 as pb

TRUSTS = {
    Trust.OWNER: pb.TRUST_OWNER,
    Trust.VERIFIED: pb.TRUST_VERIFIED,
    Trust.OUTSIDE: pb.TRUST_OUTSIDE,
}
_SCOPE_KINDS = {kind: number for number, kind in requests.SCOPE_KINDS.items()}
_ROLES = {role: number for number, role in requests.ROLES.items()}
_KINDS = {kind: number for number, kind in requests.KINDS.items()}

Names = Mapping[UUID, Scope]


def stamp(ms: int) -> Timestamp | None:
    """A time; None, which is a field that is not set, for 0."""
    if not ms:
        return None
    made = Timestamp()
    made.FromMilliseconds(ms)
    return made


def scope(value: Scope) -> pb.Scope:
    """A scope."""
    return pb.Scope(kind=_SCOPE_KINDS[value.kind], id=value.key)


def turn(heard: Heard) -> pb.Turn:
    """A turn as it is kept."""
    return pb.Turn(
        source_id=heard.turn.source_id,
        session=heard.turn.session,
        speaker=heard.turn.speaker,
        role=_ROLES[heard.turn.role],
        text=heard.turn.text,
        said_time=stamp(heard.turn.said_ms),
        person=heard.person,
        id=str(heard.id),
        trust=TRUSTS[heard.trust],
    )


def fact(record: Record, where: Scope) -> pb.Fact:
    """A fact as it is kept."""
    state = pb.FACT_STATE_PENDING if record.pending else pb.FACT_STATE_ACTIVE
    return pb.Fact(
        id=str(record.id),
        scope=scope(where),
        key=record.fact.key,
        value_json=record.fact.canonical,
        confidence=round(record.fact.confidence, 4),
        mentions=len(record.mentions),
        state=pb.FACT_STATE_ENDED if record.ended_ms else state,
        valid_from_time=stamp(record.since_ms),
        valid_to_time=stamp(record.ended_ms),
        origin=record.origin,
        trust=TRUSTS[record.trust],
        source=str(record.source or ""),
        person=record.person,
        language=record.fact.language,
    )


def hit(value: Hit, where: Scope, source_id: str) -> pb.Hit:
    """A memory that was found."""
    candidate = value.candidate
    return pb.Hit(
        id=str(candidate.id),
        scope=scope(where),
        kind=_KINDS[candidate.kind],
        text=candidate.text,
        score=round(value.score, 6),
        why=[pb.Hit.Reason(signal=signal, part=round(part, 6)) for signal, part in value.why.items()],
        terms=candidate.matched,
        speaker=candidate.speaker,
        session=candidate.session,
        said_time=stamp(candidate.said_ms),
        origin=candidate.origin,
        trust=TRUSTS[candidate.trust],
        source_id=source_id,
        tokens=tokens_of(candidate.text),
    )


def document(value: Document, where: Scope) -> pb.Document:
    """A document without its text."""
    return pb.Document(
        name=value.name,
        scope=scope(where),
        title=value.title,
        version=value.version,
        chunks=value.chunks,
        embedded=value.embedded,
        update_time=stamp(value.updated_ms),
    )


def entry(value: Entry) -> pb.WorkingEntry:
    """An entry of working memory."""
    return pb.WorkingEntry(
        name=value.name, value_json=requests.dumped(value.value), expire_time=stamp(value.expires_ms)
    )


def opinion(value: Opinion, where: Scope) -> pb.Opinion:
    """An opinion."""
    return pb.Opinion(
        scope=scope(where),
        topic=value.topic,
        stance=value.stance,
        valid_from_time=stamp(value.since_ms),
        source=str(value.source or ""),
    )


def relation(value: Edge, where: Scope) -> pb.Relation:
    """An edge of the graph."""
    return pb.Relation(
        scope=scope(where),
        subject=value.subject,
        predicate=value.predicate,
        object=value.object,
        confidence=round(value.confidence, 4),
        valid_from_time=stamp(value.since_ms),
        valid_to_time=stamp(value.ended_ms),
        source=str(value.source or ""),
        origin=value.origin,
        trust=TRUSTS[value.trust],
    )


def job(value: JobState) -> pb.Job:
    """A piece of background work."""
    return pb.Job(
        id=value.id,
        task=value.task,
        state=value.state,
        attempts=value.attempts,
        reason=value.reason,
        create_time=stamp(value.created_ms),
    )
