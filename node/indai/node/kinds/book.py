"""`book` on the node: the seller's stock decides what can be offered, both policies whether it may be.

Units are held from the signing of the offer until it lapses; the table refuses more than there are. A buyer
reserves the price when it accepts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from indai.node.effects import CALENDAR_PUT
from indai.node.kinds.acquaintance import Acquaintances
from indai.node.kinds.asking import NO_CURRENCY, Purse, decide
from indai.node.kinds.base import Answer, Case, Deal, EffectRow, KindModule
from indai.node.kinds.money import spoken
from indai.node.policies import Policies
from indai.node.stock import DUE_MINUTES, Shelf, StockItem, minutes_before, most_held
from indai.protocol.forms import DAY_MS, MINUTE_MS
from indai.protocol.kinds.base import Stock
from indai.protocol.kinds.book import BOOK, BookTerms, BookWish
from indai.protocol.lifecycle import History, State, body_of
from indai.protocol.messages import EventKind, Terms, Wish
from indai.v1 import policy_pb2

MAX_CANDIDATES = 8  # times put to the policy for one wish
MAX_LOOK = 2_000  # times looked at to find them
MAX_LENGTH_MS = 31 * DAY_MS  # the longest a policy judges


class Bookings(KindModule):
    """Bookings of every owner of this node."""

    kind = BOOK

    def __init__(self, policies: Policies, known: Acquaintances, shelf: Shelf) -> None:
        self._policies, self._known = policies, known
        self._shelf = shelf

    async def propose(self, case: Case, wish: Wish) -> Answer:
        """Whether our owner may ask for it, at the highest price that they name. Where they name none there
        is nothing to judge yet: the offer's price will be."""
        said = _wish(wish)
        if not said.currency:
            return Answer(
                policy_pb2.OUTCOME_PERMIT, wish=said, words="No price is named; the offer is judged."
            )
        first = said.windows[0] if said.windows else None
        start_ms = first.start_ms if first else 0
        end_ms = start_ms + said.duration_minutes * MINUTE_MS
        asked = BookTerms(
            said.item, said.title, said.quantity, start_ms, end_ms, said.max_price_minor, said.currency
        )
        answer, _ = await self._ask(case, [asked], buys=True)
        return Answer(answer.outcome, answer.decision, wish=said, reason=answer.reason)

    async def choose(self, case: Case, wish: Wish) -> Answer:
        """The first time at which there is enough of it and the policy permits, else asks."""
        said = _wish(wish)
        if case.side.thread is None or case.side.thread.giver != case.side.owner:
            return _refusal("Who wants to book does not make the offer.")
        item = self._shelf.of(case.owner).get(said.item)
        if item is None:
            return _refusal(f"{said.item} is not in your stock.")
        if bool(item.per_minutes) != bool(said.windows):
            return _refusal("An article is not booked for a time, and a resource for nothing else.")
        found = list(islice(offers(said, item, case.held.stock.values(), case.now_ms), MAX_CANDIDATES))
        if not found:
            return _refusal(f"There are not {said.quantity} of {said.item} left, or not at that price.")
        answer, chosen = await self._ask(case, found, buys=False)
        return Answer(answer.outcome, answer.decision, terms=chosen, reason=answer.reason)

    async def sign(self, case: Case, terms: Terms) -> Answer:
        """Our own offer, as long as there is enough; or a seller's, as far as our policy allows."""
        said = _terms(terms)
        buys = case.side.thread is not None and case.side.thread.giver != case.side.owner
        if said.sign_by_ms() <= case.now_ms:
            return _refusal("Its time has come already.")
        if not buys and self._left(case, said.item, said.start_ms, said.end_ms) < said.quantity:
            return _refusal(f"There are not {said.quantity} of {said.item} left.")
        answer, _ = await self._ask(case, [said], buys=buys)
        limit = Purse(case, said.currency).day_minor + said.price_minor if buys else None
        return Answer(answer.outcome, answer.decision, terms=said, reason=answer.reason, limit_minor=limit)

    async def _ask(
        self, case: Case, terms: Sequence[BookTerms], *, buys: bool
    ) -> tuple[Answer, BookTerms | None]:
        """The policy's word on the best of these: permitted before asked about, sooner before later."""
        terms = [each for each in terms if each.end_ms - each.start_ms <= MAX_LENGTH_MS]
        if not terms:
            return _refusal("No policy judges a booking of more than 31 days."), None
        facts = [policy_pb2.Facts(book=self._facts(case, each, buys=buys)) for each in terms]
        decisions = await decide(self._policies, self._known, case, BOOK, *facts)
        for outcome in (policy_pb2.OUTCOME_PERMIT, policy_pb2.OUTCOME_ASK):
            for offer, decision in zip(terms, decisions, strict=True):
                if decision.outcome == outcome:
                    return Answer(outcome, decision), offer
        return Answer(policy_pb2.OUTCOME_REFUSE, decisions[0], reason="POLICY_DENIED"), None

    def _facts(self, case: Case, terms: BookTerms, *, buys: bool) -> policy_pb2.BookFacts:
        facts = facts_of(terms)
        if buys:
            purse = Purse(case, terms.currency)
            facts.spent_today_minor, facts.spent_month_minor = purse.day_minor, purse.month_minor
        else:
            facts.stock_left = self._left(case, terms.item, terms.start_ms, terms.end_ms)
        return facts

    def _left(self, case: Case, item: str, start_ms: int, end_ms: int) -> int:
        known = self._shelf.of(case.owner).get(item)
        return left(known, case.held.stock.values(), start_ms, end_ms)

    def enact(self, deal: Deal) -> Sequence[EffectRow]:
        """The buyer's calendar has what is booked for a time. The seller's stock has it; its own calendar, in
        which a busy hour is nobody's to meet in, does not."""
        return self._events(deal, cancelled=False)

    def undo(self, deal: Deal) -> Sequence[EffectRow]:
        """The event, marked as cancelled."""
        return self._events(deal, cancelled=True)

    def _events(self, deal: Deal, *, cancelled: bool) -> Sequence[EffectRow]:
        terms = _terms(deal.terms)
        if not terms.end_ms or deal.offerer == deal.owner:
            return ()
        uid = f"{deal.thread.hex()}@{deal.owner.replace('/', '.')}"
        doc = {
            "uid": uid,
            "start_ms": terms.start_ms,
            "end_ms": terms.end_ms,
            "summary": f"{deal.prefix}{terms.title}",
            "organizer": deal.offerer,
            "attendees": [deal.owner, deal.peer],
            "description": f"Booked by your agent with {deal.peer}: {terms.quantity} of {terms.item}.",
            "location": "",
            "stamp_ms": deal.now_ms,
            "sequence": int(cancelled),
            "cancelled": cancelled,
        }
        return (EffectRow(f"{uid}#cancelled" if cancelled else uid, CALENDAR_PUT, doc),)

    def remains(self, deal: Deal, life: History | None) -> str:
        """The fee that the buyer owes for cancelling alone: its request is what the first party granted."""
        if life is None or life.state is not State.CANCELLED:
            return ""
        terms = _terms(deal.terms)
        granted = (life.find(mid) for event in life.chain for mid in body_of(event).requests)
        asked_ms = [m.issued_at_ms for m in granted if m and body_of(m).kind is EventKind.CANCEL]
        fee = terms.fee_at(asked_ms[0]) if asked_ms else 0
        if not fee:
            return ""
        who = f"{deal.peer} owes you" if deal.offerer == deal.owner else f"You owe {deal.peer}"
        return f"{who} {spoken(fee, terms.currency)} for cancelling this late."

    def is_wanted(self, wish: Wish, terms: Terms) -> bool:
        """What our owner asked for, for at most the price that they named."""
        if not isinstance(wish, BookWish) or not isinstance(terms, BookTerms):
            return False
        return wish.admits(terms) and bool(wish.currency or not terms.price_minor)


