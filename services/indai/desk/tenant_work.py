"""Jobs and channels of an organisation: what waits, what was given up, trying again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aiohttp import web
from indai.desk.show import Tag
from indai.desk.tenant_frame import COUNTERS, RUNNERS, TENANT, TenantFrame
from indai.protocol.errors import InvalidInput, Reason
from indai.v1 import channels_pb2
from indai.v1 import tenant_pb2 as pb
from indai.web.catalog import Words
from indai.web.visit import Visit

SLOW_MS: Final = 5 * 60_000
"""A message that waits longer for its provider than any pause between two tries (a minute) explains."""


class TenantWork:
    """Pages and acts of background work."""

    def __init__(self, frame: TenantFrame) -> None:
        self._frame, self._desk = frame, frame.calls.tenant

    def routes(self) -> Sequence[web.RouteDef]:
        """What the site serves of it."""
        site, room, work = self._frame.site, self._frame.room, f"/tenant/{TENANT}/work"
        return (
            site.member(work, COUNTERS, room(self.work)),
            site.act(f"{work}/replay", RUNNERS, self.replay),
            site.act(f"{work}/channels/{{channel:[a-z0-9-]{{1,40}}}}/replay", RUNNERS, self.letters),
        )

    async def work(self, visit: Visit) -> web.StreamResponse:
        """Everything on one page: it is short unless something is wrong."""
        tenant = self._frame.tenant(visit)
        jobs = await self._desk.ListTenantWork(
            pb.ListTenantWorkRequest(tenant=tenant), metadata=visit.metadata
        )
        channels = await self._desk.ListTenantChannels(
            pb.ListTenantChannelsRequest(tenant=tenant), metadata=visit.metadata
        )
        return await self._frame.page(
            visit,
            "tenant_work.html",
            "/work",
            jobs=jobs.jobs[:200],
            channels=[
                (one, health(one.status, self._frame.site.clock(), visit.words)) for one in channels.channels
            ],
        )

    async def replay(self, visit: Visit) -> web.StreamResponse:
        """A job that was given up."""
        request = pb.ReplayTenantWorkRequest(
            tenant=self._frame.tenant(visit), source=visit.said("source"), job_id=visit.said("job")
        )
        await self._desk.ReplayTenantWork(request, metadata=visit.metadata)
        return visit.go(self._frame.at(visit, "/work"), "replayed")

    async def letters(self, visit: Visit) -> web.StreamResponse:
        """Messages that could not be sent: one, or all of a channel."""
        letter = visit.said("letter", most=19)
        if letter and not (letter.isascii() and letter.isdigit()):
            raise InvalidInput(Reason.INVALID_ARGUMENT, "That is no number of a message.")
        request = pb.ReplayTenantLettersRequest(
            tenant=self._frame.tenant(visit),
            channel=visit.named("channel"),
            letter_ids=[int(letter)] if letter else [],
        )
        await self._desk.ReplayTenantLetters(request, metadata=visit.metadata)
        return visit.go(self._frame.at(visit, "/work"), "replayed")


def health(status: channels_pb2.GetChannelStatusResponse, now_ms: int, words: Words) -> list[Tag]:
    """How a channel stands, the worst first: it can't send, it is slow, it gave something up, nothing ever
    came or went, or all is well."""
    oldest_ms = status.oldest_waiting_time.seconds * 1000
    found = []
    if status.channel.trouble:
        found.append(Tag(words("cannot send"), "bad"))
    elif status.waiting and oldest_ms and now_ms - oldest_ms >= SLOW_MS:
        found.append(Tag(words("sends too slowly"), "warn"))
    if status.dead:
        found.append(Tag(words("{n} not sent", n=status.dead), "warn"))
    if not found and not status.last_in_time.seconds and not status.last_out_time.seconds:
        found.append(Tag(words("nothing came yet")))
    return found or [Tag(words("well"), "good")]
