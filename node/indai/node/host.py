"""What the owner's own side says to a meeting: policy and calendar, asked before anything is signed.

Pure negotiation (`indai.protocol.party`) raises a question; this answers it. Cedar judges every concrete
slot; the allowed windows only keep us from proposing what it would refuse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from indai.node.agents import Agents
from indai.node.calendar.busy import CalendarEvent
from indai.node.calendar.preferences import Preferences, local_hours, room
from indai.node.calendar.series import again, folded, reach_ms, zone_of
from indai.node.calendar.slots import Interval, candidate_windows, free_slots, intersect, merge, subtract
from indai.node.duties import answered, windows_revealed
from indai.node.holdings import Promised
from indai.node.kinds.base import Answer
from indai.node.meet_settings import Tastes
from indai.node.policies import Policies
from indai.node.reminders import Likes
from indai.protocol.messages import MeetTerms, MeetWish, Window
from indai.protocol.operations import Chain
from indai.v1 import policy_pb2
from indai.v1.policy_pb2 import Facts

MINUTE_MS = 60_000
MAX_WINDOWS = 5  # revealed in one proposal: few, best first
MAX_CANDIDATES = 8  # slots put to the policy for one proposal
PER_DAY = 2  # of them on one local day, since a daily limit refuses the whole day
ORDINARY = (9, 18)  # local hours in which a meeting is put where it can be
SATURDAY = 5
MAX_AHEAD_MS = 366 * 86_400_000  # of a wish that spans more, no more is looked at
MAX_LOOK = 200  # free starts looked at to find them


class Host:
    """Answers for every owner of this node."""

    def __init__(self, policies: Policies, agents: Agents, clock: Callable[[], int], tastes: Tastes) -> None:
        self._policies = policies
        self._agents = agents
        self._tastes = tastes
        self._clock = clock

    def reminding(self, owner: str) -> Likes:
        """How the owner wants to be reminded of what is agreed."""
        wanted = self._tastes.get(owner).preferences
        return Likes(wanted.reminder_minutes * MINUTE_MS, wanted.morning_minute)

    async def check_hands(self, owner: str, peer: Chain) -> None:
        """Raises ProtocolError(PIN_MISMATCH): see `Policies.check_hands`."""
        await self._policies.check_hands(owner, peer)

    async def wish(self, owner: str, about: Facts, wanted: MeetWish, reserved: Promised) -> Answer:
        """Narrow what the owner (else the peer) asked for to windows that are free and allowed, few and best
        first. `about`: what is known of the peer and who began, here as below. What makes way is looked into
        where nothing else is found."""
        if reserved.leaving.rows:
            apart = await self.wish(owner, about, wanted, reserved.standing())
            if apart.outcome != policy_pb2.OUTCOME_REFUSE:
                return apart
        duration = wanted.duration_minutes * MINUTE_MS
        free, tiers = await self._room(owner, about, wanted, reserved)
        for spans in tiers:
            windows = [each for each in _windows(free, spans, duration) if not reserved.is_left(each)]
            if not windows:
                continue
            slots = [(window.start_ms, window.start_ms + duration) for window in windows]
            decisions = await self._decide_until_permit(owner, about, slots, reserved)
            if len(decisions) == 1:
                # The others lie in spans of the same outcome, and the slot that is offered will be judged.
                decisions = [decisions[0]] * len(windows)
            for outcome in (policy_pb2.OUTCOME_PERMIT, policy_pb2.OUTCOME_ASK):
                chosen = [(w, d) for w, d in zip(windows, decisions, strict=True) if answered(d) == outcome]
                if chosen:
                    most = min(windows_revealed(decision, MAX_WINDOWS) for _, decision in chosen)
                    wish = replace(wanted, windows=joined(w for w, _ in chosen[:most]))
                    return Answer(outcome, chosen[0][1], wish=wish)
        return await self._no_room(owner, about, wanted, free, reserved)

    async def times(
        self, owner: str, about: Facts, wish: MeetWish, reserved: Promised, most: int
    ) -> tuple[Window, ...]:
        """A few windows that are free and permitted without asking: what a QUERY may learn."""
        free, tiers = await self._room(owner, about, wish, reserved)
        permitted = tiers[: len(tiers) // 2]  # the tiers of PERMIT come first
        found = [
            span for spans in permitted for span in _windows(free, spans, wish.duration_minutes * MINUTE_MS)
        ]
        return tuple(Window(one.start_ms, one.end_ms) for one in dict.fromkeys(found))[:most]

    async def slot(self, owner: str, about: Facts, wish: MeetWish, reserved: Promised, uid: str) -> Answer:
        """The best slot of a peer's wish that is free here and allowed, or must be asked about; one that
        overlaps what makes way where there is no other, and never the very same."""
        if reserved.leaving.rows:
            apart = await self.slot(owner, about, wish, reserved.standing(), uid)
            if apart.outcome != policy_pb2.OUTCOME_REFUSE:
                return apart
        duration = wish.duration_minutes * MINUTE_MS
        free, tiers = await self._room(owner, about, wish, reserved)
        for spans in tiers:
            gaps = [gap for each in spans for gap in in_one(intersect(free, each), wish.windows)]
            starts = [start for gap in gaps for start in self._starts([gap], duration)]
            starts = [at for at in starts if not reserved.is_left(Interval(at, at + duration))]
            if not starts:
                continue
            slots = [
                (start, start + duration)
                for start in _spread(list(dict.fromkeys(starts)), self._agents.get(owner).zone)
            ]
            if wish.repeats is not None:
                if found := await self._series(owner, about, wish, slots, reserved, uid):
                    return found
                continue
            # The first is mostly permitted, and then nobody wants to know about the others.
            decisions = await self._decide_until_permit(owner, about, slots, reserved)
            chosen = await self._chosen(owner, slots, decisions, reserved)
            if len(decisions) < len(slots) and chosen is None:
                decisions = [*decisions, *await self._decide(owner, about, slots[1:], reserved)]
                chosen = await self._chosen(owner, slots, decisions, reserved)
            if chosen is not None:
                (start, end), decision, outcome = chosen
                instead_ms = wish.instead_of_ms
                terms = MeetTerms(start, end, wish.title, wish.place, uid, instead_of_ms=instead_ms)
                return Answer(outcome, decision, terms=terms)
        return await self._no_room(owner, about, wish, free, reserved)

    async def _chosen(
        self,
        owner: str,
        slots: Sequence[tuple[int, int]],
        decisions: Sequence[policy_pb2.Decision],
        reserved: Promised,
    ) -> tuple[tuple[int, int], policy_pb2.Decision, int] | None:
        """The first of these slots, as far as they are decided, that is permitted, else that may be asked
        about; with enough free time around it."""
        for outcome in (policy_pb2.OUTCOME_PERMIT, policy_pb2.OUTCOME_ASK):
            for slot, decision in zip(slots, decisions, strict=False):
                if answered(decision) == outcome and not await self._crowded(
                    owner, *slot, decision, reserved
                ):
                    return slot, decision, outcome
        return None

    async def terms(self, owner: str, about: Facts, terms: MeetTerms, reserved: Promised) -> Answer:
        """Whether exactly these terms may be signed now: each time must be free, and the policy is asked."""
        times = terms.times
        # Notice was given when the windows were chosen; the time that has passed since takes nothing away.
        taste = replace(self._tastes.get(owner).preferences, notice_minutes=0)
        for each in times:
            slot = Interval(each.start_ms, each.end_ms)
            busy = await self._busy(owner, slot.start_ms, slot.end_ms, reserved)
            if slot.start_ms < self._clock() or intersect([slot], busy):
                return Answer(policy_pb2.OUTCOME_REFUSE, reason="NO_COMMON_SLOT")
            others = reserved.without(slot.start_ms, slot.end_ms)
            if await self._suited(owner, [slot], taste, terms.place, others) != [slot]:
                return Answer(policy_pb2.OUTCOME_REFUSE, reason="NO_COMMON_SLOT")
        pairs = [(each.start_ms, each.end_ms) for each in times]
        decisions = await self._decide(owner, about, pairs, reserved)
        for pair, decision in zip(pairs, decisions, strict=True):
            if await self._crowded(owner, *pair, decision, reserved):
                return Answer(policy_pb2.OUTCOME_REFUSE, reason="NO_COMMON_SLOT")
        decision, outcome = strictest(decisions)
        reason = "POLICY_DENIED" if outcome == policy_pb2.OUTCOME_REFUSE else ""
        return Answer(outcome, decision, terms=terms, reason=reason)

    async def _series(
        self,
        owner: str,
        about: Facts,
        wish: MeetWish,
        slots: Sequence[tuple[int, int]],
        reserved: Promised,
        uid: str,
    ) -> Answer | None:
        """Of these first times one whose every repetition may be signed, permitted before asked about."""
        asked, zone = None, zone_of(wish.repeats) if wish.repeats else None
        for start, end in slots if zone is not None else ():
            times = again(start, wish.repeats, zone)
            terms = MeetTerms(start, end, wish.title, wish.place, uid, again_ms=times)
            found = await self.terms(owner, about, terms, reserved)
            if found.outcome == policy_pb2.OUTCOME_PERMIT:
                return found
            if found.outcome == policy_pb2.OUTCOME_ASK:
                asked = asked or found
        return asked

    def likes(self, owner: str, start_ms: int, end_ms: int) -> bool:
        """Whether the slot lies in hours that the owner prefers, or else in ordinary ones."""
        zone, taste = self._agents.get(owner).zone, self._tastes.get(owner).preferences
        best = local_hours(taste.preferred, start_ms, end_ms, zone) or ordinary_hours(start_ms, end_ms, zone)
        return any(each.start_ms <= start_ms and end_ms <= each.end_ms for each in best)

    async def _room(
        self, owner: str, about: Facts, wish: MeetWish, reserved: Promised
    ) -> tuple[list[Interval], list[list[list[Interval]]]]:
        """(free time in the wish's windows that suits the owner, tiers of spans to look into, best first).

        What the policy permits comes before what it would ask about, and ordinary hours before the rest. A
        tier is looked into as a whole: hours that the owner likes best, then others.
        """
        windows = [Interval(w.start_ms, w.end_ms) for w in wish.windows]
        start = max(min(w.start_ms for w in windows), self._clock())
        end = max(start + 1, min(max(w.end_ms for w in windows), start + MAX_AHEAD_MS))
        request = policy_pb2.ListAllowedWindowsRequest(
            owner=owner,
            peer=about.peer,
            duration_minutes=wish.duration_minutes,
            start_ms=start,
            end_ms=end,
            now_ms=self._clock(),
            verified=True,
            agreed_start_ms=[start for start, _ in reserved.values()],
            about=about,
        )
        allowed = (await self._policies.windows(request)).windows
        busy = await self._busy(owner, start, end + reach_ms(wish.repeats), reserved)
        busy = folded(busy, wish.repeats, start, end)
        free = subtract(intersect(windows, [Interval(start, end)]), busy)
        taste, zone = self._tastes.get(owner).preferences, self._agents.get(owner).zone
        free = await self._suited(owner, free, taste, wish.place, reserved)
        ordinary = ordinary_hours(start, end, zone)
        best = local_hours(taste.preferred, start, end, zone)
        tiers: list[list[list[Interval]]] = []
        for outcome in (policy_pb2.OUTCOME_PERMIT, policy_pb2.OUTCOME_ASK):
            spans = [Interval(w.start_ms, w.end_ms) for w in allowed if w.outcome == outcome]
            usual = intersect(spans, ordinary)
            tiers += [[intersect(spans, best), usual, spans]] if best else [[usual], [spans]]
        return free, tiers

    async def _suited(
        self, owner: str, free: list[Interval], taste: Preferences, place: str, reserved: Promised
    ) -> list[Interval]:
        """The part of free time in which every slot suits the owner's settings."""
        if not free or taste == Preferences():
            return free
        agent = self._agents.get(owner)
        span = Interval(free[0].start_ms - taste.reach_ms, free[-1].end_ms + taste.reach_ms)
        events = [
            each
            for each in await agent.calendar.events(span.start_ms, span.end_ms)
            if each.uid not in self._gone(owner, reserved)
        ]
        # What is busy and no event: promised slots, and calendars that show only when.
        taken = await self._busy(owner, span.start_ms, span.end_ms, reserved)
        known = [Interval(event.start_ms, event.end_ms) for event in events if event.busy]
        events += [
            CalendarEvent(each.start_ms, each.end_ms, "", "", all_day=False, busy=True, ours=False)
            for each in subtract(taken, known)
        ]
        agreed = [start for start, _ in reserved.values()]
        return room(free, events, agreed, taste, place=place, now_ms=self._clock(), zone=agent.zone)

    def _starts(self, free: list[Interval], duration_ms: int) -> list[int]:
        return free_slots(free, (), duration_ms, now_ms=self._clock(), limit=MAX_LOOK)

    async def _no_room(
        self,
        owner: str,
        about: Facts,
        wish: MeetWish,
        free: Sequence[Interval],
        reserved: Promised,
    ) -> Answer:
        """Why there is no slot: no common free time, or the policy, whose words the owner wants to read."""
        duration = wish.duration_minutes * MINUTE_MS
        starts = free_slots(free, (), duration, now_ms=self._clock(), limit=2)
        starts = [at for at in starts if not reserved.is_left(Interval(at, at + duration))]
        if not starts:
            return Answer(policy_pb2.OUTCOME_REFUSE, reason="NO_COMMON_SLOT")
        slot = (starts[0], starts[0] + duration)
        (decision,) = await self._decide(owner, about, [slot], reserved)
        answered(decision)  # its words say so, if it is because of an obligation
        # Free time that no rule's window covers, whatever Cedar says of this one slot, is a refusal.
        return Answer(policy_pb2.OUTCOME_REFUSE, decision, reason="POLICY_DENIED")

    async def _crowded(
        self, owner: str, start_ms: int, end_ms: int, decision: policy_pb2.Decision, reserved: Promised
    ) -> bool:
        """Whether the rule wants free time around the meeting (`buffer`) that is not there."""
        margin = buffer_ms(decision.obligations)
        if not margin:
            return False
        return bool(
            await self._busy(owner, start_ms - margin, end_ms + margin, reserved.without(start_ms, end_ms))
        )

    async def _busy(self, owner: str, start_ms: int, end_ms: int, reserved: Promised) -> list[Interval]:
        busy = await self._agents.get(owner).calendar.busy(start_ms, end_ms)
        if gone := self._gone(owner, reserved):
            events = await self._events(owner, start_ms, end_ms)
            going = [Interval(e.start_ms, e.end_ms) for e in events if e.uid in gone]
            staying = [Interval(e.start_ms, e.end_ms) for e in events if e.uid not in gone]
            busy = [*subtract(busy, going), *staying]
        held = (Interval(start, end) for start, end in reserved.values() if start < end_ms and end > start_ms)
        return [*busy, *held]

    def _gone(self, owner: str, reserved: Promised) -> frozenset[str]:
        """UIDs of events whose time is free: what makes way, and what is called off, which a calendar hears
        of after the tables."""
        return reserved.leaving.uids | self._agents.get(owner).called_off

    async def _events(self, owner: str, start_ms: int, end_ms: int) -> list[CalendarEvent]:
        """Those that take time."""
        found = await self._agents.get(owner).calendar.events(start_ms, end_ms)
        return [each for each in found if each.busy]

    async def _decide_until_permit(
        self, owner: str, about: Facts, slots: Sequence[tuple[int, int]], reserved: Promised
    ) -> Sequence[policy_pb2.Decision]:
        """Decisions in order, or just the first if it permits, which it mostly does: each costs a quarter of
        what else this side does for a message.
        """
        first = await self._decide(owner, about, slots[:1], reserved)
        if len(slots) == 1 or first[0].outcome == policy_pb2.OUTCOME_PERMIT:
            return first
        return [*first, *await self._decide(owner, about, slots[1:], reserved)]

    async def _decide(
        self, owner: str, about: Facts, slots: Sequence[tuple[int, int]], reserved: Promised
    ) -> Sequence[policy_pb2.Decision]:
        zone = self._agents.get(owner).zone
        facts = []
        for start, end in slots:
            each = Facts()
            each.CopyFrom(about)
            each.meet.start_ms, each.meet.end_ms = start, end
            each.meet.already_that_day = _on_day(start, reserved, zone)
            facts.append(each)
        return (await self._policies.decide(policy_pb2.DecideRequest(owner=owner, facts=facts))).decisions


def strictest(decisions: Sequence[policy_pb2.Decision]) -> tuple[policy_pb2.Decision, int]:
    """(decision, outcome) of a meeting out of those about each of its times: refuse over ask over permit.

    What is recorded of what may be signed is the decision about the first, with which the terms begin."""
    outcomes = [answered(decision) for decision in decisions]
    for outcome in (policy_pb2.OUTCOME_REFUSE, policy_pb2.OUTCOME_ASK):
        if outcome in outcomes:
            refused = outcome == policy_pb2.OUTCOME_REFUSE
            return decisions[outcomes.index(outcome) if refused else 0], outcome
    return decisions[0], outcomes[0]


def _windows(
    free: Sequence[Interval], spans: Sequence[Sequence[Interval]], duration_ms: int
) -> list[Interval]:
    """Windows to reveal out of one tier: the best spans first, then others beside them."""
    windows: list[Interval] = []
    for each in spans:
        if len(windows) < MAX_WINDOWS:
            left = subtract(intersect(free, each), windows)
            windows += candidate_windows(left, duration_ms, MAX_WINDOWS - len(windows))
    return windows


def joined(windows: Iterable[Interval]) -> tuple[Window, ...]:
    """The windows as they are revealed, best first: of those that touch one is made, since a slot may lie
    where they meet."""
    kept: list[Interval] = []
    for each in windows:
        touching = [one for one in kept if one.start_ms <= each.end_ms and each.start_ms <= one.end_ms]
        at = kept.index(touching[0]) if touching else len(kept)
        (whole,) = merge([each, *touching])
        kept = [one for one in kept if one not in touching]
        kept.insert(at, whole)
    return tuple(Window(one.start_ms, one.end_ms) for one in kept)


def in_one(free: Sequence[Interval], windows: Iterable[Window]) -> list[Interval]:
    """Free time, cut where the windows of a wish are: what is offered lies within one of them (NEG-15)."""
    inside = sorted({Interval(each.start_ms, each.end_ms) for each in windows}, key=lambda one: one.start_ms)
    return [gap for window in inside for gap in intersect(free, [window])]


def ordinary_hours(start_ms: int, end_ms: int, zone: ZoneInfo) -> list[Interval]:
    """Monday to Friday, 9 to 18, in the owner's time zone: a taste, which no rule has to state."""
    day = datetime.fromtimestamp(start_ms / 1000, zone).date()
    last = datetime.fromtimestamp(end_ms / 1000, zone).date()
    hours: list[Interval] = []
    while day <= last:
        if day.weekday() < SATURDAY:
            opens, closes = (datetime.combine(day, time(hour), zone) for hour in ORDINARY)
            hours.append(Interval(int(opens.timestamp() * 1000), int(closes.timestamp() * 1000)))
        day += timedelta(days=1)
    return hours


def buffer_ms(obligations: Iterable[str]) -> int:
    """The free time that a decision wants around the meeting, ms."""
    minutes = (
        text.removeprefix("buffer:").removesuffix("m") for text in obligations if text.startswith("buffer:")
    )
    return max((int(text) * MINUTE_MS for text in minutes), default=0)


def title_prefix(obligations: Iterable[str]) -> str:
    """What a decision wants before the title in the owner's own calendar."""
    prefixes = (
        text.removeprefix("title_prefix:") for text in obligations if text.startswith("title_prefix:")
    )
    return next(prefixes, "")


def _spread(starts: Sequence[int], zone: ZoneInfo) -> list[int]:
    """The first few starts of each local day, soonest first."""
    per_day: Counter[date] = Counter()
    chosen: list[int] = []
    for start in starts:
        day = datetime.fromtimestamp(start / 1000, zone).date()
        per_day[day] += 1
        if per_day[day] <= PER_DAY:
            chosen.append(start)
    return chosen[:MAX_CANDIDATES]


def _on_day(start_ms: int, reserved: Promised, zone: ZoneInfo) -> int:
    """Meetings agreed or promised already on the local day of `start_ms`."""
    day = datetime.fromtimestamp(start_ms / 1000, zone).date()
    first = datetime.combine(day, time(), zone).timestamp() * 1000
    last = datetime.combine(day + timedelta(days=1), time(), zone).timestamp() * 1000
    return sum(first <= start < last for start, _ in reserved.values())
