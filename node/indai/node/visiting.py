"""Meetings that strangers ask for at the public door, who have no agent of their own: on a page's form, or
in a conversation on any channel (`indai.node.visitor_tool`).

Whoever asks proves nothing, so the owner's rules judge them as a stranger: unverified, known for no days, at
the door `public`. What the rules permit outright is put into the calendar; what they would ask about waits in
the owner's inbox as any other tool's call, with the slot that was found; the rest is refused, without a
reason that tells of rules or calendar. There is no commitment: nobody is there who could sign one. The
visitor gets the meeting as an invitation (iTIP, RFC 5546).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from zoneinfo import ZoneInfo

from indai.node.agents import Agents
from indai.node.calendar.itip import Method, invitation
from indai.node.calendar.meeting import MeetingEvent
from indai.node.callers import Callers, Told
from indai.node.holdings import Promised
from indai.node.host import Host
from indai.node.public_door import STRANGER
from indai.node.store import Store
from indai.node.throttle import Throttle
from indai.page.meeting import Asked, Slot
from indai.protocol.errors import InvalidInput, Reason, Refused
from indai.protocol.forms import DAY_MS
from indai.protocol.messages import MeetTerms, MeetWish, Window
from indai.runtime.turn.attaching import media_of
from indai.tools.files import CALENDAR, FILES, Keep, attached
from indai.tools.intents.handing import INVITATION
from indai.tools.normalise import local_time, one_line
from indai.tools.toolbox import NodeToolbox
from indai.tools.values import Act, Caller, Effect, Outcome, Progress, Spec, Status, unheard
from indai.tools.when import read_when
from indai.v1 import conversation_pb2 as pb
from indai.v1 import policy_pb2

NAME: Final = "take-visit"
PER_OWNER, PER_MS = 30, 3_600_000  # of all visitors together
_TEXT: Final = {"type": "string", "maxLength": 200}
_PROPERTIES: Final = {
    "name": _TEXT,
    "contact": _TEXT,
    "title": _TEXT,
    "start_ms": {"type": "integer", "x-hidden": True},
    "end_ms": {"type": "integer", "x-hidden": True},
    "when": _TEXT,
    "uid": {**_TEXT, "x-hidden": True},
    "asked_ms": {"type": "integer", "x-hidden": True},
}
_ARGUMENTS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": _PROPERTIES,
    "required": list(_PROPERTIES),
    "additionalProperties": False,
}
_RESULT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "when": {"type": "string", "x-importance": 3},
        "uid": {"type": "string", "x-hidden": True},
        "summary": {"type": "string", "x-hidden": True},
        "files": FILES,
    },
    "required": ["when"],
}


@dataclass(frozen=True, slots=True)
class Calendars:
    """Where a stranger's slot is looked for, and written. One writer at a time for an owner."""

    host: Host
    agents: Agents
    store: Store
    clock: Callable[[], int]

    async def slot(self, owner: str, channel: str, wish: MeetWish, uid: str) -> tuple[int, MeetTerms]:
        """The outcome of the owner's rules, and the best slot. Raises Refused when there is none."""
        answer = await self.host.slot(owner, self._about(channel), wish, await self._held(owner), uid)
        if answer.outcome == policy_pb2.OUTCOME_REFUSE or not isinstance(answer.terms, MeetTerms):
            raise _no()
        return answer.outcome, answer.terms

    async def check(self, owner: str, channel: str, terms: MeetTerms) -> None:
        """Raises Refused when the slot is taken by now, or forbidden."""
        answer = await self.host.terms(owner, self._about(channel), terms, await self._held(owner))
        if answer.outcome == policy_pb2.OUTCOME_REFUSE:
            raise _no()

    def zone(self, owner: str) -> ZoneInfo:
        """The owner's."""
        return self.agents.get(owner).zone

    async def standing(self, owner: str, uid: str) -> tuple[int, int] | None:
        """From when to when this meeting stands; None when it does not."""
        now_ms = self.clock()
        found = await self.agents.get(owner).calendar.standing([uid], now_ms, now_ms + 400 * DAY_MS)
        event = next(iter(found.get(uid, ())), None)
        return None if event is None else (event.start_ms, event.end_ms)

    def _about(self, channel: str) -> policy_pb2.Facts:
        facts = policy_pb2.Facts(
            peer=STRANGER,
            verified=False,
            now_ms=self.clock(),
            channel=channel,
            door="public",
            outgoing=False,
        )
        facts.meet.attendees = 2
        return facts

    async def _held(self, owner: str) -> Promised:
        await self.agents.get(owner).calendar.refresh()
        loaded = await self.store.load([owner], [], [owner], self.clock() - 2 * DAY_MS)
        return Promised(loaded.reserved[owner].slots)


