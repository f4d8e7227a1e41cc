"""One party's part after the deed, as pure code: what it answers, asks for and does when time passes.

`party.step` hands over what concerns a commitment that stands. As there, the host carries the effects out in
one transaction: `Send` comes last and is answered by `Sent`; `Record` appends the event's leaf to our own
ledger. The first party of the commitment numbers its events (`indai.protocol.lifecycle`); it grants at once
what the terms let the other do alone, and only asks its owner where both must agree.
"""

from __future__ import annotations

from typing import TypeAlias

from indai.protocol.copies import replace
from indai.protocol.errors import Reason, Refused
from indai.protocol.header import GRACE_MS
from indai.protocol.kinds.base import Kind
from indai.protocol.kinds.table import kind_of
from indai.protocol.lifecycle import (
    OVERDUE_GRACE_MS,
    History,
    State,
    apply,
    body_of,
    expires_ms,
    may_alone,
    named_by,
)
from indai.protocol.messages import DAY_MS, MINUTE_MS, EventBody, EventKind, Message, Move, Terms
from indai.protocol.party_state import (
    Effect,
    OwnerActs,
    Record,
    Remind,
    Send,
    Side,
    Tell,
    Unbook,
    Undo,
)

DISPUTE_WAIT_MS = 10 * MINUTE_MS
EVENT_LIFE_MS = (
    366 * DAY_MS
)  # events settle what was agreed, so they keep their effect however late they come

Next: TypeAlias = tuple[Side, tuple[Effect, ...]]


def receive(side: Side, message: Message, now_ms: int) -> Next:
    """A verified event or request of the other party; raises ProtocolError when a rule is broken."""
    history = _life(side)
    if history.find(message.mid):
        return side, ()
    side = replace(side, life=apply(history, message, now_ms))
    if body_of(message).seq:
        return side, (Record(message.mid), *_consequences(side, message))
    return _answer(side, message, now_ms)


def act(side: Side, wanted: OwnerActs, now_ms: int) -> Next:
    """Our owner wants this to happen to the commitment; raises Refused where it can't."""
    history = _life(side)
    if wanted.kind is EventKind.CANCEL and history.deed.pending_minor:
        wanted = replace(wanted, kind=EventKind.VOID)  # what calling off a payment is called
    kind = wanted.kind
    if _is_done(history, side.owner, kind):
        return side, ()
    if history.state.ended and kind is not EventKind.DISPUTE:
        what = f"The commitment is {history.state.value.lower()} already."
        raise Refused(Reason.THREAD_CLOSED, what, hint="see: indai commitments --all")
    if kind is EventKind.OMIT:
        if wanted.time_ms in history.omitted:
            return side, ()
        if not history.may_omit(wanted.time_ms):
            what = f"The {_kind(side).noun} has no such time, or only this one left."
            raise Refused(Reason.ILLEGAL_MOVE, what, hint="call all of it off: indai cancel")
    two_phase = kind in (EventKind.POST, EventKind.VOID)
    if kind is not EventKind.DISPUTE and two_phase != bool(history.deed.pending_minor):
        what = f"A {kind.value} is not said of a {_kind(side).noun}."
        raise Refused(Reason.ILLEGAL_MOVE, what, hint="what is pending is posted or voided")
    if kind is EventKind.FULFIL and now_ms < history.deed.fulfil_from_ms:
        what = f"The {_kind(side).noun} is not over yet."
        raise Refused(Reason.ILLEGAL_MOVE, what, hint="try again when it is")
    if kind is EventKind.DISPUTE and side.owner in history.disputed:
        return side, ()
    at_ms = wanted.time_ms
    asked = history.requested(side.peer, kind, at_ms) if kind is not EventKind.DISPUTE else None
    if history.sequencer == side.owner and (asked or _may_alone(side, kind, now_ms, at_ms)):
        return _number(side, kind, asked, wanted)
    if kind is EventKind.POST and history.sequencer == side.owner:
        what = "What was paid is for the payee to say."
        raise Refused(Reason.ILLEGAL_MOVE, what, hint="wait for its word, or dispute")
    if history.requested(side.owner, kind, at_ms):
        return side, (Tell("The other side has been asked already."),)
    return _ask(side, wanted)


def succeeded(side: Side, mid: bytes, time_ms: int = 0) -> Next:
    """Another commitment of the same parties stands and names this one: its slot is given back in the same
    transaction, on either side, and the first party says so at once. Of one time alone, which may have been
    left out meanwhile, the other party hears by that event.
    """
    history = named_by(_life(side), mid, time_ms)
    side = replace(side, life=history)
    if time_ms:
        if history.sequencer != side.owner or not history.may_omit(time_ms):
            return side, ()
        said = OwnerActs(EventKind.OMIT, time_ms=time_ms)
        return _number(side, EventKind.OMIT, None, said, mid)
    if history.state not in (State.COMMITTED, State.OVERDUE):
        return side, ()
    if history.sequencer != side.owner:
        terms = _terms(side)
        return side, (Unbook(terms), Undo(terms), Tell(_say(side, _HAPPENED[EventKind.SUPERSEDE])))
    seq = len(history.chain) + 1
    return _send(side, EventBody(history.deed.mid, EventKind.SUPERSEDE, seq, history.last, superseded_by=mid))


