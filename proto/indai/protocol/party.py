"""One party's part of a thread, as pure code: events in, the next state and its effects out.

The host drives it inside one database transaction: `step(side, event, now_ms)` gives a `Side` to store and
effects to carry out in order. `Consult` and `Send` come last, one of them in a step, and are answered at
once, in the same transaction, by the events `HostAnswers` and `Sent`; only what the host has signed advances
the thread. When the transaction commits, state, outbox, reservations and ledger leaf stand together; when it
does not, nothing happened. `party_state` holds the types and their JSON.
"""

from __future__ import annotations

from typing import TypeAlias

from indai.protocol import party_life
from indai.protocol.copies import replace
from indai.protocol.errors import ProtocolError, Reason, Refused
from indai.protocol.group import coordinator
from indai.protocol.header import GRACE_MS
from indai.protocol.kinds.table import kind_of
from indai.protocol.messages import (
    DAY_MS,
    MAX_OFFER_LIFE_MS,
    Body,
    HoldBody,
    Message,
    Move,
    RejectBody,
    Terms,
    Wish,
    WithdrawBody,
)
from indai.protocol.negotiation import (
    LAPSED,
    OfferState,
    Status,
    Thread,
    apply,
    decide_accept,
    open_thread,
)
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
    OwnerActs,
    OwnerAnswers,
    OwnerConvenes,
    OwnerStarts,
    OwnerWithdraws,
    PeerRefused,
    Phase,
    Question,
    Received,
    Release,
    Resend,
    Reserve,
    Role,
    Send,
    Sent,
    Side,
    Succeeded,
    Tell,
    Tick,
)
from indai.protocol.party_stored import begin_life
from indai.protocol.party_words import RAN_OUT, UNANSWERED, begins_ms, ended, noun

WISH_LIFE_MS = DAY_MS
ASK_LIFE_MS = DAY_MS
ANSWER_LIFE_MS = 366 * DAY_MS
"""RECEIPT, REJECT and WITHDRAW settle what was signed, so they keep their effect however late they come.

A HOLD has effect until its own deadline only, but belongs to both transcripts.
"""

DECLINED = "DECLINED"
IMPASSE = "IMPASSE"

Next: TypeAlias = tuple[Side, tuple[Effect, ...]]


def step(side: Side | None, event: Event, now_ms: int) -> Next:
    """The next state and what the host must do; `side` is None for OwnerStarts and for a thread's first
    message.

    Raises ProtocolError when a received message breaks a rule (the state is unchanged),
    Refused(THREAD_CLOSED) when the owner speaks to what has ended, and RuntimeError when the host answers
    what it was not asked.
    """
    if isinstance(event, OwnerStarts):
        return _start(event)
    if isinstance(event, OwnerConvenes):
        return coordinator.convene(event)
    if side is not None and side.group is not None:
        return coordinator.step(side, event, now_ms)
    if isinstance(event, Received):
        return _receive(side, event.message, now_ms)
    if side is None:
        raise RuntimeError(f"{type(event).__name__} needs a thread")
    match event:
        case HostAnswers():
            return _host_answers(side, event, now_ms)
        case Sent(message):
            return _sent(side, message, now_ms)
        case OwnerActs():
            if side.life is None:
                what = "There is no commitment here yet."
                raise Refused(Reason.ILLEGAL_MOVE, what, hint="see: indai threads")
            return party_life.act(side, event, now_ms)
        case Succeeded(mid, time_ms):
            return party_life.succeeded(side, mid, time_ms)
        case OwnerAnswers():
            return _owner_answers(side, event, now_ms)
        case OwnerWithdraws(reason):
            return _owner_withdraws(side, reason)
        case Tick():
            return _tick(side, now_ms)
        case PeerRefused():
            return side, ()


def wakes_at(side: Side) -> int | None:
    """When a Tick is due next, ms; None when only a message or the owner can change anything."""
    if side.group is not None:
        return coordinator.wakes_at(side)
    if side.life is not None:
        return party_life.wakes_at(side)
    if side.phase.ended or side.phase is Phase.IN_DOUBT:
        return None
    if side.phase is Phase.ASKING_OWNER:
        return side.deadline_ms
    return _waits_until(side.thread) + 1 if side.thread else None


