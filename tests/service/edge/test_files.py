"""Files that agents send: as each provider takes them, or as an address where one does not."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from indai.edge.files import KEPT_MS
from indai.edge.media import MediaStore
from indai.protocol.errors import NotFound
from indai.v1 import channels_pb2 as pb
from indai.v1 import conversation_pb2 as talk_pb

from tests.service.edge.provider import Fault, Provider, words
from tests.service.edge.rooms import Room
from tests.service.edge.test_in import ONE
from tests.service.edge.test_out import acknowledged, now_text, outbound
from tests.unit.edge.webhooks import gs

ICS = b"BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n"
PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 40
ZIP = b"PK\x03\x04" + b"\x00" * 40


def media(room: Room, content: bytes, name: str, media_type: str) -> talk_pb.Media:
    """A file that an agent has made."""
    reference = MediaStore(room.folder / "media").put(content)
    return talk_pb.Media(
        kind="document", media_type=media_type, reference=reference, size=len(content), file_name=name
    )


def file_reply(room: Room, content: bytes, name: str, media_type: str, text: str = "") -> talk_pb.Reply:
    return talk_pb.Reply(text=text, media=[media(room, content, name, media_type)])


async def asked(room: Room, provider: str, reply: talk_pb.Reply, sent: int) -> list[dict[str, Any]]:
    """What reaches the provider when somebody writes and this is answered."""
    room.talk.answer = lambda _: reply
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    payload = {
        "whatsapp-cloud": now_text(1, "hi"),
        "gupshup": gs("text", {"text": "hi"}) | {"timestamp": now_ms},
    }
    await room.deliver(provider, payload.get(provider, ONE[provider]))
    found = list(await room.provider.until(sent))
    await room.until("SELECT count(*) FROM edge.outbox WHERE state = 'waiting'", 0)
    return found


def brought(room: Room, provider: str, sent: dict[str, Any]) -> tuple[str, str, Any]:
    """As what a file arrived, named how, and what was in it: in the shape that each provider documents."""
    uploads = room.provider.uploads
    match provider:
        case "whatsapp-cloud":
            [upload] = uploads
            kind = sent["type"]
            assert re.fullmatch(r"media-\d+", sent[kind]["id"])
            assert (upload["messaging_product"], upload["type"]) == ("whatsapp", upload["file"]["type"])
            name = sent[kind].get("filename", upload["file"]["name"])
            return f"{kind} {upload['type']}", name, upload["file"]["content"]
        case "telegram":
            kind = "photo" if "photo" in sent else "document"
            assert sent["chat_id"]
            return f"{kind} {sent[kind]['type']}", sent[kind]["name"], sent[kind]["content"]
        case "slack":
            [upload] = uploads
            [file] = sent["files"]
            assert upload["path"].endswith(file["id"].removeprefix("F"))
            assert sent["channels"].startswith("D")
            return "file", file["title"], upload["content"]
    return "", "", b""


@pytest.mark.parametrize(
    ("provider", "document", "picture"),
    [
        ("whatsapp-cloud", "document text/plain", "image image/png"),
        ("telegram", "document text/calendar", "photo image/png"),
        ("slack", "file", "file"),
    ],
)
async def test_a_file_of_an_answer_arrives_after_its_words(
    room: Room, provider: str, document: str, picture: str
) -> None:
    await room.add(provider)
    reply = file_reply(room, ICS, "meeting.ics", "text/calendar", "It is **booked**.")
    said, file = await asked(room, provider, reply, 2)
    assert "booked" in words(said)
    assert "meeting.ics" not in words(said)
    assert brought(room, provider, file) == (document, "meeting.ics", ICS)
    room.provider.sent.clear()
    room.provider.uploads.clear()
    room.talk.outbound.put_nowait(
        talk_pb.OutboundMessage(
            outbound_id="01" * 16,
            recipient=room.talk.heard[0].sender,
            reply=file_reply(room, PNG, "pay.png", "image/png"),
        )
    )
    [file] = await room.provider.until(1)
    if provider == "slack":
        assert file["channels"].startswith("U")  # nobody wrote: their own id stands for their messages
        file["channels"] = "D"
    assert brought(room, provider, file) == (picture, "pay.png", PNG)
    assert (await acknowledged(room))[1]


async def test_gupshup_fetches_a_file_from_an_address_that_nobody_guesses_and_that_ends(room: Room) -> None:
    await room.add("gupshup")
    _, file, picture = (
        message_of(each)
        for each in await asked(
            room,
            "gupshup",
            talk_pb.Reply(
                text="Here.",
                media=[
                    media(room, ICS, "a b.ics", "text/calendar"),
                    media(room, PNG, "pay.png", "image/png"),
                ],
            ),
            3,
        )
    )
    assert (file["type"], file["filename"]) == ("file", "a b.ics")
    assert (picture["type"], picture["originalUrl"]) == ("image", picture["previewUrl"])
    async with room.session.get(file["url"]) as answer:
        assert (answer.status, answer.content_type, await answer.read()) == (200, "text/calendar", ICS)
        assert answer.headers["Content-Disposition"].startswith("attachment;")
        assert "sandbox" in answer.headers["Content-Security-Policy"]
    ticket = file["url"].split("/")[-2]
    body, code = ticket.split(".")
    for wrong in (
        file["url"].replace("a%20b.ics", "b.html"),  # the name belongs to it
        file["url"].replace(code, code[:-1] + ("A" if code[-1] != "A" else "Q")),
        file["url"].replace(body, body[:-2] + "AA"),
        file["url"].replace(f".{code}", ""),
        file["url"].replace(ticket, "é"),
    ):
        async with room.session.get(wrong) as answer:
            assert answer.status == 404, wrong
    room.now_ms += KEPT_MS
    async with room.session.get(file["url"]) as answer:
        assert answer.status == 404


def message_of(sent: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(sent["message"])
    return found


async def test_what_a_provider_does_not_take_goes_as_an_address(room: Room) -> None:
    """By its kind or size before it is tried, and by the provider's word after."""
    await room.add("whatsapp-cloud")
    await room.add("slack")
    [sent] = await asked(room, "whatsapp-cloud", file_reply(room, ZIP, "a.zip", "application/zip", "All."), 1)
    link = re.search(r"a\.zip: (http\S+/a\.zip)", words(sent))
    assert link, sent
    async with room.session.get(link[1]) as answer:
        assert await answer.read() == ZIP
    large = media(room, PNG, "large.png", "image/png")
    large.size = 11 << 20
    room.talk.answer = lambda _: talk_pb.Reply(text="Big.", media=[large])
    await room.deliver("whatsapp-cloud", now_text(2, "more"))
    assert "large.png: http" in words((await room.provider.until(2))[1])
    assert room.provider.uploads == []
    # An app that may send no files still says where they are, and goes on sending words.
    room.provider.stays_down = Fault(200, {"ok": False, "error": "missing_scope"})
    room.provider.down_for = "getUploadURLExternal"
    room.talk.answer = lambda _: file_reply(room, ICS, "meeting.ics", "text/calendar", "Booked.")
    await room.deliver("slack", ONE["slack"])
    _, _, said, address = await room.provider.until(4)
    assert words(said) == "Booked."
    assert re.search(r"meeting\.ics.*http\S+/meeting\.ics", words(address)), address
    assert (await room.status("sl")).channel.trouble == ""


