"""Webhooks over HTTP: checked, stored before they are answered, handed on in order, each once."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest
from indai.edge.receiving import AT_ONCE
from indai.protocol.errors import NotFound, Reason, Unavailable
from indai.v1 import conversation_pb2 as talk_pb

from tests.service.edge.rooms import Room, running
from tests.unit.edge.accounts import NOW_S, signed
from tests.unit.edge.webhooks import TABLES, gs, sl, tg, wa, wa_message

WORDS = "Set up 30 min with bob"
WRITTEN_S = int(time.time())
"""When people write: one who did more than a day ago may be answered by a template only."""
ONE: dict[str, Any] = {
    "whatsapp-cloud": wa(wa_message("text", {"body": WORDS}, timestamp=str(WRITTEN_S))),
    "gupshup": gs("text", {"text": WORDS}) | {"timestamp": WRITTEN_S * 1000},
    "telegram": tg(text=WORDS),
    "slack": sl(text=WORDS),
}


def text(number: int, body: str, sender: str = "919876543210") -> dict[str, Any]:
    contact = {"profile": {"name": "A"}, "wa_id": sender}
    more = {"from": sender, "timestamp": str(WRITTEN_S)}
    return wa(wa_message("text", {"body": body}, f"wamid.{sender}.{number}", **more), contact=contact)


@pytest.mark.parametrize("provider", sorted(TABLES))
async def test_who_writes_on_a_channel_is_answered_there(room: Room, provider: str) -> None:
    await room.add(provider)
    assert await room.deliver(provider, ONE[provider]) == 200
    assert await room.provider.until(1)
    assert room.provider.texts() == [f"You said: {WORDS}"]
    assert [each.text for each in room.talk.heard] == [WORDS]
    # Nothing of what was said, and no number, is left in the queue.
    await room.until("SELECT count(*) FROM edge.outbox WHERE state = 'sent'", 1)
    rows = str(await room.rows("SELECT * FROM edge.inbox")) + str(await room.rows("SELECT * FROM edge.peers"))
    assert WORDS not in rows
    assert "9876543210" not in rows


@pytest.mark.parametrize("provider", sorted(TABLES))
async def test_what_was_not_sent_by_the_provider_is_refused_and_leaves_nothing(
    room: Room, provider: str
) -> None:
    await room.add(provider)
    good = signed(provider, ONE[provider])
    name = {"whatsapp-cloud": "wa", "gupshup": "gs", "telegram": "tg", "slack": "sl"}[provider]
    assert await room.post(name, replace(good, headers={"content-type": "application/json"})) == 401
    assert await room.post("nobody", good) == 404
    assert await room.post(name, replace(good, body=b"x" * (1024 * 1024 + 1))) == 413
    assert await room.rows("SELECT * FROM edge.inbox") == []


async def test_half_a_webhook_is_none_and_holds_nothing(
    room: Room, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await room.add("telegram")
    good = signed("telegram", ONE["telegram"])
    head = "".join(f"{name}: {value}\r\n" for name, value in good.headers.items())
    for length, end in (
        (f"Content-Length: {len(good.body)}", b""),
        ("Transfer-Encoding: chunked", b"5\r\n{"),
    ):
        start = f"POST /channels/tg HTTP/1.1\r\nHost: edge\r\n{head}{length}\r\n\r\n".encode()
        monkeypatch.setattr("indai.edge.receiving.READ_S", 30.0)
        _, writer = await asyncio.open_connection("127.0.0.1", int(room.url.rpartition(":")[2]))
        writer.write(start + (end or good.body[:-1]))
        await writer.drain()
        writer.close()  # it is gone
        await writer.wait_closed()
        monkeypatch.setattr("indai.edge.receiving.READ_S", 0.01)
        reader, writer = await asyncio.open_connection("127.0.0.1", int(room.url.rpartition(":")[2]))
        writer.write(start + (end or good.body[:-1]))  # it never goes on
        assert b" 408 " in await asyncio.wait_for(reader.readline(), 60)
        writer.close()
    monkeypatch.setattr("indai.edge.receiving.READ_S", 30.0)
    assert await room.deliver("telegram", ONE["telegram"]) == 200
    assert len(await room.rows("SELECT * FROM edge.inbox")) == 1
    assert [each for each in caplog.records if each.exc_info] == []


async def test_a_webhook_is_durable_before_it_is_answered(room: Room) -> None:
    await room.add("telegram")
    room.talk.gates["hold"] = asyncio.Event()
    assert await room.deliver("telegram", tg(text="hold")) == 200
    rows = await room.rows("SELECT message, done_at FROM edge.inbox")
    assert talk_pb.InboundMessage.FromString(rows[0]["message"]).text == "hold"
    assert rows[0]["done_at"] is None


async def test_without_its_database_a_webhook_is_not_taken(room: Room) -> None:
    await room.add("telegram")
    room.pool.terminate()
    # What was not taken doesn't count as one of the sender's.
    for _ in range(AT_ONCE + 5):
        assert await room.deliver("telegram", ONE["telegram"]) == 503


async def test_the_same_webhook_many_times_is_one_message(room: Room) -> None:
    await room.add("whatsapp-cloud")
    statuses = await asyncio.gather(*(room.deliver("whatsapp-cloud", text(1, "hi")) for _ in range(12)))
    assert set(statuses) == {200}
    await room.provider.until(1)
    assert await room.deliver("whatsapp-cloud", text(1, "hi")) == 200
    assert await room.deliver("whatsapp-cloud", text(2, "bye")) == 200
    await room.provider.until(2)
    assert room.provider.texts() == ["You said: hi", "You said: bye"]
    assert room.talk.calls == 2


async def test_ten_at_once_of_one_person_go_one_by_one_and_others_dont_wait(room: Room) -> None:
    await room.add("whatsapp-cloud")
    room.talk.gates["0"] = asyncio.Event()
    for number in range(10):
        await room.deliver("whatsapp-cloud", text(number, str(number)))
    await room.deliver("whatsapp-cloud", text(1, "other", "918888888888"))
    await room.provider.until(1)
    assert room.provider.texts() == ["You said: other"]
    room.talk.gates["0"].set()
    await room.provider.until(11)
    assert [each.text for each in room.talk.heard if each.text != "other"] == [str(n) for n in range(10)]
    assert room.provider.texts()[1:] == [f"You said: {n}" for n in range(10)]
    assert room.talk.most_at_once == 1


async def test_a_flood_costs_its_sender_only_and_they_are_told_once(room: Room) -> None:
    await room.add("whatsapp-cloud", pair_every_s="0.001")
    room.talk.gates["first"] = asyncio.Event()
    await room.deliver("whatsapp-cloud", text(0, "first"))
    for start in range(1, 61, 20):
        many = [wa_message("text", {"body": str(n)}, f"wamid.{n}") for n in range(start, start + 20)]
        assert await room.deliver("whatsapp-cloud", wa(*many)) == 200
    await room.deliver("whatsapp-cloud", text(1, "other", "918888888888"))
    await room.provider.until(2)
    assert sorted(room.provider.texts()) == [
        "You said: other",
        "You write faster than I can answer. Please wait 60 seconds.",
    ]
    room.talk.gates["first"].set()
    await room.provider.until(2 + AT_ONCE)
    await room.until("SELECT count(*) FROM edge.inbox WHERE done_at IS NULL", 0)
    assert len(room.talk.heard) == AT_ONCE + 1
    # Whoever has been quiet is heard again.
    room.now_ms += 60_000
    await room.deliver("whatsapp-cloud", text(99, "again"))
    await room.provider.until(3 + AT_ONCE)
    assert room.provider.texts()[-1] == "You said: again"


async def test_a_replayed_webhook_of_long_ago_is_left_out(room: Room) -> None:
    await room.add("telegram")
    assert await room.deliver("telegram", tg(text="old", date=NOW_S - 9 * 86400)) == 200
    assert await room.rows("SELECT * FROM edge.inbox") == []


async def test_a_message_waits_for_a_conversation_that_is_away(room: Room) -> None:
    await room.add("telegram")
    room.talk.errors = [Unavailable(Reason.UNREACHABLE, "Away.")] * 2
    await room.deliver("telegram", ONE["telegram"])
    await room.provider.until(1)
    assert room.provider.texts() == [f"You said: {WORDS}"]
    assert room.talk.calls == 3


async def test_who_names_a_handle_that_is_none_is_told_so_in_their_language(room: Room) -> None:
    await room.add("telegram")
    room.talk.errors = [NotFound(Reason.NOT_FOUND, "There is no such handle.")]
    await room.deliver("telegram", tg(text="@nobody नमस्ते, क्या हम कल मिल सकते हैं?"))
    [sent] = await room.provider.until(1)
    assert "ind.ai/nobody" in sent["text"]
    assert any("\u0900" <= char <= "\u097f" for char in sent["text"])


async def test_a_handle_that_was_named_is_spoken_to_until_another_is(room: Room) -> None:
    await room.add("telegram")
    said = ["hi", "@bob are you free?", "tomorrow", "@ranveer.ai hello", "more", "@me what now?", "and then?"]
    for number, words in enumerate(said):
        await room.deliver("telegram", tg(text=words, message_id=number))
    await room.deliver("telegram", tg(text="/start carol", message_id=70))
    await room.provider.until(8)
    assert [(each.handle, each.text) for each in room.talk.heard] == [
        ("", "hi"),
        ("ind.ai/bob", "are you free?"),
        ("ind.ai/bob", "tomorrow"),
        ("ranveer.ai", "hello"),
        ("ranveer.ai", "more"),
        ("", "what now?"),
        ("", "and then?"),
        ("ind.ai/carol", "Hello"),
    ]


async def test_a_typed_number_is_the_choice_that_was_numbered(room: Room) -> None:
    await room.add("telegram")
    offered = [talk_pb.Choice(id="slot-" + "x" * 70, title="Ten"), talk_pb.Choice(id="b", title="Eleven")]
    room.talk.answer = lambda _: talk_pb.Reply(text="When?", choices=offered)
    await room.deliver("telegram", tg(text="meet", message_id=1))
    await room.provider.until(1)
    assert room.provider.texts() == ["When?\n\n1. Ten\n2. Eleven"]
    for number, words in enumerate(["2", "3"], start=2):
        await room.deliver("telegram", tg(text=words, message_id=number))
    await room.provider.until(3)
    assert [each.choice for each in room.talk.heard] == ["", "b", ""]


async def test_what_needs_approval_is_shown_with_its_code(room: Room) -> None:
    await room.add("whatsapp-cloud")
    room.talk.approval = talk_pb.TurnApproval(code="4F7K", terms="30 minutes with bob, Monday 10:00")
    await room.deliver("whatsapp-cloud", text(1, "meet bob"))
    [sent] = await room.provider.until(1)
    inner = sent["interactive"]
    assert "30 minutes with bob, Monday 10:00" in inner["body"]["text"]
    assert [each["reply"] for each in inner["action"]["buttons"]] == [
        {"id": "yes 4F7K", "title": "Yes 4F7K"},
        {"id": "no 4F7K", "title": "No 4F7K"},
    ]


async def test_signs_of_life_are_shown_while_an_answer_is_made(still: Room) -> None:
    async with running(still, thinking_after_s=0.0) as room:
        await room.add("whatsapp-cloud")
        await room.add("slack")
        room.talk.gates[WORDS] = asyncio.Event()
        await room.deliver("whatsapp-cloud", ONE["whatsapp-cloud"])
        await room.deliver("slack", ONE["slack"])
        await room.provider.until(0, signs=3)
        room.talk.gates[WORDS].set()
        await room.provider.until(2, signs=4)
        signs = room.provider.signs
        assert [each.get("typing_indicator") for each in signs if "message_id" in each] == [
            None,
            {"type": "text"},
        ]
        assert [each["path"] for each in signs if "timestamp" in each] == [
            "/reactions.add",
            "/reactions.remove",
        ]


async def test_another_tenants_session_sees_nothing_of_a_channel(room: Room) -> None:
    await room.add("telegram", tenant="acme")
    room.talk.gates[WORDS] = asyncio.Event()
    await room.deliver("telegram", ONE["telegram"])
    count = (
        "SELECT (SELECT count(*) FROM edge.channels), (SELECT count(*) FROM edge.peers),"
        " (SELECT count(*) FROM edge.inbox)"
    )
    assert tuple((await room.rows(count))[0]) == (1, 1, 1)
    async with room.pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT set_config('indai.owners', 'personal', true)")
        assert tuple(await connection.fetchrow(count)) == (0, 0, 0)
