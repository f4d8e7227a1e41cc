"""A servicer of the conversation's contract that echoes, remembers what it has seen, and fails as told."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from typing import Any

from indai.protocol.errors import IndaiError
from indai.v1 import conversation_pb2 as pb
from indai.v1 import conversation_pb2_grpc


def echo(message: pb.InboundMessage) -> pb.Reply:
    """The words again."""
    return pb.Reply(text=f"You said: {message.text}")


class Talk(conversation_pb2_grpc.ConversationServiceServicer):
    """`heard` are the messages in the order they came; `gates` hold back those with a text; `errors` are
    raised first."""

    def __init__(self) -> None:
        self.heard: list[pb.InboundMessage] = []
        self.calls = 0
        self.answer: Callable[[pb.InboundMessage], pb.Reply] = echo
        self.gates: dict[str, asyncio.Event] = {}
        self.errors: list[IndaiError] = []
        self.running: dict[str, int] = defaultdict(int)
        self.most_at_once = 0
        self.approval: pb.TurnApproval | None = None
        self.outbound: asyncio.Queue[pb.OutboundMessage] = asyncio.Queue()
        self.acknowledged: asyncio.Queue[pb.AcknowledgeOutboundRequest] = asyncio.Queue()
        self._known: dict[tuple[str, str, str], pb.Reply] = {}

    async def SendMessage(  # noqa: N802
        self, request: pb.SendMessageRequest, context: Any
    ) -> AsyncIterator[pb.SendMessageResponse]:
        message = request.message
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        key = (message.sender.channel, message.account, message.provider_message_id)
        repeated = key in self._known
        if not repeated:
            self.heard.append(message)
            self._known[key] = self.answer(message)
        accepted = pb.TurnAccepted(session_id="00" * 16, repeated=repeated, door="private")
        yield pb.SendMessageResponse(event=pb.TurnEvent(seq=1, accepted=accepted))
        self.running[message.sender.value] += 1
        self.most_at_once = max(self.most_at_once, self.running[message.sender.value])
        try:
            if (gate := self.gates.get(message.text)) is not None:
                await gate.wait()
            if self.approval is not None:
                yield pb.SendMessageResponse(event=pb.TurnEvent(seq=2, approval=self.approval))
        finally:
            self.running[message.sender.value] -= 1
        finished = pb.TurnFinished(reply=self._known[key])
        yield pb.SendMessageResponse(event=pb.TurnEvent(seq=3, finished=finished))

    async def WatchOutbound(  # noqa: N802
        self, request: pb.WatchOutboundRequest, context: Any
    ) -> AsyncIterator[pb.WatchOutboundResponse]:
        while True:
            yield pb.WatchOutboundResponse(message=await self.outbound.get())

    async def AcknowledgeOutbound(  # noqa: N802
        self, request: pb.AcknowledgeOutboundRequest, context: Any
    ) -> pb.AcknowledgeOutboundResponse:
        await self.acknowledged.put(request)
        return pb.AcknowledgeOutboundResponse()