# The owner and the host


def _start(event: OwnerStarts) -> Next:
    side = Side(
        Role.INITIATOR,
        event.owner,
        event.peer,
        event.thread,
        Phase.NEGOTIATING,
        terms=event.wish,
        supersedes=event.supersedes,
        hops=event.hops,
    )
    return _consult(side, _to_sign(event.wish), event.wish, approved=False)


def _consult(side: Side, question: Question, terms: Wish | Terms, *, approved: bool) -> Next:
    asked = replace(side, phase=Phase.NEGOTIATING, question=question, terms=terms, approved=approved)
    return asked, (Consult(question, terms, approved),)


def _to_sign(terms: Wish | Terms) -> Question:
    return Question.PROPOSE_WISH if isinstance(terms, Wish) else Question.SIGN_TERMS


def _host_answers(side: Side, answer: HostAnswers, now_ms: int) -> Next:
    if side.question is None or side.terms is None:
        raise RuntimeError("the host answers a question that was not asked")
    question, shown, approved = side.question, side.terms, side.approved
    terms = shown if answer.terms is None else answer.terms
    side = replace(side, question=None, approved=False)
    if answer.outcome is Outcome.REFUSE:
        wish = side.thread.standing.body if side.thread else None
        if approved and question is Question.SIGN_TERMS and isinstance(wish, Wish):
            # What the owner approved was taken meanwhile: the choice, and the question, begin anew (NEG-34).
            return _consult(side, Question.CHOOSE_TERMS, wish, approved=False)
        return _refuse(side, answer.reason, answer.sentence)
    if answer.outcome is Outcome.ASK or (approved and terms != shown):
        return _ask(side, terms, now_ms)
    return _sign(side, terms, answer.offer_life_ms, now_ms)


def _sign(side: Side, terms: Wish | Terms, offer_life_ms: int, now_ms: int) -> Next:
    thread = side.thread
    offer = thread.offer if thread else None
    if thread and not thread.has_room and not (offer and terms == offer.body):
        return _refuse(side, IMPASSE)
    if isinstance(terms, Wish):
        return _send(side, Move.COUNTER if thread else Move.PROPOSE, terms, WISH_LIFE_MS)
    if offer:
        return _accept(side, offer, terms, now_ms)
    if thread and thread.giver not in ("", side.owner):
        raise RuntimeError("the one who gives makes the offer: answer with a wish")
    life_ms = min(offer_life_ms, MAX_OFFER_LIFE_MS, terms.sign_by_ms() - now_ms)
    if life_ms <= 0:
        return _refuse(side, kind_of(terms).unavailable)
    reserving = replace(side, offer=OfferState.OPEN, reserved=terms)
    side, effects = _send(reserving, Move.OFFER, terms, life_ms)
    return side, (Reserve(terms, terms.holdings(first=True)), *effects)


def _accept(side: Side, offer: Message, terms: Terms, now_ms: int) -> Next:
    if terms != offer.body:
        raise RuntimeError(
            "an ACCEPT carries no terms of its own: answer an offer with its terms or with a wish"
        )
    if now_ms >= offer.expires_at_ms:
        return _refuse(side, LAPSED)
    side, effects = _send(replace(side, reserved=terms), Move.ACCEPT, terms, offer.expires_at_ms - now_ms)
    return side, (Reserve(terms, terms.holdings(first=False)), *effects)


def _ask(side: Side, terms: Wish | Terms, now_ms: int) -> Next:
    """Ask our owner, and tell the peer once a turn to wait. A HOLD never outlives the offer, or its use."""
    limits = [now_ms + ASK_LIFE_MS, begins_ms(terms)]
    thread = side.thread
    held = thread.held_by(side.owner) if thread else None
    if thread and thread.offer:
        limits.append(thread.offer.expires_at_ms)
    if held and isinstance(held.body, HoldBody):
        limits.append(held.body.deadline_ms)
    deadline_ms = min(limits)
    if deadline_ms <= now_ms:
        return _refuse(side, LAPSED)
    side = replace(side, phase=Phase.ASKING_OWNER, terms=terms, deadline_ms=deadline_ms)
    asking = AskOwner(terms, deadline_ms)
    if thread is None or held:
        return side, (asking,)
    side, effects = _send(side, Move.HOLD, HoldBody(deadline_ms), ANSWER_LIFE_MS)
    return side, (asking, *effects)


