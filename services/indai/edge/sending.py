"""From the outbox to the provider: a line for each channel, so that one that stands still holds up no other.

Messages to one person keep their order, at the pace the provider allows; what the provider says decides what
becomes of each. A message that was handed over just before a kill may be handed over again: none is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from indai.client.tasks import end_tasks
from indai.edge.accounts import Channels, Directory, Keys, Served
from indai.edge.bringing import Bringer
from indai.edge.channels.base import Fate, Json, Limits, Verdict
from indai.edge.outbox import Due, Outbox
from indai.edge.pace import Pace
from indai.edge.stopping import is_stopped
from indai.protocol.errors import IndaiError

AT_ONCE: Final = 16
POLL_S: Final = 1.0
MOST_WAIT_S: Final = 60.0
GRACE_S: Final = 3.0
_MARGIN: Final = timedelta(minutes=2)  # a window that closes while a message is on its way is closed

log = structlog.get_logger(__name__)

Settled = Callable[[Due, str, str], Awaitable[None]]
"""Told of a message that was sent or is dead: it, the provider's id, the reason."""


class Sender:
    """Sends for all channels while `run` runs."""

    def __init__(
        self,
        outbox: Outbox,
        channels: Channels,
        directory: Directory,
        bringer: Bringer,
        keys: Keys,
        settled: Settled,
        monotonic: Callable[[], float],
    ) -> None:
        self.outbox, self.channels, self.directory = outbox, channels, directory
        self.bringer, self.keys, self.settled, self.monotonic = bringer, keys, settled, monotonic
        self._lines: dict[str, tuple[_Line, asyncio.Task[None]]] = {}
        self._changed = asyncio.Event()

    def wake(self, channel: str) -> None:
        """The channel has something to send."""
        if channel in self._lines:
            self._lines[channel][0].wake()
        else:
            self._changed.set()

    def resume(self, channel: str) -> None:
        """The channel was set up anew, or found to be well: it needn't wait any longer."""
        if channel in self._lines:
            self._lines[channel][0].resume()

    async def run(self) -> None:
        """Until cancelled: a line for each channel there is."""
        try:
            while not is_stopped():
                self._changed.clear()
                try:
                    await self._match(set(await self.directory.all()))
                except IndaiError as error:
                    log.warning("channels not read", reason=error.reason.name)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(POLL_S):
                        await self._changed.wait()
        finally:
            await self._match(set())

    async def _match(self, names: set[str]) -> None:
        gone = [self._lines.pop(name)[1] for name in list(self._lines) if name not in names]
        await end_tasks(*gone)
        for name in names - self._lines.keys():
            line = _Line(self, name)
            self._lines[name] = (line, asyncio.create_task(line.run()))