def sent(side: Side, message: Message, now_ms: int) -> Next:
    """An event or request of ours was signed."""
    side = replace(side, life=apply(_life(side), message, now_ms), sending=None)
    if body_of(message).seq:
        return side, (Record(message.mid), *_consequences(side, message))
    return side, (Tell(_say(side, _ASKED[body_of(message).kind])),)


def tick(side: Side, now_ms: int) -> Next:
    """Time has passed: a reminder, what is past due, what was asked for in vain."""
    history, terms = _life(side), _terms(side)
    begins_ms = history.deed.begins_ms
    if _to_remind(side) and now_ms >= begins_ms - side.remind_before_ms:
        soon = (Remind(terms),) if now_ms < begins_ms else ()
        return replace(side, reminded=True), soon
    if _goes_on(side) and side.remind_at_ms and now_ms >= side.remind_at_ms[0]:
        at_ms, *later = side.remind_at_ms
        return replace(side, remind_at_ms=tuple(later)), (Remind(terms, at_ms),)
    unheard = _unheard(side)
    if unheard and now_ms >= unheard.issued_at_ms + DISPUTE_WAIT_MS:
        return _number(side, EventKind.DISPUTE, None, _said(unheard))
    if history.sequencer != side.owner or history.state.ended:
        return side, ()
    if history.state is State.COMMITTED and now_ms >= history.deed.due_ms + OVERDUE_GRACE_MS:
        return _number(side, EventKind.OVERDUE, None)
    if history.state in (State.OVERDUE, State.PENDING) and now_ms >= expires_ms(history):
        return _number(side, EventKind.EXPIRE, None)
    return side, ()


def wakes_at(side: Side) -> int | None:
    """When `tick` has something to do next, ms; None for never."""
    history, due = _life(side), []
    if _to_remind(side):
        due.append(history.deed.begins_ms - side.remind_before_ms)
    if _goes_on(side) and side.remind_at_ms:
        due.append(side.remind_at_ms[0])
    unheard = _unheard(side)
    if unheard:
        due.append(unheard.issued_at_ms + DISPUTE_WAIT_MS)
    if history.sequencer == side.owner and not history.state.ended:
        waits = history.state is State.COMMITTED
        due.append(history.deed.due_ms + OVERDUE_GRACE_MS if waits else expires_ms(history))
    return min(due, default=None)


def _answer(side: Side, request: Message, now_ms: int) -> Next:
    """The first party grants what one party may have alone, or what it has asked for itself."""
    history, asked = _life(side), body_of(request)
    kind, state = asked.kind, history.state
    if state.ended and kind is not EventKind.DISPUTE:
        return side, ()  # it crossed what ended it
    if kind is EventKind.DISPUTE and request.sender in history.disputed:
        return side, ()
    words = (Tell(_say(side, _WISHES.get(kind, "The other side wants a change."))),)
    if history.sequencer != side.owner:
        return side, words
    if kind is EventKind.OMIT and not history.may_omit(asked.time_ms):
        return side, ()  # left out by now, or only this one is left
    agreed = history.requested(side.owner, kind, asked.time_ms) is not None
    in_time = may_alone(history.deed, kind, max(request.issued_at_ms, now_ms - GRACE_MS), asked.time_ms)
    early = kind is EventKind.FULFIL and now_ms < history.deed.fulfil_from_ms
    if kind is EventKind.POST:
        in_time = history.deed.payee in ("", request.sender)  # the payee admits it
    if early or kind is EventKind.SUPERSEDE or not (agreed or in_time):
        return side, words
    return _number(side, kind, request)


def _number(
    side: Side,
    kind: EventKind,
    asked: Message | None,
    wanted: OwnerActs | None = None,
    superseded_by: bytes = b"",
) -> Next:
    """Send the next event; a DISPUTE of another party than the first stands beside it."""
    history = _life(side)
    requests = (asked.mid,) if asked else ()
    said = wanted or OwnerActs(kind)
    if asked and wanted is None:
        said = _said(asked)
    posted = body_of(asked).posted_minor if asked else said.posted_minor
    event = EventBody(
        history.deed.mid,
        kind,
        len(history.chain) + 1,
        history.last,
        requests,
        said.reason,
        said.sentence,
        superseded_by,
        posted,
        said.outcome if kind is EventKind.FULFIL else "",
        said.time_ms,
    )
    return _send(side, event)


def _ask(side: Side, wanted: OwnerActs) -> Next:
    history = _life(side)
    event = EventBody(
        history.deed.mid,
        wanted.kind,
        0,
        history.last,
        (),
        wanted.reason,
        wanted.sentence,
        posted_minor=wanted.posted_minor,
        outcome=wanted.outcome,
        time_ms=wanted.time_ms,
    )
    return _send(side, event)


