"""The rules of a thread, the same for both parties: a signed, hash-linked transcript.

The *chain* is what passes the turn: PROPOSE, COUNTER, OFFER, ACCEPT (which shares its OFFER's mid), and
RECEIPT or REJECT, which end it. Each link answers the one before. HOLD and WITHDRAW hang beside the chain:
a HOLD from the message that waits for an answer, a WITHDRAW from the message it takes back. They may cross
what the other party sends at the same time, so a message that was legal when its sender signed it is always
recorded, even where it no longer has an effect; thus both parties end with the same set of messages, and
`transcript` puts it in the one order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from indai.protocol.copies import replace
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.header import GRACE_MS
from indai.protocol.kinds.table import kind_of
from indai.protocol.messages import (
    Message,
    Move,
    ReceiptBody,
    RejectBody,
    Terms,
    Wish,
    WithdrawBody,
)

MAX_MOVES = 8
MAX_STALLED = 3
LAPSED = "LAPSED"


class Status(Enum):
    """Where the chain is. A wish or an offer stands, an acceptance waits for the offerer's word, or it has
    ended."""

    PROPOSED = "PROPOSED"
    OFFERED = "OFFERED"
    ACCEPTED = "ACCEPTED"
    COMMITTED = "COMMITTED"
    REJECTED = "REJECTED"
    WITHDRAWN = "WITHDRAWN"
    IMPASSE = "IMPASSE"

    @property
    def ended(self) -> bool:
        """Whether nothing can change it any more."""
        return self not in (Status.PROPOSED, Status.OFFERED, Status.ACCEPTED)


class OfferState(Enum):
    """The offerer's decision about one offer. COMMITTED and LAPSED are final."""

    OPEN = "OPEN"
    COMMITTED = "COMMITTED"
    LAPSED = "LAPSED"


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread. `messages` in order of arrival; the rest follows from them.

    `standing` is the wish or offer that is being answered, `turn` the subject who must answer it (empty
    when the chain has ended), `stalled` the number of last moves in a row that brought nothing new.
    """

    thread_id: bytes
    initiator: str
    responder: str
    messages: tuple[Message, ...]
    status: Status
    turn: str
    standing: Message
    stalled: int = 0

    @property
    def offer(self) -> Message | None:
        """The standing OFFER, accepted or not."""
        return self.standing if self.standing.move is Move.OFFER else None

    @property
    def has_room(self) -> bool:
        """Whether another COUNTER or OFFER fits: of MAX_MOVES one is kept for the ACCEPT (NEG-23)."""
        return sum(message.move in _TERMS for message in self.messages) < MAX_MOVES - 1

    @property
    def subject_matter(self) -> Wish | Terms:
        """What the first message asks for, or offers."""
        body = self.messages[0].body
        if not isinstance(body, Wish | Terms):
            raise RuntimeError("a thread begins with a wish or an offer")
        return body

    @property
    def giver(self) -> str:
        """Who gives, and so alone may offer (NEG-27); empty where either may."""
        said = self.subject_matter
        if not kind_of(said).one_gives:
            return ""
        begins = isinstance(said, Terms) or said.sender_gives is True
        return self.initiator if begins else self.responder

    @property
    def supersedes(self) -> bytes:
        """The mid of the commitment whose place this is to take; empty for none."""
        return self.messages[0].supersedes

    def find(self, mid: bytes, move: Move) -> Message | None:
        """The message with this identity."""
        return next((message for message in self.messages if message.identity == (mid, move)), None)

    def last_of(self, subject: str) -> Message | None:
        """The newest PROPOSE, COUNTER, OFFER or ACCEPT of `subject`: what it may withdraw."""
        own = (message for message in reversed(self.messages) if message.sender == subject)
        return next((message for message in own if message.move in _TAKES_TURN), None)

    def held_by(self, subject: str) -> Message | None:
        """The HOLD of `subject` on what stands now."""
        return _hold(self, subject, self.standing.mid)


_TERMS = (Move.PROPOSE, Move.COUNTER, Move.OFFER)
_TAKES_TURN = (*_TERMS, Move.ACCEPT)
_RANK = {
    Move.HOLD: 0,
    Move.PROPOSE: 1,
    Move.COUNTER: 1,
    Move.OFFER: 1,
    Move.ACCEPT: 2,
    Move.RECEIPT: 3,
    Move.REJECT: 3,
    Move.WITHDRAW: 4,
}


def open_thread(first: Message) -> Thread:
    """A thread from its first message; raises ProtocolError(ILLEGAL_MOVE or OUT_OF_ORDER) with NEG-10.

    OUT_OF_ORDER is transient: the message answers one that has not arrived yet, and is to be sent again.
    """
    if first.in_reply_to:
        raise _error(Reason.OUT_OF_ORDER, "NEG-10", f"The {first.move.name} answers a thread unknown here")
    if first.move not in (Move.PROPOSE, Move.OFFER):
        raise _error(
            Reason.ILLEGAL_MOVE, "NEG-10", f"A thread begins with PROPOSE or OFFER, not {first.move.name}"
        )
    if isinstance(first.body, Terms) and not kind_of(first.body).opens:
        what = f"An OFFER of this kind ({first.body.kind}) answers a PROPOSE"
        raise _error(Reason.ILLEGAL_MOVE, "NEG-10", what)
    _check_several(first)
    status = Status.PROPOSED if first.move is Move.PROPOSE else Status.OFFERED
    return Thread(first.thread, first.sender, first.recipient, (first,), status, first.recipient, first)


def apply(thread: Thread, message: Message, now_ms: int) -> Thread:
    """The thread after `message`, or the same object for one it has already (NEG-22); raises ProtocolError.

    `now_ms` matters to an ACCEPT only: it is late more than GRACE_MS after the offer's expiry. OUT_OF_ORDER
    alone is transient; every other refusal is final.
    """
    if thread.find(*message.identity):
        return thread
    _check_parties(thread, message)
    if message.move is Move.EVENT:
        raise _error(
            Reason.ILLEGAL_MOVE, "NEG-17", "An event belongs to a commitment, not to its negotiation"
        )
    if message.move in (Move.QUERY, Move.ANSWER, Move.RELAY):
        what = f"A {message.move.name} stands beside the threads, not in one"
        raise _error(Reason.ILLEGAL_MOVE, "QRY-02", what)
    return _RULES[message.move](thread, message, now_ms)


def transcript(thread: Thread) -> tuple[Message, ...]:
    """The messages in the one order both parties agree on: by distance from the first, then by move and
    mid."""
    depths: dict[bytes, int] = {}

    def depth(message: Message) -> int:
        if message.mid not in depths:
            answered = next(
                (m for m in thread.messages if m.mid == message.in_reply_to and m is not message), None
            )
            depths[message.mid] = 0 if answered is None else depth(answered) + 1
        return depths[message.mid]

    ordered = [m for m in thread.messages if m.move is not Move.ACCEPT]
    for message in ordered:
        depth(message)
    return tuple(sorted(thread.messages, key=lambda m: (depths[m.mid], _RANK[m.move], m.mid)))


def decide_accept(
    offer_state: OfferState, offer_expires_ms: int, now_ms: int, grace_ms: int = GRACE_MS
) -> OfferState:
    """The offerer's decision when an ACCEPT arrives, by its own clock (NEG-26): COMMITTED or LAPSED, once."""
    if offer_state is not OfferState.OPEN:
        return offer_state
    return OfferState.COMMITTED if now_ms <= offer_expires_ms + grace_ms else OfferState.LAPSED


