"""What the owners of the simulated nodes want and allow: a module for each kind, whose answers are dice
within a policy that is never to be exceeded: one slot at a time, so many units, so much money a day."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from indai.node.holdings import Holdings, Leaving
from indai.node.kinds.base import Answer, Case, Deal, EffectRow, KindModule
from indai.protocol.kinds.base import Holding, Kind, Money, Slot, Stock
from indai.protocol.messages import Terms, Wish
from indai.v1 import policy_pb2

from tests.simulate.host import START_MS
from tests.simulate.tables import UNITS
from tests.unit.wants import another, offers

DAILY_MINOR = 100_000
PERMIT, ASK, REFUSE = policy_pb2.OUTCOME_PERMIT, policy_pb2.OUTCOME_ASK, policy_pb2.OUTCOME_REFUSE


class Trade(KindModule):
    """One kind, decided by dice. `blind` looks at nothing that is promised already: a broken guard."""

    def __init__(self, kind: Kind, dice: Callable[[], random.Random], *, blind: bool) -> None:
        self.kind = kind  # type: ignore[misc]  # one class stands for every kind here
        self._dice = dice
        self._blind = blind

    async def propose(self, case: Case, wish: Wish) -> Answer:
        """As the wish says."""
        return Answer(PERMIT, _decision(PERMIT), wish=wish)

    async def choose(self, case: Case, wish: Wish) -> Answer:
        """Something that is to be had, or another wish; sometimes the owner is asked."""
        dice, thread = self._dice(), case.side.thread
        giver = thread.giver if thread else ""
        if giver not in ("", case.side.owner) or dice.random() < 0.1:
            return Answer(PERMIT, wish=another(wish.kind, dice, START_MS, gives=giver == case.side.owner))
        # The meeting's UID holds its thread's id, which makes all terms of one thread alike.
        for terms in offers(wish, START_MS, f"{case.side.thread_id.hex()}@sim"):
            if self._fits(case, terms, first=True):
                outcome = ASK if dice.random() < 0.25 else PERMIT
                return Answer(outcome, _decision(outcome), terms=terms, limit_minor=DAILY_MINOR)
        return Answer(REFUSE, reason="NOT_AVAILABLE")

    async def sign(self, case: Case, terms: Terms) -> Answer:
        """If it is still to be had."""
        first = case.side.thread is None or case.side.thread.offer is None
        if not self._fits(case, terms, first=first):
            return Answer(REFUSE, reason="NOT_AVAILABLE")
        outcome = ASK if self._dice().random() < 0.2 else PERMIT
        return Answer(outcome, _decision(outcome), terms=terms, limit_minor=DAILY_MINOR)

    def enact(self, deal: Deal) -> Sequence[EffectRow]:
        """One row for the deed."""
        return (EffectRow(deal.mid.hex(), "simulated", {"thread": deal.thread.hex()}),)

    def _fits(self, case: Case, terms: Terms, *, first: bool) -> bool:
        wanted = terms.holdings(first=first)
        return self._blind or all(_room(case.held, one, case.leaving) for one in wanted)


def _room(held: Holdings, wanted: Holding, leaving: Leaving) -> bool:
    match wanted:
        case Slot(start_ms, end_ms):
            taken = [slot for row, slot in held.slots.items() if row not in leaving.rows]
            return not any(start < end_ms and start_ms < end for start, end in taken)
        case Stock(item, quantity):
            return sum(one.quantity for one in held.stock.values() if one.item == item) + quantity <= UNITS
        case Money(amount_minor, currency):
            # Of every day, since the day is the table's to tell: never more than it allows.
            spent = sum(one.amount_minor for one in held.money.values() if one.currency == currency)
            return spent + amount_minor <= DAILY_MINOR


def _decision(outcome: policy_pb2.Outcome.ValueType) -> policy_pb2.Decision:
    return policy_pb2.Decision(outcome=outcome, words="As the dice say.")
