"""A CalDAV account as a calendar of the owner's, against a real server."""

from __future__ import annotations

import shutil
from dataclasses import replace

import aiohttp
import pytest
from indai.node.calendar import Interval
from indai.node.calendar.caldav import STALE_MS
from indai.node.calendar.dav import DavClient, Login, Reply, discover, open_session
from indai.protocol.errors import IndaiError, InvalidInput, Reason, Refused, Unavailable

from tests.service.calendars.account import HOUR, NOON, account, at_noon, ics, meeting
from tests.service.calendars.radicale import PASSWORD, Radicale

DAY = 24 * HOUR


async def test_busy_is_what_stands_in_every_calendar_that_is_read(server: Radicale, user: str) -> None:
    async with account(server, user, "work", "home") as mine:
        await mine.save("a", *at_noon())
        await mine.save(
            "b",
            "DTSTART;TZID=Europe/Berlin:20261119T140000",
            "DURATION:PT1H",
            "RRULE:FREQ=DAILY",
            into="home",
        )
        await mine.save("c", *at_noon(9), "TRANSP:TRANSPARENT")
        await mine.again()
        found = await mine.calendar.busy(NOON - DAY, NOON + DAY + 2 * HOUR)
    assert found == [Interval(NOON, NOON + 2 * HOUR), Interval(NOON + DAY + HOUR, NOON + DAY + 2 * HOUR)]


async def test_a_look_without_news_is_one_request_and_news_are_read_alone(
    server: Radicale, user: str
) -> None:
    async with account(server, user) as mine:
        await mine.save("a", *at_noon())
        await mine.again()
        version = mine.calendar.version
        mine.client.requests.clear()
        await mine.again()
        assert mine.client.requests == ["REPORT sync-collection"]
        assert mine.calendar.version == version
        await mine.save("b", "DTSTART:20261120T120000Z", "DURATION:PT1H")
        await server.request(user, "DELETE", f"{user}/work/a.ics")
        mine.client.requests.clear()
        await mine.again()
        assert mine.client.requests == ["REPORT sync-collection", "REPORT calendar-multiget"]
        assert mine.calendar.version != version
        assert await mine.calendar.busy(NOON, NOON + 2 * DAY) == [Interval(NOON + DAY, NOON + DAY + HOUR)]
        mine.now += 1  # just read
        await mine.calendar.refresh()
        assert len(mine.client.requests) == 2


@pytest.mark.parametrize("syncs", [True, False])
async def test_what_the_owner_changes_is_seen_with_and_without_tokens(
    server: Radicale, user: str, syncs: bool
) -> None:
    async with account(server, user, change=lambda found: replace(found, syncs=syncs)) as mine:
        await mine.save("a", *at_noon())
        await mine.again()
        await mine.save("a", *at_noon(3))
        await mine.again()
        assert await mine.calendar.busy(NOON, NOON + DAY) == [Interval(NOON, NOON + 3 * HOUR)]
        await server.request(user, "DELETE", f"{user}/work/a.ics")
        await mine.again()
        assert await mine.calendar.busy(NOON, NOON + DAY) == []


async def test_a_token_that_the_server_forgot_costs_a_whole_reading(server: Radicale, user: str) -> None:
    async with account(server, user) as mine:
        await mine.save("a", *at_noon())
        await mine.again()
        shutil.rmtree(
            server.base / "storage" / "collection-root" / user / "work" / ".Radicale.cache" / "sync-token"
        )
        await mine.save("b", "DTSTART:20261120T120000Z", "DURATION:PT1H")
        await mine.again()
        assert "REPORT calendar-query" in mine.client.requests
        assert len(await mine.calendar.busy(NOON, NOON + 2 * DAY)) == 2


async def test_a_calendar_that_shows_only_when_is_read_as_free_and_busy(server: Radicale, user: str) -> None:
    async with account(server, user, change=lambda found: replace(found, only_busy=True)) as mine:
        await mine.save("a", *at_noon(2), "SUMMARY:Secret")
        await mine.again()
        assert await mine.calendar.busy(NOON, NOON + DAY) == [Interval(NOON, NOON + 2 * HOUR)]
        assert await mine.calendar.events(NOON, NOON + DAY) == []


async def test_a_meeting_is_written_once_and_later_versions_take_its_place(
    server: Radicale, user: str
) -> None:
    async with account(server, user) as mine:
        assert await mine.calendar.put_many([meeting()]) == 1
        assert await mine.calendar.put_many([meeting()]) == 0
        text = await mine.everything()
        assert text.count("BEGIN:VEVENT") == 1
        assert "mailto:bob@ind.ai.invalid" in text
        moved = meeting(start=NOON + DAY, sequence=1)
        assert await mine.calendar.put_many([moved, meeting()]) == 1
        assert await mine.calendar.busy(NOON, NOON + 2 * DAY) == [Interval(NOON + DAY, NOON + DAY + HOUR)]
        assert await mine.calendar.put_many([replace(moved, sequence=2, cancelled=True)]) == 1
        assert await mine.calendar.busy(NOON, NOON + 2 * DAY) == []
        assert await mine.calendar.remove("m1@ind.ai.alice")
        assert not await mine.calendar.remove("m1@ind.ai.alice")
        assert "BEGIN:VEVENT" not in await mine.everything()