async def test_a_file_is_brought_to_the_providers_own_hosts_only(room: Room) -> None:
    """Whatever an answer says: who answers for the provider gets no file of ours sent to others."""
    await room.add("slack")
    async with Provider().serving() as other:
        said = {"ok": True, "upload_url": f"{other.address}/upload/v1/9", "file_id": "F9"}
        room.provider.faults = [Fault(200, said)]
        [sent] = await asked(room, "slack", file_reply(room, ICS, "meeting.ics", "text/calendar"), 1)
        assert other.uploads == []
    assert re.search(r"meeting\.ics.*http\S+/meeting\.ics", words(sent))


async def test_a_file_that_is_gone_is_a_dead_letter_by_its_name_and_the_next_goes_on(room: Room) -> None:
    await room.add("telegram")
    lost = talk_pb.Media(media_type="text/plain", reference="media:" + "0" * 64, size=1, file_name="lost.txt")
    here = media(room, ICS, "here.ics", "text/calendar")
    [sent] = await asked(room, "telegram", talk_pb.Reply(media=[lost, here]), 1)
    assert sent["document"]["name"] == "here.ics"
    [letter] = (await room.stub.ListDeadLetters(pb.ListDeadLettersRequest(name="tg"))).letters
    assert (letter.reason, letter.words) == ("file-gone", "lost.txt")


def test_files_are_erased_a_month_after_they_were_last_kept(tmp_path: Path) -> None:
    store, folder = MediaStore(tmp_path / "media"), tmp_path / "media"
    assert store.sweep(10**10) == 0  # there is none yet
    old, again, new = (store.put(content) for content in (b"old", b"again", b"new"))
    for path in folder.glob("??/*"):
        os.utime(path, (1_000, 1_000) if path.read_bytes() != b"new" else (3_000, 3_000))
    assert store.put(b"again") == again
    assert store.sweep(2_000) == 1
    assert store.get(new) + store.get(again) == b"newagain"
    with pytest.raises(NotFound):
        store.get(old)


async def test_outside_the_window_a_template_says_where_the_file_is(room: Room) -> None:
    await room.add("whatsapp-cloud")
    reply = file_reply(room, ICS, "meeting.ics", "text/calendar", "Booked.")
    room.talk.outbound.put_nowait(outbound(1, template="update", reply=reply))
    assert (await acknowledged(room))[0] == 1
    [sent] = room.provider.sent
    said = sent["template"]["components"][0]["parameters"][0]["text"]
    assert re.match(r"Booked\. meeting\.ics: http\S+/meeting\.ics$", said), said
    letters = await room.stub.ListDeadLetters(pb.ListDeadLettersRequest(name="wa"))
    assert list(letters.letters) == []
