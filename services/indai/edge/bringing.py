"""A file from the outbox to the provider: uploaded where it takes uploads, then sent as a message.

What was uploaded is noted down before the message is sent, so that who is killed between the two sends the
message alone. A file that a provider does not take goes out as words with its address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog
from indai.edge.accounts import Served
from indai.edge.channels.base import Fate, Json, Request, Step, Verdict, json_or_nothing
from indai.edge.channels.carried import File, as_media, linked
from indai.edge.http import Http
from indai.edge.media import MediaStore, check_host
from indai.edge.outbox import Due, Outbox
from indai.protocol.errors import IndaiError
from indai.v1 import conversation_pb2 as pb

MOST_STEPS: Final = 4
_GONE: Final = "file-gone"

log = structlog.get_logger(__name__)

Link = Callable[[pb.Media], str]
"""Where a file can be fetched for some days; nothing where it can't."""


def unreachable(_: pb.Media) -> str:
    """The link where nothing is served."""
    return ""


class Bringer:
    """Hands files over."""

    def __init__(self, http: Http, outbox: Outbox, store: MediaStore, link: Link) -> None:
        self._http, self._outbox, self._store, self._link = http, outbox, store, link

    async def bring(self, payload: Json, due: Due, served: Served) -> Verdict:
        """Send what a payload carries: words, or a file. Raises IndaiError where nothing was answered."""
        adapter = served.adapter
        if (media := as_media(payload)) is None:
            return await self._asked(adapter.request(payload, due.address, served.account), served)
        verdict = await self._file(media, due, served)
        if verdict.fate is Fate.UNHEALTHY and verdict.reason in adapter.limits.files.lacking:
            verdict = Verdict(Fate.DEAD, reason=verdict.reason)
        address = self._link(media)
        if verdict.fate is not Fate.DEAD or verdict.reason == _GONE or not address:
            return verdict
        log.info("a file goes as its address", channel=served.account.name, reason=verdict.reason)
        (words, *_) = adapter.render(pb.Reply(text=linked("", [(media.file_name, address)])))
        return await self._asked(adapter.request(words, due.address, served.account), served)

    async def _file(self, media: pb.Media, due: Due, served: Served) -> Verdict:
        try:
            content = await asyncio.to_thread(self._store.get, media.reference)
        except IndaiError:
            return Verdict(Fate.DEAD, reason=_GONE)
        file = File(media.kind, media.media_type, media.file_name, self._link(media), content)
        told = list(due.told)
        for _ in range(MOST_STEPS):
            try:
                step = self._step(file, due, served, told)
            except IndaiError as error:
                if error.reason.status.grpc == "UNAUTHENTICATED":  # a secret is missing
                    raise
                return Verdict(Fate.DEAD, reason="file-refused")
            said = await self._http.send(step.request)
            verdict = served.adapter.judge(said.status, said.headers, said.body)
            if step.last or verdict.fate is not Fate.SENT:
                return verdict
            told.append(json_or_nothing(said.body))
            if step.kept:
                await self._outbox.uploaded(due, told)
        return Verdict(Fate.DEAD, reason="file-refused")

    def _step(self, file: File, due: Due, served: Served, told: list[Json]) -> Step:
        step = served.adapter.bring(file, due.address, served.account, told)
        # Where a file is brought to is what an answer said: it is the provider's own, or nobody's.
        if step.request.body is not None:
            check_host(step.request, served.adapter.hosts, served.account.setting("api"))
        return step

    async def _asked(self, request: Request, served: Served) -> Verdict:
        said = await self._http.send(request)
        return served.adapter.judge(said.status, said.headers, said.body)