async def test_what_the_owner_added_to_a_meeting_stays_when_it_is_moved(server: Radicale, user: str) -> None:
    async with account(server, user) as mine:
        await mine.calendar.put_many([meeting()])
        path = f"/{user}/work/m1@ind.ai.alice.ics"
        mine_too = (
            "BEGIN:VEVENT\r\nUID:other\r\nDTSTAMP:20261101T000000Z\r\nDTSTART:20261121T120000Z\r\nEND:VEVENT"
        )
        edited = (await mine.load(path)).replace("BEGIN:VEVENT", "X-HERS:kept\r\nBEGIN:VEVENT", 1)
        assert mine_too not in edited
        await server.save(user, path, edited)
        await mine.calendar.put_many([meeting(start=NOON + DAY, sequence=1)])
        text = await mine.load(path)
        assert "X-HERS:kept" in text
        assert "SEQUENCE:1" in text


async def test_an_edit_made_while_we_write_is_read_again_and_never_written_over(
    server: Radicale, user: str
) -> None:
    async with account(server, user) as mine:
        await mine.calendar.put_many([meeting()])
        path = f"/{user}/work/m1@ind.ai.alice.ics"
        edits = [f"X-HERS:{number}" for number in range(2)]

        async def meddle(method: str, _: str) -> None:
            if method == "PUT" and edits:
                line = f"{edits.pop()}\r\nBEGIN:VEVENT"
                await server.save(user, path, (await mine.load(path)).replace("BEGIN:VEVENT", line, 1))

        mine.client.before = meddle
        assert await mine.calendar.put_many([meeting(start=NOON + DAY, sequence=1)]) == 1
        text = await mine.load(path)
        assert "X-HERS:0" in text
        assert "X-HERS:1" in text
        assert "SEQUENCE:1" in text
        assert mine.client.requests.count("PUT") == 4


async def test_a_meeting_put_elsewhere_at_the_same_moment_is_found(server: Radicale, user: str) -> None:
    """Two writers of one meeting (a repeated effect): the second sees the first one's."""
    async with account(server, user) as mine:

        async def first(method: str, path: str) -> None:
            if method == "PUT":
                mine.client.before = None
                await server.save(user, path, ics("m1@ind.ai.alice", *at_noon(), "X-INDAI-MEETING:1"))

        mine.client.before = first
        assert await mine.calendar.put_many([meeting()]) == 0
        assert (await mine.everything()).count("BEGIN:VEVENT") == 1


async def test_a_write_whose_answer_was_lost_is_repeated_without_a_second_event(
    server: Radicale, user: str
) -> None:
    async with account(server, user) as mine:

        def lose(method: str, reply: Reply) -> Reply:
            if method == "PUT":
                raise Unavailable(Reason.UNREACHABLE, "lost")
            return reply

        mine.client.after = lose
        with pytest.raises(Unavailable):
            await mine.calendar.put_many([meeting()])
        mine.client.after = None
        assert await mine.calendar.put_many([meeting()]) == 0
        assert (await mine.everything()).count("BEGIN:VEVENT") == 1


async def test_the_uid_of_an_event_of_the_owners_own_is_refused(server: Radicale, user: str) -> None:
    async with account(server, user) as mine:
        await mine.save("dentist", *at_noon())
        with pytest.raises(Refused) as caught:
            await mine.calendar.put_many([meeting(uid="dentist", start=NOON + DAY)])
        assert caught.value.reason is Reason.ALREADY_EXISTS
        with pytest.raises(Refused):
            await mine.calendar.remove("dentist")
        assert "DURATION:PT1H" in await mine.load(f"/{user}/work/dentist.ics")


async def test_an_event_that_cannot_be_read_stops_every_answer_by_name(server: Radicale, user: str) -> None:
    async with account(server, user) as mine:
        await mine.save("odd", "DTSTART;TZID=Mars/Base:20261119T120000", "DURATION:PT1H")
        await mine.again()
        with pytest.raises(InvalidInput, match=r"work/odd.ics.*Mars"):
            await mine.calendar.busy(NOON, NOON + DAY)
        await mine.save("odd", *at_noon())
        await mine.again()
        assert await mine.calendar.busy(NOON, NOON + DAY) == [Interval(NOON, NOON + HOUR)]


