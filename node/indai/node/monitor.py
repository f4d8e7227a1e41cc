"""Watches this node's own handles in the registry, and alarms their owners.

Every operation on a handle that lives here becomes a line of its owner's journal. It is an *alarm* when it
did what only the owner could want: another rotation key, an agent key that this node doesn't hold, another
home, an end, another subject, or a recovery that undid something. The first record seen is the baseline; what
was seen last is kept in the database, so an operation made while the node was down is noticed too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

import asyncpg
import structlog
from indai.client.resolver import Resolved, Resolver
from indai.node.agents import Agents
from indai.node.following import portions
from indai.node.store import Row, Store, hexed
from indai.protocol.errors import IndaiError, NotFound
from indai.protocol.keys import key_id
from indai.protocol.operations import Chain, Link
from indai.storage.pool import transaction
from indai.v1 import registry_pb2

ALARM, SEEN = "alarm", "handle-operation"
PER_CHECK = 250  # of those who are looked at because it is unknown whether the log has touched them

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Watched:
    """What was seen of a handle."""

    subject_id: str
    seq: int
    mid: bytes
    rotation_keys: tuple[str, ...]
    home: str

    @classmethod
    def of(cls, chain: Chain) -> Watched:
        """The newest state of a chain."""
        keys = tuple(key_id(key) for key in chain.state.rotation_keys)
        return cls(chain.subject_id, chain.seq, chain.last_mid, keys, chain.state.node)


def alarms(before: Watched, chain: Chain, held: Iterable[str], node: str) -> list[str]:
    """What about a changed handle its owner must hear, a sentence each. `held` are the key ids that this node
    holds for it, `node` is this node's handle."""
    now, held = Watched.of(chain), set(held)
    found = []
    if now.subject_id != before.subject_id:
        return [f"{chain.handle} belongs to another subject now: {now.subject_id}."]
    undone = [link.seq for link in chain.history if link.nullified and link.seq <= before.seq]
    if undone and since(before, chain):
        found.append(f"A recovery has undone operation {undone[0]} of {chain.handle} and what followed.")
    if now.rotation_keys != before.rotation_keys:
        found.append(f"The rotation keys of {chain.handle} have changed.")
    strange = [
        key.key_id for key in chain.state.agent_keys if not key.revoked_at_ms and key.key_id not in held
    ]
    found += [f"{chain.handle} has an agent key that this node doesn't hold: {key}." for key in strange]
    if now.home not in (before.home, node):
        found.append(f"{chain.handle} has moved to {now.home or 'no node'}.")
    if chain.ended_at_ms:
        found.append(f"{chain.handle} was retired.")
    return found


def since(before: Watched | None, chain: Chain) -> tuple[Link, ...]:
    """The operations after what was seen: all of them for another subject. A history only ever grows."""
    seen = [number for number, link in enumerate(chain.history, 1) if before and link.mid == before.mid]
    return chain.history[seen[0] if seen else 0 :]


