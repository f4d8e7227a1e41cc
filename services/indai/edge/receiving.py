"""Webhooks: checked, stored, and only then answered.

    GET, POST /channels/NAME

Many that come at once are stored by one statement: who arrives while a transaction runs is in the next one.
There is no waiting timer, so a lone webhook is a batch of one.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog
from aiohttp import web
from indai.edge.accounts import Directory, Keys, Served
from indai.edge.channels.base import Incoming, Raw, Received
from indai.edge.forwarded import caller, networks
from indai.edge.inbox import Arrival, Inbox, ReceiptOf
from indai.edge.outbox import Outbox, Recipient, lines
from indai.edge.pace import Pace
from indai.language import detect, say
from indai.protocol.errors import IndaiError, InvalidInput, Reason
from indai.v1 import conversation_pb2 as pb

MOST_BODY: Final = 1024 * 1024
READ_S: Final = 10.0
"""For how long a body is waited for: who writes half of it holds nothing for longer."""
MOST_BATCH: Final = 256
OLDEST_S: Final = 8 * 24 * 3600
"""Older messages are no late webhooks (Meta repeats for seven days) but replayed ones."""
AT_ONCE: Final = 30
"""Messages that one sender may bring at once, and then one in two seconds."""
PER_SECOND: Final = 0.5
MOST_WARNED: Final = 10_000

log = structlog.get_logger(__name__)


@dataclass
class _Batch:
    arrivals: list[Arrival] = field(default_factory=list)
    receipts: list[ReceiptOf] = field(default_factory=list)


class Writer:
    """Stores what several webhooks bring together; `stored` is called when something new may be there."""

    def __init__(self, inbox: Inbox, stored: Callable[[], None]) -> None:
        self._inbox = inbox
        self._stored = stored
        self._queue: list[tuple[_Batch, asyncio.Future[None]]] = []
        self._running: asyncio.Task[None] | None = None

    async def store(self, arrivals: Sequence[Arrival], receipts: Sequence[ReceiptOf]) -> None:
        """Returns when they are durable. Raises IndaiError when they are not."""
        if not arrivals and not receipts:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((_Batch(list(arrivals), list(receipts)), done))
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
        await done

    async def _run(self) -> None:
        while self._queue:
            taken, self._queue = self._queue[:MOST_BATCH], self._queue[MOST_BATCH:]
            error = await self._try([batch for batch, _ in taken])
            if error is not None and len(taken) > 1 and error.reason.status.grpc != "UNAVAILABLE":
                # One of them can't be stored: the others must not suffer for it.
                errors = [await self._try([batch]) for batch, _ in taken]
            else:
                errors = [error] * len(taken)
            for (_, done), failed in zip(taken, errors, strict=True):
                if not done.done():
                    done.set_result(None) if failed is None else done.set_exception(failed)
            self._stored()

    async def _try(self, batches: Sequence[_Batch]) -> IndaiError | None:
        try:
            await self._inbox.store(
                [each for batch in batches for each in batch.arrivals],
                [each for batch in batches for each in batch.receipts],
            )
        except IndaiError as error:
            return error
        except Exception:
            # Whoever waits must hear of it: the provider repeats what was not taken.
            log.exception("webhooks could not be stored")
            return IndaiError(Reason.INTERNAL, "Something went wrong inside the program.")
        return None


@dataclass(slots=True)
class Refusals:
    """Requests to a channel's webhook that were believed to come from nobody it knows, since this process
    began; `last_ms` since the epoch."""

    count: int = 0
    last_ms: int = 0


class Webhooks:
    """The handlers. `refused` is by channel."""

    def __init__(
        self,
        directory: Directory,
        writer: Writer,
        outbox: Outbox,
        keys: Keys,
        clock: Callable[[], int],
        told: Callable[[str], None],
    ) -> None:
        """`clock` gives milliseconds since the epoch; `told` is called with a channel that has something to
        send."""
        self._directory = directory
        self._writer = writer
        self._outbox = outbox
        self._keys = keys
        self._clock = clock
        self._told = told
        self._senders = Pace(PER_SECOND, AT_ONCE)
        self._warned: set[tuple[str, bytes]] = set()
        self.refused: defaultdict[str, Refusals] = defaultdict(Refusals)

    def routes(self) -> list[web.RouteDef]:
        """What the HTTP port serves."""
        path = "/channels/{name}"
        return [web.get(path, self.handle, allow_head=False), web.post(path, self.handle)]

    async def handle(self, request: web.Request) -> web.Response:
        """One webhook. It is told no more than that it was refused."""
        try:
            served = await self._directory.find(request.match_info["name"])
            raw = await _raw(request, served)
            if isinstance(raw, int):
                return web.Response(status=raw)
            self._verified(raw, served)
            received = served.adapter.receive(raw, served.account)
            await self.take(received, served)
        except IndaiError as error:
            log.info("webhook refused", reason=error.reason.name, channel=request.match_info["name"][:64])
            return web.Response(status=error.reason.status.http)
        answer = received.answer
        return web.Response(
            status=answer.status,
            text=answer.body,
            content_type=answer.content_type,
            # A challenge is the asker's own text: it is shown as text, whoever looks at it.
            headers={"X-Content-Type-Options": "nosniff"},
        )

    def _verified(self, raw: Raw, served: Served) -> None:
        """Raises Refused; counts what is not signed, for whoever wonders why nothing comes in."""
        try:
            served.adapter.verify(raw, served.account, self._clock() / 1000)
        except IndaiError:
            refused = self.refused[served.account.name]
            refused.count, refused.last_ms = refused.count + 1, self._clock()
            raise

    async def take(self, received: Received, served: Served) -> None:
        """Store what came; what one sender brings beyond measure is left out, and they are told once."""
        now_s = self._clock() / 1000
        arrivals: list[Arrival] = []
        for incoming in received.incoming:
            peer = self._keys.peer(incoming.message.sender)
            sent = incoming.message.sent_time
            if sent.seconds and sent.seconds < now_s - OLDEST_S:
                log.info("an old message was left out", channel=served.account.name)
            elif self._admit((served.account.name, peer), now_s):
                key = self._keys.message(served.account.name, incoming.message.provider_message_id)
                arrivals.append(Arrival(served.account, incoming, peer, key))
            else:
                await self._warn(served, incoming, peer, now_s)
        receipts = [
            ReceiptOf(
                served.account.tenant,
                served.account.name,
                self._keys.message(served.account.name, each.provider_message_id),
                each,
            )
            for each in received.receipts
        ]
        try:
            await self._writer.store(arrivals, receipts)
        except IndaiError:
            # The provider brings it again, and that must not count as more.
            for arrival in arrivals:
                self._senders.give_back((served.account.name, arrival.peer), now_s)
            raise

    def _admit(self, sender: tuple[str, bytes], now_s: float) -> bool:
        """Whether one more is within the sender's measure. Who has been quiet for long is warned anew."""
        if sender in self._warned and self._senders.full(sender, now_s):
            self._warned.discard(sender)
        return self._senders.take(sender, now_s)

    async def _warn(self, served: Served, incoming: Incoming, peer: bytes, now_s: float) -> None:
        key = (served.account.name, peer)
        if key in self._warned:
            return
        if len(self._warned) >= MOST_WARNED:
            self._warned.clear()
        self._warned.add(key)
        log.warning("a sender is too fast", channel=served.account.name)
        seconds = int(AT_ONCE / PER_SECOND)
        language = detect(incoming.message.text[:500], incoming.message.language).tag
        reply = pb.Reply(text=say("too_fast", language, seconds=seconds))
        to = Recipient(served.account, served.adapter, peer, incoming.address)
        await self._outbox.put(served.account.tenant, lines(to, f"fast/{int(now_s)}", reply))
        self._told(served.account.name)


async def _raw(request: web.Request, served: Served) -> Raw | int:
    """The request as it came, or the status that one gets which is too large or does not come whole."""
    if (request.content_length or 0) > MOST_BODY:
        return 413
    try:
        async with asyncio.timeout(READ_S):
            body = await request.read()
    except TimeoutError:
        return 408
    except ConnectionError:
        return 400  # who sent half of it is gone, and nobody reads this
    if len(body) > MOST_BODY:
        return 413
    headers = {name.lower(): value for name, value in request.headers.items()}
    return Raw(request.method, dict(request.query), headers, body, _remote(request, served))


def _remote(request: web.Request, served: Served) -> str:
    """Who really calls: what a proxy of the channel's saw, if the caller is one."""
    proxies = served.account.setting("proxies")
    try:
        known = networks(each for each in proxies.split(",") if each.strip())
    except InvalidInput:
        return ""
    return caller(request.remote or "", request.headers.get("X-Forwarded-For", ""), known)
