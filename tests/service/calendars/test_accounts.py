"""Accounts in the tables: secrets sealed, owners apart, one of them written; found again after a restart."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from indai.node.accounts import MAX_ACCOUNTS, Accounts, Wanted
from indai.node.agents import Agents
from indai.node.calendar import MeetingEvent
from indai.node.calendar.dav import Login, open_session
from indai.node.calendar.preferences import Hours, Preferences, Way
from indai.node.keystore import KeyStore
from indai.node.meet_settings import MeetSettings, OnChange, Tastes
from indai.protocol.errors import IndaiError, InvalidInput, NotFound, Reason, Refused
from indai.storage.pool import transaction

from tests.conftest import Database
from tests.service.calendars.account import HOUR, NOON, at_noon, ics, meeting
from tests.service.calendars.radicale import PASSWORD, Radicale

KEY = KeyStore(bytes(range(32)))
ALICE, BOB = "ind.ai/alice", "ind.ai/bob"


@contextlib.asynccontextmanager
async def started(
    database: Database, base: Path, keystore: KeyStore = KEY
) -> AsyncIterator[tuple[Accounts, Agents]]:
    """A node's agents and accounts, as at its start."""
    clock = lambda: NOON  # noqa: E731
    agents = Agents(database.pool, keystore, base / "calendars", clock)
    await agents.load()
    if ALICE not in agents:
        for handle in (ALICE, BOB):
            await agents.create(await agents.plan(handle, ""), "Europe/Berlin")
    async with open_session(public_only=False) as session:
        accounts = Accounts(database.pool, keystore, agents, session, clock, public_only=False)
        await accounts.load()
        yield accounts, agents
        await accounts.close()


def wanted(server: Radicale, user: str, **more: object) -> Wanted:
    fields: dict[str, object] = {"name": "work", "url": server.url, "login": Login(user, PASSWORD)}
    return Wanted(**(fields | more))  # type: ignore[arg-type]


async def test_an_account_is_there_again_after_a_restart_and_its_secret_in_no_row(
    database: Database, server: Radicale, user: str, tmp_path: Path
) -> None:
    await server.make_calendar(user, "work")
    async with started(database, tmp_path) as (accounts, _):
        await accounts.add(ALICE, wanted(server, user))
    async with transaction(database.pool, [ALICE]) as connection:
        rows = await connection.fetch("SELECT c::text AS row FROM node.calendar_accounts c")
    (row,) = rows
    assert PASSWORD not in row["row"]
    assert PASSWORD.encode().hex() not in row["row"]
    async with transaction(database.pool, [BOB]) as connection:
        assert await connection.fetch("SELECT FROM node.calendar_accounts") == []
    await server.save(user, f"/{user}/work/a.ics", ics("a", *at_noon()))
    async with started(database, tmp_path) as (accounts, agents):
        ((account, _),) = accounts.of(ALICE)
        assert (account.target, account.written) == (f"/{user}/work/", True)
        calendar = agents.get(ALICE).calendar
        await calendar.refresh()
        assert len(await calendar.busy(NOON, NOON + HOUR)) == 1
        assert await agents.get(BOB).calendar.busy(NOON, NOON + HOUR) == []
        await agents.set_zone(ALICE, "Asia/Kolkata")
        await calendar.refresh()
    with pytest.raises(IndaiError) as caught:
        async with started(database, tmp_path, KeyStore(bytes(32))):
            pass
    assert caught.value.reason is Reason.NODE_KEY


async def test_new_meetings_go_where_it_was_said_and_old_ones_are_changed_where_they_stand(
    database: Database, server: Radicale, user: str, tmp_path: Path
) -> None:
    for name in ("work", "home"):
        await server.make_calendar(user, name)
    async with started(database, tmp_path) as (accounts, agents):
        agent = agents.get(ALICE)
        await agent.calendar.put(meeting("old@file"))
        await accounts.add(ALICE, wanted(server, user, write="home", read=("work",)))
        await agent.calendar.refresh()
        await agent.calendar.put_many([meeting("new@dav"), _later(meeting("old@file"))])
        _, found = await server.request(user, "GET", f"{user}/home/")
        assert b"UID:new@dav" in found
        assert b"old@file" not in found
        assert b"SEQUENCE:1" in (tmp_path / "calendars" / "ind.ai_alice.ics").read_bytes()
        await accounts.add(ALICE, wanted(server, user, name="more", written=False))
        assert [account.written for account, _ in accounts.of(ALICE)] == [True, False]
        await accounts.add(ALICE, wanted(server, user, name="more"))
        assert [account.written for account, _ in accounts.of(ALICE)] == [False, True]
        await accounts.remove(ALICE, "more")
        await accounts.remove(ALICE, "work")
        assert accounts.of(ALICE) == []
        assert await agent.calendar.put(meeting("again@file"))
        assert b"again@file" in (tmp_path / "calendars" / "ind.ai_alice.ics").read_bytes()
        with pytest.raises(NotFound):
            await accounts.remove(ALICE, "work")


async def test_what_can_not_be_an_account_is_refused_and_nothing_is_stored(
    database: Database, server: Radicale, user: str, tmp_path: Path
) -> None:
    await server.make_calendar(user, "work")
    async with started(database, tmp_path) as (accounts, _):
        for bad in (
            wanted(server, user, name=""),
            wanted(server, user, name="a\nb"),
            wanted(server, user, login=Login(user, "")),
            wanted(server, user, login=Login("a:b", "x")),
            wanted(server, user, login=Login(user, "two\r\nlines")),
            wanted(server, user, url="http://dav.example.org/"),
            wanted(server, user, url="https://x/" + "y" * 2000),
            wanted(server, user, write="nowhere"),
            wanted(server, user, read=("nowhere",)),
        ):
            with pytest.raises(InvalidInput):
                await accounts.add(ALICE, bad)
        with pytest.raises(Refused):
            await accounts.add(ALICE, wanted(server, user, login=Login(user, "wrong")))
        assert accounts.of(ALICE) == []
        for number in range(MAX_ACCOUNTS):
            await accounts.add(ALICE, wanted(server, user, name=str(number)))
        with pytest.raises(InvalidInput, match="the most"):
            await accounts.add(ALICE, wanted(server, user, name="one more"))


async def test_settings_are_found_again_and_are_each_owners_own(database: Database, tmp_path: Path) -> None:
    wish = MeetSettings(
        Preferences((Hours(0, 540, 1080),), (Hours(1, 0, 60),), 5, 10, (Way("a", "", 15),), 60, 3),
        OnChange.TELL,
    )
    async with started(database, tmp_path):
        await Tastes(database.pool).set(ALICE, wish)
    again = Tastes(database.pool)
    await again.load([ALICE, BOB])
    assert again.get(ALICE) == wish
    assert again.get(BOB) == MeetSettings()


def _later(event: MeetingEvent) -> MeetingEvent:
    return replace(event, start_ms=event.start_ms + HOUR, end_ms=event.end_ms + HOUR, sequence=1)
