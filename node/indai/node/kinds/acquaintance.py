"""How well an owner knows a peer, out of their threads: facts for rules, and a word for the owner.

What batches ask about is kept in memory and follows each item of a batch, so that two requests of one batch
are two and not one twice. The engine writes all threads; it says here what it has changed (`note`), that it
is stored (`stored`) or that it is not (`undo`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time
from typing import Any
from zoneinfo import ZoneInfo

import asyncpg
from indai.node.kinds.base import Case
from indai.node.store import Store
from indai.protocol.party_state import Phase, Side
from indai.v1 import policy_pb2

DAY_MS = 86_400_000
MAX_PAIRS = 20_000
_RECENT_MS = 2 * DAY_MS  # what was begun longer ago was not begun today, wherever the owner lives


@dataclass(frozen=True, slots=True)
class Acquaintance:
    """`known_days`: whole days since the first thread; `agreed`: commitments so far; `today`: what the peer
    began today of the kinds that were asked about."""

    known_days: int = 0
    agreed: int = 0
    today: int = 0

    def words(self, peer: str) -> str:
        """`ind.ai/bob is new here`, or since when they are known and what was agreed."""
        if not self.known_days and not self.agreed:
            return f"{peer} is new here"
        since = f"{self.known_days} days" if self.known_days else "today"
        return f"{peer} has been known for {since}, with {self.agreed} agreements"


@dataclass(slots=True)
class _Known:
    """One pair: its first two threads (time, id), commitments, what the peer began lately (with its kind)."""

    first: list[tuple[int, bytes]] = field(default_factory=list)
    agreed: int = 0
    begun: list[tuple[int, bytes, str]] = field(default_factory=list)

    def told(self, kinds: Sequence[str], midnight_ms: int, now_ms: int, thread: bytes) -> Acquaintance:
        since = next((at for at, other in self.first if other != thread), now_ms)
        today = sum(at >= midnight_ms and kind in kinds and other != thread for at, other, kind in self.begun)
        return Acquaintance(max(0, (now_ms - since) // DAY_MS), self.agreed, today)

    def add(self, note: Note) -> None:
        self.agreed += note.agreed
        if note.is_new:
            self.first = [*self.first, (note.at_ms, note.thread)][:2]
            if not note.outgoing:
                recent = [each for each in self.begun if each[0] > note.at_ms - _RECENT_MS]
                self.begun = [*recent, (note.at_ms, note.thread, note.kind)]


@dataclass(frozen=True, slots=True)
class Note:
    """What a thread's change adds."""

    thread: bytes
    at_ms: int
    kind: str
    outgoing: bool
    is_new: bool
    agreed: bool


NOTHING: Mapping[tuple[str, str], Sequence[Note]] = {}


class Acquaintances:
    """Reads `node.threads` for a pair it has not asked about lately."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[tuple[str, str], _Known] = OrderedDict()
        self._notes: dict[tuple[str, str], list[Note]] = {}  # not stored yet

    async def of(
        self, owner: str, peer: str, kinds: Sequence[str], zone: ZoneInfo, now_ms: int, thread: bytes = b""
    ) -> Acquaintance:
        """As the owner's threads say, without `thread`."""
        found = self._known.get((owner, peer)) or await self._read(owner, peer, now_ms)
        return found.told(kinds, _midnight(zone, now_ms), now_ms, thread)

    async def facts(self, case: Case, kinds: Sequence[str]) -> tuple[policy_pb2.Facts, Acquaintance]:
        """Facts that every kind has, for one case; within a batch."""
        pair = case.owner, case.peer
        if pair not in self._known:
            found = await self._read(*pair, case.now_ms)
            for note in self._notes.get(pair, ()):
                found.add(note)
            self._known[pair] = found
        self._known.move_to_end(pair)
        while len(self._known) > MAX_PAIRS:
            self._known.popitem(last=False)
        midnight_ms = _midnight(case.zone, case.now_ms)
        known = self._known[pair].told(kinds, midnight_ms, case.now_ms, case.side.thread_id)
        hops = case.side.hops
        return common(case.peer, case.now_ms, known, outgoing=case.outgoing, hops=hops), known

    def note(self, columns: Mapping[str, Any], before: Side | None, after: Side) -> None:
        """A thread, of these columns, is about to change within a batch."""
        agreed = after.phase is Phase.COMMITTED and (before is None or before.phase is not Phase.COMMITTED)
        if before is not None and not agreed:
            return
        pair = columns["owner"], columns["peer"]
        note = Note(
            after.thread_id,
            columns["created_ms"],
            columns["kind"],
            columns["outgoing"],
            before is None,
            agreed,
        )
        self._notes.setdefault(pair, []).append(note)
        if pair in self._known:
            self._known[pair].add(note)

    def stored(self) -> None:
        """What was noted is in the tables."""
        self._notes.clear()

    def mark(self) -> Mapping[tuple[str, str], Sequence[Note]]:
        """What is noted so far, to return to."""
        return {pair: list(notes) for pair, notes in self._notes.items()}

    def undo(self, mark: Mapping[tuple[str, str], Sequence[Note]] = NOTHING) -> None:
        """What was noted since is not stored, or nobody knows."""
        for pair in self._notes:
            self._known.pop(pair, None)
        self._notes = {pair: list(notes) for pair, notes in mark.items()}

    async def _read(self, owner: str, peer: str, now_ms: int) -> _Known:
        async with self._store.scope(owner) as connection:
            return await _read(connection, owner, peer, now_ms - _RECENT_MS)


async def _read(connection: asyncpg.Connection, owner: str, peer: str, since_ms: int) -> _Known:
    first = await connection.fetch(
        "SELECT created_ms, thread FROM node.threads WHERE owner = $1 AND peer = $2"
        " ORDER BY created_ms, thread LIMIT 2",
        owner,
        peer,
    )
    agreed = await connection.fetchval(
        "SELECT count(*) FROM node.threads WHERE owner = $1 AND peer = $2 AND phase = 'COMMITTED'",
        owner,
        peer,
    )
    begun = await connection.fetch(
        "SELECT created_ms, thread, kind FROM node.threads"
        " WHERE owner = $1 AND peer = $2 AND NOT outgoing AND created_ms > $3 ORDER BY created_ms",
        owner,
        peer,
        since_ms,
    )
    return _Known([tuple(row) for row in first], agreed, [tuple(row) for row in begun])


def _midnight(zone: ZoneInfo, now_ms: int) -> int:
    day = datetime.fromtimestamp(now_ms / 1000, zone).date()
    return int(datetime.combine(day, time(), zone).timestamp() * 1000)


def common(peer: str, now_ms: int, known: Acquaintance, *, outgoing: bool, hops: int = 0) -> policy_pb2.Facts:
    """Facts about a verified agent; the kind's own are still to be added. `hops`: how many agents have passed
    on what led to this."""
    return policy_pb2.Facts(
        peer=peer,
        verified=True,
        now_ms=now_ms,
        channel="agent",
        door="agent",
        outgoing=outgoing,
        known_days=known.known_days,
        from_peer_today=known.today,
        hops=hops,
    )