def _check_parties(thread: Thread, message: Message) -> None:
    if message.thread != thread.thread_id:
        raise _error(Reason.ILLEGAL_MOVE, "NEG-11", "The message belongs to another thread")
    if {message.sender, message.recipient} != {thread.initiator, thread.responder}:
        raise _error(
            Reason.ILLEGAL_MOVE, "NEG-11", "The message is not between the two parties of its thread"
        )
    several = thread.messages[0].parties
    if message.parties and (message.move is not Move.ACCEPT or message.parties != several):
        what = f"A commitment of {len(message.parties)} parties is not made in a thread of two"
        raise _error(Reason.ILLEGAL_MOVE, "NEG-11", what)
    if several and message.move in (Move.COUNTER, Move.OFFER):
        raise _error(Reason.ILLEGAL_MOVE, "GRP-01", "An offer to several is signed or refused, not countered")


def _check_several(first: Message) -> None:
    """An offer to several begins the thread of its offerer with each of the others (GRP-01)."""
    if first.parties and not {first.sender, first.recipient} <= {*first.parties}:
        raise _error(Reason.ILLEGAL_MOVE, "GRP-01", "The offer to several is not between two of its parties")


def _propose(thread: Thread, message: Message, now_ms: int) -> Thread:
    raise _error(Reason.ILLEGAL_MOVE, "NEG-10", "A PROPOSE begins a thread; a later wish is a COUNTER")


