"""Every kind of intent by name: what the rest of the protocol reads instead of naming one."""

from __future__ import annotations

from indai.protocol.forms import malformed
from indai.protocol.kinds.ask import ASK, REQUEST
from indai.protocol.kinds.base import Kind, Money, Terms, Wish
from indai.protocol.kinds.book import BOOK
from indai.protocol.kinds.meet import MEET
from indai.protocol.kinds.pay import PAY
from indai.protocol.kinds.share import SHARE
from indai.v1 import negotiation_pb2

KINDS: dict[str, Kind] = {kind.name: kind for kind in (MEET, SHARE, ASK, REQUEST, PAY, BOOK)}


def kind_of(said: Wish | Terms) -> Kind:
    """The row of a wish or of terms."""
    return KINDS[said.kind]


def read_wish(step: negotiation_pb2.Propose | negotiation_pb2.Counter) -> Wish:
    """The wish of a proposal, checked; raises ProtocolError(MALFORMED)."""
    name = step.WhichOneof("terms")
    if name is None:
        raise malformed("NEG-01", "The proposal has no terms")
    wish = KINDS[name].wish.from_pb(getattr(step, name))
    wish.check()
    return wish


def read_terms(payload: negotiation_pb2.Commitment) -> Terms:
    """The terms of a commitment, checked; raises ProtocolError(MALFORMED)."""
    name = payload.WhichOneof("terms")
    if name is None:
        raise malformed("NEG-01", "The commitment has no terms")
    terms = KINDS[name].terms.from_pb(getattr(payload, name))
    terms.check()
    return terms


def cost_to(terms: Terms, *, first: bool) -> tuple[str, int] | None:
    """What a commitment costs its first party, or the others: (currency, minor units); None for nothing."""
    money = [one for one in terms.holdings(first=first) if isinstance(one, Money)]
    return (money[0].currency, money[0].amount_minor) if money else None
