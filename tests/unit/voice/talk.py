"""The contract as a call sees it, an engine that hears what it is told to, and a line that remembers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from indai.node.inprocess import local_channel
from indai.node.service import Service
from indai.protocol.errors import IndaiError, Reason, Unavailable
from indai.v1 import conversation_pb2 as pb
from indai.v1 import conversation_pb2_grpc as rpc
from indai.voice.audio import HEARING, Audio
from indai.voice.speech import Health, Heard

if TYPE_CHECKING:
    from indai.v1.conversation_pb2_grpc import ConversationServiceAsyncStub


class Talk(rpc.ConversationServiceServicer):
    """Answers with `answers`; waits at `gate` behind the first sentence."""

    def __init__(self) -> None:
        self.messages: list[pb.InboundMessage] = []
        self.stopped: list[str] = []
        self.answers = ["**Hello.** I am here.", "What do you need?"]
        self.gate = asyncio.Event()
        self.gate.set()
        self.away = False
        self.approval: pb.TurnApproval | None = None
        self.media: list[pb.Media] = []

    async def SendMessage(  # noqa: N802
        self, request: pb.SendMessageRequest, _: Any
    ) -> AsyncIterator[pb.SendMessageResponse]:
        if self.away:
            raise Unavailable(Reason.UNREACHABLE, "The node is away.")
        self.messages.append(request.message)
        turn = f"{len(self.messages):032x}"

        def event(**what: Any) -> pb.SendMessageResponse:
            return pb.SendMessageResponse(event=pb.TurnEvent(turn_id=turn, **what))

        yield event(accepted=pb.TurnAccepted(handle=request.message.handle))
        for text in self.answers:
            yield event(sentence=pb.TurnSentence(text=text))
            await self.gate.wait()
        if self.approval is not None:
            yield event(approval=self.approval)
        yield event(
            finished=pb.TurnFinished(
                reply=pb.Reply(text=" ".join(self.answers), language="en", media=self.media)
            )
        )

    async def StopTurn(self, request: pb.StopTurnRequest, _: Any) -> pb.StopTurnResponse:  # noqa: N802
        self.stopped.append(request.turn_id)
        return pb.StopTurnResponse(stopped=True)

    def stub(self) -> ConversationServiceAsyncStub:
        served = Service(rpc.add_ConversationServiceServicer_to_server, self)
        return rpc.ConversationServiceStub(local_channel([served]))


@dataclass
class Ears:
    """An engine: hears `words` one after the other, speaks silence of `seconds`."""

    words: deque[str] = field(default_factory=deque)
    seconds: float = 0.01
    said: list[tuple[str, str]] = field(default_factory=list)
    asked: list[tuple[float, str]] = field(default_factory=list)
    fault: IndaiError | None = None
    gate: asyncio.Event | None = None
    name: str = "ears"

    def hears(self, language: str) -> bool:
        return bool(language)

    def speaks(self, language: str) -> bool:
        return language in ("en", "hi")

    async def hear(self, audio: Audio, language: str) -> Heard:
        self.asked.append((audio.seconds, language))
        if self.gate is not None:
            await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        return Heard(self.words.popleft(), language)

    async def say(self, text: str, language: str) -> Audio:
        self.said.append((text, language))
        return Audio(b"\0\0" * round(self.seconds * HEARING), HEARING)

    async def check(self) -> Health:
        return Health(self.name, usable=True, words="")

    async def close(self) -> None:
        pass


@dataclass
class Wire:
    """A line."""

    played: list[str] = field(default_factory=list)
    told: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    cleared: int = 0

    async def play(self, sentence: str, audio: Audio) -> None:
        self.played.append(sentence)

    async def clear(self) -> None:
        self.cleared += 1

    async def tell(self, kind: str, **values: object) -> None:
        self.told.append((kind, values))


def utterance(seconds: float = 0.8) -> bytes:
    """Something like speech, and the silence that ends it."""
    at = np.arange(int(seconds * HEARING)) / HEARING
    voice = np.sin(2 * np.pi * 180 * at) * 6_000 * (0.6 + 0.4 * np.sin(2 * np.pi * 4 * at))
    hush = np.random.default_rng(3).normal(0, 20, HEARING)
    sound: bytes = np.concatenate([hush[: HEARING // 2], voice, hush]).astype(np.int16).tobytes()
    return sound


async def until(what: Any) -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(60):
        while not what():
            await asyncio.sleep(0.005)
