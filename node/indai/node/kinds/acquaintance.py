"""How well an owner knows a peer, out of their threads: facts for rules, and a word for the owner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time
from zoneinfo import ZoneInfo

from indai.node.kinds.base import Case
from indai.node.store import Store
from indai.v1 import policy_pb2

DAY_MS = 86_400_000


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


class Acquaintances:
    """Reads `node.threads`: one indexed query for each consultation."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def of(
        self, owner: str, peer: str, kinds: Sequence[str], zone: ZoneInfo, now_ms: int, thread: bytes = b""
    ) -> Acquaintance:
        """As the owner's threads say, without `thread`."""
        day = datetime.fromtimestamp(now_ms / 1000, zone).date()
        midnight = int(datetime.combine(day, time(), zone).timestamp() * 1000)
        async with self._store.scope(owner) as connection:
            row = await connection.fetchrow(
                "SELECT min(created_ms) AS first, count(*) FILTER (WHERE phase = 'COMMITTED') AS agreed,"
                " count(*) FILTER (WHERE NOT outgoing AND kind = ANY($3) AND created_ms >= $4) AS today"
                " FROM node.threads WHERE owner = $1 AND peer = $2 AND thread <> $5",
                owner,
                peer,
                list(kinds),
                midnight,
                thread,
            )
        first = row["first"] if row["first"] is not None else now_ms
        return Acquaintance(max(0, (now_ms - first) // DAY_MS), row["agreed"], row["today"])

    async def facts(self, case: Case, kinds: Sequence[str]) -> tuple[policy_pb2.Facts, Acquaintance]:
        """Facts that every kind has, for one case."""
        known = await self.of(case.owner, case.peer, kinds, case.zone, case.now_ms, case.side.thread_id)
        return common(case.peer, case.now_ms, known, outgoing=case.outgoing), known


def common(peer: str, now_ms: int, known: Acquaintance, *, outgoing: bool) -> policy_pb2.Facts:
    """Facts about a verified agent; the kind's own are still to be added."""
    return policy_pb2.Facts(
        peer=peer,
        verified=True,
        now_ms=now_ms,
        channel="agent",
        door="agent",
        outgoing=outgoing,
        known_days=known.known_days,
        from_peer_today=known.today,
    )
