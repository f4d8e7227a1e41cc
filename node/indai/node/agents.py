"""The agents that live on this node: whose they are, their sealed keys, their calendars.

The table is small and read at start; this object is its only writer. Which of an agent's keys signs is the
registry's word (`signing_key`), never ours: a key that the record does not show, or shows as revoked, is not
used.

An agent is of one *subject*, the first that the registry shows for its handle. When the handle passes to
another, everything under its name here stays the former's: the agent neither signs nor answers for the heir.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from zoneinfo import ZoneInfo

import asyncpg
from indai.client.resolver import Resolved
from indai.node.auth import FindOwner, new_token
from indai.node.calendar.caldav import CalDavCalendar
from indai.node.calendar.file import CalendarFile
from indai.node.calendar.source import Together
from indai.node.keystore import KeyStore
from indai.protocol.errors import InvalidInput, NotFound, ProtocolError, Reason, Refused, Unavailable
from indai.protocol.handles import Handle
from indai.protocol.keys import SigningKey
from indai.protocol.operations import HELD_MS, Chain
from indai.storage.pool import transaction

DEFAULT_ZONE = "UTC"


@dataclass(slots=True)
class Agent:
    """One agent. `calendar` is all of the owner's calendars; it is replaced when one comes or goes, or their
    time zone changes. `called_off`: UIDs of what is called off and may stand in a calendar still; it takes no
    time any more."""

    owner: str
    token_sha256: bytes
    calendar_path: Path
    zone: ZoneInfo
    keys: dict[str, SigningKey]
    calendar: Together = field(init=False)
    accounts: tuple[CalDavCalendar, ...] = ()
    target: CalDavCalendar | None = None
    subject: str = ""
    called_off: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._compose()

    def use(self, accounts: Sequence[CalDavCalendar], target: CalDavCalendar | None) -> None:
        """Read these accounts beside the file; write into `target`, or into the file."""
        self.accounts, self.target = tuple(accounts), target
        self._compose()

    def move_to(self, zone: ZoneInfo) -> None:
        """Read floating and all-day times in another zone."""
        self.zone = zone
        for account in self.accounts:
            account.move_to(zone)
        self._compose()

    def check_subject(self, chain: Chain) -> None:
        """The handle is still that of the one whom this agent is of; raises Refused(PIN_MISMATCH)."""
        if self.subject and chain.subject_id != self.subject:
            raise Refused(
                Reason.PIN_MISMATCH,
                f"What this node has of {self.owner} is of {self.subject}, and the handle is another's now.",
                hint="the new owner lives on another node; nothing of the former one goes along",
            )

    def _compose(self) -> None:
        file = CalendarFile(self.calendar_path, self.zone)
        self.calendar = Together((file, *self.accounts), self.target or file)

    def signing_key(
        self, record: Resolved, now_ms: int, kind: str, amount: tuple[str, int] | None = None
    ) -> SigningKey:
        """The newest key of ours that the registry's record allows for this kind of intent, and for `amount`:
        what is signed costs us (currency, minor units). Raises ProtocolError(PERMISSION_DENIED) for too much,
        Unavailable for no key at all."""
        self.check_subject(record.chain)
        usable = [
            key
            for key in record.chain.state.agent_keys
            if key.key_id in self.keys and _valid(record.chain, key.key_id, now_ms, kind, amount)
        ]
        if not usable and amount is not None:
            able = self.signing_key(record, now_ms, kind)  # it may sign, but not for so much
            record.chain.key_valid_at(able.key_id, now_ms, kind, amount)
        if not usable:
            raise Unavailable(
                Reason.UNKNOWN_KEY,
                f"The record of {self.owner} names no valid key that this node holds.",
                hint=f"Register one: indai handle rotate {self.owner}",
            )
        newest = max(usable, key=lambda key: key.valid_from_ms)
        return self.keys[newest.key_id]


@dataclass(frozen=True, slots=True)
class NewAgent:
    """An agent that is not stored yet. `token` is the owner's; only its digest will be kept."""

    agent: Agent
    key: SigningKey
    token: str = field(repr=False)


