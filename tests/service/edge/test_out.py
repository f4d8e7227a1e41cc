"""Answers on their way: providers that fail as they document it, windows, dead letters, agents' own words."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from indai.edge.channels.base import Raw, Request
from indai.edge.media import MediaStore, check_host
from indai.language import say
from indai.protocol.errors import IndaiError, InvalidInput, NotFound, Reason, Refused
from indai.v1 import channels_pb2 as pb
from indai.v1 import conversation_pb2 as talk_pb

from tests.service.edge.provider import Fault, words
from tests.service.edge.rooms import Room, running
from tests.service.edge.test_in import ONE, WORDS, text
from tests.unit.edge.accounts import NOW_S
from tests.unit.edge.webhooks import gs, gs_event, tg, wa, wa_message

ASHA = talk_pb.Identity(channel="whatsapp", kind="phone", value="+919876543210")
OGG = b"OggS" + b"\x00" * 60
META_DOWN = Fault(503, {"error": {"code": 131016}})


def now_text(number: int, body: str, sender: str = "919876543210") -> dict[str, Any]:
    """A message that was sent now, so that the window is open."""
    stamp = str(int(datetime.now(UTC).timestamp()))
    return wa(wa_message("text", {"body": body}, f"wamid.{number}", timestamp=stamp, **{"from": sender}))


async def letters(room: Room, name: str = "wa") -> list[pb.DeadLetter]:
    answer = await room.stub.ListDeadLetters(pb.ListDeadLettersRequest(name=name))
    return list(answer.letters)


async def test_a_provider_that_is_down_loses_nothing_and_holds_up_no_other(room: Room) -> None:
    await room.add("whatsapp-cloud")
    await room.add("telegram")
    room.provider.stays_down = META_DOWN
    for number in range(3):
        await room.deliver("whatsapp-cloud", now_text(number, str(number)))
    await room.provider.until_tried(3)
    await room.until("SELECT trouble FROM edge.channels WHERE name = 'wa'", "whatsapp-131016")
    assert (await room.status("wa")).channel.trouble == "whatsapp-131016"
    assert (await room.status("wa")).waiting == 3
    # The other channel has a provider of its own, which is up.
    room.provider.stays_down = None
    await room.stub.TestChannel(pb.TestChannelRequest(name="wa"))
    await room.deliver("telegram", ONE["telegram"])
    await room.provider.until(4)
    ours = [each for each in room.provider.texts() if each[-1].isdigit()]
    assert ours == [f"You said: {number}" for number in range(3)]
    await room.until("SELECT count(*) FROM edge.outbox WHERE state = 'waiting'", 0)
    assert (await room.status("wa")).channel.trouble == ""


async def test_an_hour_without_a_provider_loses_nothing_and_is_tried_once_a_minute_at_most(
    still: Room,
) -> None:
    """Somebody writes every five minutes of a clock that moves when it is told to; one word is tried then."""
    now, people = 0.0, ("919876543210", "919876543211", "919876543212")
    async with running(still, monotonic=lambda: now) as room:
        await room.add("whatsapp-cloud")
        await room.add("telegram")
        room.provider.stays_down, room.provider.down_for = META_DOWN, "/messages"
        for number in range(12):
            await room.deliver("whatsapp-cloud", now_text(number, str(number), people[number % 3]))
            await room.provider.until_tried(number + 1)
            await room.until("SELECT count(*) FROM edge.outbox WHERE state = 'waiting'", number + 1)
            assert len(room.provider.tried) == number + 1
            now += 300
        status = await room.status("wa")
        assert (status.channel.trouble, status.waiting) == ("whatsapp-131016", 12)
        await room.deliver("telegram", ONE["telegram"])
        assert len(await room.provider.until(1)) == 1  # nobody else waits
        room.provider.stays_down = None
        for said in (8, 13):  # the clock stands still between, and with it what the account may send at once
            now += 300
            await room.provider.until(said)
        await room.until("SELECT count(*) FROM edge.outbox WHERE state = 'waiting'", 0)
        heard = [words(each) for each in room.provider.sent[1:]]
    assert sorted(heard) == sorted(f"You said: {number}" for number in range(12))
    for first in range(3):
        theirs = [f"You said: {number}" for number in range(first, 12, 3)]
        assert [each for each in heard if each in theirs] == theirs
    assert await letters(room) == []


@pytest.mark.parametrize(
    "fault",
    [
        Fault(429, {"error": {"code": 130429}}, (("retry-after", "1"),)),
        Fault(400, {"error": {"code": 131056}}),
        Fault(500, "<html>"),
        Fault(hang=True),
    ],
    ids=["too many", "too many to one", "broken", "silent"],
)
async def test_what_may_succeed_later_is_sent_later(still: Room, fault: Fault) -> None:
    async with running(still, timeout_s=1.5 if fault.hang else 60.0) as room:
        await room.add("whatsapp-cloud")
        room.provider.faults = [fault]
        await room.deliver("whatsapp-cloud", now_text(1, "one"))
        await room.deliver("whatsapp-cloud", now_text(2, "two"))
        await room.provider.until(2)
        assert room.provider.texts() == ["You said: one", "You said: two"]
        first, second, *_ = room.provider.times
        assert second - first >= (0.99 if fault.status in (429, 400) else 0.3)


async def test_one_who_can_t_be_reached_is_a_dead_letter_and_the_next_goes_on(room: Room) -> None:
    await room.add("whatsapp-cloud")
    room.provider.faults = [Fault(400, {"error": {"code": 131026}})]
    await room.deliver("whatsapp-cloud", now_text(1, "one"))
    await room.deliver("whatsapp-cloud", now_text(2, "two"))
    await room.provider.until(1)
    assert room.provider.texts() == ["You said: two"]
    [letter] = await letters(room)
    assert (letter.reason, letter.words) == ("whatsapp-131026", "You said: one")
    assert (await room.stub.ReplayDeadLetters(pb.ReplayDeadLettersRequest(name="wa"))).replayed == 1
    await room.provider.until(2)
    assert room.provider.texts()[1] == "You said: one"
    assert await letters(room) == []
    with pytest.raises(NotFound):
        await room.stub.ReplayDeadLetters(
            pb.ReplayDeadLettersRequest(name="wa", letter_ids=[letter.letter_id])
        )


async def test_refused_credentials_stop_the_channel_until_they_are_good(room: Room) -> None:
    await room.add("whatsapp-cloud")
    room.provider.faults = [Fault(401, {"error": {"code": 190}})]
    await room.deliver("whatsapp-cloud", now_text(1, "one"))
    await room.until("SELECT trouble FROM edge.channels WHERE name = 'wa'", "whatsapp-190")
    assert await letters(room) == []
    assert "system user" in (await room.status("wa")).channel.trouble_words
    room.secrets["vault:wa.access_token"] = "wrong"
    refused = await room.stub.TestChannel(pb.TestChannelRequest(name="wa"))
    assert (refused.accepted, refused.reason) == (False, "whatsapp-190")
    room.secrets["vault:wa.access_token"] = "EAAG-token"
    assert (await room.stub.TestChannel(pb.TestChannelRequest(name="wa"))).accepted
    await room.provider.until(1)
    await room.until("SELECT trouble FROM edge.channels WHERE name = 'wa'", "")


async def test_a_test_names_missing_scopes_before_the_first_file_and_wrong_secrets_that_came(
    room: Room,
) -> None:
    await room.add("slack")
    body = {"ok": True, "team_id": "T0001", "bot_id": "B1"}
    scopes = ("x-oauth-scopes", "chat:write,files:read,im:history,reactions:read,reactions:write")
    room.provider.says["/auth.test"] = Fault(200, body, (scopes,))
    assert await room.post("sl", Raw("POST", {}, {"x-slack-signature": "v0=0"}, b"{}")) == 401
    found = (await room.stub.TestChannel(pb.TestChannelRequest(name="sl"))).findings
    assert {each.reason: each.grave for each in found} == {
        "slack-scopes": False,
        "refused-here": False,
        "no-https": True,
    }
    said = {each.reason: f"{each.words} {each.hint}" for each in found}
    assert "files:write" in said["slack-scopes"]
    assert "Signing Secret" in said["refused-here"]
    assert (await room.status("sl")).refused == 1
    # Refused credentials have words in the test and in the state.
    room.provider.says["/auth.test"] = Fault(200, {"ok": False, "error": "account_inactive"})
    refused = await room.stub.TestChannel(pb.TestChannelRequest(name="sl"))
    assert not refused.accepted
    assert "Install the app again" in refused.findings[0].hint


async def test_words_to_one_person_keep_the_provider_s_pace(still: Room) -> None:
    now, looks = 0.0, asyncio.Queue[float]()

    def monotonic() -> float:
        looks.put_nowait(now)
        return now

    async with running(still, monotonic=monotonic) as room:
        await room.add("whatsapp-cloud", pair_every_s="0.3")
        room.talk.answer = lambda _: talk_pb.Reply(text="A sentence of this length. " * 1100)
        await room.deliver("whatsapp-cloud", now_text(1, "tell me all"))
        # Five at once are borrowed, then one in a third of a second of a clock that moves when it is told to.
        for allowed in range(5, 9):
            await room.until("SELECT count(*) FROM edge.outbox WHERE state = 'sent'", allowed)
            while not looks.empty():
                looks.get_nowait()
            for _ in range(2):  # whoever looked has decided what to send by the time of the next look
                await looks.get()
            assert len(room.provider.sent) == allowed
            now += 0.301
        parts = room.provider.sent
    assert "".join(each["text"]["body"] for each in parts).count("this length") == 1100


async def test_receipts_only_move_forward_and_a_failure_is_a_dead_letter(room: Room) -> None:
    await room.add("whatsapp-cloud")
    await room.deliver("whatsapp-cloud", now_text(1, "one"))
    await room.provider.until(1)
    await room.until("SELECT count(*) FROM edge.outbox WHERE state = 'sent'", 1)

    async def told(state: str, message_id: str = "wamid.out1", **more: Any) -> str:
        status = {"id": message_id, "status": state, "timestamp": "1", "recipient_id": "91"} | more
        assert await room.deliver("whatsapp-cloud", wa(statuses=(status,))) == 200
        rows = await room.rows("SELECT state, payload FROM edge.outbox ORDER BY id")
        return f"{rows[-1]['state']} {'kept' if rows[-1]['payload'] else 'erased'}"

    assert await told("sent") == "sent kept"
    assert await told("read") == "read erased"
    assert await told("delivered") == "read erased"
    assert await told("failed", errors=[{"code": 131026}]) == "read erased"
    assert await told("read", "wamid.nobody") == "read erased"
    await room.deliver("whatsapp-cloud", now_text(2, "two"))
    await room.provider.until(2)
    await room.until("SELECT count(*) FROM edge.outbox WHERE state = 'sent'", 1)
    assert await told("failed", "wamid.out2", errors=[{"code": 131047}]) == "dead kept"
    [letter] = await letters(room)
    assert letter.reason == "whatsapp-131047"
    # Repeated, it is no second one; played again, it waits for the provider's word anew.
    assert await told("failed", "wamid.out2", errors=[{"code": 131047}]) == "dead kept"
    assert len(await letters(room)) == 1


async def test_gupshup_s_own_id_finds_what_became_of_a_message(room: Room) -> None:
    await room.add("gupshup")
    await room.deliver(
        "gupshup", gs("text", {"text": "hi"}) | {"timestamp": int(datetime.now(UTC).timestamp() * 1000)}
    )
    await room.provider.until(1)
    await room.until("SELECT count(*) FROM edge.outbox WHERE state = 'sent'", 1)
    await room.deliver("gupshup", gs_event("delivered", gsId="gs-1"))
    assert [row["state"] for row in await room.rows("SELECT state FROM edge.outbox")] == ["delivered"]


def outbound(number: int, **more: Any) -> talk_pb.OutboundMessage:
    found = talk_pb.OutboundMessage(
        outbound_id=f"{number:032x}",
        recipient=ASHA,
        account="+15550783881",
        reply=talk_pb.Reply(text="Bob has **agreed**."),
    )
    given = talk_pb.OutboundMessage(**more)
    if "reply" in more:
        found.ClearField("reply")
    if "recipient" in more:
        found.ClearField("recipient")
    found.MergeFrom(given)
    return found


async def acknowledged(room: Room) -> tuple[int, str]:
    async with asyncio.timeout(60):
        request = await room.talk.acknowledged.get()
    return int(request.outbound_id, 16), request.failure or request.provider_message_id


async def test_what_an_agent_says_of_its_own_accord_goes_out_once(room: Room) -> None:
    await room.add("whatsapp-cloud")
    await room.deliver("whatsapp-cloud", now_text(1, "hi"))
    await room.provider.until(1)
    for message in (
        outbound(1),
        outbound(1),
        outbound(2, recipient=talk_pb.Identity(channel="fax", value="1")),
    ):
        room.talk.outbound.put_nowait(message)
    await room.provider.until(2)
    assert room.provider.texts()[1:] == ["Bob has *agreed*."]
    seen = {await acknowledged(room), await acknowledged(room)}
    while len(seen) < 2 or (1, "") in seen:  # the one that came twice may be acknowledged twice
        seen = (seen | {await acknowledged(room)}) - {(1, "")}
    assert seen == {(1, "wamid.out2"), (2, "no-such-channel")}
    # It comes again after a lost acknowledgement: it is only acknowledged.
    room.talk.outbound.put_nowait(outbound(1))
    assert (await acknowledged(room))[0] == 1
    assert len(room.provider.sent) == 2


async def test_outside_the_window_a_template_goes_out_or_nothing(room: Room) -> None:
    await room.add("whatsapp-cloud")
    late = str(int((datetime.now(UTC) - timedelta(hours=23, minutes=59)).timestamp()))
    await room.deliver("whatsapp-cloud", wa(wa_message("text", {"body": "hi"}, timestamp=late)))
    await room.until("SELECT count(*) FROM edge.outbox WHERE state = 'dead'", 1)
    closes = (await room.status("wa", "+919876543210")).window_end_time
    assert abs(closes.seconds - (int(late) + 24 * 3600)) <= 1
    assert not (await room.status("wa", "+911111111111")).HasField("window_end_time")
    long = talk_pb.Reply(text="Bob has agreed. " * 400, language="en")
    for message in (
        outbound(1),
        outbound(2, template="update", reply=long),
        outbound(3, reply=talk_pb.Reply()),
    ):
        room.talk.outbound.put_nowait(message)
    results = {await acknowledged(room) for _ in range(3)}
    assert (1, "window-closed") in results
    assert (3, "empty") in results
    [sent] = room.provider.sent
    assert sent["template"]["name"] == "update"
    assert sent["template"]["components"][0]["parameters"][0]["text"].startswith("Bob has agreed. Bob")
    assert len(results) == 3


async def test_what_is_too_late_is_not_sent(room: Room) -> None:
    await room.add("whatsapp-cloud")
    await room.deliver("whatsapp-cloud", now_text(1, "hi"))
    await room.provider.until(1)
    room.talk.outbound.put_nowait(outbound(1, expire_time=Timestamp(seconds=NOW_S - 10**8)))
    assert await acknowledged(room) == (1, "expired")
    assert len(room.provider.sent) == 1


async def test_a_voice_note_is_fetched_checked_kept_and_understood(still: Room) -> None:
    async def transcribe(content: bytes, media_type: str, language: str) -> str:
        assert (content, media_type) == (OGG, "audio/ogg")
        return "set up thirty minutes with bob"

    async with running(still, transcribe=transcribe) as room:
        await room.add("whatsapp-cloud")
        room.provider.files["/file/1908"] = OGG
        await room.deliver(
            "whatsapp-cloud", wa(wa_message("audio", {"id": "1908", "mime_type": "audio/mp3"}))
        )
        await room.until("SELECT count(*) FROM edge.inbox WHERE done_at IS NOT NULL", 1)
        [heard] = room.talk.heard
        assert heard.text == "set up thirty minutes with bob"
        [media] = heard.media
        assert (media.media_type, media.size, media.transcript) == ("audio/ogg", len(OGG), heard.text)
        store = MediaStore(room.folder / "media")
        assert store.get(media.reference) == OGG
        for wrong in ("media:../../secret", "media:" + "0" * 64, "x"):
            with pytest.raises(NotFound):
                store.get(wrong)


@pytest.mark.parametrize(
    ("content", "key"),
    [
        (b"<html><script>alert(1)</script>", "media_refused"),
        (b"MZ\x90\x00", "media_refused"),
        (b"PK\x03\x04", "media_refused"),
        (b"\x89PNG\r\n\x1a\n" + b"\0" * (21 << 20), "media_too_large"),
    ],
    ids=["page", "program", "archive", "huge"],
)
async def test_a_file_that_is_not_taken_is_refused_with_words(room: Room, content: bytes, key: str) -> None:
    await room.add("telegram")
    room.provider.files["/file/bot110201543:AAHd/voice/F1"] = content
    claimed = {"file_id": "F1", "mime_type": "application/pdf", "file_name": "../../a.pdf"}
    await room.deliver("telegram", tg(document=claimed, date=NOW_S))
    [sent] = await room.provider.until(1)
    assert sent["text"] == say(key, "hi", limit=20)
    assert room.talk.heard == []
    # With words beside it, these are answered too.
    await room.deliver("telegram", tg(document=claimed, caption="the menu", message_id=8))
    await room.provider.until(2)
    assert room.provider.texts()[1].endswith("You said: the menu")
    assert not list((room.folder / "media").rglob("*"))


def test_a_file_is_fetched_from_its_provider_s_hosts_only() -> None:
    hosts, api = ("files.slack.com", ".whatsapp.net"), "http://127.0.0.1:8080"
    for good in ("https://files.slack.com/a", "https://x.whatsapp.net/b", "http://127.0.0.1:8080/c"):
        check_host(Request("GET", good), hosts, api)
    for bad in (
        "http://files.slack.com/a",
        "https://files.slack.com:22/a",
        "https://files.slack.com.evil.org/a",
        "https://evilwhatsapp.net/",
        "https://169.254.169.254/latest/meta-data",
        "http://127.0.0.1:8081/c",
        "file:///etc/passwd",
        "https://[::1",
    ):
        with pytest.raises(Refused):
            check_host(Request("GET", bad), hosts, api)
        with pytest.raises(Refused):
            check_host(Request("GET", bad), hosts, "")


async def test_settings_are_checked_as_a_whole_and_a_name_has_one_tenant(room: Room) -> None:
    with pytest.raises(InvalidInput) as refusal:
        await room.add("telegram", api="http://example.org", bot_token="110201543:AAHd", colour="red")
    assert sorted(refusal.value.fields) == ["api", "bot_token", "colour"]
    assert "AAHd" not in json.dumps(refusal.value.fields) + str(refusal.value)
    await room.add("telegram", tenant="acme")
    with pytest.raises(IndaiError) as taken:
        await room.add("telegram", tenant="other")
    assert taken.value.reason is Reason.ALREADY_EXISTS
    listed = await room.stub.ListChannels(pb.ListChannelsRequest(tenant="acme"))
    assert [(each.name, each.provider, each.account) for each in listed.channels] == [
        ("tg", "telegram", "indai_bot")
    ]
    assert (await room.stub.TestChannel(pb.TestChannelRequest(name="tg", recipient="5"))).webhook_set
    assert room.provider.signs[-1]["url"] == f"{room.url}/channels/tg"
    assert room.provider.signs[-1]["secret_token"] == "tg_secret"
    await room.provider.until(1)
    await room.stub.RemoveChannel(pb.RemoveChannelRequest(name="tg"))
    assert await room.deliver("telegram", ONE["telegram"]) == 404
    assert await room.rows("SELECT * FROM edge.outbox") == []


async def test_a_channel_without_its_secret_takes_and_sends_nothing_and_others_go_on(room: Room) -> None:
    await room.add("telegram")
    await room.add("whatsapp-cloud")
    del room.secrets["vault:tg.webhook_secret"]
    await room.add("whatsapp-cloud")  # reads all again
    assert await room.deliver("telegram", ONE["telegram"]) == 401
    await room.deliver("whatsapp-cloud", text(1, WORDS))
    await room.until("SELECT count(*) FROM edge.inbox WHERE done_at IS NOT NULL", 1)
