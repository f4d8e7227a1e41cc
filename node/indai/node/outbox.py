"""Delivery: what is stored in the outbox goes to each peer's node, in batches, until the peer has taken it.

A row leaves the outbox only in the transaction that takes the peer's answer, so a crash anywhere repeats a
delivery and never loses one; the peer answers a repetition with what it stored. One worker for each peer
node; whatever is ready travels together.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog
from indai.client.peers import PeerChannels
from indai.client.resolver import Resolver
from indai.client.tasks import end_tasks
from indai.node.handshakes import Handshakes
from indai.node.peer_heads import PeerHeads
from indai.node.recall import Recall
from indai.node.store import Store
from indai.protocol.errors import IndaiError, Reason, Unavailable
from indai.v1 import peer_pb2
from indai.v1.peer_pb2_grpc import PeerServiceStub

MAX_BATCH = 64
IN_FLIGHT = 4  # deliveries to one peer at once: one is answered while the next is filled
TIMEOUT_S = 20.0
FIRST_RETRY_S, LAST_RETRY_S = 0.1, 30.0
# A peer that says these of a message may say otherwise later; anything else is its last word.
PASSING = frozenset(
    {"UNAVAILABLE", "RESOURCE_EXHAUSTED", "INTERNAL", "DEADLINE_EXCEEDED", "ABORTED", "DATA_LOSS"}
)

if TYPE_CHECKING:
    from indai.v1.peer_pb2_grpc import PeerServiceAsyncStub

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One stored message for a peer."""

    owner: str
    thread: bytes
    mid: bytes
    move: str
    recipient: str
    envelope: bytes


@dataclass(slots=True)
class _Lane:
    """What is ready for one peer node."""

    ready: asyncio.Queue[Outgoing] = field(default_factory=asyncio.Queue)
    workers: list[asyncio.Task[None]] = field(default_factory=list)
    failures: int = 0


TakeAnswer = Callable[[Outgoing, list[bytes], str, str], Awaitable[None]]


