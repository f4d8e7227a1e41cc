"""A call, whatever it comes over; the microphone of a browser; a telephone."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any
from xml.etree import ElementTree

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from hypothesis import given
from hypothesis import strategies as st
from indai.edge.forms.plain import spoken
from indai.language import say
from indai.node.voice_role import Visitors
from indai.protocol.errors import Reason, Refused, Unavailable
from indai.v1 import conversation_pb2 as pb
from indai.voice.audio import HEARING, Audio, from_mulaw, to_mulaw
from indai.voice.browser import Browsers
from indai.voice.call import Call, Caller
from indai.voice.codes import quoted, spelled
from indai.voice.limits import Lines
from indai.voice.telephone import STREAM, WEBHOOK, Number, Telephones, signature
from indai.web.sessions import Session

from tests.unit.voice.talk import Ears, Talk, Wire, until, utterance

VISITOR = pb.Identity(channel="voice", kind="web_session", value="v1")
CALLER = Caller(VISITOR, "example.org", "ind.ai/alice", "call1", "en", "Asia/Kolkata")
TWILIO = "secret-token"
NUMBER = "+918012345678"
SID = "CA" + "1" * 32


@dataclass
class Booth:
    """A call and what is around it."""

    talk: Talk = field(default_factory=Talk)
    ears: Ears = field(default_factory=Ears)
    wire: Wire = field(default_factory=Wire)

    def call(self, caller: Caller = CALLER) -> Call:
        return Call(self.ears, self.talk.stub(), spoken, self.wire, caller)


async def test_what_is_said_is_a_message_and_each_sentence_of_the_answer_is_said() -> None:
    booth = Booth(ears=Ears(deque(["what can you do", "and tomorrow"])))
    call = booth.call()
    await call.feed(utterance())
    await until(lambda: ("finished", {"text": "**Hello.** I am here. What do you need?"}) in booth.wire.told)
    assert booth.wire.played == ["Hello.", "I am here.", "What do you need?"]
    await until(lambda: not call.busy)
    await call.feed(utterance())
    await until(lambda: len(booth.talk.messages) == 2)
    first, second = booth.talk.messages
    assert (first.text, first.handle, first.account, first.time_zone) == (
        "what can you do", "ind.ai/alice", "example.org", "Asia/Kolkata",
    )  # fmt: skip
    assert first.sender == VISITOR
    assert (first.provider_message_id, second.provider_message_id) == ("call1:1", "call1:2")
    await call.hang_up()
    assert booth.talk.stopped == []


@pytest.mark.parametrize(("kind", "key"), [("web_session", "file_on_page"), ("phone", "file_not_here")])
async def test_that_a_file_came_with_an_answer_is_said(kind: str, key: str) -> None:
    booth = Booth(ears=Ears(deque(["book it"])))
    booth.talk.answers, booth.talk.media = ["Booked."], [pb.Media(file_name="meeting.ics")]
    caller = replace(CALLER, identity=pb.Identity(channel="voice", kind=kind, value="+919876543210"))
    call = booth.call(caller)
    await call.feed(utterance())
    await until(lambda: booth.wire.told and booth.wire.told[-1][0] == "finished")
    assert booth.wire.played == ["Booked.", say(key, "en")]
    await call.hang_up()


async def test_who_speaks_while_they_are_spoken_to_is_listened_to() -> None:
    booth = Booth(ears=Ears(deque(["tell me everything", "stop, cancel my meeting"]), seconds=30))
    booth.talk.gate.clear()
    call = booth.call()
    await call.feed(utterance())
    await until(lambda: len(booth.wire.played) == 2)
    await call.feed(utterance())
    assert booth.wire.cleared == 1
    assert booth.talk.stopped == [f"{1:032x}"]
    booth.talk.gate.set()
    await until(lambda: len(booth.talk.messages) == 2)
    await until(lambda: len(booth.wire.played) == 5)
    assert booth.wire.played == ["Hello.", "I am here.", "Hello.", "I am here.", "What do you need?"]
    await call.hang_up()


async def test_who_goes_on_after_a_pause_has_said_one_sentence() -> None:
    booth = Booth(ears=Ears(deque(["cancel my meeting with priya"]), gate=asyncio.Event()))
    call = booth.call()
    await call.feed(utterance())
    await until(lambda: booth.ears.asked)
    await call.feed(utterance())
    await until(lambda: len(booth.ears.asked) == 2)
    assert booth.ears.gate is not None
    booth.ears.gate.set()
    await until(lambda: booth.talk.messages)
    (first, _), (both, _) = booth.ears.asked
    assert both == pytest.approx(2 * first, rel=0.2)
    await until(lambda: not call.busy)
    booth.ears.words.append("goodbye")
    await call.feed(utterance())
    await until(lambda: len(booth.talk.messages) == 2)
    assert booth.ears.asked[2][0] == pytest.approx(first, rel=0.2)
    await call.hang_up()


async def test_an_approval_is_asked_with_a_code_and_given_with_it() -> None:
    """What is quoted stands for the whole code, in this call, which has asked."""
    terms, code = "Meet ind.ai/bob for 30 minutes, Monday 10:00", "ghjkmnpq"
    words = ["meet bob", "yes", "yes golf hotel juliet lima", "no, golf hotel juliet kilo"]
    booth = Booth(ears=Ears(deque(words)))
    booth.talk.answers, booth.talk.approval = [], pb.TurnApproval(code=code, terms=terms)
    call = booth.call()
    for number in range(1, 5):
        await call.feed(utterance())
        await until(lambda number=number: len(booth.talk.messages) == number and not call.busy)
    assert booth.wire.played[:2] == [
        f"{terms}.",
        "Say YES or NO, and then golf, hotel, juliett, kilo.",
    ]
    assert [each.text for each in booth.talk.messages] == [*words[:3], f"no {code}"]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("Yes, golf hotel juliett kilo.", "yes ghjkmnpq"),
        ("yes G H J K", "yes ghjkmnpq"),
        ("हाँ ghjkmnpq", "yes ghjkmnpq"),
        ("nahin golf hotel juliet kilo mike", "no ghjkmnpq"),
        ("no X-ray zulu x ray four", "no xzx4"),
        ("yes", ""),
        ("yes golf hotel juliett", ""),
        ("golf hotel juliett kilo", ""),
        ("yes golf hotel juliett kilo lima", ""),
        ("please say yes golf hotel juliett kilo", ""),
        ("yes romeo romeo romeo romeo", ""),  # two of them begin so
        ("", ""),
    ],
)
def test_only_a_yes_or_no_with_the_beginning_of_one_code_is_an_answer(text: str, meant: str) -> None:
    assert quoted(text, ["ghjkmnpq", "xzx4", "rrrrssss", "rrrrtttt"]) == meant


@given(st.text("ghjkmnpqrstuvwxyz0123456789abcdef", min_size=8, max_size=8))
def test_what_is_said_of_a_code_is_heard_as_it(code: str) -> None:
    assert quoted(f"yes {spelled(code)}", [code]) == f"yes {code}"


async def test_an_answer_is_in_a_voice_of_its_language() -> None:
    booth = Booth(ears=Ears(deque(["मुझे कल मिलना है"])))
    booth.talk.answers = ["ठीक है, कल मिलते हैं।", "Send it by WhatsApp please, thank you very much."]
    call = booth.call()
    await call.feed(utterance())
    await until(lambda: len(booth.ears.said) == 2)
    assert [language for _, language in booth.ears.said] == ["hi", "en"]
    assert booth.talk.messages[0].language == "hi"
    await call.hang_up()


async def test_what_is_not_understood_is_no_message() -> None:
    booth = Booth(ears=Ears(deque([""])))
    call = booth.call(Caller(VISITOR, "a", "ind.ai/alice", "c", "hi"))
    await call.feed(utterance())
    await until(lambda: booth.wire.played)
    assert booth.wire.played == [say("voice_not_understood", "hi")]
    assert booth.ears.asked[0][1] == "hi"
    assert booth.talk.messages == []
    await call.hang_up()


async def test_a_fault_is_said_and_the_call_goes_on() -> None:
    booth = Booth(ears=Ears(deque(["hello there", "hello again"])))
    booth.ears.fault = Unavailable(Reason.PROVIDER_FAILED, "The speech engine failed.")
    call = booth.call()
    await call.feed(utterance())
    await until(lambda: len(booth.wire.played) == 1)
    booth.ears.fault, booth.talk.away = None, True
    await until(lambda: not call.busy)
    await call.feed(utterance())
    await until(lambda: len(booth.wire.played) == 2)
    assert booth.wire.played == [say("error", "en")] * 2
    errors = [values["reason"] for kind, values in booth.wire.told if kind == "error"]
    assert errors == ["PROVIDER_FAILED", "UNREACHABLE"]
    booth.talk.away = False
    await until(lambda: not call.busy)
    await call.feed(utterance())
    await until(lambda: len(booth.talk.messages) == 1)
    await call.hang_up()


async def test_who_hangs_up_while_speaking_is_answered_in_the_session() -> None:
    booth = Booth(ears=Ears(deque(["cancel my meeting"])))
    call = booth.call()
    await call.feed(utterance()[: -HEARING * 2])
    await call.hang_up()
    assert [message.text for message in booth.talk.messages] == ["cancel my meeting"]


def test_lines_are_counted_for_all_and_for_each() -> None:
    lines = Lines(most=3, most_of_one=2)
    with lines.one("a"), lines.one("a"):
        with pytest.raises(Refused), lines.one("a"):
            pass
        with lines.one("b"), pytest.raises(Refused), lines.one("c"):
            pass
    assert lines.open == 0


@contextlib.asynccontextmanager
async def served(routes: Any) -> AsyncIterator[str]:
    app = web.Application()
    app.add_routes(routes)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def visitor(_: web.Request) -> pb.Identity:
    return VISITOR


def browsers(booth: Booth, lines: Lines | None = None) -> Browsers:
    return Browsers(booth.ears, booth.talk.stub(), spoken, visitor, lines or Lines())


async def test_a_browser_speaks_and_is_spoken_to() -> None:
    booth = Booth(ears=Ears(deque(["what can you do"])))
    async with (
        served(browsers(booth).routes()) as url,
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{url}/voice/ind.ai/alice", headers={"Origin": url}) as socket,
    ):
        await socket.send_json({"type": "start", "language": "en", "time_zone": "Asia/Kolkata"})
        assert (await socket.receive_json())["rate"] == HEARING
        sound = utterance()
        for at in range(0, len(sound), 3_200):
            await socket.send_bytes(sound[at : at + 3_200])
        heard: list[Any] = []
        while not heard or heard[-1] != "finished":
            message = await socket.receive(timeout=60)
            heard.append(
                "sound" if message.type is aiohttp.WSMsgType.BINARY else json.loads(message.data)["type"]
            )
        assert heard == ["heard", *["sentence", "sound"] * 3, "finished"]
        await socket.send_json({"type": "stop"})
        assert (await socket.receive_json())["type"] == "clear"
        await socket.send_json({"type": "end"})
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
    assert booth.talk.messages[0].handle == "ind.ai/alice"


async def test_who_was_signed_out_is_not_heard_any_more() -> None:
    booth, owner = Booth(ears=Ears(deque(["approve it"]))), pb.Identity(value="ind.ai/alice", verified=True)
    here = [owner, VISITOR]

    async def whose(_: web.Request) -> pb.Identity:
        return here.pop(0)

    made = Browsers(booth.ears, booth.talk.stub(), spoken, whose, Lines(), look_s=0)
    async with (
        served(made.routes()) as url,
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{url}/voice/ind.ai/alice") as socket,
    ):
        await socket.send_json({"type": "start", "language": "en"})
        assert (await socket.receive_json())["type"] == "ready"
        await socket.send_bytes(utterance()[:64_000])
        assert (await socket.receive_json())["type"] == "clear"
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
    assert (here, booth.talk.messages) == ([], [])


_FIRST = [
    "no json",
    "[1]",
    '{"type": "hello"}',
    b"\0\0",
    '{"type": "start"}\0',
    '{"type": "start", "language": "xx"}',
]


@pytest.mark.parametrize("first", _FIRST)
async def test_what_a_browser_sends_is_checked(first: str | bytes) -> None:
    booth = Booth()
    async with (
        served(browsers(booth).routes()) as url,
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{url}/voice/ind.ai/alice") as socket,
    ):
        await (socket.send_bytes(first) if isinstance(first, bytes) else socket.send_str(first))
        message = await socket.receive(timeout=60)
        if "xx" in str(first):
            assert message.type is aiohttp.WSMsgType.TEXT
            await socket.send_str('{"type": "format-disk"}')
            message = await socket.receive(timeout=60)
        assert message.type is aiohttp.WSMsgType.CLOSE


async def test_other_sites_wrong_handles_and_floods_get_no_microphone() -> None:
    booth, lines = Booth(), Lines(most_of_one=1)
    async with served(browsers(booth, lines).routes()) as url, aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(f"{url}/voice/ind.ai/alice", headers={"Origin": "https://evil.example"})
        assert refused.value.status == 403
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(f"{url}/voice/..%2f..%2fetc")
        assert refused.value.status == 400
        async with session.ws_connect(f"{url}/voice/ind.ai/alice"):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await session.ws_connect(f"{url}/voice/ind.ai/alice")
        assert refused.value.status == 429
        await until(lambda: lines.open == 0)


_ROLES = [("owner", "handle"), ("operator", "web_session"), ("staff", "web_session")]


@pytest.mark.parametrize(("role", "kind"), _ROLES)
async def test_only_an_owner_who_is_signed_in_speaks_as_a_handle(role: str, kind: str) -> None:
    session = Session("1", "2", "ind.ai/alice", role, "ind.ai/alice", "code", "", 0, 0, 0)

    async def whose(_: web.Request) -> Session | None:
        return session

    identity = await Visitors(whose, lambda _: "v")(make_mocked_request("GET", "/voice/ind.ai/alice"))
    assert (identity.kind, identity.verified) == (kind, kind == "handle")
    assert identity.value != "v"  # somebody signed in is their account


def test_the_signature_is_twilios() -> None:
    # The example of https://www.twilio.com/docs/usage/security, with its published result.
    form = {"CallSid": "CA1234567890ABCDE", "Caller": "+14158675309", "Digits": "1234",
            "From": "+14158675309", "To": "+18005551212"}  # fmt: skip
    url = "https://mycompany.com/myapp.php?foo=1&bar=2"
    assert signature("12345", url, form) == "RSOYDt4T1cUTdK1PDd93/VVr8B8="


@dataclass
class Exchange:
    """The telephones of a node, and Twilio before them."""

    booth: Booth
    url: str = ""
    now: float = 1_000_000.0

    def telephones(self) -> Telephones:
        async def secret(_: str) -> str:
            return TWILIO

        return Telephones(
            self.booth.ears,
            self.booth.talk.stub(),
            spoken,
            {NUMBER: Number("ind.ai/alice", "vault:twilio", "en")},
            secret,
            lambda: self.url,
            b"k" * 32,
            Lines(),
            lambda: self.now,
        )

    async def ring(
        self, session: aiohttp.ClientSession, *, token: str = TWILIO, **changes: str
    ) -> tuple[int, dict[str, str]]:
        form = {"CallSid": SID, "From": "+919876543210", "To": NUMBER, "AccountSid": "AC1"} | changes
        headers = {"X-Twilio-Signature": signature(token, self.url + WEBHOOK, form)}
        async with session.post(self.url + WEBHOOK, data=form, headers=headers) as answer:
            if answer.status != 200:
                return answer.status, {}
            tree = ElementTree.fromstring(await answer.text())  # noqa: S314 - our own answer
            stream = tree.find("./Connect/Stream")
            assert stream is not None
            assert stream.attrib["url"] == self.url.replace("http", "ws") + STREAM
            return 200, {each.attrib["name"]: each.attrib["value"] for each in stream}


@contextlib.asynccontextmanager
async def exchange(booth: Booth) -> AsyncIterator[tuple[Exchange, aiohttp.ClientSession]]:
    around = Exchange(booth)
    async with served(around.telephones().routes()) as url, aiohttp.ClientSession() as session:
        around.url = url
        yield around, session


async def begin(socket: aiohttp.ClientWebSocketResponse, parameters: dict[str, str], sid: str = SID) -> None:
    await socket.send_json({"event": "connected", "protocol": "Call", "version": "1.0.0"})
    start = {"accountSid": "AC1", "streamSid": "MZ1", "callSid": sid, "tracks": ["inbound"],
             "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1},
             "customParameters": parameters}  # fmt: skip
    await socket.send_json({"event": "start", "sequenceNumber": "1", "start": start, "streamSid": "MZ1"})


async def test_a_telephone_call_is_a_conversation_at_the_public_door() -> None:
    booth = Booth(ears=Ears(deque(["what can you do"])))
    async with exchange(booth) as (around, session):
        status, parameters = await around.ring(session)
        assert status == 200
        async with session.ws_connect(around.url + STREAM) as socket:
            await begin(socket, parameters)
            greeting = [await socket.receive_json(timeout=60) for _ in range(2)]
            assert [each["event"] for each in greeting] == ["media", "mark"]
            sound = to_mulaw(Audio(utterance(), HEARING))
            for number, at in enumerate(range(0, len(sound), 160)):
                payload = base64.b64encode(sound[at : at + 160]).decode()
                media = {"track": "inbound", "chunk": str(number), "timestamp": "0", "payload": payload}
                await socket.send_json({"event": "media", "streamSid": "MZ1", "media": media})
            heard = [await socket.receive_json(timeout=60) for _ in range(6)]
            assert [each["event"] for each in heard] == ["media", "mark"] * 3
            assert {each["streamSid"] for each in heard} == {"MZ1"}
            assert from_mulaw(base64.b64decode(heard[0]["media"]["payload"])).seconds == pytest.approx(0.01)
            await socket.send_json({"event": "stop", "streamSid": "MZ1"})
            assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
    message = booth.talk.messages[0]
    assert (message.sender.kind, message.sender.value, message.sender.verified) == (
        "phone",
        "+919876543210",
        False,
    )
    assert (message.account, message.handle) == (NUMBER, "ind.ai/alice")


async def test_a_webhook_that_twilio_has_not_signed_is_refused() -> None:
    async with exchange(Booth()) as (around, session):
        assert (await around.ring(session, token="guessed"))[0] == 401
        assert (await around.ring(session, token="", To="+10000000000"))[0] == 401
        assert (await around.ring(session, CallSid="x"))[0] == 400
        async with session.post(around.url + WEBHOOK, data={"To": NUMBER}) as answer:
            assert answer.status == 401


async def test_a_stream_without_a_ticket_for_its_call_is_closed() -> None:
    booth = Booth()
    async with exchange(booth) as (around, session):
        _, good = await around.ring(session)
        forged: list[tuple[dict[str, str], str]] = [
            ({}, SID),
            (good | {"from": "+911111111111"}, SID),
            (good | {"to": "+911111111111"}, SID),
            (good, "CA" + "2" * 32),
            (good | {"ticket": "9999999." + "0" * 64}, SID),
            (good | {"ticket": "\ud800"}, SID),
            (good | {"from": "\ud800", "to": "\ud800"}, SID),
        ]
        for parameters, sid in forged:
            async with session.ws_connect(around.url + STREAM) as socket:
                await begin(socket, parameters, sid)
                assert (await socket.receive(timeout=60)).type is aiohttp.WSMsgType.CLOSE
        around.now += 61
        async with session.ws_connect(around.url + STREAM) as socket:
            await begin(socket, good)
            assert (await socket.receive(timeout=60)).type is aiohttp.WSMsgType.CLOSE
    assert booth.ears.said == []


@pytest.mark.parametrize("sent", ["no json", '{"event": "media", "media": {"payload": "*"}}', "[]" * 40_000])
async def test_a_stream_that_sends_rubbish_is_closed(sent: str) -> None:
    async with exchange(Booth()) as (around, session):
        _, good = await around.ring(session)
        async with session.ws_connect(around.url + STREAM) as socket:
            await begin(socket, good)
            await socket.receive_json(timeout=60)
            await socket.receive_json(timeout=60)
            await socket.send_str(sent)
            assert (await socket.receive(timeout=60)).type is aiohttp.WSMsgType.CLOSE
