"""`indai.v1.ChannelService`: channels for the operator. Who may, the server has asked before."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp
from indai.edge.accounts import Channel, Channels, Directory, Keys
from indai.edge.channels.base import Adapter, Json
from indai.edge.channels.carried import as_media
from indai.edge.channels.table import adapter_of
from indai.edge.channels.troubles import explained
from indai.edge.examiner import Examiner
from indai.edge.outbox import Outbox, Recipient, lines
from indai.edge.settings import check_settings, steps
from indai.protocol.errors import InvalidInput, NotFound, Reason
from indai.protocol.quoting import quoted
from indai.v1 import channels_pb2 as pb
from indai.v1 import channels_pb2_grpc
from indai.v1 import conversation_pb2 as talk

PERSONAL: Final = "personal"
"""The tenant of the owners' own agents."""
PAGE, MAX_PAGE = 50, 200
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_SLUG: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_WORDS: Final = 80


class ChannelServicer(channels_pb2_grpc.ChannelServiceServicer):
    """See the contract."""

    def __init__(
        self,
        channels: Channels,
        directory: Directory,
        outbox: Outbox,
        keys: Keys,
        examiner: Examiner,
        url: Callable[[], str],
        told: Callable[[str], None],
        resumed: Callable[[str], None],
    ) -> None:
        """`told` and `resumed` are called with a channel that has something to send, or is well again."""
        self._channels, self._directory, self._outbox = channels, directory, outbox
        self._keys, self._examiner, self._url, self._told = keys, examiner, url, told
        self._resumed = resumed

    async def PutChannel(self, request: pb.PutChannelRequest, context: Any) -> pb.PutChannelResponse:
        """Checked as a whole, before anything is stored."""
        given = request.channel
        adapter = adapter_of(given.provider)
        if not _NAME.fullmatch(given.name):
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                f"{quoted(given.name)} is no name of a channel.",
                hint="up to 40 small letters, digits and dashes",
            )
        tenant = given.tenant or PERSONAL
        if not _SLUG.fullmatch(tenant):
            raise InvalidInput(Reason.INVALID_ARGUMENT, f"{quoted(tenant)} is no slug of a tenant.")
        settings = check_settings(adapter, given.account, dict(given.settings))
        channel = Channel(tenant, given.name, adapter.name, given.account, settings)
        await self._channels.put(channel)
        await self._directory.refresh()
        self._resumed(channel.name)
        self._told(channel.name)
        shown = await self._shown(channel.name)
        return pb.PutChannelResponse(channel=shown, steps=steps(adapter, shown))

    async def ListChannels(self, request: pb.ListChannelsRequest, context: Any) -> pb.ListChannelsResponse:
        """By name."""
        size = min(request.page_size or PAGE, MAX_PAGE)
        rows = [row for row in await self._channels.listed(request.tenant) if row.name > request.page_token]
        more = rows[size - 1].name if len(rows) > size else ""
        return pb.ListChannelsResponse(channels=map(self._view, rows[:size]), next_page_token=more)

    async def GetChannelStatus(
        self, request: pb.GetChannelStatusRequest, context: Any
    ) -> pb.GetChannelStatusResponse:
        """Queues, trouble, and somebody's window."""
        channel = await self._found(request.name)
        adapter = adapter_of(channel.provider)
        counts = await self._outbox.counts(channel.tenant, channel.name)
        hours, refused = adapter.limits.window_h, self._examiner.refused(channel.name)
        closes = None
        if hours and request.recipient:
            peer = self._keys.peer(_identity(adapter, channel, request.recipient))
            wrote = await self._outbox.wrote_at(channel.tenant, channel.name, peer)
            closes = wrote + timedelta(hours=hours) if wrote else None
        return pb.GetChannelStatusResponse(
            channel=self._view(channel),
            unread=counts.unread,
            waiting=counts.waiting,
            oldest_waiting_time=_time(counts.oldest),
            dead=counts.dead,
            last_in_time=_time(counts.last_in),
            last_out_time=_time(counts.last_out),
            window_hours=hours,
            window_end_time=_time(closes),
            refused=refused.count,
            last_refused_time=_time(_moment(refused.last_ms)),
        )

    async def TestChannel(self, request: pb.TestChannelRequest, context: Any) -> pb.TestChannelResponse:
        """By a request that changes nothing, and by a message where one was asked for."""
        channel = await self._found(request.name)
        await self._directory.refresh()
        served = await self._directory.find(channel.name)
        found = await self._examiner.examine(served, self._view(channel).webhook_url)
        answer = pb.TestChannelResponse(
            accepted=found.accepted,
            reason=found.reason,
            webhook_set=found.webhook_set,
            findings=[
                pb.ChannelFinding(reason=each.reason, words=each.words, hint=each.hint, grave=each.grave)
                for each in found.findings
            ],
        )
        if not found.accepted:
            return answer
        await self._channels.trouble(served.account, "")
        await self._directory.refresh()
        self._resumed(channel.name)
        if request.recipient:
            identity = _identity(served.adapter, channel, request.recipient)
            to = Recipient(
                served.account, served.adapter, self._keys.peer(identity), served.adapter.address(identity)
            )
            words = talk.Reply(text="This is a test of the channel.")
            source = f"test/{uuid.uuid4().hex}"
            template = served.account.setting("template")
            await self._outbox.put(channel.tenant, lines(to, source, words, template=template))
            self._told(channel.name)
            answer.queued = True
        return answer

    async def RemoveChannel(self, request: pb.RemoveChannelRequest, context: Any) -> pb.RemoveChannelResponse:
        """Its rows go with it."""
        channel = await self._channels.find(request.name)
        if channel is not None:
            await self._channels.remove(channel)
            await self._directory.refresh()
        return pb.RemoveChannelResponse()

    async def ListDeadLetters(
        self, request: pb.ListDeadLettersRequest, context: Any
    ) -> pb.ListDeadLettersResponse:
        """Oldest first."""
        channel = await self._found(request.name)
        size = min(request.page_size or PAGE, MAX_PAGE)
        after = int(request.page_token) if request.page_token.isdecimal() else 0
        found = await self._outbox.dead_letters(channel.tenant, channel.name, after, size + 1)
        letters = [
            pb.DeadLetter(
                letter_id=each.id,
                reason=each.reason,
                attempts=each.attempts,
                create_time=_time(each.created_at),
                death_time=_time(each.settled_at),
                words=_words(each.payload)[:_WORDS],
                reason_words=_in_words(each.reason),
            )
            for each in found[:size]
        ]
        more = str(found[size - 1].id) if len(found) > size else ""
        return pb.ListDeadLettersResponse(letters=letters, next_page_token=more)

    async def ReplayDeadLetters(
        self, request: pb.ReplayDeadLettersRequest, context: Any
    ) -> pb.ReplayDeadLettersResponse:
        """They wait again."""
        channel = await self._found(request.name)
        count = await self._outbox.replay(channel.tenant, channel.name, list(request.letter_ids))
        self._told(channel.name)
        return pb.ReplayDeadLettersResponse(replayed=count)

    async def _found(self, name: str) -> Channel:
        channel = await self._channels.find(name)
        if channel is None:
            raise NotFound(
                Reason.NOT_FOUND, f"There is no channel {quoted(name)}.", hint="see: indai channel list"
            )
        return channel

    async def _shown(self, name: str) -> pb.Channel:
        return self._view(await self._found(name))

    def _view(self, channel: Channel) -> pb.Channel:
        return pb.Channel(
            name=channel.name,
            tenant=channel.tenant,
            provider=channel.provider,
            account=channel.account,
            settings=channel.settings,
            webhook_url=f"{self._url()}/channels/{channel.name}",
            trouble=channel.trouble,
            trouble_time=_time(channel.trouble_at if channel.trouble else None),
            trouble_words=_in_words(channel.trouble),
        )