class Outbox:
    """Sends until answered. `take` stores an answer: (message, replies, reason of a refusal or "",
    sentence)."""

    def __init__(
        self,
        store: Store,
        resolver: Resolver,
        channels: PeerChannels,
        handshakes: Handshakes,
        heads: PeerHeads,
        take: TakeAnswer,
    ) -> None:
        self._handshakes = handshakes
        self._heads = heads
        self._store = store
        self._resolver = resolver
        self._channels = channels
        self._take = take
        self._lanes: dict[str, _Lane] = {}
        self._postponed: dict[tuple[str, bytes, str], int] = {}  # how often the peer could not take it
        self._waiting: set[tuple[str, bytes, str]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False
        self._recall = Recall(self.load)

    @property
    def waiting(self) -> int:
        """Messages that are not taken yet."""
        return len(self._waiting)

    async def load(self, owners: list[str]) -> None:
        """Take up what an earlier run left."""
        async with self._store.scope(*owners) as connection:
            rows = await connection.fetch(
                "SELECT o.owner, m.thread, o.mid, o.move, o.recipient, m.envelope FROM node.outbox o"
                " JOIN node.messages m USING (owner, mid, move) WHERE o.owner = ANY($1) ORDER BY m.position",
                owners,
            )
        for row in rows:
            self.send(Outgoing(*row))

    def send(self, message: Outgoing) -> None:
        """Deliver a message that is stored. Returns at once."""
        key = (message.owner, message.mid, message.move)
        if key in self._waiting or self._closing:
            return
        self._waiting.add(key)
        self._spawn(self._route(message))

    def drop(self, keys: Iterable[tuple[str, bytes, str]]) -> None:
        """Try these no further, by (owner, mid, move): what they follow was refused for good."""
        self._waiting.difference_update(keys)

    def recall(self, owners: Iterable[str]) -> None:
        """Take up what is stored for these owners and not under way. Returns at once."""
        self._recall.ask(owners)

    async def close(self) -> None:
        """Stop; what is undelivered stays stored."""
        self._closing = True
        await self._recall.close()
        tasks = [*self._tasks, *(worker for lane in self._lanes.values() for worker in lane.workers)]
        await end_tasks(*tasks)

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _route(self, message: Outgoing) -> None:
        """Put a message into the lane of its recipient's node, whenever that can be resolved."""
        failures = 0
        while True:
            try:
                person = await self._resolver.resolve(message.recipient)
                node = (await self._resolver.node_of(person)).handle
                break
            except IndaiError as error:
                failures += 1
                if error.reason.status.grpc not in PASSING:
                    await self._answer(message, [], error.reason.name, error.message)
                    return
                await self._pause(failures, message.recipient, error)
        lane = self._lanes.get(node)
        if lane is None:
            lane = self._lanes[node] = _Lane()
            lane.workers = [asyncio.create_task(self._work(node, lane)) for _ in range(IN_FLIGHT)]
        lane.ready.put_nowait(message)

    async def _work(self, node: str, lane: _Lane) -> None:
        while True:
            batch = [await lane.ready.get()]
            while len(batch) < MAX_BATCH and not lane.ready.empty():
                batch.append(lane.ready.get_nowait())
            try:
                await self._deliver(node, lane, batch)
            except Exception as caught:
                error = caught
                if not isinstance(error, IndaiError):
                    log.exception("delivery failed", whom=node)
                    error = IndaiError(Reason.INTERNAL, "The delivery failed inside this node.")
                lane.failures += 1
                await self._pause(lane.failures, node, error)
                # By way of the registry again: the owner may live on another node by now.
                for message in batch:
                    self._spawn(self._route(message))

    async def _deliver(self, node: str, lane: _Lane, batch: list[Outgoing]) -> None:
        hellos = await self._hellos(batch)
        request = peer_pb2.DeliverRequest(
            envelopes=[message.envelope for message in batch],
            hellos=hellos.values(),
            ledger_head=self._heads.newest(),
        )
        try:
            response = await (await self._peer(node)).Deliver(request, timeout=TIMEOUT_S)
        except IndaiError:
            for pair in hellos:
                self._handshakes.unsaid(*pair)
            raise
        self._heads.hear(response.ledger_head)
        await self._greeted(node, list(hellos), response)
        if len(response.results) != len(batch):
            raise IndaiError(
                Reason.INTERNAL, f"{node} answered {len(response.results)} of {len(batch)} messages."
            )
        lane.failures = 0
        await asyncio.gather(
            *(self._result(message, result) for message, result in zip(batch, response.results, strict=True))
        )

    async def _hellos(self, batch: list[Outgoing]) -> dict[tuple[str, str], bytes]:
        """What goes along for those who have no HELLO of ours yet, by (owner, peer)."""
        pairs = dict.fromkeys((message.owner, message.recipient) for message in batch)
        said = {pair: await self._handshakes.say(*pair) for pair in pairs}
        return {pair: raw for pair, raw in said.items() if raw is not None}

    async def _greeted(
        self, node: str, pairs: list[tuple[str, str]], response: peer_pb2.DeliverResponse
    ) -> None:
        """What came back for our HELLOs; a refusal stands in the results of the messages too."""
        for pair, result in zip(pairs, response.hellos, strict=False):
            if result.error.reason:
                log.warning("hello refused", whom=node, reason=result.error.reason)
                if _is_passing(result.error.reason):
                    self._handshakes.unsaid(*pair)
            for raw in result.replies:
                try:
                    await self._handshakes.take_answer(raw)
                except IndaiError as error:
                    log.warning("hello not taken", whom=node, reason=error.reason.name, error=error.message)

    async def _peer(self, node: str) -> PeerServiceAsyncStub:
        record = (await self._resolver.resolve(node)).chain.state.node_record
        if record is None:
            raise Unavailable(Reason.UNREACHABLE, f"The record of {node} names no address.")
        return PeerServiceStub(await self._channels.get(record.address, record.tls_spki_sha256))

    async def _result(self, message: Outgoing, result: peer_pb2.DeliverResult) -> None:
        reason = result.error.reason
        if reason == Reason.OUT_OF_ORDER.name and await self._never_comes(message, result):
            return
        if reason and _is_passing(reason):
            self._spawn(self._later(message, Unavailable(Reason.UNREACHABLE, result.error.message)))
            return
        self._postponed.pop((message.owner, message.mid, message.move), None)
        await self._answer(message, list(result.replies), reason, result.error.message)

    async def _never_comes(self, message: Outgoing, result: peer_pb2.DeliverResult) -> bool:
        """Whether what the message follows can't arrive any more, as the thread knows; then it is dropped."""
        try:
            await self._take(message, [], result.error.reason, result.error.message)
        except IndaiError:
            return False
        key = (message.owner, message.mid, message.move)
        self._postponed.pop(key, None)
        self._waiting.discard(key)
        return True

    async def _later(self, message: Outgoing, error: IndaiError) -> None:
        """The peer's node is there but can't take this message yet: rarer and rarer, and not in its lane."""
        key = (message.owner, message.mid, message.move)
        self._postponed[key] = self._postponed.get(key, 2) + 1
        await self._pause(self._postponed[key], message.recipient, error)
        if key in self._waiting:
            await self._route(message)

    async def _answer(self, message: Outgoing, replies: list[bytes], reason: str, sentence: str) -> None:
        """Store what came back; the row goes in that same transaction. What can't be stored now is stored
        later, beside the lane, so that one owner's trouble holds up nobody else."""
        try:
            await self._take(message, replies, reason, sentence)
        except IndaiError as error:
            self._spawn(self._answer_later(message, replies, reason, sentence, error))
        else:
            self._waiting.discard((message.owner, message.mid, message.move))

    async def _answer_later(
        self, message: Outgoing, replies: list[bytes], reason: str, sentence: str, error: IndaiError
    ) -> None:
        failures = 1
        while True:
            await self._pause(failures, message.owner, error)
            try:
                await self._take(message, replies, reason, sentence)
                break
            except IndaiError as again:
                failures, error = failures + 1, again
        self._waiting.discard((message.owner, message.mid, message.move))

    async def _pause(self, failures: int, whom: str, error: IndaiError) -> None:
        """Exponential back-off with full jitter; says so the first time and then at each doubling."""
        ceiling = min(LAST_RETRY_S, FIRST_RETRY_S * 2 ** min(failures, 16))
        if failures & (failures - 1) == 0:
            log.warning(
                "delivery waits", whom=whom, reason=error.reason.name, error=error.message, failures=failures
            )
        await asyncio.sleep(random.uniform(ceiling / 2, ceiling))  # noqa: S311 - spreads retries, guards nothing


def _is_passing(reason: str) -> bool:
    known = Reason.__members__.get(reason)
    return known is not None and known.status.grpc in PASSING
