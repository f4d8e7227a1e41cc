"""Carries out what the pure side of a negotiation asks for, inside one batch.

`indai.protocol.party.step` gives effects; each becomes rows of a draft, a signed message, or a question to
the host whose answer is the next event. Nothing is visible outside until the batch commits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from indai.ledger.entries import prepare, prepare_decision
from indai.node import compose, views
from indai.node.agents import Agent
from indai.node.compose import Letterhead, Written
from indai.node.draft import Draft, ThreadState
from indai.node.effects import CalendarWrite
from indai.node.host import Answer, Host, title_prefix
from indai.node.inbound import Inbound
from indai.node.outbox import Outgoing
from indai.protocol.envelope import parse_envelope
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.leaf import LeafKind
from indai.protocol.messages import MeetTerms, MeetWish, Message, Move, ReceiptBody, Terms, Wish
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
_SENTENCES = {
    "POLICY_DENIED": "That can't be arranged.",
    "NO_COMMON_SLOT": "No time in these windows is free.",
}


@dataclass(frozen=True, slots=True)
class Cause:
    """The incoming message that is being answered; `rides` when its sender's own node waits for the
    answer."""

    mid: bytes
    move: str
    rides: bool


@dataclass(slots=True)
class _Consulted:
    """What the host said last, until the message it led to is signed."""

    answer: Answer
    approved: bool


@dataclass(frozen=True, slots=True)
class Desk:
    """Where one owner's conversation takes place."""

    agent: Agent
    peer: str
    letterhead: Callable[[], Awaitable[Letterhead]]
    host: Host
    ledger: str


