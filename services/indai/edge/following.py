"""What agents say of their own accord: followed, stored in the outbox, acknowledged when none of it waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import structlog
from indai.edge.accounts import Directory, Keys, Served
from indai.edge.bringing import Link, unreachable
from indai.edge.outbox import KEEP, Due, Outbox, Recipient, lines
from indai.edge.stopping import is_stopped
from indai.protocol.errors import IndaiError
from indai.v1 import conversation_pb2 as pb

if TYPE_CHECKING:
    from indai.v1.conversation_pb2_grpc import ConversationServiceAsyncStub

RETRY_S: Final = 0.5
_SOURCE: Final = "out/"

log = structlog.get_logger(__name__)


class Follower:
    """Follows while `run` runs."""

    def __init__(
        self,
        outbox: Outbox,
        directory: Directory,
        keys: Keys,
        conversation: ConversationServiceAsyncStub,
        link: Link = unreachable,
    ) -> None:
        self._outbox, self._directory, self._keys = outbox, directory, keys
        self._conversation = conversation
        self._link = link
        self.told: Callable[[str], None] = _nobody
        """Called with a channel that has something to send."""

    async def run(self) -> None:
        """Until cancelled. When there is a first channel of a kind, or the last one is gone, it asks anew."""
        watching: asyncio.Task[None] | None = None
        kinds: list[str] = []
        try:
            while not is_stopped():
                known = await self._kinds(kinds)
                if watching is not None and (watching.done() or known != kinds):
                    await _ended(watching)
                    watching = None
                if watching is None and known:
                    kinds = known
                    watching = asyncio.create_task(self._watch(kinds))
                await asyncio.sleep(RETRY_S)
        finally:
            if watching is not None:
                await _ended(watching)

    async def _kinds(self, before: list[str]) -> list[str]:
        try:
            return sorted({each.adapter.channel for each in (await self._directory.all()).values()})
        except IndaiError:
            return before

    async def _watch(self, kinds: list[str]) -> None:
        try:
            async for response in self._conversation.WatchOutbound(pb.WatchOutboundRequest(channels=kinds)):
                if response.message.outbound_id:
                    await self.take(response.message)
        except IndaiError as error:
            log.debug("outbound messages are not followed", reason=error.reason.name)

    async def take(self, message: pb.OutboundMessage) -> None:
        """Store one. One that came before is only acknowledged again if it was sent."""
        source = _SOURCE + message.outbound_id
        served = await self._served(message)
        if served is None:
            await self._acknowledge(source, "", "no-such-channel")
            return
        account, adapter = served.account, served.adapter
        whole, reason = await self._outbox.settled(account.tenant, source)
        if whole:
            await self._acknowledge(source, "", reason)
            return
        expires = message.expire_time.ToDatetime(UTC) if message.expire_time.seconds else None
        peer, address = self._keys.peer(message.recipient), adapter.address(message.recipient)
        to = Recipient(account, adapter, peer, address, self._link)
        template = message.template or account.setting("template")
        latest = datetime.now(UTC) + KEEP
        new = lines(to, source, message.reply, template=template, expires_at=expires or latest)
        if not new:
            await self._acknowledge(source, "", "empty")
            return
        await self._outbox.put(account.tenant, new)
        self.told(account.name)

    async def settled(self, due: Due, provider_message_id: str, _: str) -> None:
        """A message was sent, or is dead: when nothing of its source waits, the runtime is told."""
        if not due.source.startswith(_SOURCE):
            return
        whole, reason = await self._outbox.settled(due.tenant, due.source)
        if whole:
            await self._acknowledge(due.source, provider_message_id, reason)

    async def _served(self, message: pb.OutboundMessage) -> Served | None:
        """The channel of the account that is named, or the only one of its kind."""
        served = (await self._directory.all()).values()
        kind = [each for each in served if each.adapter.channel == message.recipient.channel]
        exact = [each for each in kind if each.account.account == message.account]
        found = exact or (kind if len(kind) == 1 and not message.account else [])
        return found[0] if found else None

    async def _acknowledge(self, source: str, provider_message_id: str, failure: str) -> None:
        request = pb.AcknowledgeOutboundRequest(
            outbound_id=source.removeprefix(_SOURCE),
            provider_message_id="" if failure else provider_message_id,
            failure=failure,
        )
        try:
            await self._conversation.AcknowledgeOutbound(request)
        except IndaiError as error:
            # It comes again, and is acknowledged then.
            log.info("an outbound message was not acknowledged", reason=error.reason.name)


def _nobody(_: str) -> None:
    """Until somebody is to be told."""


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    for error in await asyncio.gather(task, return_exceptions=True):
        if isinstance(error, Exception):
            log.error("following has failed, and begins again", exc_info=error)
