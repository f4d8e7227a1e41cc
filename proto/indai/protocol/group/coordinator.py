"""The coordinator's side of a meeting of several: a contract net over threads of two.

Rounds of questions to the members, as an algorithm wants them; then one OFFER, signed by the coordinator and
relayed to all; each member's signature is a vote that reserves its slot. When all are there, the coordinator
decides by its own clock: RECEIPT to all, with every signature. Whatever comes between releases all: one
WITHDRAW, relayed to all (the RELEASE), and the owner hears who or what prevented it.

A member's side is `indai.protocol.party`, as in any thread whose other party began with an OFFER. The state
is a `Side` with a `group`; effects and events are those of `party_state`, where a `Send` with `to` goes to
one member, and any other to all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from indai.protocol import lifecycle, party_life
from indai.protocol.ballots import BallotAnswer, BallotQuery, CallQuery
from indai.protocol.contest import OVERTAKEN
from indai.protocol.errors import ProtocolError, Reason, Refused
from indai.protocol.group.algorithms import ALGORITHMS
from indai.protocol.group.board import Ask, Fail, Round, Said, Settle
from indai.protocol.group.state import Asked, Group
from indai.protocol.header import GRACE_MS
from indai.protocol.kinds.base import Window
from indai.protocol.kinds.meet import MeetTerms, MeetWish
from indai.protocol.lifecycle import deed_of
from indai.protocol.messages import (
    DAY_MS,
    MAX_OFFER_LIFE_MS,
    MINUTE_MS,
    AnswerBody,
    Message,
    Move,
    QueryBody,
    RejectBody,
    WithdrawBody,
)
from indai.protocol.negotiation import LAPSED, OfferState, decide_accept
from indai.protocol.party_state import (
    Commit,
    Consult,
    Consume,
    Effect,
    Enact,
    Event,
    Forward,
    HostAnswers,
    Outcome,
    OwnerActs,
    OwnerConvenes,
    OwnerWithdraws,
    PeerRefused,
    Phase,
    Question,
    Received,
    Release,
    Reserve,
    Role,
    Send,
    Sent,
    Side,
    Succeeded,
    Tell,
    Tick,
)
from indai.protocol.party_words import RAN_OUT
from indai.protocol.queries import WindowsAnswer, answers

ROUND_MS = 15 * MINUTE_MS  # how long a question waits: members' agents answer at once when they are there
ANSWER_LIFE_MS = 366 * DAY_MS
_CAME_FIRST = "Another change of the meeting came first, or is about to."
SILENT = "SILENT"
DECLINED = "DECLINED"

Next: TypeAlias = tuple[Side, tuple[Effect, ...]]


def convene(event: OwnerConvenes) -> Next:
    """Our owner wants to meet several."""
    group = Group(event.handle, event.members, event.wish, event.algorithm)
    side = Side(
        Role.INITIATOR,
        event.owner,
        event.members[0].subject,
        event.thread,
        Phase.NEGOTIATING,
        terms=event.wish,
        group=group,
        question=Question.PROPOSE_WISH,
        hops=event.hops,
        supersedes=event.supersedes,
    )
    return side, (Consult(Question.PROPOSE_WISH, event.wish),)


def step(side: Side, event: Event, now_ms: int) -> Next:
    """As `party.step`, for a side with a group."""
    match event:
        case HostAnswers():
            return _host_answers(side, event, now_ms)
        case Sent(message):
            return _sent(side, message, now_ms)
        case Received(message, signature, key):
            return _receive(side, message, signature, key, now_ms)
        case PeerRefused(subject, reason):
            if side.phase.ended:
                return side, ()
            return _fail(side, Phase.REJECTED, reason, (subject,), "Not everybody can be asked.")
        case OwnerActs():
            if side.life is None:
                what = "There is no commitment here yet."
                raise Refused(Reason.ILLEGAL_MOVE, what, hint="see: indai threads")
            return party_life.act(side, event, now_ms)
        case Succeeded(mid, time_ms):
            return party_life.succeeded(side, mid, time_ms)
        case OwnerWithdraws(reason):
            if side.phase.ended:
                raise Refused(Reason.THREAD_CLOSED, "The negotiation has ended.", hint="see: indai threads")
            return _fail(side, Phase.WITHDRAWN, reason, (), "The request was taken back.")
        case Tick():
            return _tick(side, now_ms)
        case _:
            what = "Nothing is asked of you here."
            raise Refused(Reason.ILLEGAL_MOVE, what, hint="see: indai threads")


def wakes_at(side: Side) -> int | None:
    """When a Tick is due next, ms."""
    if side.life is not None:
        return party_life.wakes_at(side)
    if side.phase.ended:
        return None
    group = _group(side)
    return group.offer.expires_at_ms + GRACE_MS + 1 if group.offer else group.until_ms or None


def missing(group: Group) -> tuple[str, ...]:
    """Subjects whose answer, or signature, is waited for."""
    if group.offer is None:
        return tuple(asked.ask.member for asked in group.open)
    signed = {subject for subject, _ in group.votes}
    return tuple(subject for subject in group.subjects if subject not in signed)


# Questions


def _advance(side: Side, now_ms: int) -> Next:
    """Every question is answered: the algorithm says what is next."""
    group = _group(side)
    match ALGORITHMS[group.algorithm].next(group.board(side.thread_id)):
        case Round(asks):
            group = replace(group, queue=asks, rounds=group.rounds + 1, until_ms=now_ms + ROUND_MS)
            return _ask_next(replace(side, group=group))
        case Settle(slot):
            terms = _terms(side, slot)
            return replace(side, question=Question.SIGN_TERMS, terms=terms), (
                Consult(Question.SIGN_TERMS, terms),
            )
        case Fail(reason, members):
            return _fail(side, Phase.REJECTED, reason, members, "No time suits everybody.")


def _ask_next(side: Side) -> Next:
    ask = _group(side).queue[0]
    sending = replace(side, sending=Move.QUERY)
    return sending, (Send(Move.QUERY, _query(side, ask), b"", ROUND_MS, to=ask.member),)


def _query(side: Side, ask: Ask) -> QueryBody:
    group = _group(side)
    question = BallotQuery if ask.ballot else CallQuery
    return QueryBody(question(replace(group.wish, windows=ask.windows), group.attendees, side.supersedes))


def _terms(side: Side, slot: Window) -> MeetTerms:
    wish = _group(side).wish
    uid = f"{side.thread_id.hex()}@{_group(side).handle.replace('/', '.')}"
    return MeetTerms(slot.start_ms, slot.end_ms, wish.title, wish.place, uid)


def _host_answers(side: Side, answer: HostAnswers, now_ms: int) -> Next:
    question, asked = side.question, side.terms
    if question is None:
        raise RuntimeError("the host answers a question that was not asked")
    side = replace(side, question=None)
    if answer.outcome is not Outcome.PERMIT:
        return _fail(side, Phase.REJECTED, answer.reason, (), "Your own rules or calendar don't allow it.")
    said = answer.terms or asked
    if isinstance(said, MeetWish):
        return _advance(replace(side, terms=said, group=replace(_group(side), wish=said)), now_ms)
    if not isinstance(said, MeetTerms):
        raise RuntimeError("a meeting of several is a meeting")
    life_ms = min(answer.offer_life_ms, MAX_OFFER_LIFE_MS, said.sign_by_ms() - now_ms)
    if life_ms <= 0:
        return _fail(side, Phase.REJECTED, LAPSED, (), "The time is over.")
    side = replace(side, terms=said, reserved=said, offer=OfferState.OPEN, sending=Move.OFFER)
    return side, (
        Reserve(said, said.holdings(first=True)),
        Send(Move.OFFER, said, b"", life_ms, side.supersedes),
    )


def _sent(side: Side, message: Message, now_ms: int) -> Next:
    if side.sending is not message.move or message.sender != side.owner:
        raise RuntimeError(f"no {message.move.name} was to be sent")
    if message.move is Move.EVENT:
        return party_life.sent(side, message, now_ms)
    side, group = replace(side, sending=None), _group(side)
    if message.move is Move.QUERY:
        asked = Asked(message.mid, group.queue[0])
        side = replace(side, group=replace(group, queue=group.queue[1:], open=(*group.open, asked)))
        return _ask_next(side) if _group(side).queue else (side, ())
    if message.move is Move.OFFER:
        return replace(side, group=replace(group, offer=message)), ()
    return side, ()


# What members send


def _receive(side: Side, message: Message, signature: bytes, key: str, now_ms: int) -> Next:
    group = _group(side)
    if group.knows(message):
        return side, ()
    if message.thread != side.thread_id or message.sender not in group.subjects:
        what = "The message is of nobody who was asked."
        raise ProtocolError(Reason.ILLEGAL_MOVE, what, rule="GRP-01")
    heard = replace(side, group=group.hear(message, key))
    match message.move:
        case Move.ANSWER:
            return _answered(heard, message, now_ms)
        case Move.ACCEPT:
            return _voted(heard, message, signature, now_ms)
        case Move.HOLD | Move.REJECT | Move.WITHDRAW:
            return _objected(heard, message)
        case Move.EVENT:
            if side.life is None:
                what = "The commitment that the event is about does not stand here yet."
                raise ProtocolError(Reason.OUT_OF_ORDER, what, rule="LIF-02")
            after, effects = party_life.receive(heard, message, now_ms)
            return after, (Forward(message.mid), *effects)  # the others need what the chain will name
        case _:
            what = f"A {message.move.name} is not for a coordinator."
            raise ProtocolError(Reason.ILLEGAL_MOVE, what, rule="GRP-01")


def _answered(side: Side, message: Message, now_ms: int) -> Next:
    group, body = _group(side), message.body
    asked = next((each for each in group.open if each.mid == message.in_reply_to), None)
    if asked is None or side.phase.ended:
        return side, ()  # too late: the round is over
    if (
        asked.ask.member != message.sender
        or not isinstance(body, AnswerBody)
        or not answers(_query(side, asked.ask), body)
    ):
        raise ProtocolError(Reason.ILLEGAL_MOVE, "The answer is not to what was asked.", rule="QRY-03")
    if isinstance(body.told, RejectBody):
        return _fail(side, Phase.REJECTED, body.told.reason, (message.sender,), "Not everybody can.")
    said = Said(asked.ask, message.mid)
    if isinstance(body.told, WindowsAnswer):
        said = replace(said, windows=body.told.windows)
    elif isinstance(body.told, BallotAnswer):
        said = replace(said, ordinals=body.told.ordinals)
    left = tuple(each for each in group.open if each is not asked)
    side = replace(side, group=replace(group, open=left, said=(*group.said, said)))
    return (side, ()) if left else _advance(side, now_ms)


def _voted(side: Side, message: Message, signature: bytes, now_ms: int) -> Next:
    group = _group(side)
    if group.offer is None or message.mid != group.offer.mid or not signature:
        raise ProtocolError(Reason.ILLEGAL_MOVE, "What was signed is not the offer.", rule="GRP-02")
    if side.phase.ended:
        return side, ()  # it crossed the RELEASE, which is on its way to it
    group = replace(group, votes=(*group.votes, (message.sender, signature)))
    side = replace(side, group=group)
    if missing(group):
        return side, ()
    decision = decide_accept(OfferState.OPEN, message.expires_at_ms, now_ms)
    if decision is not OfferState.COMMITTED:
        return _fail(side, Phase.LAPSED, LAPSED, (message.sender,), "The last signature came too late.")
    return _committed(side, message.mid)


def _committed(side: Side, mid: bytes) -> Next:
    """The commit point: the host's transaction stores this state, the leaf and the RECEIPT together."""
    offer, terms = _group(side).offer, side.reserved
    if offer is None or terms is None:
        raise RuntimeError("a commitment without a reservation")
    life = lifecycle.committed(deed_of(mid, offer.parties, terms))
    done = replace(
        side,
        phase=Phase.COMMITTED,
        offer=OfferState.COMMITTED,
        reserved=None,
        life=life,
        sending=Move.RECEIPT,
    )
    receipt = Send(Move.RECEIPT, None, mid, ANSWER_LIFE_MS)
    return done, (
        Consume(terms),
        Enact(terms),
        Commit(mid),
        Tell("The meeting is confirmed by all."),
        receipt,
    )