class _Line:
    """Sends for one channel."""

    def __init__(self, sender: Sender, name: str) -> None:
        self._sender = sender
        self._name = name
        self._wake = asyncio.Event()
        self._busy: dict[bytes, asyncio.Task[None]] = {}
        self._resting: dict[bytes, float] = {}  # people who must not be sent to before that time
        self._paused_until = 0.0
        self._failures = 0
        self._limits: Limits | None = None
        self._per_account = self._per_pair = Pace(1, 1)

    def wake(self) -> None:
        self._wake.set()

    def resume(self) -> None:
        self._paused_until, self._failures, self._limits = 0.0, 0, None
        self.wake()

    async def run(self) -> None:
        try:
            while not is_stopped():
                self._wake.clear()
                wait_s = POLL_S
                try:
                    wait_s = await self._begin()
                except IndaiError as error:
                    log.warning("answers wait", channel=self._name, reason=error.reason.name)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(0.001, wait_s)):
                        await self._wake.wait()
        finally:
            # What the provider has in its hands is noted down, or it would be said again.
            tasks = list(self._busy.values())
            if tasks:
                await asyncio.wait(tasks, timeout=GRACE_S)
            await end_tasks(*tasks)

    async def _begin(self) -> float:
        """Begin what may be sent now; gives how long to wait for more."""
        now = self._sender.monotonic()
        self._resting = {peer: until for peer, until in self._resting.items() if until > now}
        # While a provider fails, one message at a time tries whether it is back.
        free = (1 if self._failures else AT_ONCE) - len(self._busy)
        if now < self._paused_until or free <= 0:
            return min(POLL_S, max(0.0, self._paused_until - now) or POLL_S)
        served = await self._sender.directory.find(self._name)
        self._pace(served)
        held = [*self._busy, *self._resting]
        due = await self._sender.outbox.heads(served.account, held, free)
        for each in due:
            if (wait_s := self._per_account.wait_s("", now)) > 0:
                return wait_s
            if (rest_s := self._per_pair.wait_s(each.peer, now)) > 0:
                self._resting[each.peer] = now + rest_s
                continue
            self._per_account.take("", now)
            self._per_pair.take(each.peer, now)
            self._busy[each.peer] = asyncio.create_task(self._serve(each, served))
        rests = [until - now for until in self._resting.values()]
        # As many as were asked for: there may be more.
        return 0.0 if len(due) == free and len(self._busy) < AT_ONCE else min([POLL_S, *rests])

    def _pace(self, served: Served) -> None:
        """The provider's rates, or those of this account where it has others."""
        limits, account = served.adapter.limits, served.account
        if self._limits is not None:
            return
        self._limits = limits
        per_second = _number(account.setting("per_second"), limits.per_second)
        every_s = _number(account.setting("pair_every_s"), limits.pair_every_s)
        self._per_account = Pace(per_second, max(1.0, per_second / 10))
        self._per_pair = Pace(1 / every_s, limits.pair_burst)

    async def _serve(self, due: Due, served: Served) -> None:
        try:
            payload, reason = _carrier(due, served.adapter.limits, datetime.now(UTC))
            if reason:
                await self._settle_dead(due, reason)
            elif payload is None:
                await self._sender.outbox.sent(due, None, receipts=False)
                await self._sender.settled(due, "", "")
            else:
                await self._decide(due, served, await self._post(payload, due, served))
        except IndaiError as error:
            log.warning("an answer waits", channel=self._name, reason=error.reason.name)
        except Exception:
            log.exception("an answer could not be sent", channel=self._name)
            self._resting[due.peer] = self._sender.monotonic() + MOST_WAIT_S
        finally:
            self._busy.pop(due.peer, None)
            self.wake()

    async def _post(self, payload: Json, due: Due, served: Served) -> Verdict:
        try:
            return await self._sender.bringer.bring(payload, due, served)
        except IndaiError as error:
            if error.reason.status.grpc == "UNAUTHENTICATED":  # its secret is missing
                return Verdict(Fate.UNHEALTHY, reason="no-secret")
            return Verdict(Fate.AGAIN, reason=error.reason.name.lower().replace("_", "-"))

    async def _decide(self, due: Due, served: Served, verdict: Verdict) -> None:
        outbox, now = self._sender.outbox, self._sender.monotonic()
        match verdict.fate:
            case Fate.SENT:
                key = self._sender.keys.message(self._name, verdict.provider_message_id)
                await self._note_sent(due, key, receipts=served.adapter.limits.receipts)
                await self._well(served)
                await self._sender.settled(due, verdict.provider_message_id, "")
            case Fate.DEAD:
                await self._settle_dead(due, verdict.reason)
                await self._well(served)
            case Fate.SLOW_PAIR:
                # https://developers.facebook.com/…/support/error-codes: 4^X seconds after error 131056
                after_s = verdict.wait_s or min(256.0, 4.0 ** min(due.attempts, 4))
                await outbox.again(due, timedelta(seconds=after_s), verdict.reason)
            case Fate.SLOW_ACCOUNT:
                self._pause(now + (verdict.wait_s or 2.0))
                await outbox.again(due, timedelta(0), verdict.reason)
            case Fate.UNHEALTHY:
                self._failures += 1
                self._pause(now + (verdict.wait_s or _growing(self._failures + 2)))
                await outbox.again(due, timedelta(0), verdict.reason)
                await self._ill(served, verdict.reason)
            case Fate.AGAIN:
                self._failures += 1
                self._pause(now + (verdict.wait_s or _growing(self._failures)))
                await outbox.again(due, timedelta(0), verdict.reason)
                if self._failures == 3:
                    await self._ill(served, verdict.reason)

    async def _note_sent(self, due: Due, key: bytes, *, receipts: bool) -> None:
        """What is not noted down is said again, so a database that is away for a moment is waited for."""
        for pause_s in (0.1, 0.3, 0.9, None):
            try:
                return await self._sender.outbox.sent(due, key, receipts=receipts)
            except IndaiError:
                if pause_s is None:
                    raise
                await asyncio.sleep(pause_s)
        return None

    def _pause(self, until: float) -> None:
        self._paused_until = max(self._paused_until, until)

    async def _settle_dead(self, due: Due, reason: str) -> None:
        log.warning("a message is dead", channel=self._name, reason=reason, letter=due.id)
        await self._sender.outbox.dead(due, reason)
        await self._sender.settled(due, "", reason)

    async def _well(self, served: Served) -> None:
        self._failures = 0
        if served.trouble:
            await self._sender.channels.trouble(served.account, "")
            await self._sender.directory.refresh()

    async def _ill(self, served: Served, reason: str) -> None:
        log.error("a channel can't send", channel=self._name, reason=reason)
        await self._sender.channels.trouble(served.account, reason)
        await self._sender.directory.refresh()


def _carrier(due: Due, limits: Limits, now: datetime) -> tuple[Json | None, str]:
    """What is sent now, or why nothing is: the words, their template outside the window, or nothing more
    where the template of a message before has said it all."""
    if due.expires_at <= now:
        return None, "expired"
    open_until = None if due.wrote_at is None else due.wrote_at + timedelta(hours=limits.window_h)
    if not limits.window_h or (open_until is not None and now < open_until - _MARGIN):
        return due.payload, ""
    if due.template is None:
        return None, "window-closed"
    return due.template or None, ""


def _growing(failures: int) -> float:
    return min(MOST_WAIT_S, 0.5 * 2.0 ** min(failures, 8)) * random.uniform(0.7, 1.0)  # noqa: S311


def _number(text: str, default: float) -> float:
    try:
        return max(0.001, float(text))
    except ValueError:
        return default