def _send(side: Side, body: EventBody) -> Next:
    if side.sending is not None:
        raise RuntimeError("one message is sent at a time")
    return replace(side, sending=Move.EVENT), (Send(Move.EVENT, body, body.prev, EVENT_LIFE_MS),)


def _consequences(side: Side, event: Message) -> tuple[Effect, ...]:
    """What an event does on this side, whoever signed it."""
    kind = body_of(event).kind
    told = Tell(_say(side, _HAPPENED[kind]))
    if kind is EventKind.OMIT:
        terms, at_ms = _terms(side), body_of(event).time_ms
        return Unbook(terms, at_ms), Undo(terms, at_ms), told
    unpaid = kind is EventKind.EXPIRE and _life(side).deed.pending_minor
    if kind is EventKind.SUPERSEDE and event.sender != side.owner:
        return (told,)  # its slot was given back when the successor was agreed
    if kind in (EventKind.CANCEL, EventKind.SUPERSEDE, EventKind.VOID) or unpaid:
        terms = _terms(side)
        return Unbook(terms), Undo(terms), told
    return (told,)


def _is_done(history: History, owner: str, kind: EventKind) -> bool:
    """Whether what the owner wants has happened: asking again changes nothing."""
    done = _DONE.get(kind)
    return history.state is done or (kind is EventKind.DISPUTE and owner in history.disputed)


def _unheard(side: Side) -> Message | None:
    """Our request for a DISPUTE that the first party has not numbered (LIF-21)."""
    history = _life(side)
    if history.sequencer == side.owner or side.owner in history.disputed:
        return None
    return history.requested(side.owner, EventKind.DISPUTE)


def _said(request: Message) -> OwnerActs:
    """The words of a request, for the event that follows from it."""
    body = body_of(request)
    return OwnerActs(body.kind, body.reason, body.sentence, body.outcome, body.posted_minor, body.time_ms)


def _may_alone(side: Side, kind: EventKind, now_ms: int, time_ms: int = 0) -> bool:
    deed = _life(side).deed
    if kind is EventKind.POST:
        return deed.payee in ("", side.owner)
    return may_alone(deed, kind, now_ms, time_ms)


def _to_remind(side: Side) -> bool:
    wanted = _life(side).deed.begins_ms and side.remind_before_ms
    return bool(wanted) and not side.reminded and _goes_on(side)


def _goes_on(side: Side) -> bool:
    return not _life(side).state.ended and not _life(side).successors


def _life(side: Side) -> History:
    if side.life is None:
        raise RuntimeError("the commitment does not stand")
    return side.life


def _terms(side: Side) -> Terms:
    if not isinstance(side.terms, Terms):
        raise RuntimeError("a commitment without terms")
    return side.terms


def _kind(side: Side) -> Kind:
    return kind_of(_terms(side))


def _say(side: Side, words: str) -> str:
    kind = _kind(side)
    return words.format(noun=kind.noun, kept=kind.kept)


_DONE = {
    EventKind.FULFIL: State.FULFILLED,
    EventKind.CANCEL: State.CANCELLED,
    EventKind.POST: State.POSTED,
    EventKind.VOID: State.VOIDED,
}
_HAPPENED = {
    EventKind.FULFIL: "The {noun} {kept}.",
    EventKind.CANCEL: "The {noun} was cancelled.",
    EventKind.SUPERSEDE: "Another {noun} takes this one's place.",
    EventKind.EXPIRE: "Nobody said that the {noun} {kept}; the matter is closed.",
    EventKind.OVERDUE: "Nobody has said yet that the {noun} {kept}.",
    EventKind.DISPUTE: "What was agreed here is disputed.",
    EventKind.POST: "The amount was paid.",
    EventKind.VOID: "Nothing will be paid.",
    EventKind.OMIT: "One time of the {noun} was called off; the others stand.",
}
_ASKED = {
    EventKind.FULFIL: "The other side is asked to record that the {noun} {kept}.",
    EventKind.CANCEL: "The other side is asked to cancel the {noun}.",
    EventKind.DISPUTE: "The other side is asked to record your objection.",
    EventKind.POST: "The other side is asked to record that the amount was paid.",
    EventKind.VOID: "The other side is asked to call the {noun} off.",
    EventKind.OMIT: "The other side is asked to call off one time of the {noun}.",
}
_WISHES = {
    EventKind.CANCEL: "The other side asks to cancel the {noun}; cancel it too if you agree.",
    EventKind.FULFIL: "The other side says that the {noun} {kept}.",
    EventKind.POST: "The other side says that the amount was paid.",
    EventKind.VOID: "The other side asks to call the {noun} off; do it too if you agree.",
    EventKind.OMIT: "The other side asks to call off one time of the {noun}; do it too if you agree.",
}