def _objected(side: Side, message: Message) -> Next:
    group = _group(side)
    if group.offer is None or message.in_reply_to != group.offer.mid:
        raise ProtocolError(Reason.ILLEGAL_MOVE, "The message answers no offer of ours.", rule="GRP-02")
    who = ", ".join(group.handles((message.sender,)))
    if side.phase is Phase.COMMITTED and message.move is Move.WITHDRAW:
        return side, (Tell(f"{who} asks to cancel the meeting."),)
    if side.phase.ended:
        return side, ()
    if message.move is Move.HOLD:
        holding = replace(group, holding=group.holding | {message.sender})
        return replace(side, group=holding, phase=Phase.ON_HOLD), (Tell(f"{who} is asking its owner."),)
    reason = message.body.reason if isinstance(message.body, RejectBody) else DECLINED
    if reason in RAN_OUT:
        return _fail(side, Phase.LAPSED, reason, (message.sender,), "Not everybody signed in time.")
    return _fail(side, Phase.REJECTED, reason, (message.sender,), "Not everybody signed.")


# The end without a meeting


def _tick(side: Side, now_ms: int) -> Next:
    due_ms = wakes_at(side)
    if due_ms is None or now_ms < due_ms:
        return side, ()
    if side.life is not None:
        return party_life.tick(side, now_ms)
    what = "Not everybody signed in time." if _group(side).offer else "Not everybody answered in time."
    return _fail(side, Phase.LAPSED, SILENT, missing(_group(side)), what)


def _fail(side: Side, phase: Phase, reason: str, members: tuple[str, ...], words: str) -> Next:
    """Release all, and tell our owner who or what prevented it (GRP-04). Members learn only that it's off."""
    group = _group(side)
    blocked = group.handles(members)
    words = _CAME_FIRST if reason == OVERTAKEN else words
    effects: tuple[Effect, ...] = ()
    if side.reserved is not None:
        effects = (Release(side.reserved),)
    told = f"{words} ({', '.join(blocked)})" if blocked else words
    offer = OfferState.LAPSED if side.offer is OfferState.OPEN else side.offer
    group = replace(group, blocked=blocked, queue=())
    side = replace(side, phase=phase, reason=reason, offer=offer, reserved=None, group=group)
    effects = (*effects, Tell(told))
    if group.offer is None:
        return side, effects
    release = Send(Move.WITHDRAW, WithdrawBody(group.offer.mid), group.offer.mid, ANSWER_LIFE_MS)
    return replace(side, sending=Move.WITHDRAW), (*effects, release)


def _group(side: Side) -> Group:
    if side.group is None:
        raise RuntimeError("this side coordinates nothing")
    return side.group
