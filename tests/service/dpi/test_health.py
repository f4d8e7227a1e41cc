"""Who somebody is at the health mission: with their own code, once, and nothing of it is kept."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from indai.dpi.abha import check_address
from indai.dpi.health import VALID_MS
from indai.protocol.errors import IndaiError, InvalidInput, Reason, Refused

from tests.service.dpi.conftest import OTHER, OWNER, MakeRoom, Room, serving
from tests.service.dpi.healthserver import ADDRESS, NUMBER, SECRET, HealthServer, health_config

CLINIC, PURPOSE = "wa:clinic-desk", "To register a visit"


@pytest.fixture
async def mission() -> AsyncIterator[HealthServer]:
    server = HealthServer()
    async with serving(server.routes()) as url:
        server.url = url
        yield server


@pytest.fixture
async def room(make_room: MakeRoom, mission: HealthServer) -> AsyncIterator[Room]:
    async with make_room(health_config(mission.url), abdm=SECRET) as found:
        yield found


async def refused(work: Any) -> Reason:
    with pytest.raises(IndaiError) as raised:
        await work
    assert SECRET not in str(raised.value)
    return raised.value.reason


def other(code: str) -> str:
    return f"{(int(code) + 1) % 10**6:06d}"


async def test_a_look_up_with_the_holder_s_code_leaves_a_purpose_and_no_id(
    room: Room, mission: HealthServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    asked = await room.desk.health.ask(OWNER, CLINIC, "Asha.K@sbx", PURPOSE)
    assert asked.status == "PENDING"
    found = await room.desk.health.look_up(OWNER, CLINIC, asked.id, mission.code)
    assert (found.address, found.name, found.born) == (ADDRESS, "Asha K", "1990-04-02")
    assert found.number == "XX-XXXX-XXXX-9012"
    for secret in (ADDRESS, "Asha", NUMBER, "1990"):
        assert secret not in repr(found)
    kept = await room.desk.consents.get(OWNER, CLINIC, asked.id)
    assert (kept.status, kept.purpose, kept.uses, kept.handle) == ("USED", PURPOSE, 1, "")
    stored = await room.everything_stored()
    for secret in (ADDRESS, "Asha", NUMBER, "9012", SECRET, mission.code, *mission.sessions):
        assert secret not in stored
        assert secret not in caplog.text


async def test_a_code_is_for_one_look_up(room: Room, mission: HealthServer) -> None:
    asked = await room.desk.health.ask(OWNER, CLINIC, ADDRESS, PURPOSE)
    await room.desk.health.look_up(OWNER, CLINIC, asked.id, mission.code)
    work = room.desk.health.look_up(OWNER, CLINIC, asked.id, mission.code)
    assert await refused(work) is Reason.PERMISSION_DENIED
    assert mission.verified == 1


async def test_without_the_holder_s_code_there_is_no_look_up_and_three_wrong_ones_end_it(
    room: Room, mission: HealthServer
) -> None:
    asked = await room.desk.health.ask(OWNER, CLINIC, ADDRESS, PURPOSE)
    for _ in range(3):
        work = room.desk.health.look_up(OWNER, CLINIC, asked.id, other(mission.code))
        assert await refused(work) is Reason.PERMISSION_DENIED
    assert (
        await refused(room.desk.health.look_up(OWNER, CLINIC, asked.id, mission.code))
        is Reason.PERMISSION_DENIED
    )
    assert mission.verified == 3
    assert (await room.desk.consents.get(OWNER, CLINIC, asked.id)).status == "FAILED"


async def test_a_code_is_too_old_after_ten_minutes_and_nobody_else_s(
    room: Room, mission: HealthServer
) -> None:
    asked = await room.desk.health.ask(OWNER, CLINIC, ADDRESS, PURPOSE)
    for owner, person in ((OWNER, OWNER), (OTHER, CLINIC)):
        assert (
            await refused(room.desk.health.look_up(owner, person, asked.id, mission.code)) is Reason.NOT_FOUND
        )
    room.time[0] += VALID_MS
    assert (
        await refused(room.desk.health.look_up(OWNER, CLINIC, asked.id, mission.code))
        is Reason.PERMISSION_DENIED
    )
    assert mission.verified == 0


async def test_a_session_is_renewed_when_it_ends_and_when_it_was_ended(
    room: Room, mission: HealthServer
) -> None:
    await room.desk.health.ask(OWNER, CLINIC, ADDRESS, PURPOSE)
    assert len(mission.sessions) == 1
    room.time[0] += 1_200_000
    await room.desk.health.ask(OWNER, CLINIC, ADDRESS, PURPOSE)
    assert len(mission.sessions) == 2
    mission.sessions.clear()
    await room.desk.health.ask(OWNER, CLINIC, ADDRESS, PURPOSE)
    assert len(mission.sessions) == 1


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (500, Reason.PROVIDER_FAILED),
        (429, Reason.RATE_LIMITED),
        (302, Reason.INSECURE),
        (403, Reason.PROVIDER_REFUSED),
    ],
)
async def test_each_fault_has_its_word(room: Room, mission: HealthServer, fault: int, reason: Reason) -> None:
    mission.faults = [fault]
    assert await refused(room.desk.health.ask(OWNER, CLINIC, ADDRESS, PURPOSE)) is reason
    assert await room.desk.health.ask(OWNER, CLINIC, ADDRESS, PURPOSE)


async def test_nobody_s_address_an_inactive_one_and_a_node_that_is_not_known(
    room: Room, mission: HealthServer, make_room: MakeRoom
) -> None:
    assert await refused(room.desk.health.ask(OWNER, CLINIC, "nobody@sbx", PURPOSE)) is Reason.NOT_FOUND
    mission.status = "DEACTIVATED"
    assert await refused(room.desk.health.ask(OWNER, CLINIC, ADDRESS, PURPOSE)) is Reason.PROVIDER_REFUSED
    room.secrets.set("abdm", "another")
    async with make_room(health_config(mission.url), abdm="another") as stranger:
        work = stranger.desk.health.ask(OWNER, CLINIC, ADDRESS, PURPOSE)
        assert await refused(work) is Reason.PROVIDER_REFUSED
    assert mission.code == ""


@pytest.mark.parametrize("text", ["", "asha", "asha@gmail.com", "a@sbx", "asha k@sbx", "asha@sbx/../x"])
def test_what_is_no_address_is_not_sent(text: str) -> None:
    with pytest.raises(InvalidInput):
        check_address(text)


def test_an_aadhaar_number_is_no_address() -> None:
    with pytest.raises(Refused):
        check_address("299928496545@sbx")


async def test_a_purpose_must_be_said(room: Room, mission: HealthServer) -> None:
    for purpose in ("", "  ", "x" * 201, "aadhaar 2999 2849 6545"):
        with pytest.raises(IndaiError):
            await room.desk.health.ask(OWNER, CLINIC, ADDRESS, purpose)
    assert mission.code == ""
