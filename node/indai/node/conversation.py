"""Carries out what the pure side of a negotiation asks for, inside one batch.

`indai.protocol.party.step` gives effects; each becomes rows of a draft, a signed message, or a question to
the host whose answer is the next event. Nothing is visible outside until the batch commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from indai.ledger.entries import prepare, prepare_decision
from indai.node import compose, reminders
from indai.node.compose import Written
from indai.node.desk import Cause, Consulted, Desk
from indai.node.draft import Draft, ThreadState
from indai.node.effects import CALENDAR_PUT, CalendarWrite
from indai.node.holdings import key_of
from indai.node.host import title_prefix
from indai.node.inbound import Inbound
from indai.node.kinds.base import Answer, Case, Deal, EffectRow, KindModule
from indai.node.outbox import Outgoing
from indai.node.questions import SENTENCES, UNSUPPORTED, asked, refused_instead
from indai.protocol.contest import OVERTAKEN
from indai.protocol.copies import replace
from indai.protocol.envelope import parse_envelope
from indai.protocol.kinds.base import Slot
from indai.protocol.kinds.table import cost_to
from indai.protocol.leaf import LeafKind
from indai.protocol.messages import Message, Move, ReceiptBody, Terms, Wish
from indai.protocol.negotiation import OfferState
from indai.protocol.party import step
from indai.protocol.party_state import (
    AskOwner,
    Commit,
    Consult,
    Consume,
    Effect,
    Enact,
    Event,
    HostAnswers,
    Outcome,
    OwnerAnswers,
    OwnerStarts,
    Phase,
    Question,
    Received,
    Record,
    Release,
    Remind,
    Resend,
    Reserve,
    Role,
    Send,
    Sent,
    Side,
    Tell,
    Unbook,
    Undo,
)
from indai.v1 import policy_pb2

_OUTCOMES: dict[int, Outcome] = {
    policy_pb2.OUTCOME_PERMIT: Outcome.PERMIT,
    policy_pb2.OUTCOME_ASK: Outcome.ASK,
    policy_pb2.OUTCOME_REFUSE: Outcome.REFUSE,
}
_NO_DECISION = "No time that you share is free."


class Conversation:
    """One side's steps within one batch. `draft` collects what they change."""

    def __init__(
        self, desk: Desk, draft: Draft, cause: Cause | None = None, request_id: str | None = None
    ) -> None:
        self._desk = desk
        self._draft = draft
        self._cause = cause
        self._request_id = request_id
        self._consulted: Consulted | None = None
        self._instead: Wish | Terms | None = None  # what our owner says now
        self._events: dict[bytes, bytes] = {}  # mid -> exact bytes, of events kept in this transaction

    async def receive(self, inbound: Inbound) -> None:
        """Take a verified message: the rules first, then its row, then what follows from it."""
        draft, message = self._draft, inbound.message
        if message.move is Move.OFFER and isinstance(message.body, Terms):
            module = self._desk.kinds.get(message.body.kind)
            if module is not None:
                module.check_offer(message)
        before = draft.state.side if draft.state else None
        event = Received(message, inbound.signature, inbound.peer_key)
        side, effects = step(before, event, draft.now_ms)
        if before is None:
            self._open(side, event)
        else:
            self._advance(before, side)
        self._keep_received(inbound)
        await self._follow(effects)

    def _keep_received(self, inbound: Inbound) -> None:
        """Its row; of a RECEIPT to several also the commitment with every signature, for the leaf."""
        self.keep(inbound.message, inbound.envelope.raw, inbound.header_id, outgoing=False)
        if inbound.message.sender == self._draft.thread.side.peer:
            self._draft.set(peer_key=inbound.peer_key)
        if inbound.commitment:
            self._draft.state = replace(self._draft.thread, commitment=inbound.commitment)

    async def run(self, event: Event) -> None:
        """Take one event and everything that follows from it in this transaction."""
        before = self._draft.state.side if self._draft.state else None
        if isinstance(event, OwnerAnswers):
            self._instead = event.instead
        side, effects = step(before, event, self._draft.now_ms)
        if before is None:
            self._open(side, event)
        else:
            self._advance(before, side)
        await self._follow(effects)

    async def _follow(self, effects: tuple[Effect, ...]) -> None:
        """Carry effects out; the host's answers and our own signed messages are events in their turn."""
        for effect in effects:
            following = await self._carry_out(effect)
            if following is not None:
                await self.run(following)

    def _open(self, side: Side, event: Event) -> None:
        """A thread that is not stored yet."""
        draft = self._draft
        body: object = None
        if isinstance(event, OwnerStarts):
            body = event.wish
        elif isinstance(event, Received):
            body = event.message.body
        columns = {
            "owner": draft.owner,
            "peer": self._desk.peer,
            "kind": body.kind if isinstance(body, Wish | Terms) else None,
            "outgoing": side.role is Role.INITIATOR,
            "title": body.about() if isinstance(body, Wish | Terms) else "",
            "mid": None,
            "words": "",
            "receipt_log": "",
            "receipt_index": None,
            "ledger_index": None,
            "reserved_mid": None,
            "title_prefix": "",
            "peer_key": "",
            "request_id": self._request_id,
            "created_ms": draft.now_ms,
            "updated_ms": draft.now_ms,
        }
        draft.state = ThreadState(columns, side, is_new=True)

    def _advance(self, before: Side, side: Side) -> None:
        draft = self._draft
        draft.state = replace(draft.thread, side=side)
        if before.offer is OfferState.OPEN and side.offer in (OfferState.COMMITTED, OfferState.LAPSED):
            draft.add("decide", mid=draft.thread.columns["reserved_mid"], state=side.offer.value.lower())
        if before.phase is Phase.ASKING_OWNER and side.phase is not Phase.ASKING_OWNER:
            draft.add("void", thread=side.thread_id)
        if side.phase is Phase.IN_DOUBT and before.phase is not Phase.IN_DOUBT:
            draft.journal("doubt", "IN_DOUBT", "You accepted, and they have not said whether it stands.")

    async def _carry_out(self, effect: Effect) -> Event | None:
        draft = self._draft
        match effect:
            case Consult():
                return await self._consult(effect)
            case Send():
                return await self._send(effect)
            case AskOwner(terms, deadline_ms):
                self._ask_owner(terms, deadline_ms)
            case Consume(terms):
                self._give(draft.thread.columns["reserved_mid"], terms, "consume", "consume_holds")
            case Release(terms):
                self._release(terms)
            case Commit(mid):
                self._commit(mid)
            case Enact(terms):
                deal = self._deal(terms)
                self._effects(self._module(terms).enact(deal))
            case Undo(terms, time_ms):
                deal = replace(self._deal(terms), time_ms=time_ms)
                self._effects(self._module(terms).undo(deal))
                if owed := self._module(terms).remains(deal, draft.thread.side.life):
                    draft.journal("owed", "FEE", owed, deal.mid)
            case Record(mid):
                self._record(mid)
            case Unbook(terms, time_ms):
                self._unbook(terms, time_ms)
            case Remind(terms, at_ms):
                reminders.remind(draft, self._desk, terms, at_ms)
            case Tell(said):
                draft.set(words=said)
            case Resend(mid):
                draft.add("outbox", mid=mid, move=Move.RECEIPT.value, recipient=self._desk.peer)
                draft.resends = True
            case Reserve():
                pass  # its row carries the mid, which `_store` knows once the message is signed
        return None

    async def _consult(self, consult: Consult) -> HostAnswers:
        said, module = consult.terms, self._desk.kinds.get(consult.terms.kind)
        if module is None:
            self._draft.journal("decision", UNSUPPORTED, "This node does not do that.")
            return HostAnswers(Outcome.REFUSE, reason=UNSUPPORTED, sentence=SENTENCES[UNSUPPORTED])
        if self._draft.contest.is_taken:
            return self._overtaken(said)
        if isinstance(said, Terms):
            answer = await module.sign(self._case(), said)
        elif consult.question is Question.CHOOSE_TERMS:
            answer = await module.choose(self._case(), said)
        else:
            answer = await module.propose(self._case(), said)
        outcome = _OUTCOMES[answer.outcome]
        if outcome is not Outcome.REFUSE and self._bars(answer.terms or answer.wish or said):
            return self._overtaken(said)
        # What our owner asked for in so many words needs no second asking; a refusal still stands.
        approved = consult.approved or (
            outcome is Outcome.ASK
            and (bool(answer.standing) or self._is_wanted(said, answer.terms or answer.wish or said))
        )
        if approved and outcome is Outcome.ASK:
            outcome = Outcome.PERMIT
        self._consulted = Consulted(answer, approved)
        self._note(answer, outcome, approved)
        if outcome is Outcome.REFUSE:
            if said == self._instead:
                raise refused_instead(answer)
            return HostAnswers(outcome, reason=answer.reason, sentence=SENTENCES.get(answer.reason, ""))
        return HostAnswers(outcome, answer.terms or answer.wish)

    def _bars(self, said: Wish | Terms) -> bool:
        return self._draft.contest.bars(self._draft.thread.side, said)

    def _overtaken(self, said: Wish | Terms) -> HostAnswers:
        """Another thread has, or is about to have, the place that this one asks for (LIF-25, LIF-26)."""
        if said == self._instead:
            raise refused_instead(Answer(policy_pb2.OUTCOME_REFUSE, reason=OVERTAKEN))
        self._draft.journal("decision", OVERTAKEN, SENTENCES[OVERTAKEN])
        return HostAnswers(Outcome.REFUSE, reason=OVERTAKEN, sentence=SENTENCES[OVERTAKEN])

    def _case(self) -> Case:
        draft, agent = self._draft, self._desk.agent
        side = draft.thread.side
        outgoing = side.role is Role.INITIATOR
        common = agent.owner, self._desk.peer, outgoing, agent.zone, side, draft.held(), draft.now_ms
        return Case(*common, draft.leaving)

    def _is_wanted(self, consulted: Wish | Terms, said: Wish | Terms) -> bool:
        """Whether our owner asked for just this: their own wish or terms, or what their wish is a yes to."""
        side = self._draft.thread.side
        if side.wanted is None and (side.role is not Role.INITIATOR or side.thread is None):
            return side.role is Role.INITIATOR
        wish = side.wanted or (side.thread.subject_matter if side.thread else None)
        if side.wanted is not None and consulted == side.wanted:
            return True
        return isinstance(wish, Wish) and isinstance(said, Terms) and self._module(said).is_wanted(wish, said)

    def _note(self, answer: Answer, outcome: Outcome, approved: bool) -> None:
        why = answer.decision.words if answer.decision else answer.words or _NO_DECISION
        if answer.standing and outcome is not Outcome.REFUSE:
            why += f" {answer.standing}"
        elif approved:
            side = self._draft.thread.side
            own = side.role is Role.INITIATOR or side.wanted is not None
            why += " You asked for it yourself." if own else " You said yes."
        self._draft.journal("decision", outcome.value if answer.decision else answer.reason, why)

    async def _send(self, send: Send) -> Sent:
        draft = self._draft
        if send.move is Move.ACCEPT:
            written = await self._accept()
        else:
            body = send.body
            if send.move is Move.RECEIPT:
                body = self._receipt(send.in_reply_to)
            if body is None:
                raise RuntimeError(f"{send.move.name} has no body")
            cost = None
            if isinstance(body, Terms) and send.move is Move.OFFER:
                cost = cost_to(body, first=True)
            letterhead = await self._desk.letterhead(cost)
            now = draft.now_ms
            written = compose.write(
                letterhead,
                send.move,
                body,
                draft.thread.side.thread_id,
                send.in_reply_to,
                now,
                now + send.expires_in_ms,
                send.supersedes,
                hops=draft.thread.side.hops,
            )
        self._store(written)
        return Sent(written.message)

    async def _accept(self) -> Written:
        offer = self._draft.thread.commitment
        if offer is None:
            raise RuntimeError("there is no offer to accept")
        envelope = parse_envelope(offer)
        own = (await self._desk.letterhead(compose.cost_to_accept(envelope))).own
        return compose.accept(envelope, self._desk.agent.keys, own, self._draft.now_ms)

    def _receipt(self, mid: bytes) -> ReceiptBody:
        draft = self._draft
        entry = next(e for e in reversed(draft.entries) if e.mid == mid and e.kind is LeafKind.COMMITMENT)
        index = draft.next_index + draft.entries.index(entry)
        return ReceiptBody(mid, self._desk.ledger, index, entry.time_ms)

    def _store(self, written: Written) -> None:
        """A message of ours: its row, its reservation, the decision behind it."""
        draft, message = self._draft, written.message
        asked = self._consulted.answer.decision if self._consulted else None
        prefix = title_prefix(asked.obligations) if asked else ""
        limit_minor = self._consulted.answer.limit_minor if self._consulted else None
        decision = self._decided(message)
        self.keep(message, written.envelope.raw, written.header_id, outgoing=True, decision=decision)
        if isinstance(message.body, Terms) and message.move in (Move.OFFER, Move.ACCEPT):
            draft.make_way(message.mid)
            day = datetime.fromtimestamp(draft.now_ms / 1000, self._desk.agent.zone).date().isoformat()
            for place, holding in enumerate(message.body.holdings(first=message.move is Move.OFFER)):
                draft.hold(message.mid, place, holding, day, self._desk.peer, limit_minor)
            draft.set(reserved_mid=message.mid, title_prefix=prefix)
        if message.move is Move.OFFER:
            draft.add("offers", mid=message.mid, expires_ms=message.expires_at_ms)
        self._post(written)

    def _post(self, written: Written) -> None:
        """Its way to the peer."""
        draft, message = self._draft, written.message
        if self._cause is not None and self._cause.rides:
            draft.replies.append(written.envelope.raw)
            return
        move, peer = message.move.value, self._desk.peer
        draft.add("outbox", mid=message.mid, move=move, recipient=peer)
        draft.sends.append(
            Outgoing(draft.owner, message.thread, message.mid, move, peer, written.envelope.raw)
        )

    def keep(
        self, message: Message, raw: bytes, header_id: bytes, *, outgoing: bool, decision: bytes | None = None
    ) -> None:
        """A message's row, and what the thread remembers of it."""
        draft, cause = self._draft, self._cause if outgoing else None
        draft.add(
            "messages",
            mid=message.mid,
            move=message.move.value,
            thread=message.thread,
            outgoing=outgoing,
            header_id=header_id,
            envelope=raw,
            cause_mid=cause.mid if cause else None,
            cause_move=cause.move if cause else None,
            decision=decision,
            stored_ms=draft.now_ms,
        )
        if message.move in (Move.OFFER, Move.ACCEPT):
            draft.state = replace(
                draft.thread, commitment=raw, columns=draft.thread.columns | {"mid": message.mid}
            )
        if message.move is Move.EVENT:
            self._events[message.mid] = raw
        if isinstance(message.body, ReceiptBody):
            draft.set(receipt_log=message.body.log, receipt_index=message.body.index)

    def _decided(self, message: Message) -> bytes | None:
        """The decision that led to this message, into the ledger under the message's id."""
        consulted, self._consulted = self._consulted, None
        if consulted is None or consulted.answer.decision is None:
            return None
        record = policy_pb2.DecisionRecord(
            owner=self._draft.owner,
            mid=message.mid,
            decided_at_ms=self._draft.now_ms,
            decision=consulted.answer.decision,
            approved_by_owner=consulted.approved,
        )
        self._draft.record(prepare_decision(record, self._draft.now_ms))
        return consulted.answer.decision.SerializeToString()

    def _commit(self, mid: bytes) -> None:
        signed = self._draft.thread.commitment
        if signed is None:
            raise RuntimeError("there is nothing to commit")
        entry = prepare(self._draft.owner, mid, LeafKind.COMMITMENT, signed, self._draft.now_ms)
        self._draft.set(ledger_index=self._draft.record(entry))
        side = self._draft.thread.side
        zone, now_ms = self._desk.agent.zone, self._draft.now_ms
        reminded = reminders.planned(side, self._desk.likes, zone, now_ms)
        self._draft.state = replace(self._draft.thread, side=reminded)
        if supersedes := side.thread.supersedes if side.thread else side.supersedes:
            replaced_ms = side.terms.replaces_ms if side.terms else 0
            self._draft.succeeded = (supersedes, mid, replaced_ms)

    def _give(
        self, mid: bytes, terms: Terms, slot: str, hold: str, time_ms: int = 0, **columns: bool
    ) -> None:
        """A row in section `slot` or `hold` for each thing that our signature under `mid` holds, or for the
        slot that begins at `time_ms`."""
        side = self._draft.thread.side
        offer = side.thread.find(mid, Move.OFFER) if side.thread else None
        mine = offer is not None and offer.sender == side.owner
        for place, holding in enumerate(terms.holdings(first=mine)):
            if time_ms and not (isinstance(holding, Slot) and holding.start_ms == time_ms):
                continue
            if isinstance(holding, Slot):
                self._draft.add(slot, mid=key_of(mid, place))
            else:
                self._draft.add(hold, mid=key_of(mid, place), **columns)
            if not slot.startswith("consume"):
                self._draft.reserved.pop(key_of(mid, place))

    def _release(self, terms: Terms) -> None:
        draft = self._draft
        mid = draft.thread.columns["reserved_mid"]
        self._give(mid, terms, "release", "free_holds", consumed=False)
        draft.set(reserved_mid=None)

    def _record(self, mid: bytes) -> None:
        """The leaf of an event: its message was kept in this very transaction."""
        draft = self._draft
        draft.record(prepare(draft.owner, mid, LeafKind.COMMITMENT, self._events[mid], draft.now_ms))

    def _unbook(self, terms: Terms, time_ms: int) -> None:
        draft = self._draft
        mid = draft.thread.columns["mid"]
        self._give(mid, terms, "unbook", "free_holds", time_ms, consumed=True)

    def _ask_owner(self, terms: Wish | Terms, deadline_ms: int) -> None:
        if not isinstance(terms, Terms):
            raise RuntimeError("an owner is asked about concrete terms only")
        draft = self._draft
        decision = self._consulted.answer.decision if self._consulted else None
        why = decision.words if decision else ""
        row = asked(
            draft.owner, draft.thread.side, self._desk.peer, terms, self._desk.agent.zone, deadline_ms
        )
        draft.add("approvals", **row, why=why, created_ms=draft.now_ms)

    def _module(self, terms: Terms) -> KindModule:
        module = self._desk.kinds.get(terms.kind)
        if module is None:
            raise RuntimeError(f"no {terms.kind} is made here")
        return module

    def _deal(self, terms: Terms) -> Deal:
        draft, side = self._draft, self._draft.thread.side
        columns = draft.thread.columns
        offerer = draft.owner if side.offer is not None else self._desk.peer
        return Deal(
            draft.owner,
            self._desk.peer,
            offerer,
            side.thread_id,
            columns["mid"],
            terms,
            columns["title_prefix"],
            draft.now_ms,
            self._attendees(),
        )

    def _attendees(self) -> tuple[str, ...]:
        """The handles of all, where they are more than two."""
        signed = self._draft.thread.commitment
        return compose.several(parse_envelope(signed)) if signed else ()

    def _effects(self, rows: Sequence[EffectRow]) -> None:
        """What follows outside, as rows; events for a calendar are handed to their writer after COMMIT."""
        draft, thread = self._draft, self._draft.thread.side.thread_id
        for row in rows:
            draft.add(
                "effects", key=row.key, kind=row.kind, thread=thread, created_ms=draft.now_ms, doc=row.doc
            )
            if row.kind == CALENDAR_PUT:
                draft.effects.append(CalendarWrite(draft.owner, thread, row.key, row.doc))