def _counter_or_offer(thread: Thread, message: Message, now_ms: int) -> Thread:
    _check_answer(thread, message)
    if thread.status is Status.ACCEPTED:
        raise _error(Reason.ILLEGAL_MOVE, "NEG-14", "An acceptance is answered by RECEIPT or REJECT only")
    _check_matter(thread, message)
    if message.move is Move.OFFER and isinstance(thread.standing.body, Wish):
        _check_within(thread.standing.body, message)
    if not thread.has_room:
        raise _error(Reason.TOO_MANY_MOVES, "NEG-23", f"A thread has at most {MAX_MOVES} moves")
    if thread.status.ended:
        return _record_crossed(thread, message)
    stalled = 0 if _is_progress(thread, message) else thread.stalled + 1
    if stalled >= MAX_STALLED:
        status = Status.IMPASSE
    else:
        status = Status.OFFERED if message.move is Move.OFFER else Status.PROPOSED
    turn = "" if status.ended else message.recipient
    moved = replace(thread, status=status, turn=turn, standing=message, stalled=stalled)
    return _record(moved, message)


def _accept(thread: Thread, message: Message, now_ms: int) -> Thread:
    offer = thread.find(message.mid, Move.OFFER)
    if offer is None or offer is not thread.standing or message.sender != offer.recipient:
        raise _error(Reason.ILLEGAL_MOVE, "NEG-16", "The ACCEPT does not answer the standing offer")
    if _withdrawal(thread, message.sender, message.mid):
        return _record(thread, message)  # overtaken by its own withdrawal: known already, and without effect
    _check_answer(thread, message)
    if now_ms > offer.expires_at_ms + GRACE_MS:
        raise _error(Reason.EXPIRED, "NEG-16", "The offer had expired when it was accepted")
    if thread.status.ended:
        return _record_crossed(thread, message)
    return _record(replace(thread, status=Status.ACCEPTED, turn=message.recipient), message)


def _receipt(thread: Thread, message: Message, now_ms: int) -> Thread:
    _check_open(thread, message)
    _check_answer(thread, message)
    body = message.body
    if thread.find(thread.standing.mid, Move.ACCEPT) is None:
        raise _error(Reason.ILLEGAL_MOVE, "NEG-17", "A RECEIPT answers an ACCEPT")
    if not isinstance(body, ReceiptBody) or body.mid != thread.standing.mid:
        raise _error(Reason.ILLEGAL_MOVE, "NEG-17", "The RECEIPT names another commitment")
    if bool(thread.standing.parties) != bool(body.commitment):
        what = "The RECEIPT of a commitment of several, and no other, carries it with every signature"
        raise _error(Reason.ILLEGAL_MOVE, "GRP-03", what)
    return _record(replace(thread, status=Status.COMMITTED, turn=""), message)


