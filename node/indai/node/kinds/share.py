"""`share` on the node: a profile field or a document under a consent that the receiver signs first.

The giver's rules judge each thing by its name and tags, the purpose and how long it is kept. What is received
is judged too, as `received/profile/<field>` or `received/document/<id>`: a rule about giving says nothing of
taking.
"""

from __future__ import annotations

from collections.abc import Sequence

from indai.client.obligations import value_of
from indai.node.agents import Agents
from indai.node.belongings import Belonging, Belongings
from indai.node.contents import Contents, recipient_key
from indai.node.duties import answered
from indai.node.kinds.acquaintance import Acquaintances
from indai.node.kinds.base import Answer, Case, Deal, EffectRow, KindModule
from indai.node.policies import Policies
from indai.protocol.errors import ProtocolError
from indai.protocol.forms import DAY_MS
from indai.protocol.kinds.share import SHARE, Consent, Fetch, ShareTerms, ShareWish
from indai.protocol.messages import Terms, Wish
from indai.v1 import policy_pb2

DENIED, NOT_AVAILABLE = "POLICY_DENIED", "NOT_AVAILABLE"
FOR_EVER_DAYS = 36_500


class Sharing(KindModule):
    """What every owner of this node shares, and what is shared with them."""

    kind = SHARE

    def __init__(
        self,
        policies: Policies,
        agents: Agents,
        belongings: Belongings,
        contents: Contents,
        acquaintances: Acquaintances,
    ) -> None:
        self._policies = policies
        self._agents = agents
        self._belongings = belongings
        self._contents = contents
        self._acquaintances = acquaintances

    async def propose(self, case: Case, wish: Wish) -> Answer:
        """Just what the owner would like to have, if it may be received."""
        wanted = _wish(wish)
        if not self._is_ours(case.owner, wanted.recipient_key):
            return Answer(policy_pb2.OUTCOME_REFUSE, reason=NOT_AVAILABLE, words="The key is not ours.")
        decision, outcome = await self._judge(case, wanted, receiving=True)
        return _judged(decision, outcome, wish=wanted)

    async def choose(self, case: Case, wish: Wish) -> Answer:
        """The thing itself, sealed for the peer, under the very consent it asked for."""
        wanted = _wish(wish)
        if case.outgoing:
            return Answer(policy_pb2.OUTCOME_REFUSE, reason=DENIED, words="They want to be asked otherwise.")
        thing = await self._belongings.find(case.owner, item_of(wanted))
        decision, outcome = await self._judge(case, wanted, thing)
        if outcome == policy_pb2.OUTCOME_REFUSE or thing is None:
            # Who may not have it doesn't learn whether it is there.
            permitted = outcome == policy_pb2.OUTCOME_PERMIT
            reason = NOT_AVAILABLE if permitted else DENIED
            if outcome != policy_pb2.OUTCOME_REFUSE:
                decision.words += f" But you have no {item_of(wanted)}."
            return Answer(policy_pb2.OUTCOME_REFUSE, decision, reason=reason)
        sha256 = await self._contents.offer(case.owner, wanted.recipient_key, thing.content)
        return _judged(decision, outcome, terms=terms_of(wanted, thing, sha256))

    async def sign(self, case: Case, terms: Terms) -> Answer:
        """Ours: the sealed content is there and may still be given. A peer's: it is for our key."""
        shared = _terms(terms)
        offered = case.side.thread is not None and case.side.thread.offer is not None
        if offered:
            if not self._is_ours(case.owner, shared.recipient_key):
                words = "It is sealed for another key than yours."
                return Answer(policy_pb2.OUTCOME_REFUSE, reason=NOT_AVAILABLE, words=words)
            decision, outcome = await self._judge(case, shared, receiving=True)
            return _judged(decision, outcome, terms=shared)
        thing = await self._belongings.find(case.owner, item_of(shared))
        decision, outcome = await self._judge(case, shared, thing)
        if outcome != policy_pb2.OUTCOME_REFUSE and not await self._contents.claim(
            case.owner, shared.content_sha256, case.side.thread_id
        ):
            return Answer(policy_pb2.OUTCOME_REFUSE, decision, reason=NOT_AVAILABLE)
        return _judged(decision, outcome, terms=shared)

    def enact(self, deal: Deal) -> Sequence[EffectRow]:
        """Nothing: the content is fetched by QUERY, and each read is judged then."""
        return ()

    def is_wanted(self, wish: Wish, terms: Terms) -> bool:
        """Just what the owner asked for, under the consent they named."""
        return wish.admits(terms)

    def _is_ours(self, owner: str, key: bytes) -> bool:
        for held in self._agents.get(owner).keys.values():
            try:
                if recipient_key(held.public_key) == key:
                    return True
            except ProtocolError:
                continue
        return False

    async def _judge(
        self,
        case: Case,
        said: ShareWish | ShareTerms,
        thing: Belonging | None = None,
        *,
        receiving: bool = False,
    ) -> tuple[policy_pb2.Decision, int]:
        facts, _ = await self._acquaintances.facts(case, [SHARE.name])
        facts.share.CopyFrom(share_facts(item_of(said, receiving=receiving), said.consent))
        facts.share.tags.extend(thing.tags if thing else ())
        request = policy_pb2.DecideRequest(owner=case.owner, facts=[facts])
        (decision,) = (await self._policies.decide(request)).decisions
        outcome = answered(decision, SHARE.name)
        if outcome != policy_pb2.OUTCOME_REFUSE and not receiving:
            outcome = held_to(decision, outcome, said)
        return decision, outcome


