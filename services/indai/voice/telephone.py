"""A telephone, over Twilio's Media Streams (https://www.twilio.com/docs/voice/media-streams/websocket-messages).

Twilio asks the webhook what to do with a call; its signature is checked, and it is told to open a stream with
a ticket. The stream carries mu-law at 8 kHz in base64. Only the ticket, which holds for a minute and for that
call, lets a stream in, since the messages of a stream carry no signature. The caller's number is what the
telephone network says, and networks let callers lie: so it is an identity that is not verified, and stands at
the public door.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import quoteattr

import aiohttp
import structlog
from aiohttp import web
from indai.protocol.errors import IndaiError, InvalidInput, Reason, Refused
from indai.v1 import conversation_pb2 as pb
from indai.voice.audio import HEARING, Audio, from_mulaw, to_mulaw
from indai.voice.call import Call, Caller, Plain
from indai.voice.limits import IDLE_S, LONGEST_CALL_S, Lines
from indai.voice.speech import Speech

if TYPE_CHECKING:
    from indai.v1.conversation_pb2_grpc import ConversationServiceAsyncStub

WEBHOOK, STREAM = "/voice-call/twilio", "/voice-call/twilio/stream"
_MOST_MESSAGE = 64 * 1024
_TICKET_S = 60
_NUMBER = re.compile(r"\+[0-9]{6,15}")
_CALL = re.compile(r"CA[0-9a-f]{32}")
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Number:
    """A number of ours: whose handle answers, in which language, and the reference of the account's token."""

    handle: str
    auth_token: str
    language: str = "en"


@dataclass(frozen=True, slots=True)
class Telephones:
    """The handlers of telephones. `url` is how Twilio reaches this program: it is part of what is signed."""

    speech: Speech
    conversations: ConversationServiceAsyncStub
    plain: Plain
    numbers: Mapping[str, Number]
    secret_of: Callable[[str], Awaitable[str]]
    url: Callable[[], str]
    key: bytes = field(repr=False)
    lines: Lines = field(default_factory=Lines)
    clock: Callable[[], float] = time.time

    def routes(self) -> tuple[web.RouteDef, ...]:
        """Webhook and stream."""
        return (web.post(WEBHOOK, self.ring), web.get(STREAM, self.stream))

    async def ring(self, request: web.Request) -> web.Response:
        """Somebody calls: TwiML that opens a stream."""
        try:
            form = {name: str(value) for name, value in (await request.post()).items()}
            to = await self._checked(request, form)
            caller, call = form.get("From", ""), form.get("CallSid", "")
            if not _CALL.fullmatch(call):
                raise InvalidInput(Reason.MALFORMED, "The webhook names no call.")
        except IndaiError as error:
            return web.json_response({"reason": error.reason.name}, status=error.reason.status.http)
        values = {
            "to": to,
            "from": caller if _NUMBER.fullmatch(caller) else "",
            "ticket": self._ticket(call, to, caller, int(self.clock()) + _TICKET_S),
        }
        parameters = "".join(
            f"<Parameter name={quoteattr(name)} value={quoteattr(value)}/>" for name, value in values.items()
        )
        stream = self.url().replace("http", "ws", 1) + STREAM
        return web.Response(
            text=f"<Response><Connect><Stream url={quoteattr(stream)}>{parameters}</Stream>"
            "</Connect></Response>",
            content_type="text/xml",
        )

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """One call."""
        socket = web.WebSocketResponse(max_msg_size=_MOST_MESSAGE, heartbeat=20)
        await socket.prepare(request)
        try:
            async with asyncio.timeout(LONGEST_CALL_S):
                async with asyncio.timeout(10):
                    start = await _start(socket)
                caller = self._admitted(start)
                line = _Stream(socket, str(start["streamSid"]))
                with self.lines.one(caller.identity.value):
                    call = Call(self.speech, self.conversations, self.plain, line, caller)
                    await call.greet("")
                    await _listen(socket, call)
        except (TimeoutError, ConnectionError):
            _log.info("a call on the telephone was ended")
        except IndaiError as error:
            _log.warning("a call on the telephone was refused", reason=error.reason.name)
        finally:
            await socket.close()
        return socket

    async def _checked(self, request: web.Request, form: Mapping[str, str]) -> str:
        """The number that was called; raises Refused unless the account it belongs to signed the webhook."""
        to = form.get("To", "")
        number = self.numbers.get(to)
        # A number that isn't ours is answered as a wrong signature is: the webhook tells strangers nothing.
        token = await self.secret_of(number.auth_token) if number is not None else ""
        signed = signature(token, self.url() + WEBHOOK, form)
        given = request.headers.get("X-Twilio-Signature", "")
        if number is None or not hmac.compare_digest(signed.encode(), _bytes(given)):
            raise Refused(Reason.BAD_SIGNATURE, "The webhook is not signed by the number's account.")
        return to

    def _ticket(self, call: str, to: str, caller: str, until: int) -> str:
        caller = caller if _NUMBER.fullmatch(caller) else ""
        mac = hmac.new(self.key, _bytes("\n".join((call, to, caller, str(until)))), hashlib.sha256)
        return f"{until}.{mac.hexdigest()}"

    def _admitted(self, start: Mapping[str, Any]) -> Caller:
        """Who calls, as the webhook said. Raises Refused without a ticket for this very call."""
        parameters = start.get("customParameters")
        given = (
            {name: str(value) for name, value in parameters.items()} if isinstance(parameters, dict) else {}
        )
        to, caller, call = given.get("to", ""), given.get("from", ""), str(start.get("callSid", ""))
        ticket = given.get("ticket", "")
        until = int(ticket.split(".")[0]) if re.fullmatch(r"[0-9]{1,12}\.[0-9a-f]{64}", ticket) else 0
        right = self._ticket(call, to, caller, until)
        if not hmac.compare_digest(right.encode(), _bytes(ticket)) or until < self.clock():
            raise Refused(Reason.PERMISSION_DENIED, "A stream came without a ticket that holds.")
        number = self.numbers.get(to)
        if number is None:
            raise Refused(Reason.PERMISSION_DENIED, "The number is not ours any more.")
        identity = pb.Identity(
            channel="voice", kind="phone", value=caller or f"unknown-{call}", verified=False
        )
        return Caller(identity, to, number.handle, call, number.language, "Asia/Kolkata")