class TakeVisit:
    """The tool that puts such a meeting into the calendar; the owner's yes runs it."""

    def __init__(self, calendars: Calendars, keep: Keep, callers: Callers) -> None:
        self._calendars, self._keep, self._callers = calendars, keep, callers
        self._writing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        words = "Meet a visitor of your public door. Nothing is signed: they have no agent"
        return Spec(NAME, words, _ARGUMENTS, _RESULT, Effect.ACT, doors=frozenset({"public"}), files=True)

    async def prepare(self, caller: Caller, arguments: Mapping[str, Any]) -> Act:
        """See `Prepares`: the owner reads every word of it."""
        said = [f'  {name}: "{arguments[name]}"' for name in ("name", "contact", "title")]
        head = f"Meet a visitor ({caller.channel}), who has not proved who they are"
        return Act(dict(arguments), "\n".join((head, f"  {arguments['when']}", *said)))

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`; again it is the same event."""
        owner, calendar = caller.owner, self._calendars.agents.get(caller.owner).calendar
        slot = Slot(**{name: arguments[name] for name in Slot.__annotations__})
        event = event_of(owner, slot)
        async with self._writing[owner]:
            if event.uid not in await calendar.holding([event.uid]):
                await self._calendars.check(
                    owner,
                    caller.channel,
                    MeetTerms(event.start_ms, event.end_ms, event.summary, "", event.uid),
                )
                await calendar.put_many([event])
        return await self.taken(caller, slot)

    async def taken(self, caller: Caller, slot: Slot) -> Mapping[str, Any]:
        """The result for a meeting that stands; whoever asked for it by telephone is told, once."""
        owner, event = caller.owner, event_of(caller.owner, slot)
        words = f"The meeting stands in the calendar of {owner}: {slot.when}."
        file = await self._keep(INVITATION, CALENDAR, invitation(event, Method.REQUEST))
        if number := await self._callers.number(caller.person, caller.channel):
            media = media_of(attached({"files": [file]}))
            reply = pb.Reply(text=words, language=caller.language, media=media)
            untold = (
                f"Somebody called from {number}, as the network says, and has no invitation: {slot.when}."
            )
            await self._callers.tell(owner, number, Told(f"visit:{slot.uid}", reply, untold))
        return {"when": slot.when, "uid": slot.uid, "summary": words, "files": [file]}


class Visits:
    """`indai.page.meeting.Meetings` of this node."""

    def __init__(self, toolbox: NodeToolbox, calendars: Calendars, keep: Keep, callers: Callers) -> None:
        self._toolbox, self._calendars = toolbox, calendars
        self.keep, self.callers = keep, callers
        self._throttle = Throttle(PER_OWNER, PER_MS)
        self._take = TakeVisit(calendars, keep, callers)
        toolbox.add(self._take)

    async def ask(self, owner: str, asked: Asked) -> tuple[str, Slot]:
        """See the protocol."""
        now_ms = self._calendars.clock()
        page = Caller("personal", "page", owner, "", STRANGER, "public", asked.channel, now_ms=now_ms)
        return await self.ask_as(page, asked)

    async def ask_as(self, caller: Caller, asked: Asked) -> tuple[str, Slot]:
        """The same for somebody at the public door of `caller.owner`; what waits for the owner's word is
        told in the caller's session."""
        owner, now_ms = caller.owner, self._calendars.clock()
        if not self._throttle.admits((owner, STRANGER), now_ms):
            raise Refused(Reason.RATE_LIMITED, "Too many meetings were asked for just now.", hint="try later")
        zone = self._calendars.zone(owner)
        when = read_when(asked.when or "this week", asked.time, asked.minutes, now_ms, zone)
        windows = tuple(Window(each.start_ms, each.end_ms) for each in when.windows)
        title = one_line(asked.title or f"Meeting with {asked.name}", 200)
        uid = f"visit-{asked.once.hex()}@{owner.replace('/', '.')}"
        if (stands := await self._calendars.standing(owner, uid)) is not None:
            again = _slot(asked, title, stands, zone, uid, now_ms)  # e.g. after a crash
            await self._take.taken(caller, again)
            return "booked", again
        outcome, terms = await self._calendars.slot(
            owner, asked.channel, MeetWish(title, asked.minutes, windows), uid
        )
        slot = _slot(asked, title, (terms.start_ms, terms.end_ms), zone, uid, now_ms)
        asks: frozenset[str] = frozenset() if outcome == policy_pb2.OUTCOME_PERMIT else frozenset({NAME})
        acting = replace(caller, turn=uid, approvals=asks, now_ms=now_ms, session_tools=None)
        found = await self._toolbox.call(acting, (NAME,), NAME, slot.plain(), unheard)
        if found.status is Status.FAILED:
            raise Refused(Reason.POLICY_DENIED, "This meeting cannot be had.", hint="ask for another time")
        return ("booked" if found.status is Status.DONE else "asked"), slot

    async def for_member(self, member: str, owner: str, asked: Asked, *, confirm: bool = False) -> Outcome:
        """See the protocol. `confirm`: the member is asked first, at their own door."""
        now_ms = self._calendars.clock()
        caller = Caller(
            "personal",
            "page",
            member,
            "",
            member,
            "private",
            asked.channel,
            verified=True,
            time_zone=self._calendars.zone(member).key,
            now_ms=now_ms,
            turn=asked.once.hex(),
            approvals=frozenset({"meet"}) if confirm else frozenset(),
        )
        wish = {"with": owner, "duration_minutes": asked.minutes, "when": asked.when, "time": asked.time}
        wish |= {"title": asked.title} if asked.title else {}
        return await self._toolbox.call(caller, ("meet",), "meet", wish, unheard)

    async def is_booked(self, owner: str, slot: Slot) -> bool:
        """See the protocol."""
        return slot.uid in await self._calendars.agents.get(owner).calendar.holding([slot.uid])

    def invitation(self, owner: str, slot: Slot) -> bytes:
        """See the protocol."""
        return invitation(event_of(owner, slot), Method.REQUEST)


def _slot(asked: Asked, title: str, span: tuple[int, int], zone: ZoneInfo, uid: str, now_ms: int) -> Slot:
    when = f"{local_time(span[0], zone)} ({zone.key})"
    return Slot(one_line(asked.name, 100), one_line(asked.contact, 200), title, *span, when, uid, now_ms)


def event_of(owner: str, slot: Slot) -> MeetingEvent:
    """What is written, and sent: the visitor stands in its words, since they have no address of ours."""
    words = f"{slot.name} ({slot.contact}) asked for this at the public door, without proof of who they are."
    return MeetingEvent(
        slot.uid, slot.start_ms, slot.end_ms, slot.title, owner, (owner,), slot.asked_ms, words
    )


def _no() -> InvalidInput:
    """One sentence for what the rules forbid and what the calendar has no room for: neither is a stranger's
    business."""
    return InvalidInput(
        Reason.POLICY_DENIED,
        "There is no time for this.",
        hint="ask for another time or a shorter meeting, or let your own agent ask",
    )
