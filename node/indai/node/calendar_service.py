"""An owner's calendars over RPC. Every call is scoped to the owner that the token names."""

from __future__ import annotations

import json
from typing import Any

from indai.node import named, views
from indai.node.accounts import Account, Accounts, Wanted
from indai.node.agents import Agents
from indai.node.auth import caller
from indai.node.calendar import MeetingEvent
from indai.node.calendar.dav import Login
from indai.node.calendar.itip import Method, invitation
from indai.node.calendar.preferences import MORNING_MINUTE, REMINDER_MINUTES, Hours, Preferences, Way
from indai.node.calendar_changes import CalendarChanges
from indai.node.meet_settings import MeetSettings, OnChange, Tastes
from indai.node.store import Store
from indai.protocol.errors import IndaiError, InvalidInput, NotFound, Reason
from indai.v1 import calendar_pb2 as pb
from indai.v1 import calendar_pb2_grpc

_METHODS = {
    pb.INVITATION_METHOD_REQUEST: Method.REQUEST,
    pb.INVITATION_METHOD_CANCEL: Method.CANCEL,
    pb.INVITATION_METHOD_REPLY: Method.REPLY,
}
_ON_CHANGE = {
    pb.ON_CALENDAR_CHANGE_UNSPECIFIED: OnChange.ASK,
    pb.ON_CALENDAR_CHANGE_ASK: OnChange.ASK,
    pb.ON_CALENDAR_CHANGE_TELL: OnChange.TELL,
    pb.ON_CALENDAR_CHANGE_IGNORE: OnChange.IGNORE,
}
_HEX = set("0123456789abcdef")


# The newest version of a thread's event; of several times the one that is named, else the next that stands.
_WRITTEN = """
SELECT doc, mid, peer FROM (
  SELECT DISTINCT ON (e.doc ->> 'uid') e.doc, t.mid, t.peer
  FROM node.effects e JOIN node.threads t USING (owner, thread)
  WHERE e.owner = $1 AND e.thread = $2 AND e.kind = 'calendar-put' AND t.erased_ms IS NULL
  ORDER BY e.doc ->> 'uid', (e.doc ->> 'sequence')::int DESC, e.created_ms DESC
) AS v WHERE $3::bigint IS NULL OR (doc ->> 'start_ms')::bigint = $3
ORDER BY coalesce((doc ->> 'cancelled')::boolean, false),
  (doc ->> 'end_ms')::bigint < extract(epoch FROM now()) * 1000, (doc ->> 'start_ms')::bigint LIMIT 1
"""