def _hold_turn(thread: Thread, message: Message, now_ms: int) -> Thread:
    held = next((m for m in thread.messages if m.mid == message.in_reply_to and m.move in _TERMS), None)
    if held is None:
        raise _error(Reason.OUT_OF_ORDER, "NEG-13", "The HOLD is for a message that has not arrived")
    if message.sender != held.recipient:
        raise _error(Reason.NOT_YOUR_TURN, "NEG-12", "The HOLD is not its sender's to send")
    if _hold(thread, message.sender, held.mid):
        raise _error(Reason.ILLEGAL_MOVE, "NEG-18", "There is one HOLD for each turn")
    return _record(thread, message)  # when it was overtaken by the answer, it has no effect


def _reject(thread: Thread, message: Message, now_ms: int) -> Thread:
    _check_answer(thread, message)
    body = message.body
    if thread.status is Status.ACCEPTED and not (isinstance(body, RejectBody) and body.reason == LAPSED):
        raise _error(Reason.ILLEGAL_MOVE, "NEG-19", "After an acceptance an offer can only lapse")
    if thread.status.ended:
        return _record_crossed(thread, message)
    return _record(replace(thread, status=Status.REJECTED, turn=""), message)


def _withdraw(thread: Thread, message: Message, now_ms: int) -> Thread:
    body = message.body
    if not isinstance(body, WithdrawBody) or body.mid != message.in_reply_to:
        raise _error(Reason.ILLEGAL_MOVE, "NEG-20", "A WITHDRAW answers the message that it takes back")
    if any(m.move is Move.WITHDRAW and m.sender == message.sender for m in thread.messages):
        raise _error(Reason.ILLEGAL_MOVE, "NEG-20", "A party withdraws once")
    if thread.offer and thread.offer.mid == body.mid and thread.offer.recipient == message.sender:
        return _withdraw_acceptance(thread, message)
    own = thread.last_of(message.sender)
    if not any(m.mid == body.mid for m in thread.messages):
        raise _error(Reason.OUT_OF_ORDER, "NEG-13", "What is withdrawn has not arrived")
    if own is None or own.mid != body.mid:
        raise _error(
            Reason.ILLEGAL_MOVE,
            "NEG-20",
            "A party withdraws the newest proposal, offer or acceptance of its own",
        )
    if thread.status is Status.COMMITTED or _closed_by(thread, message.sender):
        raise _error(Reason.THREAD_CLOSED, "NEG-21", "The thread has ended")
    if thread.status.ended:
        return _record(thread, message)  # crossed what ended the thread
    return _record(replace(thread, status=Status.WITHDRAWN), message)


def _withdraw_acceptance(thread: Thread, message: Message) -> Thread:
    # The offerer alone decides (NEG-26), so this ends nothing: it passes the turn to the offerer, as the
    # ACCEPT did or, when that is still on its way, would have done.
    if _closed_by(thread, message.sender):
        raise _error(Reason.THREAD_CLOSED, "NEG-21", "The thread has ended")
    if thread.status is not Status.OFFERED:
        return _record(thread, message)
    return _record(replace(thread, status=Status.ACCEPTED, turn=message.recipient), message)


def _check_answer(thread: Thread, message: Message) -> None:
    """The message answers what stands, from who must answer it, in a thread that its sender could think
    open."""
    move = message.move.name
    if message.in_reply_to != thread.standing.mid:
        if any(known.mid == message.in_reply_to for known in thread.messages):
            raise _error(
                Reason.NOT_YOUR_TURN, "NEG-13", f"The {move} answers a message that was answered already"
            )
        raise _error(Reason.OUT_OF_ORDER, "NEG-13", f"The {move} answers a message that has not arrived")
    if thread.status.ended and (thread.status is not Status.WITHDRAWN or _closed_by(thread, message.sender)):
        raise _error(Reason.THREAD_CLOSED, "NEG-21", "The thread has ended")
    if message.sender != thread.turn:
        raise _error(Reason.NOT_YOUR_TURN, "NEG-12", f"It is not the sender's turn for a {move}")