def _owner_answers(side: Side, answer: OwnerAnswers, now_ms: int) -> Next:
    if side.phase is not Phase.ASKING_OWNER or side.terms is None:
        raise Refused(Reason.THREAD_CLOSED, "The question is no longer open.", hint="see: indai threads")
    if now_ms >= side.deadline_ms:
        return _tick(side, now_ms)
    if wanted := answer.instead:  # NEG-37
        return _consult(replace(side, wanted=wanted), _to_sign(wanted), wanted, approved=False)
    if not answer.approved:
        return _refuse(side, DECLINED)
    return _consult(side, _to_sign(side.terms), side.terms, approved=True)


def _owner_withdraws(side: Side, reason: str) -> Next:
    if side.phase.ended:
        raise Refused(Reason.THREAD_CLOSED, "The negotiation has ended.", hint="see: indai threads")
    if side.thread is None:
        return _end(side, Phase.WITHDRAWN, reason)
    own = side.thread.last_of(side.owner)
    if own is None:
        return _refuse(side, reason or DECLINED)
    if own.move is not Move.ACCEPT:
        side, released = _end(side, Phase.WITHDRAWN, reason)
        side, effects = _send(side, Move.WITHDRAW, WithdrawBody(own.mid), ANSWER_LIFE_MS, own.mid)
        return side, (*released, *effects)
    if _has_withdrawn(side):
        return side, ()
    return _send(side, Move.WITHDRAW, WithdrawBody(own.mid), ANSWER_LIFE_MS, own.mid)


def _refuse(side: Side, reason: str, sentence: str = "") -> Next:
    """End the thread ourselves: by a signed REJECT, or in silence when the peer never heard of it."""
    phase = Phase.LAPSED if reason in RAN_OUT else Phase.REJECTED
    side, ended = _end(side, phase, reason)
    if side.thread is None:
        return side, ended
    side, effects = _send(side, Move.REJECT, RejectBody(reason, sentence), ANSWER_LIFE_MS)
    return side, (*ended, *effects)


# What the peer sends


def _receive(side: Side | None, message: Message, now_ms: int) -> Next:
    if side is None:
        thread = open_thread(message)
        side = Side(
            Role.RESPONDER,
            message.recipient,
            message.sender,
            message.thread,
            Phase.NEGOTIATING,
            thread,
            supersedes=message.supersedes,
            hops=message.hops,
        )
        return _our_turn(side, now_ms)
    if message.move is Move.EVENT:
        if side.life is None:
            what = "The commitment that the event is about does not stand here yet."
            raise ProtocolError(Reason.OUT_OF_ORDER, what, rule="LIF-02")
        return party_life.receive(side, message, now_ms)
    if side.thread is None:
        what = "The thread has not been proposed yet."
        raise ProtocolError(Reason.ILLEGAL_MOVE, what, rule="NEG-10")
    if side.thread.find(*message.identity):
        return side, ()
    if message.move is Move.ACCEPT:
        return _receive_accept(side, side.thread, message, now_ms)
    before, thread = side.thread, apply(side.thread, message, now_ms)
    side = replace(side, thread=thread)
    if side.phase.ended:
        return _after_the_end(side, thread, message)
    match message.move:
        case Move.COUNTER | Move.OFFER:
            return _receive_terms(side, thread, now_ms)
        case Move.HOLD:
            return _receive_hold(side, before, message)
        case Move.RECEIPT:
            return _committed(side, thread)
        case Move.REJECT:
            return _receive_reject(side, message)
        case _:
            return _receive_withdraw(side, thread)


