"""A commitment that takes another one's place: which one that is, and whether it may."""

from __future__ import annotations

from indai.node.compose import several
from indai.node.draft import ThreadState
from indai.node.holdings import NOTHING, Leaving, key_of
from indai.node.kinds.meet import uids
from indai.protocol.envelope import parse_envelope
from indai.protocol.errors import NotFound, ProtocolError, Reason, Refused
from indai.protocol.lifecycle import check_successor
from indai.protocol.messages import Body, MeetTerms, MeetWish, Message, ReceiptBody, Terms, Window, Wish
from indai.protocol.party_state import Side


def check(old: ThreadState | None, message: Message) -> None:
    """Whether a peer's first message may name what this thread has agreed; raises ProtocolError: OUT_OF_ORDER
    as long as the RECEIPT that says so is still on its way."""
    side = old.side if old else None
    offer = offer_of(side) if side else None
    if side is not None and offer is not None and side.life is None and not side.phase.ended:
        what = "What the message is to take the place of has not been confirmed here yet."
        raise ProtocolError(Reason.OUT_OF_ORDER, what, rule="LIF-16")
    if side is None or side.life is None or offer is None:
        what = "There is no such commitment to take the place of."
        raise ProtocolError(Reason.ILLEGAL_MOVE, what, rule="LIF-16")
    check_successor(offer, message)


def reserved(state: ThreadState) -> list[bytes]:
    """The keys of the slots that our signature in this thread holds."""
    mid, terms = state.columns["reserved_mid"], state.side.reserved
    if mid is None or terms is None:
        return []
    first = state.side.offer is not None
    return [key_of(mid, place) for place, _ in enumerate(terms.holdings(first=first))]


def offer_of(side: Side) -> Message | None:
    """What stands offered in a thread of two, or of several on their coordinator's side."""
    if side.group is not None:
        return side.group.offer
    return side.thread.offer if side.thread else None


def signatures(old: ThreadState) -> tuple[bytes, ...]:
    """All under what this thread has agreed with several, in the order of its parties; none of two: what each
    side has kept of those may differ."""
    thread = old.side.thread
    receipts = (each.body for each in thread.messages) if thread else ()
    proven = next((body.commitment for body in receipts if isinstance(body, ReceiptBody)), b"")
    raw = proven or (old.commitment if old.side.group else None)
    return tuple(each.sig for each in parse_envelope(raw).signatures) if raw else ()


def leaving(old: ThreadState | None, said: Body | None) -> Leaving:
    """What of `old` makes way for what is `said` in its place: a meeting, or one time of it, that stands."""
    side = old.side if old else None
    if side is None or side.life is None or side.life.state.ended or not isinstance(side.terms, MeetTerms):
        return NOTHING
    only_ms = said.replaces_ms if isinstance(said, Wish | Terms) else 0
    going = [
        (key_of(side.life.deed.mid, place), uid)
        for place, (each, uid) in enumerate(zip(side.terms.times, uids(side.terms), strict=True))
        if only_ms in (0, each.start_ms) and each.start_ms not in side.life.omitted
    ]
    return Leaving(frozenset(row for row, _ in going), frozenset(uid for _, uid in going))


def check_people(old: ThreadState, subjects: set[str]) -> None:
    """Nobody is asked for the new meeting who did not agree the old one; raises Refused(PIN_MISMATCH)."""
    life = old.side.life
    if life is None or subjects != {*life.deed.parties}:
        what = "Not all of the handles belong to who agreed the meeting that is to be moved."
        raise Refused(Reason.PIN_MISMATCH, what, hint="cancel it, and ask for a new one")


def others(old: ThreadState) -> tuple[str, ...]:
    """The handles of everybody else who signed what this thread has agreed."""
    signed = several(parse_envelope(old.commitment)) if old.commitment else ()
    return tuple(each for each in signed if each != old.columns["owner"]) or (old.columns["peer"],)


def moved(old: ThreadState | None, window: Window, minutes: int, only_ms: int = 0) -> MeetWish:
    """The wish for another time of a meeting that stands; its own length where `minutes` is 0. `only_ms`: of
    one that repeats, the start of the one time that is to be moved."""
    side = old.side if old else None
    if side is None or side.life is None or not isinstance(side.terms, MeetTerms):
        raise NotFound(Reason.NOT_FOUND, "There is no meeting in this thread.", hint="indai commitments")
    if side.life.state.ended:
        what = f"The meeting is {side.life.state.value.lower()} already."
        raise Refused(Reason.THREAD_CLOSED, what, hint="ask for a new one: indai meet")
    terms = side.terms
    length = minutes or (terms.end_ms - terms.start_ms) // 60_000
    if only_ms:
        if not side.life.may_omit(only_ms):
            what = "The meeting has no such time, or only this one left."
            raise Refused(Reason.ILLEGAL_MOVE, what, hint="move all of it: indai reschedule without --only")
        return MeetWish(terms.title, length, (window,), terms.place, None, only_ms)
    asked = side.thread.subject_matter if side.thread else None
    repeats = asked.repeats if isinstance(asked, MeetWish) else None  # all of them are moved
    return MeetWish(terms.title, length, (window,), terms.place, repeats)
