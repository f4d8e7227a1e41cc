"""A person's DigiLocker: connected by them alone, renewed, lost, and its documents kept sealed."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from urllib.parse import parse_qs, urlsplit

import pytest
from indai.dpi.digilocker import check_reference
from indai.dpi.documents import PATH, Documents
from indai.dpi.lockers import FLOW_MS, TRIES, _secret_name
from indai.protocol.errors import IndaiError, InvalidInput, NotFound, Reason, Refused, Unavailable
from indai.storage.pool import transaction

from tests.service.dpi.conftest import NOW, OTHER, OWNER, MakeRoom, Room, digilocker_config
from tests.service.dpi.lockerserver import CARD, MARKS, SECRET, STRANGE, LockerServer

PURPOSE = "To prepare a notice"
AADHAAR = "299928496545"


async def came_back(room: Room, locker: LockerServer, person: str = OWNER) -> tuple[int, str]:
    """The person consents; status and words of the page that they then see."""
    return await room.get(locker.consent(await room.desk.lockers.begin(OWNER, person, PURPOSE)))


async def connect(room: Room, locker: LockerServer, person: str = OWNER) -> None:
    status, page = await came_back(room, locker, person)
    assert status == 200, page
    await room.desk.lockers.confirm(OWNER, person, shown(page))


def shown(page: str) -> str:
    return str(re.findall(r"[2-9A-Z]{8}", page)[-1])


async def reason(work: object) -> Reason:
    with pytest.raises(IndaiError) as raised:
        await work  # type: ignore[misc]
    assert SECRET not in str(raised.value)
    return raised.value.reason


async def test_a_document_is_listed_pulled_and_read_over_its_link(room: Room, locker: LockerServer) -> None:
    await connect(room, locker)
    listed = await room.desk.lockers.issued(OWNER, OWNER)
    assert [(each.uri, each.is_aadhaar) for each in listed] == [(MARKS, False), (CARD, True)]
    document, link, until = await room.desk.lockers.pull(OWNER, OWNER, MARKS)
    assert (document.mime, until) == ("application/pdf", NOW + 15 * 60_000)
    assert await room.get(link) == (200, "%PDF-1.7 marks of Asha")
    (consent,) = await room.desk.consents.of(OWNER, OWNER)
    assert (consent.purpose, consent.status, consent.uses) == (PURPOSE, "ACTIVE", 2)


async def test_megabytes_are_sealed_and_opened_where_nobody_else_waits(room: Room) -> None:
    threads: list[int] = []

    def seal(body: bytes, _: str) -> bytes:
        threads.append(threading.get_ident())
        return body[::-1]

    made = Documents(room.pool, seal, seal, b"k" * 32, lambda: NOW, link_minutes=1, keep_days=1)
    consent = await room.desk.consents.add(OWNER, OWNER, "digilocker", PURPOSE, NOW + 60_000)
    kept = await made.keep(OWNER, OWNER, consent.id, MARKS, "marks", "application/pdf", b"marks")
    path, _ = made.link(OWNER, kept)
    assert (await made.read(path.removeprefix(PATH))).body == b"marks"
    assert len(threads) == 2
    assert threading.get_ident() not in threads


async def test_no_secret_is_in_a_row_a_log_or_a_file(
    room: Room, locker: LockerServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await connect(room, locker)
    await room.desk.lockers.pull(OWNER, OWNER, MARKS)
    stored = await room.everything_stored()
    files = b"".join(path.read_bytes() for path in room.data.rglob("*") if path.is_file())
    for secret in (*locker.access, *locker.refresh, SECRET):
        assert secret not in stored
        assert secret not in caplog.text
        assert secret.encode() not in files
    assert "marks of Asha" not in stored
    assert b"marks of Asha".hex() not in stored


async def test_a_state_is_good_for_one_try_and_ten_minutes(room: Room, locker: LockerServer) -> None:
    back = locker.consent(await room.desk.lockers.begin(OWNER, OWNER, PURPOSE))
    assert (await room.get(back))[0] == 200
    status, page = await room.get(back)
    assert (status, "used already" in page) == (403, True)
    late = locker.consent(await room.desk.lockers.begin(OWNER, OWNER, PURPOSE))
    room.time[0] += FLOW_MS
    assert (await room.get(late))[0] == 403


@pytest.mark.parametrize("twist", ["", "x", "a.b.c"])
async def test_a_state_that_was_not_begun_here_is_refused(
    room: Room, locker: LockerServer, twist: str
) -> None:
    begun = await room.desk.lockers.begin(OWNER, OWNER, PURPOSE)
    state = parse_qs(urlsplit(begun).query)["state"][0]
    wrong = twist if twist in ("", "a.b.c") else state[:-1] + ("A" if state[-1] != "A" else "B")
    assert await reason(room.desk.lockers.callback(wrong, "code", "")) is Reason.PERMISSION_DENIED
    assert locker.access == set()
    # And the true one is still good: nobody can use it up who does not know it.
    assert (await room.get(locker.consent(begun)))[0] == 200


async def test_a_person_who_says_no_is_not_connected(room: Room, locker: LockerServer) -> None:
    begun = await room.desk.lockers.begin(OWNER, OWNER, PURPOSE)
    state = parse_qs(urlsplit(begun).query)["state"][0]
    status, page = await room.get(f"{room.url}/dpi/digilocker/callback?state={state}&error=access_denied")
    assert (status, "did not allow" in page) == (403, True)
    assert await room.desk.lockers.status(OWNER, OWNER) is None


async def test_only_whose_browser_showed_the_code_is_connected(room: Room, locker: LockerServer) -> None:
    _, page = await came_back(room, locker)  # a victim opened the address that somebody else was given
    assert await reason(room.desk.lockers.issued(OWNER, OWNER)) is Reason.UNAUTHENTICATED
    for _ in range(TRIES):
        assert await reason(room.desk.lockers.confirm(OWNER, OWNER, "22222222")) is Reason.PERMISSION_DENIED
    assert await reason(room.desk.lockers.confirm(OWNER, OWNER, shown(page))) is Reason.PERMISSION_DENIED
    assert locker.seen == []
    # What was given to the wrong person is given back.
    assert (locker.refresh, room.secrets.names()) == (set(), ["locker"])
    assert await room.desk.lockers.status(OWNER, OWNER) is None


async def test_another_person_and_another_owner_see_nothing(room: Room, locker: LockerServer) -> None:
    await connect(room, locker, "wa:ravi")
    assert await reason(room.desk.lockers.issued(OWNER, OWNER)) is Reason.UNAUTHENTICATED
    assert await reason(room.desk.lockers.issued(OTHER, "wa:ravi")) is Reason.UNAUTHENTICATED
    assert await room.desk.consents.of(OTHER, "wa:ravi") == []
    for table in ("connections", "consents", "uses"):  # nor does anybody who says no owner
        assert await room.pool.fetchval(f"SELECT count(*) FROM dpi.{table}") == 0  # noqa: S608
    (consent,) = await room.desk.consents.of(OWNER, "wa:ravi")
    with pytest.raises(NotFound):
        await room.desk.consents.get(OWNER, OWNER, consent.id)


async def test_a_token_is_renewed_before_it_ends_once_for_many(room: Room, locker: LockerServer) -> None:
    await connect(room, locker)
    first = set(locker.refresh)
    room.time[0] += 3_600_000 - 30_000
    await asyncio.gather(*(room.desk.lockers.issued(OWNER, OWNER) for _ in range(4)))
    assert locker.refresh != first  # a second renewal with the same token would have failed


async def test_a_token_that_is_refused_is_renewed_at_once(room: Room, locker: LockerServer) -> None:
    await connect(room, locker)
    locker.access = set()
    await asyncio.gather(*(room.desk.lockers.issued(OWNER, OWNER) for _ in range(4)))
    assert len(locker.access) == 1


async def test_a_grant_that_was_ended_there_asks_to_connect_again(room: Room, locker: LockerServer) -> None:
    await connect(room, locker)
    locker.access, locker.refresh = set(), set()
    with pytest.raises(Refused) as lost:
        await room.desk.lockers.issued(OWNER, OWNER)
    assert (lost.value.reason, "connect with" in lost.value.hint) == (Reason.UNAUTHENTICATED, True)
    assert room.secrets.names() == ["locker"]
    assert await reason(room.desk.lockers.issued(OWNER, OWNER)) is Reason.UNAUTHENTICATED
    await connect(room, locker)
    assert await room.desk.lockers.issued(OWNER, OWNER)


async def test_disconnecting_ends_the_grant_the_secret_and_the_links(
    room: Room, locker: LockerServer
) -> None:
    await connect(room, locker)
    _, link, _ = await room.desk.lockers.pull(OWNER, OWNER, MARKS)
    assert await room.desk.lockers.disconnect(OWNER, OWNER) is True
    assert (locker.refresh, room.secrets.names()) == (set(), ["locker"])
    assert (await room.get(link))[0] == 404
    assert [each.status for each in await room.desk.consents.of(OWNER, OWNER)] == ["REVOKED"]
    assert await reason(room.desk.lockers.disconnect(OWNER, OWNER)) is Reason.NOT_FOUND


async def test_disconnecting_works_while_digilocker_is_down(room: Room, locker: LockerServer) -> None:
    await connect(room, locker)
    locker.faults = [503]
    assert await room.desk.lockers.disconnect(OWNER, OWNER) is False
    assert room.secrets.names() == ["locker"]


async def test_a_link_ends_and_can_not_be_made_by_hand(room: Room, locker: LockerServer) -> None:
    await connect(room, locker)
    _, link, until = await room.desk.lockers.pull(OWNER, OWNER, MARKS)
    body, _, mac = link.rpartition(".")
    for wrong in (f"{body}.{'A' * len(mac)}", f"{body}x.{mac}", body, f"{body}."):
        status, words = await room.get(wrong)
        assert (status, "not one of this node" in words) == (401, True)
    room.time[0] = until
    assert (await room.get(link))[0] == 400


async def test_the_aadhaar_card_is_not_pulled_and_no_number_in_a_text_is_kept(
    room: Room, locker: LockerServer
) -> None:
    await connect(room, locker)
    assert await reason(room.desk.lockers.pull(OWNER, OWNER, CARD)) is Reason.POLICY_DENIED
    assert locker.seen == []
    text = f"<Certificate><IssuedTo><Person uid='{AADHAAR}' name='Asha'/></IssuedTo></Certificate>"
    locker.files[STRANGE] = ("application/xml", text.encode())
    assert await reason(room.desk.lockers.pull(OWNER, OWNER, STRANGE)) is Reason.POLICY_DENIED
    assert "documents" not in await room.everything_stored()
    locker.files[STRANGE] = ("application/xml", text.replace(AADHAAR, "xxxxxxxx6545").encode())
    assert (await room.desk.lockers.pull(OWNER, OWNER, STRANGE))[0].size > 0


@pytest.mark.parametrize(
    "uri", ["", "../../x", "http://10.0.0.1/", "in.gov.cbse", "a-B-c?x=1", "in.gov.cbse-SSCER-1/2"]
)
def test_what_is_no_reference_is_never_asked_for(uri: str) -> None:
    with pytest.raises(InvalidInput):
        check_reference(uri)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (500, Reason.PROVIDER_FAILED),
        (429, Reason.RATE_LIMITED),
        ("redirect", Reason.INSECURE),
        ("huge", Reason.UNREACHABLE),
        ("html", Reason.PROVIDER_FAILED),
        ("slow", Reason.DEADLINE_EXCEEDED),
        (418, Reason.PROVIDER_FAILED),
    ],
)
async def test_each_fault_has_its_word_and_the_next_call_works(
    room: Room, locker: LockerServer, monkeypatch: pytest.MonkeyPatch, fault: int | str, expected: Reason
) -> None:
    await connect(room, locker)
    monkeypatch.setattr("indai.dpi.desk.TIMEOUT_S", 0.2 if fault == "slow" else 10.0)
    locker.faults = [fault]
    assert await reason(room.desk.lockers.issued(OWNER, OWNER)) is expected
    assert await room.desk.lockers.issued(OWNER, OWNER)


async def test_a_renewal_that_fails_for_now_keeps_the_grant(room: Room, locker: LockerServer) -> None:
    await connect(room, locker)
    room.time[0] += 3_600_000
    locker.faults = [503]
    assert await reason(room.desk.lockers.issued(OWNER, OWNER)) is Reason.PROVIDER_FAILED
    assert await room.desk.lockers.issued(OWNER, OWNER)


async def test_a_document_that_was_changed_on_its_way_is_not_kept(room: Room, locker: LockerServer) -> None:
    await connect(room, locker)
    locker.faults = ["tampered"]
    assert await reason(room.desk.lockers.pull(OWNER, OWNER, MARKS)) is Reason.BAD_SIGNATURE


async def test_a_node_in_public_does_not_knock_at_private_addresses(
    make_room: MakeRoom, locker: LockerServer
) -> None:
    async with make_room(digilocker_config(locker.url), private=False, locker=SECRET) as room:
        begun = await room.desk.lockers.begin(OWNER, OWNER, PURPOSE)
        assert (await room.get(locker.consent(begun)))[0] == Reason.INSECURE.status.http
    named = digilocker_config(locker.url.replace("127.0.0.1", "localhost"))
    async with make_room(named, private=False, locker=SECRET) as room:
        begun = await room.desk.lockers.begin(OWNER, OWNER, PURPOSE)
        state = parse_qs(urlsplit(begun).query)["state"][0]
        with pytest.raises(Unavailable):
            await room.desk.lockers.callback(state, "code", "")
    assert locker.access == set()


async def test_what_is_not_set_up_says_so(make_room: MakeRoom) -> None:
    async with make_room("") as room:
        assert await reason(room.desk.lockers.begin(OWNER, OWNER, PURPOSE)) is Reason.UNSUPPORTED


async def test_forgetting_a_person_leaves_nothing_of_them_and_all_of_the_others(
    room: Room, locker: LockerServer
) -> None:
    for person in (OWNER, OTHER):
        await connect(room, locker, person)
        await room.desk.lockers.pull(OWNER, person, MARKS)
    await room.desk.consents.add(OTHER, OTHER, "aa", PURPOSE, NOW + 60_000)  # at another owner of this node
    await room.desk.lockers.begin(OWNER, OTHER, PURPOSE)
    done = await room.desk.forget(OWNER, OTHER)
    assert (done.people, done.told) == (1, True)
    assert done.rows == 3  # beside its connection and document: a flow, a consent, a use
    assert await room.desk.lockers.status(OWNER, OTHER) is None
    mine = await room.desk.lockers.status(OWNER, OWNER)
    assert mine is not None
    assert mine.state == "live"
    assert [each.status for each in await room.desk.consents.of(OWNER, OWNER)] == ["ACTIVE"]
    assert len(room.secrets.names()) == 2  # the operator's, and the other person's token
    assert (await room.desk.forget(OWNER, OTHER)).rows == 0


async def test_an_owner_who_leaves_takes_everybody_along_also_while_digilocker_is_down(
    room: Room, locker: LockerServer
) -> None:
    await connect(room, locker)
    status, _ = await came_back(room, locker, OTHER)  # waits for its code
    assert status == 200
    await room.vault.set(_secret_name(OWNER, "a crash"), "a token whose row never came to be")
    await room.desk.consents.add(OTHER, OTHER, "aa", PURPOSE, NOW + 60_000)
    async with transaction(room.pool, [OWNER]) as connection:
        await connection.execute(
            "INSERT INTO dpi.splits (owner, payment_id, currency, amount_minor, shares, created_ms)"
            " VALUES ($1, 'pay_1', 'INR', 1, '[]', 1)",
            OWNER,
        )
    await room.desk.lockers.begin(OWNER, "a crash", PURPOSE)
    locker.faults += [500] * 8
    done = await room.desk.forget(OWNER, None)
    assert (done.people, done.told) == (3, False)
    assert room.secrets.names() == ["locker"]
    stored = await room.everything_stored()
    assert len(stored.splitlines()) == 1  # what another owner of this node has
    assert OWNER not in stored