def _receive_terms(side: Side, thread: Thread, now_ms: int) -> Next:
    side, released = _release(side)  # a COUNTER replaces our offer in full
    if thread.status is Status.IMPASSE:
        side, ended = _end(side, Phase.REJECTED, IMPASSE)
    else:
        side, ended = _our_turn(side, now_ms)
    return side, (*released, *ended)


def _our_turn(side: Side, now_ms: int) -> Next:
    if side.thread is None:
        raise RuntimeError("there is nothing to answer")
    standing = side.thread.standing
    if isinstance(standing.body, Wish):
        return _consult(side, Question.CHOOSE_TERMS, standing.body, approved=False)
    if not isinstance(standing.body, Terms):
        raise RuntimeError("what stands is neither a wish nor an offer")
    if now_ms >= standing.expires_at_ms:
        return _refuse(side, LAPSED)
    return _consult(side, Question.SIGN_TERMS, standing.body, approved=False)


def _receive_hold(side: Side, before: Thread, message: Message) -> Next:
    if before.standing.mid != message.in_reply_to or before.turn != message.sender:
        return side, ()  # overtaken by the answer it announced
    if side.phase is not Phase.NEGOTIATING:
        return side, ()
    return replace(side, phase=Phase.ON_HOLD), (Tell("The other side is asking its owner."),)


def _receive_accept(side: Side, thread: Thread, message: Message, now_ms: int) -> Next:
    # The transcript takes the ACCEPT however late: that it came too late is the offerer's decision, told by
    # a REJECT.
    offer_expires_ms = message.expires_at_ms
    thread = apply(thread, message, min(now_ms, offer_expires_ms))
    side = replace(side, thread=thread)
    if thread.status is not Status.ACCEPTED or thread.turn != side.owner:
        return side, ()  # it crossed our own withdrawal, or was overtaken by the peer's
    if side.offer is None:
        raise RuntimeError("an ACCEPT without an offer of ours")
    decision = decide_accept(side.offer, offer_expires_ms, now_ms)
    if decision is OfferState.COMMITTED:
        return _commit_offer(side, thread)
    return _lapse_offer(side)


def _commit_offer(side: Side, thread: Thread) -> Next:
    """The commit point of the deal: the host's COMMIT that stores this state, the leaf and the RECEIPT
    together."""
    side, effects = _committed(replace(side, offer=OfferState.COMMITTED), thread)
    side, sending = _send(side, Move.RECEIPT, None, ANSWER_LIFE_MS, thread.standing.mid)
    return side, (*effects, *sending)


def _lapse_offer(side: Side) -> Next:
    side, effects = (side, ()) if side.phase.ended else _end(side, Phase.LAPSED, LAPSED)
    side, sending = _send(side, Move.REJECT, RejectBody(LAPSED), ANSWER_LIFE_MS)
    return side, (*effects, *sending)


def _committed(side: Side, thread: Thread) -> Next:
    terms = thread.standing.body
    if side.reserved is None or not isinstance(terms, Terms):
        raise RuntimeError("a commitment without a reservation")
    done = replace(side, phase=Phase.COMMITTED, reserved=None, terms=terms, question=None, deadline_ms=0)
    done = replace(done, life=begin_life(thread.offer))
    mid = thread.standing.mid
    confirmed = Tell(f"The {kind_of(terms).noun} is confirmed.")
    return done, (Consume(terms), Enact(terms), Commit(mid), confirmed)


def _receive_reject(side: Side, message: Message) -> Next:
    reason = message.body.reason if isinstance(message.body, RejectBody) else ""
    if _has_withdrawn(side):
        return _end(side, Phase.WITHDRAWN, reason)
    return _end(side, Phase.LAPSED if reason in RAN_OUT else Phase.REJECTED, reason)


def _receive_withdraw(side: Side, thread: Thread) -> Next:
    if thread.status is Status.WITHDRAWN:
        return _end(side, Phase.WITHDRAWN)
    # The peer takes an acceptance back that has not arrived: the offer is still open, so it lapses (NEG-26).
    side, effects = _end(side, Phase.WITHDRAWN)
    side, sending = _send(side, Move.REJECT, RejectBody(LAPSED), ANSWER_LIFE_MS)
    return side, (*effects, *sending)


