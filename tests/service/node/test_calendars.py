"""Owners' calendars on a running node: accounts on a real server, meetings moved by hand, invitations."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import icalendar
import pytest
import pytest_asyncio
from indai.client.channels import plain_channel
from indai.node import calendar_changes, effects
from indai.node.calendar import caldav
from indai.protocol.errors import IndaiError, Reason
from indai.v1 import calendar_pb2, intents_pb2, negotiation_pb2, owner_pb2
from indai.v1.calendar_pb2_grpc import CalendarServiceStub

from tests.service.calendars.radicale import PASSWORD, Radicale, radicale
from tests.service.node.byhand import is_called_off, moved_by_hand, stamp, without
from tests.service.node.conftest import Pair
from tests.service.node.lives import is_cancelled, seen, until
from tests.service.node.test_meeting import COMMITTED, DAY, HOUR, journal
from tests.service.node.world import Owner, now_ms

if TYPE_CHECKING:
    from indai.v1.calendar_pb2_grpc import CalendarServiceAsyncStub

ASK, TELL = calendar_pb2.ON_CALENDAR_CHANGE_ASK, calendar_pb2.ON_CALENDAR_CHANGE_TELL


@pytest.fixture(scope="module", autouse=True)
def _eager() -> Iterator[None]:
    """Nodes look at calendars all the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calendar_changes, "POLL_S", 0.1)
        patch.setattr(calendar_changes, "SERVER_MS", 100)
        patch.setattr(caldav, "FRESH_MS", 0)
        patch.setattr(caldav, "REST_MS", 100)
        patch.setattr(effects, "RETRY_S", 0.2)
        yield


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Radicale]:
    with radicale(tmp_path_factory.mktemp("radicale")) as running:
        running.add_user("alice")
        yield running


@dataclass
class Scene:
    pair: Pair
    server: Radicale
    path: str
    alice: CalendarServiceAsyncStub
    bob: CalendarServiceAsyncStub

    @property
    def folder(self) -> Path:
        """Where the server keeps alice's events."""
        return self.server.base / "storage" / "collection-root" / "alice" / "work"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def here(pair: Pair, server: Radicale) -> AsyncIterator[Scene]:
    """alice writes into her account on the server, bob into his file."""
    path = await server.make_calendar("alice", "work")
    alice, bob = (
        service(pair.a.info.addresses["owner"], pair.alice),
        service(pair.b.info.addresses["owner"], pair.bob),
    )
    await alice.AddCalendarAccount(account(server))
    yield Scene(pair, server, path, alice, bob)


def service(address: str, owner: Owner) -> CalendarServiceAsyncStub:
    return CalendarServiceStub(plain_channel(address, token=owner.token))


def account(server: Radicale, secret: str = PASSWORD) -> calendar_pb2.AddCalendarAccountRequest:
    return calendar_pb2.AddCalendarAccountRequest(name="work", url=server.url, user="alice", secret=secret)


_days = iter(range(2, 300))


async def agreed(here: Scene, title: str = "Coffee") -> owner_pb2.Thread:
    """A meeting on a day of its own, that stands in both calendars."""
    day = now_ms() + next(_days) * DAY
    thread = await here.pair.alice.meet("ind.ai/bob", title=title, from_ms=day, until_ms=day + DAY)
    assert thread.state == COMMITTED
    for owner in (here.pair.alice, here.pair.bob):
        await until(owner, thread.thread_id, lambda seen: seen.in_calendar)
    return thread


