"""What something of an owner's stock would cost a peer now: the answer to a QUERY of a price.

The owner's rules judge it as they would judge the booking itself. Only what they permit outright is told: to
anybody else it looks the same whether there is such a thing or not. Nothing is held.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from indai.node.agents import Agents
from indai.node.duties import answered
from indai.node.kinds.acquaintance import Acquaintances, common
from indai.node.kinds.book import MAX_CANDIDATES, facts_of, left, offers
from indai.node.policies import Policies
from indai.node.stock import Shelf
from indai.node.store import Store
from indai.protocol.forms import DAY_MS
from indai.protocol.kinds.book import BOOK, BookTerms
from indai.protocol.messages import RejectBody
from indai.protocol.queries import PriceAnswer, PriceQuery
from indai.v1 import policy_pb2


class Prices:
    """Answers for every owner of this node."""

    def __init__(
        self,
        shelf: Shelf,
        policies: Policies,
        known: Acquaintances,
        agents: Agents,
        store: Store,
        clock: Callable[[], int],
    ) -> None:
        self._shelf, self._policies, self._known = shelf, policies, known
        self._agents, self._store, self._clock = agents, store, clock

    async def answer(self, owner: str, peer: str, asked: PriceQuery, hops: int) -> PriceAnswer | RejectBody:
        """The best offer's price; not available where too few are left."""
        wish, now_ms = asked.book, self._clock()
        item = self._shelf.of(owner).get(wish.item)
        held = (await self._store.load([owner], [], [owner], now_ms - 2 * DAY_MS)).reserved[owner]
        promised = list(held.stock.values())
        found = list(islice(offers(wish, item, promised, now_ms), MAX_CANDIDATES)) if item else []
        # Without anything to offer the rules are asked all the same, about the thing that was named.
        judged = found or [BookTerms(wish.item, wish.title, wish.quantity)]
        known = await self._known.of(owner, peer, [BOOK.name], self._agents.get(owner).zone, now_ms)
        facts = []
        for terms in judged:
            about = common(peer, now_ms, known, outgoing=False, hops=hops)
            about.book.CopyFrom(facts_of(terms))
            about.book.stock_left = left(item, promised, terms.start_ms, terms.end_ms)
            facts.append(about)
        decisions = (
            await self._policies.decide(policy_pb2.DecideRequest(owner=owner, facts=facts))
        ).decisions
        for terms, decision in zip(judged, decisions, strict=True):
            if answered(decision, BOOK.name) == policy_pb2.OUTCOME_PERMIT:
                return PriceAnswer(True, terms.price_minor, terms.currency) if found else PriceAnswer(False)
        return RejectBody("POLICY_DENIED", "That is not told.")