class CalendarServicer(calendar_pb2_grpc.CalendarServiceServicer):
    """CalendarService."""

    def __init__(
        self, store: Store, agents: Agents, accounts: Accounts, tastes: Tastes, changes: CalendarChanges
    ) -> None:
        self._store = store
        self._agents = agents
        self._accounts = accounts
        self._tastes = tastes
        self._changes = changes

    async def AddCalendarAccount(
        self, request: pb.AddCalendarAccountRequest, context: Any
    ) -> pb.AddCalendarAccountResponse:
        """Find, read, seal, store."""
        wanted = Wanted(
            request.name,
            request.url,
            Login(request.user, request.secret),
            tuple(request.read),
            request.write,
            not request.read_only,
        )
        account = await self._accounts.add(caller(context).owner, wanted)
        return pb.AddCalendarAccountResponse(account=_account(account))

    async def ListCalendarAccounts(
        self, request: pb.ListCalendarAccountsRequest, context: Any
    ) -> pb.ListCalendarAccountsResponse:
        """The file and the accounts, read now if asked."""
        owner = caller(context).owner
        agent, known = self._agents.get(owner), self._accounts.of(owner)
        file = agent.calendar.sources[0]
        found = [pb.CalendarAccount(name=file.name, written=agent.target is None)]
        if request.check:
            try:
                await file.busy(0, 1)
            except IndaiError as error:
                found[0].problem = str(error)
        for account, calendar in known:
            shown = _account(account)
            problem = calendar.problem
            if request.check:
                try:
                    await calendar.look()
                    problem = None
                except IndaiError as error:
                    problem = error
            shown.problem = str(problem) if problem else ""
            found.append(shown)
        return pb.ListCalendarAccountsResponse(accounts=found)

    async def RemoveCalendarAccount(
        self, request: pb.RemoveCalendarAccountRequest, context: Any
    ) -> pb.RemoveCalendarAccountResponse:
        """Forget it."""
        await self._accounts.remove(caller(context).owner, request.name)
        return pb.RemoveCalendarAccountResponse()

    async def GetMeetSettings(
        self, request: pb.GetMeetSettingsRequest, context: Any
    ) -> pb.GetMeetSettingsResponse:
        """As they are."""
        owner = caller(context).owner
        return pb.GetMeetSettingsResponse(
            settings=_settings(self._tastes.get(owner)), time_zone=self._agents.get(owner).zone.key
        )

    async def SetMeetSettings(
        self, request: pb.SetMeetSettingsRequest, context: Any
    ) -> pb.SetMeetSettingsResponse:
        """All of them."""
        owner, settings = caller(context).owner, _read_settings(request.settings)
        await self._tastes.set(owner, settings)
        self._changes.forget(owner)
        return pb.SetMeetSettingsResponse(settings=_settings(settings))

    async def ListCalendarChanges(
        self, request: pb.ListCalendarChangesRequest, context: Any
    ) -> pb.ListCalendarChangesResponse:
        """What waits for the owner's word."""
        found = await self._changes.waiting(caller(context).owner)
        changes = [
            pb.CalendarChange(
                thread_id=each.meeting.thread.hex(),
                peer=each.meeting.peer,
                title=each.meeting.title,
                agreed_start_time=views.timestamp(each.meeting.event.start_ms),
                agreed_end_time=views.timestamp(each.meeting.event.end_ms),
                start_time=None if each.deleted else views.timestamp(each.now[0]),
                end_time=None if each.deleted else views.timestamp(each.now[1]),
                notice_time=views.timestamp(each.noticed_ms),
            )
            for each in found
        ]
        return pb.ListCalendarChangesResponse(changes=changes)

    async def AnswerCalendarChange(
        self, request: pb.AnswerCalendarChangeRequest, context: Any
    ) -> pb.AnswerCalendarChangeResponse:
        """The owner's word."""
        owner = caller(context).owner
        thread, _ = await self._find(owner, request.thread_id)
        words = await self._changes.answer(owner, thread, tell=request.tell)
        return pb.AnswerCalendarChangeResponse(words=words)

    async def GetInvitation(self, request: pb.GetInvitationRequest, context: Any) -> pb.GetInvitationResponse:
        """The meeting as it was written into the owner's calendar last, without what is the owner's own."""
        owner = caller(context).owner
        thread, title = await self._find(owner, request.id)
        async with self._store.scope(owner) as connection:
            row = await connection.fetchrow(
                _WRITTEN,
                owner,
                thread,
                views.milliseconds(request.only_time) if request.HasField("only_time") else None,
            )
        if row is None:
            raise NotFound(Reason.NOT_FOUND, "No meeting is agreed in this thread.", hint="indai commitments")
        doc = json.loads(row["doc"])
        words = f"Agreed between {owner} and {row['peer']}. Commitment {row['mid'].hex()}."
        event = MeetingEvent(**(doc | {"summary": title, "description": words}))
        method = _METHODS.get(request.method, Method.CANCEL if event.cancelled else Method.REQUEST)
        if event.cancelled and method is not Method.CANCEL:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, "The meeting was called off.", hint="ask for --method cancel"
            )
        return pb.GetInvitationResponse(
            ics=invitation(event, method, replier=owner),
            method=next(number for number, each in _METHODS.items() if each is method),
            file_name=f"{thread.hex()[:12]}-{method.value.lower()}.ics",
        )

    async def _find(self, owner: str, prefix: str) -> tuple[bytes, str]:
        """A thread (and its title) by its id, its commitment's mid, or the beginning of either."""
        text = prefix.strip().lower()
        if not 6 <= len(text) <= 64 or set(text) - _HEX:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                "A meeting is named by 6 or more hexadecimal digits of its thread or commitment.",
                hint="indai commitments lists them",
            )
        found = await named.meetings(self._store, owner, text)
        if len(found) > 1:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, f"Several meetings begin with {text}.", hint="give more digits"
            )
        if not found:
            raise NotFound(Reason.NOT_FOUND, f"There is no meeting {text}.", hint="indai commitments")
        async with self._store.scope(owner) as connection:
            title: str = await connection.fetchval(
                "SELECT title FROM node.threads WHERE owner = $1 AND thread = $2", owner, found[0]
            )
        return found[0], title


def _account(account: Account) -> pb.CalendarAccount:
    return pb.CalendarAccount(
        name=account.name,
        url=account.url,
        user=account.user,
        calendars=[each.name for each in account.calendars],
        written=account.written,
        target=account.target,
    )


def _settings(settings: MeetSettings) -> pb.MeetSettings:
    wanted = settings.preferences
    return pb.MeetSettings(
        hours=[
            pb.DayHours(weekday=h.weekday + 1, start_minute=h.start, end_minute=h.end) for h in wanted.hours
        ],
        preferred=[
            pb.DayHours(weekday=h.weekday + 1, start_minute=h.start, end_minute=h.end)
            for h in wanted.preferred
        ],
        buffer_before_minutes=wanted.before_minutes,
        buffer_after_minutes=wanted.after_minutes,
        travel=[pb.Travel(here=way.here, there=way.there, minutes=way.minutes) for way in wanted.ways],
        notice_minutes=wanted.notice_minutes,
        max_per_day=wanted.max_per_day,
        reminder_minutes=wanted.reminder_minutes,
        morning_minute=wanted.morning_minute,
        on_change=next(
            number for number, each in _ON_CHANGE.items() if number and each is settings.on_change
        ),
    )


def _read_settings(settings: pb.MeetSettings) -> MeetSettings:
    return MeetSettings(
        Preferences(
            hours=tuple(Hours(h.weekday - 1, h.start_minute, h.end_minute) for h in settings.hours),
            preferred=tuple(Hours(h.weekday - 1, h.start_minute, h.end_minute) for h in settings.preferred),
            before_minutes=settings.buffer_before_minutes,
            after_minutes=settings.buffer_after_minutes,
            ways=tuple(Way(way.here, way.there, way.minutes) for way in settings.travel),
            notice_minutes=settings.notice_minutes,
            max_per_day=settings.max_per_day,
            reminder_minutes=(
                settings.reminder_minutes if settings.HasField("reminder_minutes") else REMINDER_MINUTES
            ),
            morning_minute=settings.morning_minute if settings.HasField("morning_minute") else MORNING_MINUTE,
        ),
        _ON_CHANGE.get(settings.on_change, OnChange.ASK),
    )