def signature(token: str, url: str, form: Mapping[str, str]) -> str:
    """Twilio's: HMAC-SHA1, in base64, of the address and the sorted parameters of the form
    (https://www.twilio.com/docs/usage/security#validating-requests)."""
    text = url + "".join(f"{name}{form[name]}" for name in sorted(form))
    return base64.b64encode(hmac.new(token.encode(), _bytes(text), hashlib.sha1).digest()).decode()


def _bytes(text: str) -> bytes:
    """Of what a stranger sent, which may be no Unicode."""
    return text.encode("utf-8", "replace")


class _Stream:
    """A `Line` over a media stream."""

    def __init__(self, socket: web.WebSocketResponse, sid: str) -> None:
        self._socket, self._sid = socket, sid
        self._marks = 0

    async def play(self, sentence: str, audio: Audio) -> None:
        sound = await asyncio.to_thread(to_mulaw, audio)
        self._marks += 1
        await self._send("media", media={"payload": base64.b64encode(sound).decode()})
        await self._send("mark", mark={"name": f"sentence-{self._marks}"})

    async def clear(self) -> None:
        await self._send("clear")

    async def tell(self, kind: str, **values: object) -> None:
        """A telephone shows nothing."""

    async def _send(self, event: str, **more: object) -> None:
        await self._socket.send_str(json.dumps({"event": event, "streamSid": self._sid, **more}))


async def _start(socket: web.WebSocketResponse) -> dict[str, Any]:
    """The message `start`, behind `connected`."""
    for _ in range(3):
        found = _read(await socket.receive())
        if found.get("event") == "start" and isinstance(found.get("start"), dict):
            return {"streamSid": str(found.get("streamSid", "")), **found["start"]}
    raise InvalidInput(Reason.MALFORMED, "A stream began without saying what it is.")


async def _listen(socket: web.WebSocketResponse, call: Call) -> None:
    try:
        while True:
            found = _read(await socket.receive(timeout=IDLE_S))
            if found.get("event") == "stop":
                break
            if found.get("event") == "media" and isinstance(found.get("media"), dict):
                await call.feed(_sound(found["media"]))
    finally:
        await call.hang_up()


def _sound(media: Mapping[str, Any]) -> bytes:
    if media.get("track", "inbound") != "inbound":
        return b""
    try:
        data = base64.b64decode(str(media.get("payload", "")), validate=True)
    except binascii.Error:
        raise InvalidInput(Reason.MALFORMED, "A stream sent sound that is not base64.") from None
    return from_mulaw(data).at(HEARING).pcm


def _read(message: aiohttp.WSMessage) -> dict[str, Any]:
    if message.type is not aiohttp.WSMsgType.TEXT:
        raise ConnectionResetError("the stream is closed")
    try:
        found = json.loads(message.data)
    except (ValueError, RecursionError):
        raise InvalidInput(Reason.MALFORMED, "A stream sent what is no JSON.") from None
    return found if isinstance(found, dict) else {}
