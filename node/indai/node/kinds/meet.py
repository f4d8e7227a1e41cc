"""`meet` on the node: slots out of calendar and policy (`indai.node.host`), events into the calendar."""

from __future__ import annotations

from collections.abc import Sequence

from indai.node.effects import CALENDAR_PUT
from indai.node.holdings import Promised
from indai.node.host import Host
from indai.node.kinds.acquaintance import Acquaintances
from indai.node.kinds.base import Answer, Case, Deal, EffectRow, KindModule
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.kinds.meet import MEET, MeetTerms, MeetWish
from indai.protocol.messages import Message, Terms, Window, Wish
from indai.v1 import policy_pb2

SERIES = "~"  # between a UID and the number of the time, which `calendar_changes` knows


class Meetings(KindModule):
    """Meetings of every owner of this node."""

    kind = MEET

    def __init__(self, host: Host, acquaintances: Acquaintances) -> None:
        self._host = host
        self._acquaintances = acquaintances

    async def propose(self, case: Case, wish: Wish) -> Answer:
        """Windows that are free and allowed, few and best first."""
        return await self._host.wish(case.owner, await self._about(case, wish), _wish(wish), _promised(case))

    async def choose(self, case: Case, wish: Wish) -> Answer:
        """The best slot."""
        uid = f"{case.side.thread_id.hex()}@{case.owner.replace('/', '.')}"
        about = await self._about(case, wish)
        return await self._host.slot(case.owner, about, _wish(wish), _promised(case), uid)

    async def sign(self, case: Case, terms: Terms) -> Answer:
        """The slot is free and allowed."""
        about = await self._about(case, terms)
        return await self._host.terms(case.owner, about, _terms(terms), _promised(case))

    async def _about(self, case: Case, said: Wish | Terms) -> policy_pb2.Facts:
        """What is known of the peer, how many take part, and whether it repeats."""
        facts, _ = await self._acquaintances.facts(case, [MEET.name])
        offer = case.side.thread.offer if case.side.thread else None
        parties = case.side.group.attendees if case.side.group else offer.parties if offer else ()
        facts.meet.attendees = len(parties) or 2
        facts.meet.recurring = bool(
            said.repeats if isinstance(said, MeetWish) else isinstance(said, MeetTerms) and said.again_ms
        )
        return facts

    def enact(self, deal: Deal) -> Sequence[EffectRow]:
        """The event, under its UID; of one that repeats an event for each time."""
        return _events(deal, cancelled=False)

    def undo(self, deal: Deal) -> Sequence[EffectRow]:
        """The same, or the one time that is left out, marked as cancelled."""
        return _events(deal, cancelled=True)

    def check_offer(self, offer: Message) -> None:
        """The offerer chooses the event's UID; it must be of this thread, so that it can name neither another
        meeting nor an event of the owner's own, which the meeting could then not stand beside."""
        if isinstance(offer.body, MeetTerms) and offer.thread.hex() not in offer.body.ical_uid:
            raise ProtocolError(
                Reason.MALFORMED, "The iCalendar UID does not hold the id of its thread.", rule="NEG-04"
            )

    def is_wanted(self, wish: Wish, terms: Terms) -> bool:
        """A slot within the wish in its own words. What the peer put in its place (another length, time,
        title or place) they never asked for."""
        if not isinstance(wish, MeetWish) or not isinstance(terms, MeetTerms):
            return False
        return wish.admits(terms) and (wish.title, wish.place) == (terms.title, terms.place)


def _events(deal: Deal, *, cancelled: bool) -> Sequence[EffectRow]:
    """Every calendar shows single events alike; a rule of repetition moves with a zone's clocks."""
    terms = _terms(deal.terms)
    return [
        _event(deal, each, uid, cancelled=cancelled)
        for each, uid in zip(terms.times, uids(terms), strict=True)
        if deal.time_ms in (0, each.start_ms) or not terms.again_ms
    ]


def uids(terms: MeetTerms) -> list[str]:
    """Of the events of a meeting, in the order of its times."""
    if not terms.again_ms:
        return [terms.ical_uid]
    return [f"{terms.ical_uid}{SERIES}{number}" for number in range(1, len(terms.times) + 1)]


def _promised(case: Case) -> Promised:
    return Promised(case.held.slots, case.leaving)


def _event(deal: Deal, at: Window, uid: str, *, cancelled: bool) -> EffectRow:
    terms = _terms(deal.terms)
    others = [handle for handle in deal.attendees if handle != deal.owner]
    doc = {
        "uid": uid,
        "start_ms": at.start_ms,
        "end_ms": at.end_ms,
        "summary": deal.prefix + terms.title,
        "organizer": deal.offerer,
        "attendees": list(deal.attendees) or [deal.owner, deal.peer],
        "description": f"Agreed by your agent with {', '.join(others) or deal.peer}.",
        "location": terms.place,
        "stamp_ms": deal.now_ms,
        "sequence": int(cancelled),
        "cancelled": cancelled,
    }
    return EffectRow(f"{uid}#cancelled" if cancelled else uid, CALENDAR_PUT, doc)


def _wish(wish: Wish) -> MeetWish:
    if not isinstance(wish, MeetWish):
        raise RuntimeError(f"a {wish.kind} is no meeting")
    return wish


def _terms(terms: Terms) -> MeetTerms:
    if not isinstance(terms, MeetTerms):
        raise RuntimeError(f"a {terms.kind} is no meeting")
    return terms
