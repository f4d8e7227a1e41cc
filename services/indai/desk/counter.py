"""Something else instead: the owner's counter-proposal, on the same conversation and with one press.

It is bound to the hash of the terms beside it, as yes and no are, and counts once. A meeting may be put on
the next day or the week after without another page; days, length and amounts are chosen on one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from typing import Final

from aiohttp import web
from google.protobuf.timestamp_pb2 import Timestamp
from indai.desk.frame import ROLES, Frame
from indai.desk.show import Show
from indai.policy.money import amount, parse_amount
from indai.policy.values import Problem
from indai.protocol.errors import InvalidInput, NotFound, Reason
from indai.v1 import desk_pb2 as pb
from indai.web.visit import Visit

MAX_DAYS: Final = 60
DAY: Final = timedelta(days=1)


class Counter:
    """The page and the act of a counter-proposal."""

    def __init__(self, frame: Frame) -> None:
        self._frame, self._steering = frame, frame.calls.steering

    def routes(self) -> Sequence[web.RouteDef]:
        """What the site serves of it."""
        site, one = self._frame.site, "/desk/counter/{hash:[0-9a-f]{64}}"
        return (site.member(one, ROLES, self.form), site.act(one, ROLES, self.propose))

    async def form(self, visit: Visit) -> web.StreamResponse:
        """What is asked, and what may be put otherwise."""
        asked = await self._asked(visit)
        show = await self._frame.show(visit)
        approval = asked.approval
        start = _start(show, asked).date()
        minutes = (approval.end_time.seconds - approval.start_time.seconds) // 60
        return await self._frame.page(
            visit,
            "counter.html",
            "/desk",
            show=show,
            approval=approval,
            asked=asked,
            first=(start + DAY).isoformat(),
            last=(start + 7 * DAY).isoformat(),
            minutes=max(1, minutes) if approval.start_time.seconds else 30,
            amount=amount(asked.amount_minor, asked.currency).split()[0] if asked.currency else "",
        )

    async def propose(self, visit: Visit) -> web.StreamResponse:
        """Send it."""
        asked = await self._asked(visit)
        show = await self._frame.show(visit)
        request = pb.CounterApprovalRequest(code=asked.approval.action_hash)
        if way := visit.said("way"):
            self._say_when(request, show, *_days_of(way, _start(show, asked).date()))
        elif asked.changes_time:
            self._say_when(request, show, _day(visit.said("first")), _day(visit.said("last")))
            request.duration_minutes = _minutes(visit.said("minutes"))
        if asked.changes_amount and (text := visit.said("amount")):
            request.amount_minor = _amount(text, asked.currency)
        answer = await self._steering.CounterApproval(request, metadata=visit.metadata)
        return visit.go(f"/desk/threads/{answer.thread_id}", "asked")

    def _say_when(self, request: pb.CounterApprovalRequest, show: Show, first: date, last: date) -> None:
        """Whole days, in the owner's zone, the last included; none of it in the past."""
        if not first <= last < first + MAX_DAYS * DAY:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, "The last day must not be before the first.", hint="60 days at most"
            )
        start, end = (datetime.combine(day, time(), show.zone) for day in (first, last + DAY))
        earliest = self._frame.site.clock() // 1000 + 60
        request.start_time.CopyFrom(Timestamp(seconds=max(int(start.timestamp()), earliest)))
        request.end_time.CopyFrom(Timestamp(seconds=int(end.timestamp())))

    async def _asked(self, visit: Visit) -> pb.GetQuestionResponse:
        """The question, if it still waits."""
        try:
            request = pb.GetQuestionRequest(code=visit.named("hash"))
            return await self._steering.GetQuestion(request, metadata=visit.metadata)
        except NotFound:
            raise NotFound(
                Reason.NOT_FOUND, "These terms no longer wait for you.", hint="the inbox shows what does"
            ) from None


def _start(show: Show, asked: pb.GetQuestionResponse) -> datetime:
    stamp = asked.approval.start_time
    return show.at(stamp) if stamp.seconds else datetime.fromtimestamp(show.now_ms / 1000, show.zone)


def _days_of(way: str, asked: date) -> tuple[date, date]:
    """First and last day of what one press proposes."""
    if way == "day":
        return asked + DAY, asked + DAY
    if way == "week":
        monday = asked + (7 - asked.weekday()) * DAY
        return monday, monday + 6 * DAY
    raise InvalidInput(Reason.INVALID_ARGUMENT, "Another time is the next day, or the week after.")


def _day(text: str) -> date:
    try:
        return datetime.strptime(text, "%Y-%m-%d").date()  # noqa: DTZ007 - a day has no zone
    except ValueError:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, "That is no day.", hint="write it like 2026-11-30"
        ) from None


def _minutes(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:5]) <= 1440):
        raise InvalidInput(Reason.INVALID_ARGUMENT, "A meeting lasts 1 minute to 24 hours.")
    return int(text)


def _amount(text: str, currency: str) -> int:
    try:
        minor, found = parse_amount(text, currency)
    except Problem as problem:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"{problem}.", hint="a number, such as 450.50") from None
    if found != currency:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"The amount is in {currency}.", hint="write the number")
    return minor
