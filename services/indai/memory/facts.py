"""What becomes of facts that were found: new, mentioned again, confirmed, or the end of others. Pure.

A fact is known by key, person and value; adding it twice is one fact with two mentions. Below the floor of
confidence it waits for a mention by a second turn. What a fact that holds contradicts is ended, never
deleted,
and a fact that was said before what now holds is stored as already ended.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, replace
from uuid import UUID

from indai.memory.interfaces import Fact, Trust

FLOOR = 0.6
MENTIONS = 2  # turns that make an unsure fact hold

Contradicts = Callable[[Fact, Fact], bool]


@dataclass(frozen=True, slots=True)
class Record:
    """A fact's row. `mentions`: the chunks that said it; `ended_ms` 0 while it holds."""

    id: UUID
    fact: Fact
    person: str
    origin: str
    trust: Trust
    since_ms: int
    source: UUID | None = None
    pending: bool = False
    ended_ms: int = 0
    mentions: frozenset[UUID] = frozenset()

    @property
    def identity(self) -> tuple[str, str, bytes]:
        """What makes two facts one."""
        return self.fact.key, self.person, digest(self.fact)

    def without_source(self) -> Record:
        """The same fact, as one that no turn here has said."""
        return replace(self, source=None, mentions=frozenset())


@dataclass(slots=True)
class Changes:
    """What to write: rows to add, mentions, rows that hold from now on, rows that end and when (ms)."""

    added: list[Record] = field(default_factory=list)
    mentioned: list[tuple[UUID, UUID]] = field(default_factory=list)
    confirmed: dict[UUID, float] = field(default_factory=dict)
    ended: dict[UUID, int] = field(default_factory=dict)

    @property
    def touched(self) -> set[UUID]:
        """Facts that are new, confirmed or mentioned."""
        return {row.id for row in self.added} | set(self.confirmed) | {fact for fact, _ in self.mentioned}


def digest(fact: Fact) -> bytes:
    """SHA-256 of the value."""
    return hashlib.sha256(fact.canonical.encode()).digest()


def unsaid(found: Sequence[Record], said: Set[tuple[tuple[str, str, bytes], UUID]]) -> list[Record]:
    """Without what the same turn has said already (`said`: identities with chunks), whether it still holds or
    not: so that a job can run again."""
    return [row for row in found if row.source is None or (row.identity, row.source) not in said]


def plan(known: Sequence[Record], found: Sequence[Record], contradicts: Contradicts) -> Changes:
    """What to change so that `found` (in the order they were said) is taken in. `known`: the open facts."""
    changes = Changes()
    open_facts = {row.identity: row for row in known}
    for row in found:
        before = open_facts.get(row.identity)
        if before is None:
            taken = replace(row, pending=row.fact.confidence < FLOOR and row.source is not None)
            changes.added.append(taken)
        else:
            taken = _mentioned(before, row, changes)
        if not taken.pending and (before is None or before.pending):
            taken = _settle(taken, open_facts, contradicts, changes)
        if taken.ended_ms:
            open_facts.pop(taken.identity, None)
        else:
            open_facts[taken.identity] = taken
    return changes


def _mentioned(before: Record, row: Record, changes: Changes) -> Record:
    """A known fact that was said again, perhaps by a turn that has said it before."""
    if row.source is not None and row.source not in before.mentions:
        changes.mentioned.append((before.id, row.source))
    mentions = before.mentions | row.mentions
    confidence = max(before.fact.confidence, row.fact.confidence)
    sure = confidence >= FLOOR or len(mentions) >= MENTIONS or row.source is None
    fact = replace(before.fact, confidence=max(confidence, FLOOR) if sure else confidence)
    if before.pending and sure:
        changes.confirmed[before.id] = fact.confidence
    return replace(before, fact=fact, mentions=mentions, pending=before.pending and not sure)


def _settle(
    taken: Record,
    open_facts: dict[tuple[str, str, bytes], Record],
    contradicts: Contradicts,
    changes: Changes,
) -> Record:
    """End what a fact that holds now contradicts, or the fact itself where it was said before that."""
    for identity, other in list(open_facts.items()):
        if other.id == taken.id or other.pending or other.person != taken.person:
            continue
        if not contradicts(other.fact, taken.fact):
            continue
        if other.since_ms > taken.since_ms:
            taken = replace(taken, ended_ms=other.since_ms)
            continue
        _end(replace(other, ended_ms=max(taken.since_ms, other.since_ms)), changes)
        del open_facts[identity]
    if taken.ended_ms:
        _end(taken, changes)
    return taken


def _end(row: Record, changes: Changes) -> None:
    """A row that has ended: one that is added now is added so."""
    places = [number for number, one in enumerate(changes.added) if one.id == row.id]
    if places:
        changes.added[places[0]] = row
    else:
        changes.ended[row.id] = row.ended_ms