async def test_nothing_is_known_once_the_last_reading_is_too_old(server: Radicale, user: str) -> None:
    async with account(server, user) as mine:
        await mine.save("a", *at_noon())
        await mine.again()

        async def down(method: str, path: str) -> None:
            raise Unavailable(Reason.UNREACHABLE, "It is down.")

        mine.client.before = down
        await mine.again()
        assert mine.calendar.problem is not None
        assert await mine.calendar.busy(NOON, NOON + DAY) == [Interval(NOON, NOON + HOUR)]
        tries = len(mine.client.requests)
        await mine.calendar.refresh()
        assert len(mine.client.requests) == tries  # a server that is down rests
        mine.now += STALE_MS
        for ask in (mine.calendar.busy, mine.calendar.events):
            with pytest.raises(Unavailable, match="It is down"):
                await ask(NOON, NOON + DAY)
        with pytest.raises(Unavailable):
            await mine.calendar.put_many([meeting()])
        mine.client.before = None
        await mine.again()
        assert await mine.calendar.busy(NOON, NOON + DAY) == [Interval(NOON, NOON + HOUR)]


async def test_a_server_that_stops_is_unreachable_and_is_used_again_when_it_is_back(
    server: Radicale, user: str
) -> None:
    async with account(server, user) as mine:
        server.stop()
        try:
            with pytest.raises(Unavailable) as caught:
                await mine.calendar.put_many([meeting()])
        finally:
            server.start()
        assert PASSWORD not in f"{caught.value!r}{caught.value}{mine.client.__dict__!r}"
        assert await mine.calendar.put_many([meeting()]) == 1


async def test_a_list_whose_events_are_not_shown_is_no_knowledge(server: Radicale, user: str) -> None:
    """A multiget that leaves an event out must not make its time free."""
    async with account(server, user) as mine:
        await mine.save("a", *at_noon())
        await mine.save("b", *at_noon())

        def withhold(method: str, reply: Reply) -> Reply:
            if b"BEGIN:VCALENDAR" not in reply.data:
                return reply
            head, *responses = reply.data.split(b"<response>")
            return replace(reply, data=head + b"<response>" + responses[-1])

        mine.client.after = withhold
        await mine.again()
        assert mine.calendar.problem is not None
        assert "does not show it" in mine.calendar.problem.message


async def test_a_wrong_password_is_said_and_never_shown(server: Radicale, user: str) -> None:
    async with open_session(public_only=False) as session:
        client = DavClient(session, server.url, Login(user, "hunter2"))
        with pytest.raises(Refused) as caught:
            await discover(client)
    assert caught.value.reason is Reason.UNAUTHENTICATED
    assert "hunter2" not in f"{caught.value!r}{caught.value}{client.__dict__!r}"


async def test_the_calendars_of_an_account_are_found_from_any_of_its_addresses(
    server: Radicale, user: str
) -> None:
    await server.make_calendar(user, "work")
    home = server.base / "storage" / "collection-root" / user
    shutil.copytree(home / "work", home / "readonly")
    async with open_session(public_only=False) as session:
        for start in ("", f"{user}/"):
            client = DavClient(session, server.url + start, Login(user, PASSWORD))
            found = {each.path: each.writable for each in await discover(client)}
            assert found == {f"/{user}/work/": True, f"/{user}/readonly/": False}
        (only,) = await discover(DavClient(session, f"{server.url}{user}/work", Login(user, PASSWORD)))
        assert only.path == f"/{user}/work/"
        with pytest.raises(IndaiError) as caught:
            await discover(DavClient(session, f"{server.url}{user}/none/", Login("nobody", PASSWORD)))
        assert caught.value.reason is Reason.UNAUTHENTICATED


async def test_a_redirect_to_another_host_is_not_followed() -> None:
    from aiohttp import web
    from aiohttp.test_utils import TestServer

    async def elsewhere(request: web.Request) -> web.Response:
        return web.Response(status=301, headers={"Location": "https://evil.example/"})

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", elsewhere)
    async with TestServer(app) as here, open_session(public_only=False) as session:
        client = DavClient(session, str(here.make_url("/")), Login("u", PASSWORD))
        with pytest.raises(Refused) as caught:
            await discover(client)
    assert caught.value.reason is Reason.INSECURE


@pytest.mark.parametrize(
    ("url", "public_only"),
    [
        ("http://dav.example.org/", False),
        ("ftp://dav.example.org/", False),
        ("https://user:secret@dav.example.org/", False),
        ("dav.example.org", False),
        ("http://127.0.0.1:5232/", True),
        ("https://10.0.0.1/", True),
        ("https://[::1]/", True),
        ("https://localhost/", True),
    ],
)
async def test_an_address_that_would_leak_or_reach_inside_is_refused(url: str, public_only: bool) -> None:
    async with open_session(public_only=public_only) as session:
        with pytest.raises(InvalidInput):
            DavClient(session, url, Login("u", PASSWORD), public_only=public_only)


async def test_a_name_that_leads_to_a_private_address_is_not_reached() -> None:
    async with open_session(public_only=True) as session:
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get("https://localhost:1/")
