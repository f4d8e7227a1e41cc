"""`pay` on the node: what may be spent is reserved when it is signed for; what was paid, a provider says.

A payer's policy judges every amount with all that is spent or reserved, and the table refuses a reservation
that reckoned with less. A mandate of the owner's is their yes to what their policy would ask about, never
to what it refuses. The payee names its own address and no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from indai.node.kinds.acquaintance import Acquaintances
from indai.node.kinds.asking import Purse, decide, payments_today
from indai.node.kinds.base import Answer, Case, Deal, EffectRow, KindModule
from indai.node.mandates import Mandates
from indai.node.pay_accounts import PayAccounts
from indai.node.policies import Policies
from indai.protocol.kinds.pay import PAY, Direction, PayTerms, PayWish, payment_reference
from indai.protocol.messages import Terms, Wish
from indai.v1 import policy_pb2

OPEN_PAGE = "pay-link-open"
CLOSE_PAGE = "pay-link-close"


class Payments(KindModule):
    """Payments of every owner of this node."""

    kind = PAY

    def __init__(
        self, policies: Policies, known: Acquaintances, mandates: Mandates, accounts: PayAccounts
    ) -> None:
        self._policies, self._known = policies, known
        self._mandates = mandates
        self._accounts = accounts

    async def propose(self, case: Case, wish: Wish) -> Answer:
        """Our owner would pay, and asks for the address; or would be paid, at their own address."""
        said = _wish(wish)
        if said.direction is Direction.REQUEST and said.payee != self._accounts.get(case.owner).payee:
            return _refusal("That is not the address at which you are paid; see: indai pay account")
        return replace(await self._ask(case, said, pays=said.sender_gives), wish=said)

    async def choose(self, case: Case, wish: Wish) -> Answer:
        """A payer offers just what is asked for; a payee answers who would pay with its own address."""
        said = _wish(wish)
        if _pays(case):
            terms = PayTerms(
                said.payee, said.amount_minor, said.currency, said.purpose, said.due_ms, said.mandate
            )
            return replace(await self._ask(case, terms, pays=True), terms=terms)
        account = self._accounts.get(case.owner)
        if not account.payee:
            return _refusal("You have no address to be paid at; set one: indai pay account --address")
        named = replace(said, direction=Direction.REQUEST, payee=account.payee)
        answer = await self._ask(case, named, pays=False)
        if answer.outcome == policy_pb2.OUTCOME_ASK:
            # To say where one is paid agrees to nothing: the owner is asked about the offer, in `sign`.
            answer = replace(answer, outcome=policy_pb2.OUTCOME_PERMIT)
        return replace(answer, wish=named)

    async def sign(self, case: Case, terms: Terms) -> Answer:
        """The payer's offer, or the payee's yes to being paid at its own address."""
        said = _terms(terms)
        pays = _pays(case)
        if said.due_ms <= case.now_ms:
            return _refusal("It is past due.")
        if not pays and said.payee != self._accounts.get(case.owner).payee:
            return _refusal("The offer names an address at which you are not paid.")
        return replace(await self._ask(case, said, pays=pays), terms=said)

    async def _ask(self, case: Case, said: PayWish | PayTerms, *, pays: bool) -> Answer:
        """The policy's word; for a payer with the mandates and the limit that the table holds to."""
        purse = Purse(case, said.currency)
        mandate = None
        facts = policy_pb2.PayFacts(
            direction="request" if pays else "offer",
            amount_minor=said.amount_minor,
            currency=said.currency,
            payee=said.payee or case.peer,
            purpose=said.purpose,
        )
        if pays:
            amount = (said.currency, said.amount_minor)
            mandate = self._mandates.covering(
                case.owner, case.peer, amount, case.held, case.now_ms, case.zone
            )
            facts.spent_today_minor, facts.spent_month_minor = purse.day_minor, purse.month_minor
            facts.spent_payee_minor = purse.to_minor(case.peer)
            facts.payments_today, facts.mandate = payments_today(case), mandate is not None
        (decision,) = await decide(self._policies, self._known, case, PAY, policy_pb2.Facts(pay=facts))
        refused = decision.outcome == policy_pb2.OUTCOME_REFUSE
        return Answer(
            decision.outcome,
            decision,
            reason="POLICY_DENIED" if refused else "",
            limit_minor=purse.day_minor + said.amount_minor if pays else None,
            standing=f"Your mandate {mandate.id[:8]} permits it." if mandate else "",
        )

    def enact(self, deal: Deal) -> Sequence[EffectRow]:
        """The payee's provider is asked for a page on which it can be paid."""
        if deal.offerer == deal.owner or not self._accounts.get(deal.owner).provider_url:
            return ()
        terms = _terms(deal.terms)
        doc = {
            "mid": deal.mid.hex(),
            "amount_minor": terms.amount_minor,
            "currency": terms.currency,
            "purpose": terms.purpose,
            "due_ms": terms.due_ms,
            "reference": payment_reference(deal.mid),
        }
        return (EffectRow(f"{deal.mid.hex()}#page", OPEN_PAGE, doc),)

    def undo(self, deal: Deal) -> Sequence[EffectRow]:
        """The page is taken away."""
        if deal.offerer == deal.owner or not self._accounts.get(deal.owner).provider_url:
            return ()
        return (EffectRow(f"{deal.mid.hex()}#no-page", CLOSE_PAGE, {"mid": deal.mid.hex()}),)

    def is_wanted(self, wish: Wish, terms: Terms) -> bool:
        """Just what our owner asked for. An address that they left open, the payee fills in itself."""
        if not isinstance(wish, PayWish) or not isinstance(terms, PayTerms):
            return False
        return (wish if wish.payee else replace(wish, payee=terms.payee)).admits(terms)


def _pays(case: Case) -> bool:
    """Whether our owner is the payer; who begins with terms is."""
    thread = case.side.thread
    return thread is None or thread.giver == case.side.owner


def _refusal(words: str) -> Answer:
    return Answer(policy_pb2.OUTCOME_REFUSE, reason="NOT_AVAILABLE", words=words)


def _wish(wish: Wish) -> PayWish:
    if not isinstance(wish, PayWish):
        raise RuntimeError(f"a {wish.kind} is no payment")
    return wish


def _terms(terms: Terms) -> PayTerms:
    if not isinstance(terms, PayTerms):
        raise RuntimeError(f"a {terms.kind} is no payment")
    return terms