def _in_words(reason: str) -> str:
    """What a reason means, and what to do; nothing for none."""
    found = explained(reason)
    return f"{found.words} {found.hint}".strip()


def _moment(at_ms: int) -> datetime | None:
    return datetime.fromtimestamp(at_ms / 1000, UTC) if at_ms else None


def _identity(adapter: Adapter, channel: Channel, recipient: str) -> talk.Identity:
    """Somebody by what the channel knows them by."""
    if adapter.channel == "whatsapp":
        kind = "phone" if recipient.removeprefix("+").isdecimal() else "business_scoped_id"
        value = f"+{recipient.removeprefix('+')}" if kind == "phone" else recipient
    elif adapter.channel == "slack":
        kind, value = "slack_id", recipient if "/" in recipient else f"{channel.account}/{recipient}"
    else:
        kind, value = "telegram_id", recipient
    return talk.Identity(channel=adapter.channel, kind=kind, value=value)


def _words(payload: Json) -> str:
    """What a message says first, for a person to know it by: of a file, its name."""
    if (media := as_media(payload)) is not None:
        return media.file_name
    for value in (payload.get("body"), payload.get("text"), *payload.values()):
        if isinstance(value, str) and " " in value:
            return value
        if isinstance(value, dict) and (found := _words(value)):
            return found
    text = payload.get("text")
    return text if isinstance(text, str) else ""


def _time(moment: datetime | None) -> Timestamp | None:
    if moment is None:
        return None
    stamp = Timestamp()
    stamp.FromDatetime(moment)
    return stamp