def item_of(said: ShareWish | ShareTerms, *, receiving: bool = False) -> str:
    """What rules call it."""
    item = f"profile/{said.field}" if said.field else f"document/{said.document}"
    return f"received/{item}" if receiving else item


def share_facts(item: str, consent: Consent) -> policy_pb2.ShareFacts:
    """Facts about one thing to be shared, but for its tags."""
    return policy_pb2.ShareFacts(
        item=item,
        purpose_code=consent.purpose_code,
        retention_days=retention_days(consent),
        recurring=consent.fetch is Fetch.PERIODIC,
    )


def retention_days(consent: Consent) -> int:
    """From the first possible read until the receiver has nothing any more, whole days rounded up."""
    gone_ms = consent.gone_by_ms()
    if gone_ms is None:
        return FOR_EVER_DAYS
    return min(FOR_EVER_DAYS, -(-(gone_ms - consent.from_ms) // DAY_MS))


def held_to(decision: policy_pb2.Decision, outcome: int, said: ShareWish | ShareTerms) -> int:
    """The outcome under `redact` and `keep_at_most`: what they would take away is refused, never altered,
    since the peer signs for just what it asked."""
    redacted = value_of(decision.obligations, "redact").split(",")
    if said.field and said.field in redacted:
        decision.words = f"Refused: your rules take {said.field} out of what is shared."
        return policy_pb2.OUTCOME_REFUSE
    if said.document and redacted != [""]:
        decision.words = "Refused: your rules take fields out of documents, which this node cannot do."
        return policy_pb2.OUTCOME_REFUSE
    most = value_of(decision.obligations, "keep_at_most")
    if most and retention_days(said.consent) > int(most[:-1]):
        decision.words = f"Refused: it would be kept for longer than {most[:-1]} days."
        return policy_pb2.OUTCOME_REFUSE
    return outcome


def terms_of(wanted: ShareWish, thing: Belonging, sha256: bytes) -> ShareTerms:
    """What is offered of a thing that is there."""
    return ShareTerms(
        wanted.field,
        wanted.document,
        wanted.consent,
        wanted.recipient_key,
        sha256,
        thing.media_type,
        thing.size_bytes,
    )


def _judged(
    decision: policy_pb2.Decision, outcome: int, *, terms: Terms | None = None, wish: Wish | None = None
) -> Answer:
    reason = DENIED if outcome == policy_pb2.OUTCOME_REFUSE else ""
    return Answer(outcome, decision, terms=terms, wish=wish, reason=reason)


def _wish(wish: Wish) -> ShareWish:
    if not isinstance(wish, ShareWish):
        raise RuntimeError(f"a {wish.kind} shares nothing")
    return wish


def _terms(terms: Terms) -> ShareTerms:
    if not isinstance(terms, ShareTerms):
        raise RuntimeError(f"a {terms.kind} shares nothing")
    return terms
