"""A spoken conversation, over any line: what is heard is a message, each sentence of the answer is said.

Who owns what: `Call` owns the turn that runs and what is being said; the line owns the wire. `feed` is called
with sound as it comes and never waits for an engine. Somebody who speaks while they are spoken to is listened
to: what was still to be said is dropped, and the turn is stopped (`StopTurn`), so that nothing more happens
for an answer that nobody hears.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import grpc
import structlog
from indai.language import detect, say
from indai.language.phrasebook import in_language
from indai.protocol.errors import IndaiError
from indai.v1 import conversation_pb2 as pb
from indai.voice.audio import Audio
from indai.voice.codes import quoted, spelled
from indai.voice.endpointing import Began, Ended, Endpointer
from indai.voice.speech import LONGEST_S, Speech

if TYPE_CHECKING:
    from indai.v1.conversation_pb2_grpc import ConversationServiceAsyncStub

_TURN_S = 90.0
_SHORTEST_S = 0.25  # of sound between two silences: less is a click
_log = structlog.get_logger(__name__)
Plain = Callable[[str], Sequence[str]]
"""Markdown to sentences that can be said."""


class Line(Protocol):
    """The wire of one call. Every method may raise ConnectionError when it is gone."""

    async def play(self, sentence: str, audio: Audio) -> None:
        """Send a sentence and its sound; answers when it is sent, not when it was heard."""

    async def clear(self) -> None:
        """Let the other end drop what it has not played yet."""

    async def tell(self, kind: str, **values: object) -> None:
        """What happens, for a page to show: heard, finished, error. A telephone ignores it."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls whom: `number` is the account they reached, `call_id` is used once."""

    identity: pb.Identity
    account: str
    handle: str
    call_id: str
    language: str = ""
    time_zone: str = ""