def _after_the_end(side: Side, thread: Thread, message: Message) -> Next:
    """The peer did not know yet that we had ended it. What still waits for our answer gets the only one
    left."""
    if thread.status is Status.COMMITTED and message.move is Move.WITHDRAW:
        receipt = next(m for m in thread.messages if m.move is Move.RECEIPT)
        return side, (Resend(receipt.mid), Tell(f"The other side asks to cancel the {noun(side)}."))
    takes_turn = message.move in (Move.COUNTER, Move.OFFER) or thread.status is Status.ACCEPTED
    if takes_turn and not thread.status.ended and thread.turn == side.owner:
        return _send(side, Move.REJECT, RejectBody(LAPSED), ANSWER_LIFE_MS)
    return side, ()


# What we have sent, and the clock


def _send(side: Side, move: Move, body: Body | None, life_ms: int, in_reply_to: bytes | None = None) -> Next:
    if side.sending is not None:
        raise RuntimeError("one message is sent at a time")
    if in_reply_to is None:
        in_reply_to = side.thread.standing.mid if side.thread else b""
    supersedes = side.supersedes if isinstance(body, Wish | Terms) and move is not Move.ACCEPT else b""
    return replace(side, sending=move), (Send(move, body, in_reply_to, life_ms, supersedes),)


def _sent(side: Side, message: Message, now_ms: int) -> Next:
    if side.sending is not message.move or message.sender != side.owner:
        raise RuntimeError(f"no {message.move.name} was to be sent")
    if message.move is Move.EVENT:
        return party_life.sent(side, message, now_ms)
    thread = apply(side.thread, message, now_ms) if side.thread else open_thread(message)
    side = replace(side, thread=thread, sending=None)
    if thread.status is Status.IMPASSE and not side.phase.ended:
        return _end(side, Phase.REJECTED, IMPASSE)
    if message.move is Move.ACCEPT:
        return replace(side, phase=Phase.AWAITING_RECEIPT), ()
    return side, ()


def _tick(side: Side, now_ms: int) -> Next:
    due_ms = wakes_at(side)
    if due_ms is None or now_ms < due_ms:
        return side, ()
    if side.life is not None:
        return party_life.tick(side, now_ms)
    if side.phase is Phase.ASKING_OWNER:
        return _refuse(side, UNANSWERED)  # a silent owner is a no (NEG-33)
    if side.phase is Phase.AWAITING_RECEIPT:
        # Only the offerer's word frees the slot (NEG-31): it may have committed, and its RECEIPT be on the
        # way.
        doubtful = replace(side, phase=Phase.IN_DOUBT)
        return doubtful, (Tell("The other side has not confirmed in time; what is reserved stays so."),)
    return _end(side, Phase.LAPSED, LAPSED)


def _waits_until(thread: Thread) -> int:
    """Until when an answer to what stands can arrive in time, ms."""
    held = thread.held_by(thread.standing.recipient)
    until_ms = thread.standing.expires_at_ms
    if held and isinstance(held.body, HoldBody) and thread.offer is None:
        until_ms = max(until_ms, held.body.deadline_ms)  # an offer's life is not prolonged by a HOLD
    return until_ms + GRACE_MS


def _end(side: Side, phase: Phase, reason: str = "") -> Next:
    side, released = _release(side)
    side = replace(side, phase=phase, reason=reason, question=None, approved=False, deadline_ms=0)
    return side, (*released, Tell(ended(side)))


def _release(side: Side) -> Next:
    """Give our reservation back, and let our open offer lapse with it: the two go together (NEG-30)."""
    offer = OfferState.LAPSED if side.offer is OfferState.OPEN else side.offer
    if side.reserved is None:
        return replace(side, offer=offer), ()
    return replace(side, offer=offer, reserved=None), (Release(side.reserved),)


def _has_withdrawn(side: Side) -> bool:
    messages = side.thread.messages if side.thread else ()
    return any(m.move is Move.WITHDRAW and m.sender == side.owner for m in messages)
