"""What the kinds that cost money ask the owner's policy, and what was spent before; reserved is spent."""

from __future__ import annotations

from datetime import datetime

from indai.node.holdings import Spent
from indai.node.kinds.acquaintance import Acquaintances
from indai.node.kinds.base import Case
from indai.node.policies import Policies
from indai.protocol.kinds.base import Kind
from indai.v1 import policy_pb2

NO_CURRENCY = "XXX"  # ISO 4217: for what is free of charge


class Purse:
    """An owner's money in one currency on the local day of a case."""

    def __init__(self, case: Case, currency: str) -> None:
        self.today = datetime.fromtimestamp(case.now_ms / 1000, case.zone).date()
        self._spent = [each for each in case.held.money.values() if each.currency == currency]

    @property
    def day_minor(self) -> int:
        """Spent or reserved today."""
        return sum(each.amount_minor for each in self._spent if each.day == self.today.isoformat())

    @property
    def month_minor(self) -> int:
        """Spent or reserved in this calendar month."""
        return sum(each.amount_minor for each in self._this_month())

    def to_minor(self, peer: str) -> int:
        """Of that, to this peer."""
        return sum(each.amount_minor for each in self._this_month() if each.peer == peer)

    def _this_month(self) -> list[Spent]:
        return [each for each in self._spent if each.day[:7] == self.today.isoformat()[:7]]


def payments_today(case: Case) -> int:
    """Payments made or reserved on the local day of the case, in whatever currency."""
    today = datetime.fromtimestamp(case.now_ms / 1000, case.zone).date().isoformat()
    return sum(each.day == today for each in case.held.money.values())


async def decide(
    policies: Policies, known: Acquaintances, case: Case, kind: Kind, *facts: policy_pb2.Facts
) -> list[policy_pb2.Decision]:
    """Decisions in order; who asks, from where and when, and how well the peer is known, is filled in."""
    about, _ = await known.facts(case, [kind.name])
    for each in facts:
        each.MergeFrom(about)
    request = policy_pb2.DecideRequest(owner=case.owner, facts=facts)
    return list((await policies.decide(request)).decisions)