class Conversation:
    """One side's steps within one batch. `draft` collects what they change."""

    def __init__(
        self, desk: Desk, draft: Draft, cause: Cause | None = None, request_id: str | None = None
    ) -> None:
        self._desk = desk
        self._draft = draft
        self._cause = cause
        self._request_id = request_id
        self._consulted: _Consulted | None = None
        self._events: dict[bytes, bytes] = {}  # mid -> exact bytes, of events kept in this transaction

    async def receive(self, inbound: Inbound) -> None:
        """Take a verified message: the rules first, then its row, then what follows from it."""
        draft, message = self._draft, inbound.message
        if message.move is Move.OFFER:
            _check_uid(message)
        before = draft.state.side if draft.state else None
        event = Received(message)
        side, effects = step(before, event, draft.now_ms)
        if before is None:
            self._open(side, event)
        else:
            self._advance(before, side)
        self.keep(message, inbound.envelope.raw, inbound.header_id, outgoing=False)
        draft.set(peer_key=inbound.peer_key)
        await self._follow(effects)

    async def run(self, event: Event) -> None:
        """Take one event and everything that follows from it in this transaction."""
        before = self._draft.state.side if self._draft.state else None
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
            "outgoing": side.role is Role.INITIATOR,
            "title": body.title if isinstance(body, MeetWish | MeetTerms) else "",
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

    async def _carry_out(self, effect: Effect) -> Event | None:
        draft = self._draft
        match effect:
            case Consult():
                return await self._consult(effect)
            case Send():
                return await self._send(effect)
            case AskOwner(terms, deadline_ms):
                self._ask_owner(terms, deadline_ms)
            case Consume():
                draft.add("consume", mid=draft.thread.columns["reserved_mid"])
            case Release():
                self._release()
            case Commit(mid):
                self._commit(mid)
            case Enact(terms):
                self._write_calendar(_meeting(terms))
            case Undo(terms):
                self._write_calendar(_meeting(terms), cancelled=True)
            case Record(mid):
                self._record(mid)
            case Unbook():
                self._unbook()
            case Remind(terms):
                meeting = _meeting(terms)
                begins = views.when(meeting.start_ms, meeting.end_ms, self._desk.agent.zone)
                draft.journal("reminder", "SOON", f"{meeting.title} with {self._desk.peer}: {begins}")
            case Tell(words):
                draft.set(words=words)
            case Resend(mid):
                draft.add("outbox", mid=mid, move=Move.RECEIPT.value, recipient=self._desk.peer)
                draft.resends = True
            case Reserve():
                pass  # its row carries the mid, which `_store` knows once the message is signed
        return None

    async def _consult(self, consult: Consult) -> HostAnswers:
        owner, peer = self._desk.agent.owner, self._desk.peer
        side, host, reserved = self._draft.thread.side, self._desk.host, self._draft.reserved
        outgoing = side.role is Role.INITIATOR
        if isinstance(consult.terms, MeetTerms):
            answer = await host.terms(owner, peer, consult.terms, reserved, outgoing=outgoing)
        elif not isinstance(consult.terms, MeetWish):
            return HostAnswers(Outcome.REFUSE, reason=Reason.UNSUPPORTED.name)
        elif consult.question is Question.CHOOSE_TERMS:
            uid = f"{side.thread_id.hex()}@{self._desk.agent.owner.replace('/', '.')}"
            answer = await host.slot(owner, peer, consult.terms, reserved, uid)
        else:
            answer = await host.wish(owner, peer, consult.terms, reserved)
        outcome = _OUTCOMES[answer.outcome]
        # What our owner asked for in so many words needs no second asking; a refusal still stands.
        approved = consult.approved or (
            outcome is Outcome.ASK and self._is_wanted(answer.terms or answer.wish or consult.terms)
        )
        if approved and outcome is Outcome.ASK:
            outcome = Outcome.PERMIT
        self._consulted = _Consulted(answer, approved)
        self._note(answer, outcome, approved)
        if outcome is Outcome.REFUSE:
            return HostAnswers(outcome, reason=answer.reason, sentence=_SENTENCES.get(answer.reason, ""))
        return HostAnswers(outcome, answer.terms or answer.wish)

    def _is_wanted(self, terms: MeetWish | MeetTerms) -> bool:
        """Whether our owner asked for just this: their own wish, or a slot within it in its own words. What
        the peer put in its place (another length, time, title or place) they never asked for."""
        side = self._draft.thread.side
        if side.role is not Role.INITIATOR or side.thread is None:
            return side.role is Role.INITIATOR
        wish = side.thread.messages[0].body
        if not isinstance(wish, MeetWish) or not isinstance(terms, MeetTerms):
            return False
        return wish.admits(terms) and (wish.title, wish.place) == (terms.title, terms.place)

    def _note(self, answer: Answer, outcome: Outcome, approved: bool) -> None:
        words = answer.decision.words if answer.decision else "No time that you share is free."
        if approved:
            own = self._draft.thread.side.role is Role.INITIATOR
            words += " You asked for it yourself." if own else " You said yes."
        self._draft.journal("decision", outcome.value if answer.decision else answer.reason, words)

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
            letterhead = await self._desk.letterhead()
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
            )
        self._store(written)
        return Sent(written.message)

    async def _accept(self) -> Written:
        offer = self._draft.thread.commitment
        if offer is None:
            raise RuntimeError("there is no offer to accept")
        own = (await self._desk.letterhead()).own
        return compose.accept(parse_envelope(offer), self._desk.agent.keys, own, self._draft.now_ms)

    def _receipt(self, mid: bytes) -> ReceiptBody:
        draft = self._draft
        entry = next(e for e in reversed(draft.entries) if e.mid == mid and e.kind is LeafKind.COMMITMENT)
        index = draft.next_index + draft.entries.index(entry)
        return ReceiptBody(mid, self._desk.ledger, index, entry.time_ms)

    def _store(self, written: Written) -> None:
        """A message of ours: its row, its reservation, the decision behind it, and its way to the peer."""
        draft, message = self._draft, written.message
        asked = self._consulted.answer.decision if self._consulted else None
        prefix = title_prefix(asked.obligations) if asked else ""
        decision = self._decided(message)
        self.keep(message, written.envelope.raw, written.header_id, outgoing=True, decision=decision)
        if isinstance(message.body, MeetTerms) and message.move in (Move.OFFER, Move.ACCEPT):
            draft.add("reserve", mid=message.mid, start_ms=message.body.start_ms, end_ms=message.body.end_ms)
            draft.reserved[message.mid] = (message.body.start_ms, message.body.end_ms)
            draft.set(reserved_mid=message.mid, title_prefix=prefix)
        if message.move is Move.OFFER:
            draft.add("offers", mid=message.mid, expires_ms=message.expires_at_ms)
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
        agreed = self._draft.thread.side.thread
        if agreed is not None and agreed.supersedes:
            self._draft.succeeded = (agreed.supersedes, mid)

    def _release(self) -> None:
        draft = self._draft
        mid = draft.thread.columns["reserved_mid"]
        draft.add("release", mid=mid)
        draft.reserved.pop(mid, None)
        draft.set(reserved_mid=None)

    def _record(self, mid: bytes) -> None:
        """The leaf of an event: its message was kept in this very transaction."""
        draft = self._draft
        draft.record(prepare(draft.owner, mid, LeafKind.COMMITMENT, self._events[mid], draft.now_ms))

    def _unbook(self) -> None:
        draft = self._draft
        mid = draft.thread.columns["mid"]
        draft.add("unbook", mid=mid)
        draft.reserved.pop(mid, None)

    def _ask_owner(self, terms: Wish | Terms, deadline_ms: int) -> None:
        if not isinstance(terms, MeetTerms):
            raise RuntimeError("an owner is asked about concrete terms only")
        draft, agent = self._draft, self._desk.agent
        shown = views.terms_text(self._desk.peer, terms, agent.zone)
        decision = self._consulted.answer.decision if self._consulted else None
        bound = "\n".join(
            (
                "ind.ai/approval/v1",
                draft.owner,
                draft.thread.side.thread_id.hex(),
                repr(terms),
                str(deadline_ms),
            )
        )
        draft.add(
            "approvals",
            action_hash=hashlib.sha256(bound.encode()).digest(),
            thread=draft.thread.side.thread_id,
            terms=shown,
            why=decision.words if decision else "",
            expires_ms=deadline_ms,
            created_ms=draft.now_ms,
        )

    def _write_calendar(self, terms: MeetTerms, *, cancelled: bool = False) -> None:
        draft, side = self._draft, self._draft.thread.side
        offerer = draft.owner if side.offer is not None else self._desk.peer
        doc = {
            "uid": terms.ical_uid,
            "start_ms": terms.start_ms,
            "end_ms": terms.end_ms,
            "summary": draft.thread.columns["title_prefix"] + terms.title,
            "organizer": offerer,
            "attendees": [draft.owner, self._desk.peer],
            "description": f"Agreed by your agent with {self._desk.peer}.",
            "location": terms.place,
            "stamp_ms": draft.now_ms,
            "sequence": int(cancelled),
            "cancelled": cancelled,
        }
        key = f"{terms.ical_uid}#cancelled" if cancelled else terms.ical_uid
        draft.add(
            "effects",
            key=key,
            kind="calendar-put",
            thread=side.thread_id,
            created_ms=draft.now_ms,
            doc=doc,
        )
        draft.effects.append(CalendarWrite(draft.owner, side.thread_id, key, doc))


def _meeting(terms: Terms) -> MeetTerms:
    if not isinstance(terms, MeetTerms):
        raise RuntimeError(f"no {terms.kind} is made here")
    return terms


def _check_uid(offer: Message) -> None:
    """The offerer chooses the event's UID; it must be of this thread, so that it can name neither another
    meeting nor an event of the owner's own, which the meeting could then not stand beside."""
    terms = offer.body
    if isinstance(terms, MeetTerms) and offer.thread.hex() not in terms.ical_uid:
        raise ProtocolError(
            Reason.MALFORMED, "The iCalendar UID does not hold the id of its thread.", rule="NEG-04"
        )