@dataclass(slots=True)
class Call:
    """One call."""

    speech: Speech
    conversations: ConversationServiceAsyncStub
    plain: Plain
    line: Line
    caller: Caller
    _ears: Endpointer = field(default_factory=Endpointer)
    _turn: asyncio.Task[None] | None = None
    _turn_id: str = ""
    _language: str = ""
    _said_until: float = 0.0
    _utterances: int = 0
    _unheard: bytes = field(default=b"", repr=False)
    _asked: set[str] = field(default_factory=set)  # codes of what this call has asked to approve

    def __post_init__(self) -> None:
        self._language = self.caller.language

    @property
    def language(self) -> str:
        """Of the conversation so far, BCP 47; English before anything was said."""
        return self._language.split("-")[0] or "en"

    @property
    def busy(self) -> bool:
        """Somebody speaks, or an answer is under way."""
        return self._ears.speaking or self._answering

    @property
    def _answering(self) -> bool:
        running = self._turn is not None and not self._turn.done()
        return running or asyncio.get_running_loop().time() < self._said_until

    async def greet(self, name: str) -> None:
        """The first words."""
        key = "greeting" if name else "greeting_plain"
        await self._say_ours(say(key, self.language, name=name))

    async def feed(self, pcm: bytes) -> None:
        """Sound from the other end, at HEARING."""
        for event in self._ears.push(pcm):
            match event:
                case Began():
                    if self._answering:
                        await self.interrupt()
                case Ended(audio):
                    self._answer(audio)

    async def hang_up(self) -> None:
        """What was said last is answered still, into the session; nobody hears it. A turn that runs goes on
        there.
        """
        for event in self._ears.flush():
            if isinstance(event, Ended) and not self._answering:
                self._answer(event.audio)
        self._said_until = 0.0
        if self._turn is not None:
            try:
                await asyncio.wait({self._turn}, timeout=_TURN_S)
            finally:
                self._turn.cancel()

    async def interrupt(self) -> None:
        """Stop saying, and stop the turn."""
        turn, turn_id = self._turn, self._turn_id
        self._turn, self._turn_id, self._said_until = None, "", 0.0
        if turn is not None and not turn.done():
            turn.cancel()
            await asyncio.wait({turn})
        await self.line.clear()
        if turn_id:
            request = pb.StopTurnRequest(turn_id=turn_id, sender=self.caller.identity)
            with contextlib.suppress(grpc.aio.AioRpcError, IndaiError):
                await self.conversations.StopTurn(request, timeout=5)

    async def drop(self) -> None:
        """Stop; nothing that was said and not yet answered is answered."""
        self._ears = Endpointer()
        await self.interrupt()

    def _answer(self, audio: Audio) -> None:
        if audio.seconds < _SHORTEST_S:
            return
        # Who goes on after a pause, before they were understood, is in the middle of a sentence.
        whole = Audio(self._unheard + audio.pcm, audio.rate)
        if whole.seconds > LONGEST_S:
            whole = audio
        self._unheard = whole.pcm
        self._utterances += 1
        before = self._turn
        self._turn = asyncio.create_task(self._heard(whole, self._utterances, before))

    async def _heard(self, audio: Audio, number: int, before: asyncio.Task[None] | None) -> None:
        """From sound to the last sentence of the answer."""
        if before is not None and not before.done():
            await asyncio.wait({before})
        try:
            heard = await self.speech.hear(audio, self.language)
            self._unheard = b""
            if not heard.text:
                await self._say_ours(say("voice_not_understood", self.language))
                return
            self._language = detect(heard.text, self._language or heard.language).tag
            await self.line.tell("heard", text=heard.text, language=self._language)
            # What they quote of a code is shorter than what it stands for.
            await self._turned(quoted(heard.text, self._asked) or heard.text, number)
        except (IndaiError, grpc.aio.AioRpcError) as error:
            self._unheard = b""
            _log.warning("a turn of a call failed", reason=_reason(error))
            await self._sorry(error)
        except ConnectionError:
            _log.info("a call ended while it was answered")

    async def _turned(self, text: str, number: int) -> None:
        message = pb.InboundMessage(
            sender=self.caller.identity,
            account=self.caller.account,
            handle=self.caller.handle,
            provider_message_id=f"{self.caller.call_id}:{number}",
            text=text,
            language=self._language if self._language != "und" else "",
            time_zone=self.caller.time_zone,
        )
        said = False
        async for response in self.conversations.SendMessage(
            pb.SendMessageRequest(message=message), timeout=_TURN_S
        ):
            event = response.event
            self._turn_id = event.turn_id
            match event.WhichOneof("event"):
                case "sentence":
                    said = await self._say(event.sentence.text) or said
                case "approval":
                    self._asked.add(event.approval.code)
                    said = await self._say(in_language(event.approval.terms, self.language)) or said
                    code = spelled(event.approval.code)
                    await self._say_ours(say("approval_spoken", self.language, code=code))
                case "finished":
                    self._turn_id = ""
                    if not said:
                        await self._say(event.finished.reply.text)
                    if event.finished.reply.media:
                        # A page shows what was said there; a telephone shows nothing.
                        shown = self.caller.identity.kind != "phone"
                        key = "file_on_page" if shown else "file_not_here"
                        await self._say_ours(say(key, self.language))
                    await self.line.tell("finished", text=event.finished.reply.text)

    async def _say(self, markdown: str) -> bool:
        """Say what is markdown, sentence by sentence; whether there was anything to say."""
        sentences = self.plain(markdown)
        for sentence in sentences:
            await self._say_ours(sentence)
        return bool(sentences)

    async def _say_ours(self, sentence: str) -> None:
        """Say one sentence, by a voice of the language it is in."""
        language = detect(sentence, self._language).language
        if not self.speech.speaks(language):
            language = self.language if self.speech.speaks(self.language) else "en"
        audio = await self.speech.say(sentence, language)
        await self.line.play(sentence, audio)
        now = asyncio.get_running_loop().time()
        self._said_until = max(self._said_until, now) + audio.seconds

    async def _sorry(self, error: Exception) -> None:
        """That it went wrong, said if anything can be said, and shown."""
        words = say("error", self.language)
        with contextlib.suppress(ConnectionError):
            await self.line.tell("error", reason=_reason(error), text=words)
            with contextlib.suppress(IndaiError):
                await self._say_ours(words)


def _reason(error: Exception) -> str:
    if isinstance(error, IndaiError):
        return error.reason.name
    return error.code().name if isinstance(error, grpc.aio.AioRpcError) else type(error).__name__