async def eventually(ready: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await ready():
            await asyncio.sleep(0.05)


async def event_of(here: Scene, thread: owner_pb2.Thread) -> tuple[str, str]:
    """Where a meeting stands on the server, and its text."""
    found = await asyncio.to_thread(
        lambda: [p for p in here.folder.glob("*.ics") if p.name.startswith(thread.thread_id)]
    )
    (path,) = found
    return f"alice/work/{path.name}", path.read_text()


async def waiting(
    of: CalendarServiceAsyncStub, thread: owner_pb2.Thread
) -> list[calendar_pb2.CalendarChange]:
    answer = await of.ListCalendarChanges(calendar_pb2.ListCalendarChangesRequest())
    return [each for each in answer.changes if each.thread_id == thread.thread_id]


async def answer(of: CalendarServiceAsyncStub, thread: owner_pb2.Thread, *, tell: bool) -> str:
    request = calendar_pb2.AnswerCalendarChangeRequest(thread_id=thread.thread_id, tell=tell)
    return (await of.AnswerCalendarChange(request)).words


async def test_a_meeting_is_written_into_the_account_and_its_events_are_busy_time(here: Scene) -> None:
    day = now_ms() + next(_days) * DAY
    whole = f"DTSTART:{stamp(day)}\r\nDTEND:{stamp(day + 10 * HOUR)}"
    await here.server.save(
        "alice",
        "/alice/work/full.ics",
        f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:full\r\nDTSTAMP:20261101T000000Z\r\n{whole}\r\n"
        "END:VEVENT\r\nEND:VCALENDAR\r\n",
    )
    thread = await here.pair.alice.meet("ind.ai/bob", from_ms=day, until_ms=day + 14 * HOUR)
    assert thread.state == COMMITTED, thread
    assert thread.start_time.ToMilliseconds() >= (day + 10 * HOUR) // 1000 * 1000
    await until(here.pair.alice, thread.thread_id, lambda seen: seen.in_calendar)
    _, text = await event_of(here, thread)
    assert f"DTSTART:{stamp(thread.start_time.ToMilliseconds())}" in text
    listed = (
        await here.alice.ListCalendarAccounts(calendar_pb2.ListCalendarAccountsRequest(check=True))
    ).accounts
    assert [(each.written, each.problem) for each in listed] == [(False, ""), (True, "")]
    assert listed[1].target == "/alice/work/"


async def test_the_password_is_in_no_row_answer_or_journal(here: Scene, pair: Pair) -> None:
    with pytest.raises(IndaiError) as caught:
        await here.alice.AddCalendarAccount(account(here.server, secret="hunter2hunter2"))
    assert caught.value.reason is Reason.UNAUTHENTICATED
    listed = await here.alice.ListCalendarAccounts(calendar_pb2.ListCalendarAccountsRequest(check=True))
    told = f"{caught.value}{listed}{await journal(pair.alice)}"
    assert PASSWORD not in told
    assert "hunter2" not in told
    assert [each.problem for each in listed.accounts] == ["", ""]  # the account that works has stayed


async def test_a_server_that_is_down_keeps_meetings_waiting_and_then_has_them_once(
    here: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = now_ms() + next(_days) * DAY
    here.server.stop()
    try:
        started = await here.pair.alice.start("ind.ai/bob", from_ms=day, until_ms=day + DAY)
        await until(here.pair.alice, started, lambda thread: thread.state == COMMITTED)
        await eventually(lambda: _told(here.pair.alice, "effect"))
        with monkeypatch.context() as late:
            late.setattr(caldav, "STALE_MS", -1)
            await eventually(lambda: _told(here.pair.alice, "calendar"))
    finally:
        here.server.start()
    thread = await until(here.pair.alice, started, lambda thread: thread.in_calendar)
    _, text = await event_of(here, thread)
    assert text.count("BEGIN:VEVENT") == 1


async def test_nothing_is_agreed_by_what_is_too_old(here: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caldav, "STALE_MS", -1)
    day = now_ms() + next(_days) * DAY
    with pytest.raises(IndaiError) as caught:
        await here.pair.alice.start("ind.ai/bob", from_ms=day, until_ms=day + DAY)
    assert caught.value.reason is Reason.UNREACHABLE
    asked = await here.pair.bob.start("ind.ai/alice", from_ms=day, until_ms=day + DAY)
    assert (await seen(here.pair.bob, asked)).state == owner_pb2.THREAD_STATE_NEGOTIATING
    monkeypatch.setattr(caldav, "STALE_MS", 30_000)
    await until(here.pair.bob, asked, lambda thread: thread.state == COMMITTED)


async def test_a_meeting_that_its_owner_deletes_is_cancelled_when_they_say_so(here: Scene) -> None:
    thread = await agreed(here)
    path, _ = await event_of(here, thread)
    await here.server.request("alice", "DELETE", path)
    await eventually(lambda: _any(waiting(here.alice, thread)))
    (change,) = await waiting(here.alice, thread)
    assert not change.HasField("start_time")
    assert (
        await seen(here.pair.bob, thread.thread_id)
    ).commitment_state == owner_pb2.COMMITMENT_STATE_COMMITTED
    assert "cancelled" in await answer(here.alice, thread, tell=True)
    await until(here.pair.bob, thread.thread_id, is_cancelled)
    assert await waiting(here.alice, thread) == []
    with pytest.raises(IndaiError):
        await answer(here.alice, thread, tell=True)
    lines = [each for each in await journal(here.pair.alice) if each.thread_id == thread.thread_id]
    assert [each.reason for each in lines].count("DELETED") == 1


async def test_a_meeting_that_its_owner_moves_can_be_put_back(here: Scene) -> None:
    thread = await agreed(here)
    path, text = await event_of(here, thread)
    start = thread.start_time.ToMilliseconds()
    moved = text.replace(stamp(start), stamp(start + HOUR)).replace(
        stamp(thread.end_time.ToMilliseconds()), stamp(start + 2 * HOUR)
    )
    await here.server.save("alice", f"/{path}", moved.replace("SEQUENCE:0", "SEQUENCE:3"))
    await eventually(lambda: _any(waiting(here.alice, thread)))
    (change,) = await waiting(here.alice, thread)
    assert change.start_time.ToMilliseconds() == start + HOUR
    assert change.end_time.ToMilliseconds() == start + 2 * HOUR
    assert "stands" in await answer(here.alice, thread, tell=False)
    _, text = await event_of(here, thread)
    assert f"DTSTART:{stamp(start)}" in text
    assert "SEQUENCE:4" in text
    assert await waiting(here.alice, thread) == []


async def test_a_meeting_that_its_owner_moves_is_agreed_anew_when_they_say_so(here: Scene) -> None:
    thread = await agreed(here, "Moved by hand")
    path, text = await event_of(here, thread)
    start, end = thread.start_time.ToMilliseconds(), thread.end_time.ToMilliseconds()
    later = start + 3 * HOUR
    moved = text.replace(stamp(end), stamp(later + end - start)).replace(stamp(start), stamp(later))
    await here.server.save("alice", f"/{path}", moved)
    await eventually(lambda: _any(waiting(here.alice, thread)))
    assert "asked for the new time" in await answer(here.alice, thread, tell=True)
    superseded = owner_pb2.COMMITMENT_STATE_SUPERSEDED
    for owner in (here.pair.alice, here.pair.bob):
        await until(owner, thread.thread_id, lambda seen: seen.commitment_state == superseded)
    (new, *_) = (await here.pair.bob.stub.ListThreads(owner_pb2.ListThreadsRequest(page_size=1))).threads
    assert (new.state, new.title) == (COMMITTED, "Moved by hand")
    assert new.start_time.ToMilliseconds() == later
    await until(here.pair.alice, new.thread_id, lambda seen: seen.in_calendar)
    _, text = await event_of(here, new)
    assert f"DTSTART:{stamp(later)}" in text

    async def called_off() -> bool:
        return "STATUS:CANCELLED" in (await event_of(here, thread))[1]

    await eventually(called_off)
    assert await waiting(here.alice, thread) == []
    assert await waiting(here.alice, new) == []


async def test_what_is_moved_back_by_hand_waits_for_nobody(here: Scene) -> None:
    thread = await agreed(here)
    path, text = await event_of(here, thread)
    await here.server.request("alice", "DELETE", path)
    await eventually(lambda: _any(waiting(here.alice, thread)))
    await here.server.save("alice", f"/{path}", text)
    await eventually(lambda: _none(waiting(here.alice, thread)))


async def test_one_time_of_several_is_noticed_by_itself(here: Scene, pair: Pair) -> None:
    """bob deletes the second of four in his file, and moves the third by a day."""
    day = now_ms() + next(_days) * DAY
    wish = intents_pb2.MeetWish(
        title="By hand",
        duration_minutes=30,
        windows=[intents_pb2.Window(start_ms=day, end_ms=day + DAY)],
        repeats=intents_pb2.Repeats(every_days=30, count=4, time_zone="UTC"),
    )
    asked = owner_pb2.StartIntentRequest(
        request_id=str(uuid.uuid4()), peer="ind.ai/bob", wish=negotiation_pb2.Propose(meet=wish)
    )
    started = (await pair.alice.stub.StartIntent(asked)).thread.thread_id
    thread = await pair.alice.rest(started)
    assert thread.state == COMMITTED
    await until(pair.bob, started, lambda seen: seen.in_calendar)
    times = (await seen(pair.bob, started)).times
    file = pair.b.data / "calendars" / "ind.ai_bob.ics"
    await eventually(
        lambda: asyncio.to_thread(lambda: file.read_text().count(f"UID:{started}") == len(times))
    )
    third = times[2].ToMilliseconds()

    await asyncio.to_thread(moved_by_hand, file, started, third)

    async def both() -> bool:
        return len(await waiting(here.bob, thread)) == 2

    await eventually(both)
    second, moved = sorted(
        await waiting(here.bob, thread), key=lambda each: each.agreed_start_time.ToMilliseconds()
    )
    assert second.agreed_start_time == times[1]
    assert not second.HasField("start_time")
    assert (moved.agreed_start_time, moved.start_time.ToMilliseconds()) == (times[2], third + DAY)
    said = await answer(here.bob, thread, tell=True)
    assert "one time of the meeting is cancelled" in said
    assert "asked for the new time" in said
    for owner in (pair.alice, pair.bob):
        left = await until(owner, started, lambda seen: len(seen.times) == 2)
        assert list(left.times) == [times[0], times[3]]
        assert left.commitment_state == owner_pb2.COMMITMENT_STATE_COMMITTED
    (new, *_) = (await pair.alice.stub.ListThreads(owner_pb2.ListThreadsRequest(page_size=1))).threads
    assert (new.state, new.start_time.ToMilliseconds()) == (COMMITTED, third + DAY)
    await eventually(lambda: _none(waiting(here.bob, thread)))
    await asyncio.to_thread(without, file, started)  # and now all that is left of it
    await eventually(both)
    await answer(here.bob, thread, tell=True)
    await until(pair.alice, started, is_cancelled)


async def test_an_owner_who_said_so_need_not_be_asked(here: Scene, pair: Pair) -> None:
    """bob's calendar is a file, and his settings say: tell."""
    request = calendar_pb2.SetMeetSettingsRequest(settings=calendar_pb2.MeetSettings(on_change=TELL))
    await here.bob.SetMeetSettings(request)
    other, thread = await agreed(here, "Stays"), await agreed(here, "Goes")
    file = pair.b.data / "calendars" / "ind.ai_bob.ics"
    await asyncio.to_thread(without, file, thread.thread_id)
    await until(pair.alice, thread.thread_id, is_cancelled)
    assert not is_cancelled(await seen(pair.alice, other.thread_id))
    request.settings.on_change = ASK
    await here.bob.SetMeetSettings(request)


async def test_what_the_node_itself_writes_is_not_compared_with_every_meeting(
    here: Scene, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    await agreed(here)
    looks: list[dict[str, object]] = []
    real = calendar_changes.CalendarChanges._changed

    async def noted(
        self: calendar_changes.CalendarChanges, owners: list[str]
    ) -> dict[str, tuple[object, ...]]:
        found = await real(self, owners)
        if "ind.ai/bob" in owners:
            looks.append(dict(found))
        return found

    monkeypatch.setattr(calendar_changes.CalendarChanges, "_changed", noted)

    async def at_rest() -> bool:
        return len(looks) > 1 and "ind.ai/bob" not in looks[-1]

    await eventually(at_rest)
    looks.clear()
    thread = await agreed(here)
    await eventually(at_rest)
    assert not any("ind.ai/bob" in look for look in looks)
    file = pair.b.data / "calendars" / "ind.ai_bob.ics"
    await asyncio.to_thread(without, file, thread.thread_id)
    await agreed(here)  # ours again, on top of the owner's edit
    await eventually(lambda: _any(waiting(here.bob, thread)))
    assert "stands" in await answer(here.bob, thread, tell=False)
    looks.clear()
    await eventually(at_rest)  # it was seen that the meeting stands again
    await asyncio.to_thread(without, file, thread.thread_id)
    await eventually(lambda: _any(waiting(here.bob, thread)))  # asked anew, though it was answered before
    await answer(here.bob, thread, tell=False)


async def test_a_calendar_file_that_is_lost_cancels_nothing(here: Scene, pair: Pair) -> None:
    request = calendar_pb2.SetMeetSettingsRequest(settings=calendar_pb2.MeetSettings(on_change=TELL))
    await here.bob.SetMeetSettings(request)
    thread = await agreed(here)
    file = pair.b.data / "calendars" / "ind.ai_bob.ics"
    content = await asyncio.to_thread(file.read_bytes)
    await asyncio.to_thread(file.unlink)
    await eventually(lambda: _any(waiting(here.bob, thread)))
    assert not is_cancelled(await seen(pair.bob, thread.thread_id))
    await asyncio.to_thread(file.write_bytes, content)
    await eventually(lambda: _none(waiting(here.bob, thread)))
    request.settings.on_change = ASK
    await here.bob.SetMeetSettings(request)


async def test_an_invitation_is_named_by_thread_or_commitment_and_says_nothing_private(here: Scene) -> None:
    thread = await agreed(here)
    for name in (thread.thread_id[:12], thread.commitment_mid):
        got = await here.alice.GetInvitation(calendar_pb2.GetInvitationRequest(id=name))
        calendar = icalendar.Calendar.from_ical(got.ics)
        (event,) = calendar.events
        assert (str(calendar["METHOD"]), event.sequence) == ("REQUEST", 0)
        assert event["ORGANIZER"] == "mailto:bob@ind.ai.invalid"
        assert event.start == datetime.fromtimestamp(thread.start_time.seconds, UTC)
    await here.pair.alice.stub.CancelCommitment(owner_pb2.CancelCommitmentRequest(thread_id=thread.thread_id))
    await until(here.pair.bob, thread.thread_id, is_cancelled)
    got = await here.bob.GetInvitation(calendar_pb2.GetInvitationRequest(id=thread.thread_id))
    (event,) = icalendar.Calendar.from_ical(got.ics).events
    assert got.method == calendar_pb2.INVITATION_METHOD_CANCEL
    assert (str(event["STATUS"]), event.sequence) == ("CANCELLED", 1)
    with pytest.raises(IndaiError) as caught:
        await here.bob.GetInvitation(
            calendar_pb2.GetInvitationRequest(
                id=thread.thread_id, method=calendar_pb2.INVITATION_METHOD_REQUEST
            )
        )
    assert caught.value.reason is Reason.INVALID_ARGUMENT


async def test_settings_are_kept_and_checked(here: Scene) -> None:
    settings = calendar_pb2.MeetSettings(
        hours=[calendar_pb2.DayHours(weekday=1, start_minute=540, end_minute=1080)],
        travel=[calendar_pb2.Travel(here="Office", there="Airport", minutes=45)],
        buffer_before_minutes=10,
        notice_minutes=60,
        max_per_day=3,
        reminder_minutes=30,
        morning_minute=450,
        on_change=TELL,
    )
    await here.alice.SetMeetSettings(calendar_pb2.SetMeetSettingsRequest(settings=settings))
    got = await here.alice.GetMeetSettings(calendar_pb2.GetMeetSettingsRequest())
    assert got.settings == settings
    assert got.time_zone == "Asia/Kolkata"
    bad = calendar_pb2.MeetSettings(hours=[calendar_pb2.DayHours(weekday=8, end_minute=60)])
    with pytest.raises(IndaiError):
        await here.alice.SetMeetSettings(calendar_pb2.SetMeetSettingsRequest(settings=bad))
    await here.alice.SetMeetSettings(calendar_pb2.SetMeetSettingsRequest())


async def test_a_meeting_lies_where_it_suits_both(here: Scene, pair: Pair) -> None:
    """alice meets from 9 to 18, bob until 13, best from 10, not within 45 min of what was."""
    await agreed(here)
    kolkata = ZoneInfo("Asia/Kolkata")
    day = datetime.now(kolkata).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(
        days=next(_days)
    )
    nine = int(day.replace(hour=9).timestamp() * 1000)
    file = pair.b.data / "calendars" / "ind.ai_bob.ics"
    event = (
        f"BEGIN:VEVENT\r\nUID:early\r\nDTSTAMP:20261101T000000Z\r\nDTSTART:{stamp(nine)}\r\n"
        f"DTEND:{stamp(nine + HOUR)}\r\nEND:VEVENT\r\nEND:VCALENDAR"
    )
    await asyncio.to_thread(lambda: file.write_text(file.read_text().replace("END:VCALENDAR", event)))
    midnight = int(day.timestamp() * 1000)

    async def hour(owner: Owner, peer: str) -> str:
        thread = await owner.meet(peer, from_ms=midnight, until_ms=midnight + DAY)
        assert thread.state == COMMITTED, thread
        start = datetime.fromtimestamp(thread.start_time.ToMilliseconds() / 1000, kolkata)
        for each in (pair.alice, pair.bob):
            await until(each, thread.thread_id, lambda seen: seen.in_calendar)
        await owner.stub.CancelCommitment(owner_pb2.CancelCommitmentRequest(thread_id=thread.thread_id))
        await until(pair.bob, thread.thread_id, is_cancelled)
        await until(pair.alice, thread.thread_id, is_cancelled)
        # Calendars are written after the ledger.
        await eventually(lambda: asyncio.to_thread(is_called_off, here.folder, file, thread.thread_id))
        return f"{start:%H:%M}"

    await here.alice.SetMeetSettings(_wanted(calendar_pb2.MeetSettings(hours=_every_day(9, 18))))
    await here.bob.SetMeetSettings(
        _wanted(calendar_pb2.MeetSettings(hours=_every_day(9, 13), preferred=_every_day(10, 13)))
    )
    assert await hour(pair.alice, "ind.ai/bob") == "10:00"
    await here.bob.SetMeetSettings(
        _wanted(
            calendar_pb2.MeetSettings(
                hours=_every_day(9, 13), preferred=_every_day(10, 13), buffer_before_minutes=45
            )
        )
    )
    assert await hour(pair.alice, "ind.ai/bob") == "11:00"
    assert await hour(pair.bob, "ind.ai/alice") in ("11:00", "10:45")
    await here.bob.SetMeetSettings(_wanted(calendar_pb2.MeetSettings(hours=_every_day(9, 10))))
    thread = await pair.alice.meet("ind.ai/bob", from_ms=midnight, until_ms=midnight + DAY)
    assert thread.state == owner_pb2.THREAD_STATE_REJECTED  # bob is taken then, and at no other hour free
    for owner in (here.alice, here.bob):
        await owner.SetMeetSettings(calendar_pb2.SetMeetSettingsRequest())


def _every_day(start: int, end: int) -> list[calendar_pb2.DayHours]:
    return [
        calendar_pb2.DayHours(weekday=day, start_minute=start * 60, end_minute=end * 60)
        for day in range(1, 8)
    ]


def _wanted(settings: calendar_pb2.MeetSettings) -> calendar_pb2.SetMeetSettingsRequest:
    return calendar_pb2.SetMeetSettingsRequest(settings=settings)


async def _told(owner: Owner, event: str) -> bool:
    """The owner's journal says that something could not be written."""
    return any(each.event == event and "calendar server" in each.words for each in await journal(owner))


async def _any(found: Awaitable[list[calendar_pb2.CalendarChange]]) -> bool:
    return bool(await found)


async def _none(found: Awaitable[list[calendar_pb2.CalendarChange]]) -> bool:
    return not await found
