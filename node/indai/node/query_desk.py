"""Answers QUERYs: signed words that bind nobody and store nothing but the count of what was told.

A query is answered only to its sender's own node, so that nobody else can repeat it, and each peer has so
many a minute. What may be learnt is judged at that moment: capabilities by anybody; how a commitment
stands, and what was shared under it, by its other party alone; times only where the owner's rules share the
calendar's `busy` with that peer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from indai.client.resolver import Resolver
from indai.node import compose
from indai.node.agents import Agents
from indai.node.ballots import Ballots
from indai.node.clock import DatabaseClock
from indai.node.compose import Letterhead, newest_key
from indai.node.contents import Contents
from indai.node.duties import answered
from indai.node.holdings import Promised
from indai.node.host import Host
from indai.node.inbound import MAX_HEAD_AGE_MS, Inbound
from indai.node.kinds.acquaintance import Acquaintances, common
from indai.node.policies import Policies
from indai.node.stages import Stages
from indai.node.store import Store
from indai.node.throttle import Throttle
from indai.protocol import header
from indai.protocol.ballots import BallotQuery, CallQuery
from indai.protocol.bodies import MAX_SENTENCE, RejectBody
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.kinds.share import ShareTerms
from indai.protocol.messages import MeetWish, Move
from indai.protocol.party_state import Side
from indai.protocol.queries import (
    MAX_PART,
    AnswerBody,
    CapabilitiesAnswer,
    CapabilitiesQuery,
    ContentAnswer,
    ContentQuery,
    PriceAnswer,
    PriceQuery,
    QueryBody,
    StatusAnswer,
    StatusQuery,
    Told,
    WindowsAnswer,
    WindowsQuery,
)
from indai.v1 import policy_pb2

MINUTE_MS, DAY_MS = 60_000, 86_400_000
PER_MINUTE = 60  # a content of 1 MiB takes 22 parts
LOOKS_PER_HOUR = 12  # at times, or at prices
MAX_TIMES = 3
ANSWER_LIFE_MS = 5 * MINUTE_MS
_SENTENCES = {
    "RATE_LIMITED": "Too many queries; come again later.",
    "POLICY_DENIED": "That is not told.",
    "NOT_FOUND": "There is no such thing between us.",
    "REVOKED": "The consent was revoked.",
    "CONSENT_EXPIRED": "The consent has ended.",
    "NOT_YET": "The consent has not begun.",
    "ALREADY_READ": "The consent was for one read, which is over.",
    "READ_TOO_OFTEN": "It was read as often as the consent allows for now.",
    "UNSUPPORTED": "This agent does not tell that.",
}

Price = Callable[[str, str, PriceQuery, int], Awaitable[PriceAnswer | RejectBody]]


@dataclass(frozen=True, slots=True)
class _Agreed:
    thread: bytes
    side: Side


class QueryDesk:
    """See the module. `prices`, where something is sold here, answers (owner, peer, query, hops)."""

    def __init__(
        self,
        kinds: tuple[str, ...],
        policies: Policies,
        resolver: Resolver,
        agents: Agents,
        host: Host,
        store: Store,
        contents: Contents,
        stages: Stages,
        acquaintances: Acquaintances,
        clock: DatabaseClock,
        prices: Price | None = None,
    ) -> None:
        self._kinds = kinds
        self._policies = policies
        self._resolver = resolver
        self._agents = agents
        self._host = host
        self._store = store
        self._contents = contents
        self._stages = stages
        self._acquaintances = acquaintances
        self._clock = clock
        self._prices = prices
        self._ballots = Ballots(host, agents, store, acquaintances)
        self._minute = Throttle(PER_MINUTE, MINUTE_MS)
        self._looks = Throttle(LOOKS_PER_HOUR, 60 * MINUTE_MS)

    async def answer(self, inbound: Inbound) -> list[bytes]:
        """The signed ANSWER to one query; raises ProtocolError."""
        message, query = inbound.message, inbound.message.body
        if not isinstance(query, QueryBody) or not inbound.proven:
            raise ProtocolError(
                Reason.REPLAYED, "A query is answered to its sender's own node alone.", rule="QRY-02"
            )
        now_ms = self._clock()
        header.check_time(message.issued_at_ms, message.expires_at_ms, now_ms)
        told: Told = _refusal("RATE_LIMITED")
        if self._minute.admits((inbound.owner, inbound.peer), now_ms):
            told = await self._tell(inbound, query, now_ms)
        letterhead = await self._letterhead(inbound)
        body, until_ms = AnswerBody(told), now_ms + ANSWER_LIFE_MS
        written = compose.write(letterhead, Move.ANSWER, body, message.thread, message.mid, now_ms, until_ms)
        return [written.envelope.raw]

    async def _tell(self, inbound: Inbound, query: QueryBody, now_ms: int) -> Told:
        owner, peer, hops = inbound.owner, inbound.peer, inbound.message.hops
        match query.about:
            case CapabilitiesQuery():
                return CapabilitiesAnswer(self._kinds)
            case StatusQuery(mid):
                return await self._status(owner, peer, mid)
            case ContentQuery():
                return await self._content(owner, peer, query.about, now_ms)
            case WindowsQuery() as wanted:
                return await self._times(owner, peer, wanted, now_ms, hops)
            case PriceQuery() as asked:
                if self._prices is None:
                    return _refusal("UNSUPPORTED")
                if not self._looks.admits((owner, peer, "price"), now_ms):
                    return _refusal("RATE_LIMITED")
                return await self._prices(owner, peer, asked, hops)
            case CallQuery() as call:
                return await self._ballots.windows(owner, peer, call, now_ms, hops)
            case BallotQuery() as ballot:
                return await self._ballots.ordinals(owner, peer, ballot, now_ms, hops)

    async def _agreed(self, owner: str, peer: str, mid: bytes) -> _Agreed | None:
        """The commitment, if it is one of these two and not erased."""
        async with self._store.scope(owner) as connection:
            row = await connection.fetchrow(
                "SELECT t.thread, t.side FROM node.messages m JOIN node.threads t USING (owner, thread)"
                " WHERE m.owner = $1 AND m.mid = $2 AND t.mid = $2 AND t.peer = $3 AND t.phase = 'COMMITTED'"
                " AND t.erased_ms IS NULL LIMIT 1",
                owner,
                mid,
                peer,
            )
        return _Agreed(row["thread"], Side.from_json(row["side"])) if row else None

    async def _status(self, owner: str, peer: str, mid: bytes) -> Told:
        agreed = await self._agreed(owner, peer, mid)
        life = agreed.side.life if agreed else None
        if agreed is None or life is None:
            return _refusal("NOT_FOUND")
        stage = await self._stages.get(owner, agreed.thread)
        return StatusAnswer(mid, life.state.value, len(life.chain), life.deed.due_ms, stage[:MAX_SENTENCE])

    async def _content(self, owner: str, peer: str, query: ContentQuery, now_ms: int) -> Told:
        agreed = await self._agreed(owner, peer, query.commitment)
        side = agreed.side if agreed else None
        offer = side.thread.offer if side and side.thread else None
        if side is None or side.life is None or offer is None or offer.sender != side.owner:
            return _refusal("NOT_FOUND")
        terms = offer.body
        if not isinstance(terms, ShareTerms):
            return _refusal("NOT_FOUND")
        if side.life.state.ended:
            return _refusal("REVOKED" if side.life.state.value == "CANCELLED" else "CONSENT_EXPIRED")
        sealed = await self._contents.sealed(owner, terms.content_sha256)
        if sealed is None or query.offset_bytes >= len(sealed):
            return _refusal("NOT_FOUND")
        item = f"profile/{terms.field}" if terms.field else f"document/{terms.document}"
        problem = await self._contents.read(owner, peer, item, query.commitment, terms.consent, now_ms)
        if problem:
            return _refusal(problem)
        part = sealed[query.offset_bytes : query.offset_bytes + MAX_PART]
        return ContentAnswer(query.commitment, query.offset_bytes, len(sealed), part)

    async def _times(self, owner: str, peer: str, query: WindowsQuery, now_ms: int, hops: int) -> Told:
        if query.item:
            return _refusal("UNSUPPORTED")
        if not self._looks.admits((owner, peer, "times"), now_ms):
            return _refusal("RATE_LIMITED")
        if not await self._may_see_busy(owner, peer, now_ms, hops):
            return _refusal("POLICY_DENIED")
        await self._agents.get(owner).calendar.refresh()
        held = (await self._store.load([owner], [], [owner], now_ms - 2 * DAY_MS)).reserved[owner]
        wish = MeetWish("", query.duration_minutes, (query.within,), "")
        known = await self._acquaintances.of(owner, peer, ["meet"], self._agents.get(owner).zone, now_ms)
        about = common(peer, now_ms, known, outgoing=False, hops=hops)
        about.meet.attendees = 2
        found = await self._host.times(owner, about, wish, Promised(held.slots), MAX_TIMES)
        await self._contents.told(owner, peer, "calendar/busy", now_ms)
        return WindowsAnswer(found)

    async def _may_see_busy(self, owner: str, peer: str, now_ms: int, hops: int) -> bool:
        zone = self._agents.get(owner).zone
        known = await self._acquaintances.of(owner, peer, ["share"], zone, now_ms)
        facts = common(peer, now_ms, known, outgoing=False, hops=hops)
        facts.share.item = "calendar/busy"
        request = policy_pb2.DecideRequest(owner=owner, facts=[facts])
        (decision,) = (await self._policies.decide(request)).decisions
        return answered(decision, "share") == policy_pb2.OUTCOME_PERMIT

    async def _letterhead(self, inbound: Inbound) -> Letterhead:
        return await letterhead(self._resolver, self._agents, inbound.owner, inbound.peer, self._clock())


async def letterhead(resolver: Resolver, agents: Agents, owner: str, peer: str, now_ms: int) -> Letterhead:
    """For what stands beside all threads, and so is of no kind of intent."""
    own = await resolver.resolve(owner, max_age_ms=MAX_HEAD_AGE_MS)
    other = await resolver.resolve(peer, max_age_ms=MAX_HEAD_AGE_MS)
    key = agents.get(owner).signing_key(own, now_ms, "")
    return Letterhead(resolver.policy.network, own, other, newest_key(other), key, own.head)


def _refusal(reason: str) -> RejectBody:
    return RejectBody(reason, _SENTENCES[reason])
