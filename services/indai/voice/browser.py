"""A browser's microphone: a WebSocket at `/voice/<handle>`.

The page first sends {"type": "start", "language": "hi", "time_zone": "Asia/Kolkata"}; then binary frames of
PCM at 16 kHz, mono, 16-bit little-endian, 20 to 200 ms each; {"type": "stop"} stops what is being said,
{"type": "end"} hangs up. It receives {"type": "ready", "rate": 16000}, "heard" with the words, for each
sentence {"type": "sentence", "text": ...} and then one binary frame with its sound, "clear" when it is to
drop what it hasn't played, "finished", and "error" with words.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web
from indai.language.scripts import SCRIPT_OF, base
from indai.protocol.errors import IndaiError, InvalidInput, Reason
from indai.protocol.handles import Handle
from indai.v1 import conversation_pb2 as pb
from indai.voice.audio import HEARING, Audio
from indai.voice.call import Call, Caller, Plain
from indai.voice.limits import IDLE_S, LONGEST_CALL_S, Lines
from indai.voice.speech import Speech

if TYPE_CHECKING:
    from indai.v1.conversation_pb2_grpc import ConversationServiceAsyncStub

PATH = "/voice/{handle:.+}"
MOST_FRAME = 64 * 1024
_ZONE = re.compile(r"[A-Za-z0-9_+/-]{1,40}")
LOOK_S = 5.0
"""How often a session is looked up again while somebody speaks by it."""
Visitor = Callable[[web.Request], Awaitable[pb.Identity]]
"""Who sits before the browser: the identity of their session on the web."""
Still = Callable[[], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Browsers:
    """The handler of microphones."""

    speech: Speech
    conversations: ConversationServiceAsyncStub
    plain: Plain
    visitor: Visitor
    lines: Lines
    look_s: float = LOOK_S

    def routes(self) -> tuple[web.RouteDef, ...]:
        """The one route."""
        return (web.get(PATH, self.answer),)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """One call."""
        try:
            handle = str(Handle.parse(request.match_info["handle"]))
            _check_origin(request)
            identity = await self.visitor(request)
            with self.lines.one(request.remote or "?"):
                return await self._talk(request, handle, identity)
        except IndaiError as error:
            return web.json_response(
                {"reason": error.reason.name, "message": error.message}, status=error.reason.status.http
            )

    async def _talk(self, request: web.Request, handle: str, identity: pb.Identity) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(max_msg_size=MOST_FRAME, heartbeat=20)
        await socket.prepare(request)
        line = _Socket(socket)
        try:
            async with asyncio.timeout(LONGEST_CALL_S):
                start = _started(await socket.receive(timeout=10))
                language = str(start.get("language", ""))
                zone = str(start.get("time_zone", ""))
                caller = Caller(
                    identity,
                    request.host,
                    handle,
                    secrets.token_hex(16),
                    language if base(language) else "",
                    zone if _ZONE.fullmatch(zone) else "",
                )
                await line.tell("ready", rate=HEARING, languages=sorted(filter(self.speech.hears, SCRIPT_OF)))
                call = Call(self.speech, self.conversations, self.plain, line, caller)
                await _listen(socket, call, self._still(request, identity))
        except (TimeoutError, ConnectionError):
            await socket.close(code=aiohttp.WSCloseCode.GOING_AWAY)
        except InvalidInput as error:
            await socket.close(
                code=aiohttp.WSCloseCode.POLICY_VIOLATION, message=error.message.encode()[:120]
            )
        return socket

    def _still(self, request: web.Request, identity: pb.Identity) -> Still:
        """Whether the caller is who they were: a session may end while its microphone is open."""
        loop = asyncio.get_running_loop()
        looked = loop.time()

        async def still() -> bool:
            nonlocal looked
            if not identity.verified or loop.time() - looked < self.look_s:
                return True
            looked = loop.time()
            try:
                return await self.visitor(request) == identity
            except IndaiError:  # who can't be looked up is not believed
                return False

        return still


async def _listen(socket: web.WebSocketResponse, call: Call, still: Still) -> None:
    try:
        while True:
            try:
                message = await socket.receive(timeout=IDLE_S)
            except TimeoutError:
                if call.busy:
                    continue
                raise
            if not await still():
                await call.drop()
                break
            if message.type is aiohttp.WSMsgType.BINARY:
                await call.feed(message.data)
            elif message.type is aiohttp.WSMsgType.TEXT:
                match _control(message.data).get("type"):
                    case "stop":
                        await call.interrupt()
                    case "end":
                        break
                    case _:
                        raise InvalidInput(Reason.MALFORMED, "No such message is understood here.")
            else:
                break
    finally:
        await call.hang_up()
        await socket.close()


class _Socket:
    """A `Line` over the socket."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    async def play(self, sentence: str, audio: Audio) -> None:
        sound = await asyncio.to_thread(audio.at, HEARING)
        await self.tell("sentence", text=sentence)
        await self._socket.send_bytes(sound.pcm)

    async def clear(self) -> None:
        await self.tell("clear")

    async def tell(self, kind: str, **values: object) -> None:
        await self._socket.send_str(json.dumps({"type": kind, **values}, ensure_ascii=False))


def _check_origin(request: web.Request) -> None:
    """A page of another site may not use this one's session."""
    origin = request.headers.get("Origin", "")
    if origin and urlsplit(origin).netloc != request.host:
        raise InvalidInput(Reason.PERMISSION_DENIED, "This page may not open a microphone here.")


def _started(message: aiohttp.WSMessage) -> dict[str, Any]:
    if message.type is not aiohttp.WSMsgType.TEXT:
        raise InvalidInput(Reason.MALFORMED, "A call begins with a message of type start.")
    found = _control(message.data)
    if found.get("type") != "start":
        raise InvalidInput(Reason.MALFORMED, "A call begins with a message of type start.")
    return found


def _control(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidInput(Reason.MALFORMED, "This message is no JSON.") from None
    if not isinstance(found, dict):
        raise InvalidInput(Reason.MALFORMED, "This message is no JSON object.")
    return found