class Agents:
    """All agents of this node, by handle and by token."""

    def __init__(
        self, pool: asyncpg.Pool, store: KeyStore, calendars: Path, clock: Callable[[], int]
    ) -> None:
        self._pool = pool
        self._store = store
        self._calendars = calendars
        calendars.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._clock = clock
        self._agents: dict[str, Agent] = {}
        self._by_token: dict[bytes, str] = {}
        self._left: set[str] = set()
        self._at_desks: FindOwner | None = None

    def admit(self, at_desks: FindOwner) -> None:
        """Let owners in by their sessions at a desk too."""
        self._at_desks = at_desks

    async def load(self) -> None:
        """Read every agent; raises when a sealed key does not open under this node's key."""
        async with transaction(self._pool, settings={"indai.leavings": "all"}) as connection:
            rows = await connection.fetch(
                "SELECT owner, token_sha256, calendar_path, time_zone, subject_id FROM node.agents a"
                " WHERE NOT EXISTS (SELECT FROM node.leavings l"
                "  WHERE l.owner = a.owner AND l.finished_ms IS NULL)"
            )
            keys = await connection.fetch("SELECT owner, key_id, sealed_seed FROM node.agent_keys")
            left = await connection.fetch("SELECT DISTINCT owner FROM node.leavings")
        self._left = {row["owner"] for row in left}
        seeds: dict[str, dict[str, SigningKey]] = {}
        for owner, key_id, sealed in keys:
            seed = self._store.unseal(sealed, _context(owner, key_id))
            seeds.setdefault(owner, {})[key_id] = SigningKey.from_seed(seed)
        for owner, digest, path, zone, subject in rows:
            keys_of = seeds.get(owner, {})
            self._add(Agent(owner, digest, Path(path), ZoneInfo(zone), keys_of, subject=subject))

    def zone_of(self, owner: str) -> str:
        """Name of an owner's time zone; empty for one who does not live here."""
        return self.get(owner).zone.key if owner in self else ""

    def get(self, owner: str) -> Agent:
        """Raises NotFound when the handle does not live here."""
        try:
            return self._agents[owner]
        except KeyError:
            raise NotFound(
                Reason.NOT_FOUND,
                f"{owner} does not live on this node.",
                hint=f"Claim it here: indai handle claim {owner}",
            ) from None

    async def owner_of_token(self, digest: bytes) -> str | None:
        """The owner whose token, or whose session's token, has this SHA-256."""
        if (owner := self._by_token.get(digest)) or self._at_desks is None:
            return owner
        found = await self._at_desks(digest)
        return found if found in self._agents else None

    def __contains__(self, owner: object) -> bool:
        return owner in self._agents

    def __iter__(self) -> Iterator[str]:
        return iter(self._agents)

    def __len__(self) -> int:
        return len(self._agents)

    async def plan(self, handle: str, calendar_path: str) -> NewAgent:
        """A new agent with its first key, not stored yet; raises InvalidInput when it can't be."""
        owner = str(Handle.parse(handle))
        if owner in self._agents:
            raise _exists(owner)
        path = Path(calendar_path) if calendar_path else self._calendars / f"{owner.replace('/', '_')}.ics"
        if not path.is_absolute():
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, f"{path} is not an absolute path on the node's machine."
            )
        key, token = SigningKey.generate(), new_token()
        agent = Agent(owner, token.sha256, path, ZoneInfo(DEFAULT_ZONE), {key.key_id: key})
        await agent.calendar.busy(self._clock(), self._clock() + 1)
        return NewAgent(agent, key, token.text)

    async def create(self, new: NewAgent, zone: str) -> None:
        """Store a planned agent, in the time zone that its policy states."""
        agent = new.agent
        agent.move_to(ZoneInfo(zone))
        try:
            async with transaction(self._pool) as connection:
                await connection.execute(
                    "INSERT INTO node.agents (owner, token_sha256, calendar_path, time_zone)"
                    " VALUES ($1, $2, $3, $4)",
                    agent.owner,
                    agent.token_sha256,
                    str(agent.calendar_path),
                    zone,
                )
                await self._insert_key(connection, agent.owner, new.key)
        except asyncpg.UniqueViolationError:
            raise _exists(agent.owner) from None
        self._add(agent)

    async def bind(self, owner: str, subject: str) -> None:
        """The registry shows this subject for an agent that had none yet."""
        agent = self.get(owner)
        if agent.subject:
            return
        async with transaction(self._pool) as connection:
            await connection.execute(
                "UPDATE node.agents SET subject_id = $2 WHERE owner = $1 AND subject_id = ''", owner, subject
            )
        agent.subject = subject

    async def check_heir(self, handle: str, chain: Chain) -> None:
        """No agent of a former subject is taken for a new one; raises Refused(PIN_MISMATCH). One without a
        subject is of the one whose record has a key of it."""
        agent = self._agents.get(str(Handle.parse(handle)))
        if agent is None:
            return
        held = any(key.key_id in agent.keys for key in chain.state.agent_keys)
        # A name that is nobody's yet the registry refuses by itself, and says so better.
        free = bool(chain.successor) or self._clock() >= chain.ended_at_ms + HELD_MS
        if chain.ended_at_ms and free and (held or agent.subject == chain.subject_id):
            raise Refused(
                Reason.PIN_MISMATCH,
                f"{agent.owner} lived on this node, and what it has here stays its own.",
                hint="claim the handle from another node: one node keeps one owner's data under a name",
            )
        agent.check_subject(chain)
        if held:
            await self.bind(agent.owner, chain.subject_id)

    def leave(self, owner: str) -> None:
        """The owner leaves: nobody is let in by their token, and nothing is taken or signed for them."""
        self._left.add(owner)
        if (agent := self._agents.pop(owner, None)) is not None:
            self._by_token.pop(agent.token_sha256, None)

    @property
    def recorded(self) -> list[str]:
        """Who has leaves in the ledger: those who live here, and those who left."""
        return sorted({*self._agents, *self._left})

    async def add_key(self, handle: str) -> SigningKey:
        """One more key for an agent; it signs once the registry shows it."""
        agent = self.get(str(Handle.parse(handle)))
        key = SigningKey.generate()
        async with transaction(self._pool) as connection:
            await self._insert_key(connection, agent.owner, key)
        agent.keys[key.key_id] = key
        return key

    async def set_zone(self, owner: str, zone: str) -> None:
        """The owner's time zone, as their policy states it."""
        agent = self.get(owner)
        if agent.zone.key == zone:
            return
        async with transaction(self._pool) as connection:
            await connection.execute("UPDATE node.agents SET time_zone = $2 WHERE owner = $1", owner, zone)
        agent.move_to(ZoneInfo(zone))

    async def _insert_key(self, connection: asyncpg.Connection, owner: str, key: SigningKey) -> None:
        sealed = self._store.seal(key.seed, _context(owner, key.key_id))
        await connection.execute(
            "INSERT INTO node.agent_keys (owner, key_id, sealed_seed) VALUES ($1, $2, $3)",
            owner,
            key.key_id,
            sealed,
        )

    def _add(self, agent: Agent) -> None:
        self._agents[agent.owner] = agent
        self._by_token[agent.token_sha256] = agent.owner


def _valid(chain: Chain, key_id: str, now_ms: int, kind: str, amount: tuple[str, int] | None) -> bool:
    try:
        chain.key_valid_at(key_id, now_ms, kind, amount)
    except ProtocolError:
        return False
    return True


def _exists(owner: str) -> InvalidInput:
    return InvalidInput(
        Reason.ALREADY_EXISTS,
        f"{owner} lives on this node already.",
        hint=f"For a new key use: indai handle rotate {owner}",
    )


def _context(owner: str, key_id: str) -> str:
    """What a sealed key is bound to, so that rows can't be swapped."""
    return f"agent-key {owner} {key_id}"
