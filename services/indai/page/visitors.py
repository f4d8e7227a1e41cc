"""Who a visitor of a page is to the conversation, and how often they may come."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Final

from indai.protocol.errors import Reason, Refused
from indai.v1 import conversation_pb2 as pb
from indai.web.accounts import OWNER
from indai.web.guards import Limit
from indai.web.sessions import MINUTE_MS, Session
from indai.web.visit import Visit

CHANNEL: Final = "web"
MESSAGES_A_MINUTE: Final = 20
STREAMS: Final = 4
ALL_STREAMS: Final = 4_000


def identity(visit: Visit) -> pb.Identity:
    """Who visits a page."""
    return who(visit.session, visit.visitor, CHANNEL)


def who(session: Session | None, visitor: str, channel: str) -> pb.Identity:
    """Whoever has signed in as an owner is their handle, proved; everybody else is one browser, unproved."""
    if session is not None and session.role == OWNER:
        return pb.Identity(channel=channel, kind="handle", value=session.scope, verified=True)
    value = f"account:{session.account}" if session is not None else visitor
    return pb.Identity(channel=channel, kind="web_session", value=value)


class Pace:
    """Keeps one visitor from costing the others anything. In memory; one event loop owns it."""

    def __init__(self) -> None:
        self._messages = Limit(MESSAGES_A_MINUTE, MINUTE_MS)
        self._open: Counter[str] = Counter()

    def message(self, who: pb.Identity, now_ms: int) -> None:
        """One more message. Raises Refused(RATE_LIMITED)."""
        self._messages.check(who.value, now_ms)

    @contextlib.contextmanager
    def stream(self, who: pb.Identity) -> Iterator[None]:
        """For the time that a stream is open. Raises Refused(RATE_LIMITED)."""
        if self._open[who.value] >= STREAMS or self._open.total() >= ALL_STREAMS:
            raise Refused(
                Reason.RATE_LIMITED,
                "Too many answers are being written at once.",
                hint="close another window of this page, and try again",
            )
        self._open[who.value] += 1
        try:
            yield
        finally:
            self._open[who.value] -= 1
            if not self._open[who.value]:
                del self._open[who.value]
