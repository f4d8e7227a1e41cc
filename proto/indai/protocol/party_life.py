"""One party's part after the deed, as pure code: what it answers, asks for and does when time passes.

`party.step` hands over what concerns a commitment that stands. As there, the host carries the effects out in
one transaction: `Send` comes last and is answered by `Sent`; `Record` appends the event's leaf to our own
ledger. The first party of the commitment numbers its events (`indai.protocol.lifecycle`); it grants at once
what the terms let the other do alone, and only asks its owner where both must agree.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from indai.protocol.errors import Reason, Refused
from indai.protocol.header import GRACE_MS
from indai.protocol.lifecycle import (
    OVERDUE_GRACE_MS,
    History,
    State,
    apply,
    body_of,
    expires_ms,
    may_alone,
)
from indai.protocol.messages import DAY_MS, MINUTE_MS, EventBody, EventKind, MeetTerms, Message, Move
from indai.protocol.party_state import (
    CancelCalendar,
    Effect,
    OwnerActs,
    Record,
    Remind,
    Send,
    Side,
    Tell,
    Unbook,
)

REMIND_BEFORE_MS = 15 * MINUTE_MS
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
    history, kind = _life(side), wanted.kind
    if _is_done(history, side.owner, kind):
        return side, ()
    if history.state.ended and kind is not EventKind.DISPUTE:
        what = f"The commitment is {history.state.value.lower()} already."
        raise Refused(Reason.THREAD_CLOSED, what, hint="see: indai commitments --all")
    if kind is EventKind.FULFIL and now_ms < history.deed.fulfil_from_ms:
        raise Refused(Reason.ILLEGAL_MOVE, "The meeting is not over yet.", hint="try again when it is")
    if kind is EventKind.DISPUTE and side.owner in history.disputed:
        return side, ()
    asked = history.requested(side.peer, kind) if kind is not EventKind.DISPUTE else None
    if history.sequencer == side.owner and (asked or may_alone(history.deed, kind, now_ms)):
        return _number(side, kind, asked, wanted)
    if history.requested(side.owner, kind):
        return side, (Tell("The other side has been asked already."),)
    return _ask(side, wanted)


def sent(side: Side, message: Message, now_ms: int) -> Next:
    """An event or request of ours was signed."""
    side = replace(side, life=apply(_life(side), message, now_ms), sending=None)
    if body_of(message).seq:
        return side, (Record(message.mid), *_consequences(side, message))
    return side, (Tell(_ASKED[body_of(message).kind]),)


def tick(side: Side, now_ms: int) -> Next:
    """Time has passed: a reminder, what is past due, what was asked for in vain."""
    history, terms = _life(side), _terms(side)
    if not side.reminded and not history.state.ended and now_ms >= terms.start_ms - REMIND_BEFORE_MS:
        soon = (Remind(terms),) if now_ms < terms.start_ms else ()
        return replace(side, reminded=True), soon
    unheard = _unheard(side)
    if unheard and now_ms >= unheard.issued_at_ms + DISPUTE_WAIT_MS:
        return _number(side, EventKind.DISPUTE, None, OwnerActs(EventKind.DISPUTE, **_said(unheard)))
    if history.sequencer != side.owner or history.state.ended:
        return side, ()
    if history.state is State.COMMITTED and now_ms >= history.deed.due_ms + OVERDUE_GRACE_MS:
        return _number(side, EventKind.OVERDUE, None)
    if history.state is State.OVERDUE and now_ms >= expires_ms(history):
        return _number(side, EventKind.EXPIRE, None)
    return side, ()


def wakes_at(side: Side) -> int | None:
    """When `tick` has something to do next, ms; None for never."""
    history, due = _life(side), []
    if not side.reminded and not history.state.ended:
        due.append(_terms(side).start_ms - REMIND_BEFORE_MS)
    unheard = _unheard(side)
    if unheard:
        due.append(unheard.issued_at_ms + DISPUTE_WAIT_MS)
    if history.sequencer == side.owner and not history.state.ended:
        overdue = history.state is State.OVERDUE
        due.append(expires_ms(history) if overdue else history.deed.due_ms + OVERDUE_GRACE_MS)
    return min(due, default=None)


def _answer(side: Side, request: Message, now_ms: int) -> Next:
    """The first party grants what one party may have alone, or what it has asked for itself."""
    history, asked = _life(side), body_of(request)
    kind, state = asked.kind, history.state
    if state.ended and kind is not EventKind.DISPUTE:
        return side, ()  # it crossed what ended it
    if kind is EventKind.DISPUTE and request.sender in history.disputed:
        return side, ()
    words = (Tell(_WISHES.get(kind, "The other side wants a change.")),)
    if history.sequencer != side.owner:
        return side, words
    agreed = history.requested(side.owner, kind) is not None
    in_time = may_alone(history.deed, kind, max(request.issued_at_ms, now_ms - GRACE_MS))
    early = kind is EventKind.FULFIL and now_ms < history.deed.fulfil_from_ms
    if early or kind is EventKind.SUPERSEDE or not (agreed or in_time):
        return side, words
    return _number(side, kind, request)


def _number(side: Side, kind: EventKind, asked: Message | None, wanted: OwnerActs | None = None) -> Next:
    """Send the next event; a DISPUTE of another party than the first stands beside it."""
    history = _life(side)
    requests = (asked.mid,) if asked else ()
    reason, sentence = (wanted.reason, wanted.sentence) if wanted else ("", "")
    if asked and wanted is None:
        reason, sentence = body_of(asked).reason, body_of(asked).sentence
    seq = len(history.chain) + 1
    return _send(side, EventBody(history.deed.mid, kind, seq, history.last, requests, reason, sentence))


def _ask(side: Side, wanted: OwnerActs) -> Next:
    history = _life(side)
    return _send(
        side,
        EventBody(history.deed.mid, wanted.kind, 0, history.last, (), wanted.reason, wanted.sentence),
    )


def _send(side: Side, body: EventBody) -> Next:
    if side.sending is not None:
        raise RuntimeError("one message is sent at a time")
    return replace(side, sending=Move.EVENT), (Send(Move.EVENT, body, body.prev, EVENT_LIFE_MS),)


def _consequences(side: Side, event: Message) -> tuple[Effect, ...]:
    """What an event does on this side, whoever signed it."""
    kind = body_of(event).kind
    told = Tell(_HAPPENED[kind])
    if kind in (EventKind.CANCEL, EventKind.SUPERSEDE):
        terms = _terms(side)
        return Unbook(terms), CancelCalendar(terms), told
    return (told,)


def _is_done(history: History, owner: str, kind: EventKind) -> bool:
    """Whether what the owner wants has happened: asking again changes nothing."""
    done = {EventKind.FULFIL: State.FULFILLED, EventKind.CANCEL: State.CANCELLED}.get(kind)
    return history.state is done or (kind is EventKind.DISPUTE and owner in history.disputed)


def _unheard(side: Side) -> Message | None:
    """Our request for a DISPUTE that the first party has not numbered (LIF-21)."""
    history = _life(side)
    if history.sequencer == side.owner or side.owner in history.disputed:
        return None
    return history.requested(side.owner, EventKind.DISPUTE)


def _said(message: Message) -> dict[str, str]:
    body = body_of(message)
    return {"reason": body.reason, "sentence": body.sentence}


def _life(side: Side) -> History:
    if side.life is None:
        raise RuntimeError("the commitment does not stand")
    return side.life


def _terms(side: Side) -> MeetTerms:
    if not isinstance(side.terms, MeetTerms):
        raise RuntimeError("a commitment without terms")
    return side.terms


_HAPPENED = {
    EventKind.FULFIL: "The meeting took place.",
    EventKind.CANCEL: "The meeting was cancelled.",
    EventKind.SUPERSEDE: "Another meeting takes this one's place.",
    EventKind.EXPIRE: "Nobody said that the meeting took place; the matter is closed.",
    EventKind.OVERDUE: "Nobody has said yet that the meeting took place.",
    EventKind.DISPUTE: "What was agreed here is disputed.",
    EventKind.POST: "The amount was paid.",
    EventKind.VOID: "Nothing will be paid.",
}
_ASKED = {
    EventKind.FULFIL: "The other side is asked to record that the meeting took place.",
    EventKind.CANCEL: "The other side is asked to cancel the meeting.",
    EventKind.DISPUTE: "The other side is asked to record your objection.",
}
_WISHES = {
    EventKind.CANCEL: "The other side asks to cancel the meeting; cancel it too if you agree.",
    EventKind.FULFIL: "The other side says that the meeting took place.",
}
