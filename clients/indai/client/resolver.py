"""Handles resolved and verified: a registry cannot make this module believe what it cannot prove.

A look-up asks for the newest head, the chain and the proofs at once, and checks all of them. What was
verified stays in memory. `tail` reads the log's new entries, proves that it saw all of them, and forgets
the handles they are about; so an answer from memory is as fresh as the last tail and costs no round trip.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from indai.client.heads import HeadKeeper
from indai.client.logkeys import log_keys
from indai.client.lookups import touched_handles, verify_lookup, verify_subjects
from indai.client.network import Head, NetworkPolicy
from indai.protocol.checkpoint import Checkpoint
from indai.protocol.delegations import delegator_of
from indai.protocol.errors import IndaiError, NotFound, ProtocolError, Reason, Refused, Unavailable
from indai.protocol.handles import Handle
from indai.protocol.handlestate import MAX_DEPTH, HandleState
from indai.protocol.logkeys import announced_by
from indai.protocol.note import Verifier
from indai.protocol.operations import Chain
from indai.v1 import registry_pb2

if TYPE_CHECKING:
    from indai.v1.registry_pb2_grpc import RegistryServiceAsyncStub

DEFAULT_MAX_AGE_MS = 600_000
MAX_CACHED = 20_000
MAX_TAILED = 10_000  # entries read one by one; over a larger gap it is cheaper to forget everything
PAGE = 500
CONCURRENT = 16
ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Resolved:
    """A handle's verified history as of `head`.

    `domain_failing_since_ms` is the registry's word, which it cannot prove: since when the domain of a
    branded handle does not confirm it (0: it does, or it is no domain).
    """

    chain: Chain
    head: Head
    domain_failing_since_ms: int = 0

    @property
    def handle(self) -> str:
        """The handle."""
        return self.chain.handle

    @property
    def subject_id(self) -> str:
        """The subject: what to pin."""
        return self.chain.subject_id

    @property
    def state(self) -> HandleState:
        """The newest state; see `chain.ended_at_ms` for a handle that was retired."""
        return self.chain.state


@dataclass(frozen=True, slots=True)
class _Known:
    """What the registry proved about a handle at a head: its chain, or None for "not taken"."""

    chain: Chain | None
    head: Head
    domain_failing_since_ms: int = 0


class Resolver:
    """Resolves handles of one network through a registry's stub (over a channel that raises IndaiError only).

    `clock` gives ms since the epoch. With `state_path` the last head survives restarts. One event loop owns
    an object; nothing awaits between reading the kept head and using it, which is what replaces locks here.
    """

    def __init__(
        self,
        stub: RegistryServiceAsyncStub,
        policy: NetworkPolicy,
        clock: Callable[[], int],
        state_path: Path | None = None,
    ) -> None:
        self._stub = stub
        self._clock = clock
        self._heads = HeadKeeper(policy, clock, state_path)
        # Everything cached is right at `_tailed` too, if it was verified at a smaller head: `tail` sees to
        # it.
        self._tailed = self._heads.kept
        self._cache: OrderedDict[str, _Known] = OrderedDict()
        self._running: dict[str, asyncio.Task[_Known]] = {}
        self._tailing = asyncio.Lock()
        self._touched: set[str] | None = None  # None: nobody wants to know
        self._expected: Callable[[str], bool] = lambda handle: False
        self._missed = True

    @property
    def policy(self) -> NetworkPolicy:
        """The network's policy, with the key that its log has now."""
        return self._heads.policy

    @property
    def head(self) -> Head | None:
        """The newest verified head."""
        return self._heads.kept

    def head_at(self, size: int) -> Head | None:
        """The head of that size, if it is one of those verified lately."""
        return self._heads.at(size)

    def open_head(self, note: bytes) -> tuple[Checkpoint, Verifier]:
        """A head signed with a key that the log has or had, and that key; raises ProtocolError."""
        return self._heads.open(note)

    async def last_under(self, log: Verifier, size: int) -> tuple[bytes, list[bytes]] | None:
        """The last head (a note) that counts under a key the log had, and what the registry gives as the
        proof from `size` to it; None for the key that it has now. Raises what the channel raises."""
        for retired in self._heads.retired:
            if retired.log == log:
                changes = await log_keys(self._stub, size)
                proofs = (proof for change, proof in changes if announced_by(change.leaf) == log)
                return retired.note, next(proofs, [])
        return None

    async def proof_from(self, size: int) -> tuple[Head, list[bytes]]:
        """The newest head, verified, and what the registry gives as the proof from `size`, not verified.

        Raises as `resolve`.
        """
        for _ in range(ATTEMPTS):
            answer = await self._stub.GetHead(registry_pb2.GetHeadRequest(known_size=size))
            head = await self._accept(answer.checkpoint, None, [])
            if head is not None:
                return head, list(answer.consistency_proof)
            await self.tail()
        raise _moving()

    async def resolve(self, handle: str, *, max_age_ms: int = DEFAULT_MAX_AGE_MS, pin: str = "") -> Resolved:
        """The verified state of `handle`, as of a head at most `max_age_ms` old.

        With `pin`, the subject it must be: a name may have been transferred, or given out again.

        Raises Refused(PIN_MISMATCH) for another, NotFound for a handle proved not to exist, Unavailable
        (STALE_HEAD, or UNREACHABLE from the channel), ProtocolError (BAD_PROOF, BAD_CHECKPOINT,
        BAD_SIGNATURE, SPLIT_VIEW, LOG_ROLLED_BACK, INVALID_OPERATION), InvalidInput for what is no handle.
        """
        # What is kept is kept under its proper name, which needs no second parsing.
        name = handle if handle in self._cache else str(Handle.parse(handle))
        known = self._cached(name, max_age_ms)
        if known is None:
            known = await self._fresh_lookup(name)
            self._heads.check_fresh(known.head, max_age_ms)
        if known.chain is None:
            raise _not_taken(name)
        if pin and known.chain.subject_id != pin:
            raise Refused(
                Reason.PIN_MISMATCH,
                f"{name} is now {known.chain.subject_id}, and not {pin} any more.",
                hint="the name has changed hands: ask its owner in another way before you trust it",
            )
        return Resolved(known.chain, known.head, known.domain_failing_since_ms)

    async def history(self, handle: str) -> tuple[tuple[Chain, ...], registry_pb2.GetHandleResponse]:
        """Every subject that a handle has had, oldest first, and the registry's own answer, verified.

        Not from memory. Raises as `resolve`.
        """
        name = str(Handle.parse(handle))
        for _ in range(ATTEMPTS):
            since = self._heads.kept
            request = registry_pb2.GetHandleRequest(
                handle=name, known_size=since.size if since else 0, earlier=True
            )
            answer = await self._stub.GetHandle(request)
            head = await self._accept(answer.checkpoint, since, list(answer.consistency_proof))
            if head is None:
                continue
            subjects = verify_subjects(name, answer, head)
            await self._heads.save()
            if not subjects:
                raise _not_taken(name)
            return subjects, answer
        raise _moving()

    async def resolve_many(
        self, handles: Iterable[str], *, max_age_ms: int = DEFAULT_MAX_AGE_MS
    ) -> dict[str, Resolved | IndaiError]:
        """`resolve` for each of `handles`, a few at a time; an error stands in the place of its handle."""
        gate = asyncio.Semaphore(CONCURRENT)

        async def one(handle: str) -> Resolved | IndaiError:
            async with gate:
                try:
                    return await self.resolve(handle, max_age_ms=max_age_ms)
                except IndaiError as error:
                    return error

        wanted = list(dict.fromkeys(handles))
        return dict(zip(wanted, await asyncio.gather(*map(one, wanted)), strict=True))

    async def node_of(self, person: Resolved, *, max_age_ms: int = DEFAULT_MAX_AGE_MS) -> Resolved:
        """The node that answers for `person` (itself, if it is a node); raises NotFound if there is none."""
        if person.state.node_record is not None:
            return person
        if not person.state.node:
            raise NotFound(Reason.NOT_FOUND, f"{person.handle} has no node, so nobody answers for it.")
        node = await self.resolve(person.state.node, max_age_ms=max_age_ms)
        if node.state.node_record is None or node.chain.ended_at_ms:
            raise NotFound(Reason.NOT_FOUND, f"{node.handle}, the node of {person.handle}, is no node.")
        return node

    async def authority_of(
        self, agent: Resolved, *, max_age_ms: int = DEFAULT_MAX_AGE_MS
    ) -> tuple[Chain, ...]:
        """The chains down to `agent`, for `check_delegation`: of length 1 when it is nobody's sub-agent.

        Raises ProtocolError(PERMISSION_DENIED) when it is too deep to be anybody's, and as `resolve`.
        """
        path = [agent.chain]
        while above := delegator_of(path[0]):
            if len(path) > MAX_DEPTH:
                message = f"{agent.handle} is over {MAX_DEPTH} delegations deep."
                raise ProtocolError(Reason.PERMISSION_DENIED, message, rule="REG-37")
            path.insert(0, (await self.resolve(above, max_age_ms=max_age_ms)).chain)
        return tuple(path)

    async def tail(self) -> Head:
        """Read what is new in the log and forget the handles it touches; called every 15 s or sooner.

        Raises as `resolve`. After an error nothing is believed to be newer than before.
        """
        async with self._tailing:
            head, proof = await self._newest_since(self._tailed)
            await self._forget_touched(self._tailed, head, proof)
            self._tailed = head
        await self._heads.save()
        return head

    def forget(self, handle: str) -> None:
        """Look this handle up anew at the next question."""
        self._cache.pop(handle, None)

    def expect(self, expected: Callable[[str], bool]) -> None:
        """Never keep that a handle for which this is true is not taken: its owner is about to claim it, and
        uses it before the log has told."""
        self._expected = expected

    def note_touched(self) -> None:
        """Remember from now on which handles the log touches, for `take_touched`."""
        self._touched = set()

    def take_touched(self) -> tuple[set[str], bool]:
        """The handles that the log has touched, as far as it was tailed since this was last asked; and
        whether there may be more: at the first question, and after a large gap."""
        touched, missed = self._touched or set(), self._missed
        self._touched, self._missed = set(), False
        return touched, missed

    def _cached(self, handle: str, max_age_ms: int) -> _Known | None:
        known = self._cache.get(handle)
        if known is None:
            return None
        tailed = self._tailed
        # Later times of the same head count too: a head is re-issued while the log stands still.
        newest = tailed if tailed is not None and tailed.size >= known.head.size else known.head
        if self._clock() - newest.time_ms > max_age_ms:
            return None
        self._cache.move_to_end(handle)
        if newest is known.head:
            return known
        return _Known(known.chain, newest, known.domain_failing_since_ms)

    async def _fresh_lookup(self, handle: str) -> _Known:
        """A look-up, or one that is under way; but that a handle is not taken may have stopped being true
        since another's look-up began, and whoever asks may be the one who has claimed it."""
        shared = handle in self._running
        known = await self._shared_lookup(handle)
        return await self._shared_lookup(handle) if shared and known.chain is None else known

    async def _shared_lookup(self, handle: str) -> _Known:
        """One look-up for all who ask for `handle` at the same time; it goes on when one of them gives up."""
        task = self._running.get(handle)
        if task is None:
            task = asyncio.create_task(self._lookup(handle))
            self._running[handle] = task
            task.add_done_callback(lambda done: self._landed(handle, done))
        return await asyncio.shield(task)

    def _landed(self, handle: str, task: asyncio.Task[_Known]) -> None:
        del self._running[handle]
        if not task.cancelled():
            task.exception()  # everyone who asked may have given up: a failure nobody awaits is no fault

    async def _lookup(self, handle: str) -> _Known:
        for _ in range(ATTEMPTS):
            since = self._heads.kept
            request = registry_pb2.GetHandleRequest(handle=handle, known_size=since.size if since else 0)
            answer = await self._stub.GetHandle(request)
            head = await self._accept(answer.checkpoint, since, list(answer.consistency_proof))
            if head is None:
                continue
            known = _Known(verify_lookup(handle, answer, head), head, answer.domain.failing_since_ms)
            self._remember(handle, known)
            await self._heads.save()
            return known
        raise _moving()

    def _remember(self, handle: str, known: _Known) -> None:
        if known.chain is None and self._expected(handle):
            return
        if self._tailed is not None and known.head.size < self._tailed.size:
            return  # entries between the two were tailed before this arrived and could not invalidate it
        self._cache[handle] = known
        self._cache.move_to_end(handle)
        while len(self._cache) > MAX_CACHED:
            self._cache.popitem(last=False)

    async def _newest_since(self, since: Head | None) -> tuple[Head, list[bytes]]:
        """The newest head with the consistency proof from `since`."""
        for _ in range(ATTEMPTS):
            base = since or self._heads.kept
            head, proof = await self._ask_head(base)
            if head is not None:
                return head, proof
            # A look-up has kept a newer head than the tail's: link the newest to that one first, then to
            # ours.
            await self._ask_head(self._heads.kept)
        raise _moving()

    async def _ask_head(self, base: Head | None) -> tuple[Head | None, list[bytes]]:
        answer = await self._stub.GetHead(registry_pb2.GetHeadRequest(known_size=base.size if base else 0))
        proof = list(answer.consistency_proof)
        return await self._accept(answer.checkpoint, base, proof), proof

    async def _accept(self, note: bytes, since: Head | None, proof: list[bytes]) -> Head | None:
        """`HeadKeeper.accept`; None too for a head of a key that the log has announced since: ask again."""
        if self._heads.is_of_another_key(note) and await self._follow():
            return None
        return self._heads.accept(note, since, proof)

    async def _follow(self) -> bool:
        """Whether the log has shown another key since; raises ProtocolError for what shows nothing."""
        since = self._heads.kept
        changes = await log_keys(self._stub, since.size if since else 0)
        followed = False
        for change, proof in changes:
            if self._heads.follow(change, since, proof):
                followed, since = True, self._heads.kept
        return followed

    async def _forget_touched(self, old: Head | None, new: Head, proof: list[bytes]) -> None:
        if old is None or new.size - old.size > MAX_TAILED:
            self._cache = OrderedDict((h, k) for h, k in self._cache.items() if k.head.size >= new.size)
            self._missed = True
            return
        if new.size == old.size or (not self._cache and self._touched is None):
            return
        entries = await self._entries(old.size, new.size)
        for index, handle in touched_handles(old, new, proof, entries):
            if self._touched is not None:
                self._touched.add(handle)
            known = self._cache.get(handle)
            if known is not None and known.head.size <= index:
                del self._cache[handle]

    async def _entries(self, start: int, end: int) -> list[bytes]:
        entries: list[bytes] = []
        while start + len(entries) < end:
            wanted = min(PAGE, end - start - len(entries))
            request = registry_pb2.ListEntriesRequest(start=start + len(entries), page_size=wanted)
            page = (await self._stub.ListEntries(request)).entries[:wanted]
            if not page:
                break
            entries.extend(page)
        return entries


def _not_taken(name: str) -> NotFound:
    return NotFound(Reason.NOT_FOUND, f"The handle {name} is not taken.", hint="check the spelling")


def _moving() -> Unavailable:
    message = "The registry's log grew faster than it could be followed."
    return Unavailable(Reason.STALE_HEAD, message, hint="try again", metadata={"rule": "REG-12"})