def _check_open(thread: Thread, message: Message) -> None:
    if thread.status.ended:
        raise _error(Reason.THREAD_CLOSED, "NEG-21", "The thread has ended")


def _check_matter(thread: Thread, message: Message) -> None:
    """The message is about what the thread is about, and does not turn round who gives."""
    body, matter = message.body, thread.subject_matter
    if not isinstance(body, Wish | Terms) or body.kind != matter.kind:
        raise _error(Reason.ILLEGAL_MOVE, "NEG-29", f"The thread is about {matter.kind}, and stays so")
    if message.supersedes != thread.supersedes:
        what = "A thread takes the place of one commitment, which its first message names"
        raise _error(Reason.ILLEGAL_MOVE, "NEG-28", what)
    if not thread.giver:
        return
    gives = message.sender == thread.giver
    if isinstance(body, Terms) and not gives:
        raise _error(Reason.ILLEGAL_MOVE, "NEG-27", "The one who gives makes the OFFER")
    if isinstance(body, Wish) and body.sender_gives not in (None, gives):
        raise _error(Reason.ILLEGAL_MOVE, "NEG-27", "A COUNTER does not turn round who gives")


def _check_within(wish: Wish, message: Message) -> None:
    if not isinstance(message.body, Terms) or not wish.admits(message.body):
        raise _error(
            Reason.ILLEGAL_MOVE, "NEG-15", "The OFFER lies outside the wish it answers; that is a COUNTER"
        )


def _is_progress(thread: Thread, message: Message) -> bool:
    """Whether the terms are new to the thread and, for a wish, leave room within what they answer."""
    body, standing = message.body, thread.standing.body
    if not isinstance(body, Wish | Terms) or not isinstance(standing, Wish | Terms):
        return False
    before = [m.body for m in thread.messages if m.move in _TERMS and isinstance(m.body, Wish | Terms)]
    if any(earlier.gist() == body.gist() for earlier in before):
        return False
    return not isinstance(body, Wish) or body.leaves_room(standing)


def _record(thread: Thread, message: Message) -> Thread:
    return replace(thread, messages=(*thread.messages, message))


def _record_crossed(thread: Thread, message: Message) -> Thread:
    # Sent before its sender knew of the withdrawal (NEG-25). The turn is spent: nobody can answer it.
    standing = message if message.move in _TERMS else thread.standing
    return _record(replace(thread, turn="", standing=standing), message)


def _closed_by(thread: Thread, subject: str) -> bool:
    """Whether `subject` itself ended the thread and so can't have sent anything more before it knew."""
    if thread.status is Status.WITHDRAWN:
        return any(m.move is Move.WITHDRAW and m.sender == subject for m in thread.messages)
    if thread.status is Status.REJECTED:
        return any(m.move is Move.REJECT and m.sender == subject for m in thread.messages)
    return thread.status is Status.IMPASSE and thread.standing.sender == subject


def _hold(thread: Thread, subject: str, mid: bytes) -> Message | None:
    holds = (m for m in thread.messages if m.move is Move.HOLD and m.sender == subject)
    return next((hold for hold in holds if hold.in_reply_to == mid), None)


def _withdrawal(thread: Thread, subject: str, mid: bytes) -> Message | None:
    withdrawals = (m for m in thread.messages if m.move is Move.WITHDRAW and m.sender == subject)
    return next((message for message in withdrawals if message.in_reply_to == mid), None)


def _error(reason: Reason, rule: str, what: str) -> ProtocolError:
    return ProtocolError(reason, what + ".", rule=rule)


_RULES: dict[Move, Callable[[Thread, Message, int], Thread]] = {
    Move.PROPOSE: _propose,
    Move.COUNTER: _counter_or_offer,
    Move.OFFER: _counter_or_offer,
    Move.ACCEPT: _accept,
    Move.RECEIPT: _receipt,
    Move.HOLD: _hold_turn,
    Move.REJECT: _reject,
    Move.WITHDRAW: _withdraw,
}