def offers(wish: BookWish, item: StockItem, held: Iterable[Stock], now_ms: int) -> Iterator[BookTerms]:
    """What could be offered to that wish beside what is `held`, soonest first within each window, the best
    window first. An article is not booked for a time, and a resource for nothing else."""
    promised = tuple(held)
    if bool(item.per_minutes) != bool(wish.windows):
        return
    for start_ms in islice(_starts(wish, item, now_ms), MAX_LOOK):
        end_ms = start_ms + wish.duration_minutes * MINUTE_MS
        if left(item, promised, start_ms, end_ms) >= wish.quantity:
            offer = _offer(wish, item, start_ms, end_ms, now_ms)
            if wish.admits(offer) and offer.end_ms - offer.start_ms <= MAX_LENGTH_MS:
                yield offer


def left(item: StockItem | None, held: Iterable[Stock], start_ms: int, end_ms: int) -> int:
    """Units that are free at every moment of that time."""
    return max(0, item.units - most_held(held, item.item, start_ms, end_ms)) if item else 0


def facts_of(terms: BookTerms) -> policy_pb2.BookFacts:
    """What rules are told of a booking, whoever gives."""
    return policy_pb2.BookFacts(
        sku=terms.item,
        quantity=terms.quantity,
        price_minor=terms.price_minor,
        currency=terms.currency or NO_CURRENCY,
        start_ms=terms.start_ms,
        end_ms=terms.end_ms,
    )


def _starts(wish: BookWish, item: StockItem, now_ms: int) -> Iterator[int]:
    if not wish.windows:
        yield 0
        return
    length, step = wish.duration_minutes * MINUTE_MS, item.per_minutes * MINUTE_MS
    for window in wish.windows:
        late = max(0, now_ms + 1 - window.start_ms)
        yield from range(window.start_ms + -(-late // step) * step, window.end_ms - length + 1, step)


def _offer(wish: BookWish, item: StockItem, start_ms: int, end_ms: int, now_ms: int) -> BookTerms:
    price = item.price(wish.quantity, wish.duration_minutes)
    due_ms = 0 if end_ms else now_ms + (item.due_minutes or DUE_MINUTES) * MINUTE_MS
    by_ms = start_ms or due_ms
    cancel_ms = minutes_before(by_ms, item.cancel_before_minutes)
    free_ms = minutes_before(by_ms, item.free_before_minutes)
    alone = cancel_ms > now_ms
    return BookTerms(
        item.item,
        item.title,
        wish.quantity,
        start_ms,
        end_ms if start_ms else 0,
        price,
        item.currency if price else "",
        cancel_until_ms=cancel_ms if alone else 0,
        fee_minor=price * item.fee_percent // 100 if alone else 0,
        due_ms=due_ms,
        free_until_ms=free_ms if alone and free_ms > now_ms and item.fee_percent else 0,
    )


def _refusal(words: str) -> Answer:
    return Answer(policy_pb2.OUTCOME_REFUSE, reason="NOT_AVAILABLE", words=words)


def _wish(wish: Wish) -> BookWish:
    if not isinstance(wish, BookWish):
        raise RuntimeError(f"a {wish.kind} is no booking")
    return wish


def _terms(terms: Terms) -> BookTerms:
    if not isinstance(terms, BookTerms):
        raise RuntimeError(f"a {terms.kind} is no booking")
    return terms