class Monitor:
    """Checks all agents of a node after each look at the registry's log. `clock`: ms since the epoch."""

    def __init__(
        self,
        pool: asyncpg.Pool,
        store: Store,
        resolver: Resolver,
        agents: Agents,
        node: str,
        clock: Callable[[], int],
    ) -> None:
        self._pool = pool
        self._store = store
        self._resolver = resolver
        self._agents = agents
        self._node = node
        self._clock = clock
        self._known: dict[str, Watched] = {}
        self._cried: set[str] = set()
        self._left: dict[str, None] = {}  # owners who are still to be looked at, in order
        self._noticed: set[str] = set()  # owners who were among them once

    async def load(self) -> None:
        """What was seen before this start."""
        self._resolver.note_touched()
        # An agent is made before its handle is claimed.
        self._resolver.expect(self._agents.__contains__)
        async with transaction(self._pool) as connection:
            rows = await connection.fetch("SELECT * FROM node.watched")
        for owner, subject, seq, mid, keys, home in rows:
            self._known[owner] = Watched(subject, seq, mid, tuple(keys), home)

    async def check(self) -> None:
        """Look at the handles that live here and that the log has touched since the last check; at start, and
        when it is unknown which, at all of them, some at each check."""
        touched, missed = self._resolver.take_touched()
        if missed:
            self._left.update(dict.fromkeys(self._agents))
            self._noticed.update(self._agents)
        # One who came to live here may have had a record before.
        new = [owner for owner in self._agents if owner not in self._noticed]
        self._noticed.update(new)
        self._left.update(dict.fromkeys(new))
        now = dict.fromkeys(owner for owner in touched if owner in self._agents)
        now.update(dict.fromkeys(islice(self._left, PER_CHECK)))
        for owner in now:
            self._left.pop(owner, None)
        try:
            await self._look_at(now)
        except BaseException:
            self._left = now | self._left  # what could not be noted is looked at first next time
            raise

    async def _look_at(self, owners: Collection[str]) -> None:
        changed: dict[str, Resolved] = {}
        for owner, found in (await self._resolver.resolve_many(owners)).items():
            if isinstance(found, NotFound):
                continue  # not claimed yet: the log will tell
            if isinstance(found, IndaiError):
                self._left[owner] = None
                continue
            if not found.chain.ended_at_ms:
                await self._agents.bind(owner, found.subject_id)
            known = self._known.get(owner)
            if known is None or (known.subject_id, known.mid) != (found.subject_id, found.chain.last_mid):
                changed[owner] = found
        for portion in portions(changed):
            await self._note({owner: changed[owner] for owner in portion})

    async def cry(self, words: str, reason: str) -> None:
        """Something about the registry as a whole: an alarm for every owner, once."""
        if words not in self._cried:
            self._cried.add(words)
            for owners in portions(list(self._agents)):
                await self._journal([self._row(owner, ALARM, reason, words) for owner in owners])

    async def _note(self, changed: Mapping[str, Resolved]) -> None:
        """The journal first: a crash between the two writes the lines twice, and never leaves them out."""
        rows = [row for owner, found in changed.items() for row in self._rows(owner, found.chain)]
        await self._journal(rows)
        await self._keep({owner: Watched.of(found.chain) for owner, found in changed.items()})

    def _rows(self, owner: str, chain: Chain) -> list[Row]:
        """The lines about what is new of a handle."""
        known = self._known.get(owner)
        rows = [
            self._row(owner, SEEN, _name(link), _words(owner, link), link.mid) for link in since(known, chain)
        ]
        if known is not None:
            held = self._agents.get(owner).keys
            sentences = alarms(known, chain, held, self._node)
            rows += [self._row(owner, ALARM, "HANDLE_CHANGED", words, chain.last_mid) for words in sentences]
        return rows

    async def _keep(self, seen: Mapping[str, Watched]) -> None:
        async with transaction(self._pool) as connection:
            await connection.executemany(
                "INSERT INTO node.watched (owner, subject_id, seq, mid, rotation_keys, home)"
                " VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (owner) DO UPDATE SET"
                " subject_id = $2, seq = $3, mid = $4, rotation_keys = $5, home = $6",
                [
                    (owner, one.subject_id, one.seq, one.mid, list(one.rotation_keys), one.home)
                    for owner, one in seen.items()
                ],
            )
        self._known.update(seen)

    async def _journal(self, rows: list[Row]) -> None:
        for row in rows:
            if row["event"] == ALARM:
                log.warning("alarm", owner=row["owner"], reason=row["reason"], words=row["words"])
        if rows:
            await self._store.apply({row["owner"] for row in rows}, {"journal": rows}, 0, None)

    def _row(self, owner: str, event: str, reason: str, words: str, mid: bytes | None = None) -> Row:
        return {
            "owner": owner,
            "at_ms": self._clock(),
            "thread": None,
            "mid": hexed(mid),
            "peer": "",
            "event": event,
            "reason": reason,
            "words": words,
        }


def _name(link: Link) -> str:
    return registry_pb2.OperationType.Name(link.type).removeprefix("OPERATION_TYPE_")


def _words(owner: str, link: Link) -> str:
    return f"The registry has operation {link.seq} of {owner}: {_name(link)}, signed by {link.signer}."
