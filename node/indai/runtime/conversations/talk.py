"""What a running turn tells: numbered, stored, and then shown. Telling never waits; ending does."""

from __future__ import annotations

import asyncio

from indai.protocol.errors import IndaiError
from indai.runtime.conversations.hub import Hub
from indai.runtime.conversations.turns import TurnStore
from indai.runtime.conversations.values import Thought, Turn
from indai.v1 import conversation_pb2 as pb


class Talk:
    """The events of one run of a turn. `sentences` is what was released so far."""

    def __init__(self, turn: Turn, store: TurnStore, hub: Hub) -> None:
        self._turn, self._store, self._hub = turn, store, hub
        self._seq = turn.next_seq
        self._waiting: list[pb.TurnEvent] = []
        self._storing: asyncio.Task[None] | None = None
        self.sentences: list[str] = list(turn.said)

    def stage(self, name: str) -> None:
        """A stage begins."""
        self._tell(pb.TurnEvent(stage=pb.TurnStage(stage=name)))

    def sentence(self, text: str) -> None:
        """A sentence that the guardrails have seen."""
        self.sentences.append(text)
        self._tell(pb.TurnEvent(sentence=pb.TurnSentence(text=text)))

    def tool(self, tool: pb.TurnTool) -> None:
        """A tool begins or ends."""
        self._tell(pb.TurnEvent(tool=tool))

    def approval(self, approval: pb.TurnApproval) -> None:
        """The owner must approve something."""
        self._tell(pb.TurnEvent(approval=approval))

    def _tell(self, event: pb.TurnEvent) -> None:
        event.turn_id, event.seq = self._turn.id.hex, self._seq
        self._seq += 1
        self._waiting.append(event)
        if self._storing is None:
            self._storing = asyncio.create_task(self._store_all())

    async def _store_all(self) -> None:
        """All that waits, in one statement; what comes meanwhile makes the next one."""
        try:
            while self._waiting:
                events, self._waiting = self._waiting, []
                try:
                    await self._store.tell(self._turn, events)
                except IndaiError:
                    # They are stored with the end, or the turn is another's by now.
                    self._waiting = events + self._waiting
                    return
                self._hub.publish(self._turn.id, events)
        finally:
            self._storing = None

    async def end(self, thought: Thought) -> None:
        """Store the end, then show it. Raises Unavailable when the turn is another's, or nothing can be
        stored."""
        if self._storing is not None:
            await self._storing
        if not self._waiting or not self._waiting[-1].HasField("finished"):
            last = pb.TurnFinished(
                reply=thought.reply,
                degraded=thought.ending == "degraded",
                stopped=thought.ending == "stopped",
                reason=thought.reason,
            )
            event = pb.TurnEvent(turn_id=self._turn.id.hex, seq=self._seq, finished=last)
            self._seq += 1
            self._waiting.append(event)
        await self._store.finish(self._turn, thought, self._waiting)
        self._hub.publish(self._turn.id, self._waiting)
        self._waiting = []
