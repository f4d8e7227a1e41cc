"""QUERY and its ANSWER: signed questions that change nothing.

A QUERY stands in a thread of its own, outside every transcript and outside the bound of eight moves: nothing
answers it but one ANSWER, whose in_reply_to is its mid. Neither is a leaf, reserves anything or binds
anybody. Whether and what to answer is the receiver's policy at that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from indai.protocol.ballots import BallotAnswer, BallotQuery, CallQuery
from indai.protocol.bodies import MAX_SENTENCE, REASON, RejectBody
from indai.protocol.forms import (
    DAY_MS,
    MINUTE_MS,
    check_ids,
    check_name,
    check_price,
    check_span,
    check_text,
    check_token,
    malformed,
)
from indai.protocol.kinds.base import Window
from indai.protocol.kinds.book import BookWish
from indai.v1 import intents_pb2, negotiation_pb2

MAX_KINDS = 32
MAX_WINDOWS = 32
MAX_MINUTES = 1_440
MAX_LOOK_MS = 366 * DAY_MS
MAX_SEALED = (1 << 20) + 4_096  # the largest content, with what sealing adds
MAX_PART = 48 << 10


@dataclass(frozen=True, slots=True)
class CapabilitiesQuery:
    """Which kinds of intent are served?"""


@dataclass(frozen=True, slots=True)
class CapabilitiesAnswer:
    """Names of kinds."""

    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WindowsQuery:
    """Which times would suit, for `item` or, where it is empty, for a meeting with the owner?"""

    duration_minutes: int
    within: Window
    item: str = ""


@dataclass(frozen=True, slots=True)
class WindowsAnswer:
    """Times that would suit now, best first."""

    windows: tuple[Window, ...]


@dataclass(frozen=True, slots=True)
class PriceQuery:
    """What would this cost?"""

    book: BookWish


@dataclass(frozen=True, slots=True)
class PriceAnswer:
    """A price now, minor units for all of it."""

    available: bool
    price_minor: int = 0
    currency: str = ""


@dataclass(frozen=True, slots=True)
class StatusQuery:
    """How does this commitment stand?"""

    commitment: bytes


@dataclass(frozen=True, slots=True)
class StatusAnswer:
    """Where it is in its life (a name of `lifecycle.State`); `due_ms` 0: never; `stage` in words."""

    commitment: bytes
    state: str
    events: int
    due_ms: int = 0
    stage: str = ""


@dataclass(frozen=True, slots=True)
class ContentQuery:
    """The sealed content of this share commitment, from a byte on."""

    commitment: bytes
    offset_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ContentAnswer:
    """A part of `total_bytes` that are sealed: from `offset_bytes` on, at most MAX_PART."""

    commitment: bytes
    offset_bytes: int
    total_bytes: int
    sealed: bytes


About: TypeAlias = (
    CapabilitiesQuery | WindowsQuery | PriceQuery | StatusQuery | ContentQuery | CallQuery | BallotQuery
)
Told: TypeAlias = (
    CapabilitiesAnswer
    | WindowsAnswer
    | PriceAnswer
    | StatusAnswer
    | ContentAnswer
    | BallotAnswer
    | RejectBody
)


@dataclass(frozen=True, slots=True)
class QueryBody:
    """A question."""

    about: About


@dataclass(frozen=True, slots=True)
class AnswerBody:
    """An answer, or the refusal of one."""

    told: Told


def read_query(pb: negotiation_pb2.Query) -> QueryBody:
    """Checked; raises ProtocolError(MALFORMED) with QRY-01."""
    name = pb.WhichOneof("about")
    if name is None:
        raise malformed("QRY-01", "The query asks nothing")
    return QueryBody(_QUERIES[name](getattr(pb, name)))


def read_answer(pb: negotiation_pb2.Answer) -> AnswerBody:
    """Checked; raises ProtocolError(MALFORMED) with QRY-01."""
    name = pb.WhichOneof("about")
    if name is None:
        raise malformed("QRY-01", "The answer says nothing")
    return AnswerBody(_ANSWERS[name](getattr(pb, name)))


def answers(query: QueryBody, answer: AnswerBody) -> bool:
    """Whether the answer is to this question (QRY-03)."""
    match query.about, answer.told:
        case _, RejectBody():
            return True
        case StatusQuery(commitment), StatusAnswer() as status:
            return status.commitment == commitment
        case ContentQuery(commitment, offset), ContentAnswer() as content:
            return (content.commitment, content.offset_bytes) == (commitment, offset)
        case (CapabilitiesQuery(), CapabilitiesAnswer()) | (PriceQuery(), PriceAnswer()):
            return True
        case WindowsQuery() as wanted, WindowsAnswer(windows):
            start_ms, end_ms = wanted.within.start_ms, wanted.within.end_ms
            return all(start_ms <= window.start_ms and window.end_ms <= end_ms for window in windows)
        case CallQuery(wish, _), WindowsAnswer(windows):
            asked = _joined(wish.windows)
            return all(_within(window, asked, wish.duration_minutes) for window in windows)
        case BallotQuery() as ballot, BallotAnswer(ordinals):
            return len(ordinals) == len(ballot.slots)
        case _:
            return False


def _joined(windows: tuple[Window, ...]) -> list[Window]:
    """Windows that touch as one: where a long time was cut into several is nobody's concern who answers."""
    joined: list[Window] = []
    for window in sorted(windows, key=lambda each: each.start_ms):
        if joined and window.start_ms <= joined[-1].end_ms:
            last = joined.pop()
            window = Window(last.start_ms, max(last.end_ms, window.end_ms))
        joined.append(window)
    return joined


def _within(window: Window, windows: Iterable[Window], minutes: int) -> bool:
    """Whether the window lies in one of these, and the meeting in it."""
    if window.end_ms - window.start_ms < minutes * MINUTE_MS:
        return False
    return any(each.start_ms <= window.start_ms and window.end_ms <= each.end_ms for each in windows)


def query_to_pb(body: QueryBody) -> negotiation_pb2.Query:
    """As it is signed."""
    pb = negotiation_pb2
    match body.about:
        case WindowsQuery() as windows:
            asked = pb.WindowsQuery(
                item=windows.item, duration_minutes=windows.duration_minutes, within=_window(windows.within)
            )
            return pb.Query(windows=asked)
        case PriceQuery(book):
            return pb.Query(price=pb.PriceQuery(book=book.to_pb()))
        case StatusQuery(commitment):
            return pb.Query(status=pb.StatusQuery(commitment=commitment))
        case ContentQuery(commitment, offset):
            return pb.Query(content=pb.ContentQuery(commitment=commitment, offset_bytes=offset))
        case CallQuery() as call:
            return pb.Query(call=call.to_pb())
        case BallotQuery() as ballot:
            return pb.Query(ballot=ballot.to_pb())
        case _:
            return pb.Query(capabilities=pb.CapabilitiesQuery())


def answer_to_pb(body: AnswerBody) -> negotiation_pb2.Answer:
    """As it is signed."""
    pb = negotiation_pb2
    match body.told:
        case CapabilitiesAnswer(kinds):
            return pb.Answer(capabilities=pb.CapabilitiesAnswer(kinds=kinds))
        case WindowsAnswer(windows):
            return pb.Answer(windows=pb.WindowsAnswer(windows=[_window(window) for window in windows]))
        case PriceAnswer(available, price, currency):
            priced = pb.PriceAnswer(available=available, price_minor=price, currency=currency)
            return pb.Answer(price=priced)
        case StatusAnswer(commitment, state, events, due_ms, stage):
            status = pb.StatusAnswer(
                commitment=commitment, state=state, events=events, due_ms=due_ms, stage=stage
            )
            return pb.Answer(status=status)
        case ContentAnswer(commitment, offset, total, sealed):
            content = pb.ContentAnswer(
                commitment=commitment, offset_bytes=offset, total_bytes=total, sealed=sealed
            )
            return pb.Answer(content=content)
        case BallotAnswer() as said:
            return pb.Answer(ballot=said.to_pb())
        case RejectBody(reason, sentence):
            return pb.Answer(refused=pb.Reject(reason=reason, sentence=sentence))


def _window(window: Window) -> intents_pb2.Window:
    return intents_pb2.Window(start_ms=window.start_ms, end_ms=window.end_ms)


def _windows_query(pb: Any) -> WindowsQuery:
    check_token("QRY-01", "item", pb.item, 128, required=False)
    if not 1 <= pb.duration_minutes <= MAX_MINUTES:
        raise malformed("QRY-01", f"A length is 1 to {MAX_MINUTES} minutes")
    check_span("QRY-01", "The time to look at", pb.within.start_ms, pb.within.end_ms)
    if pb.within.end_ms - pb.within.start_ms > MAX_LOOK_MS:
        raise malformed("QRY-01", "At most 366 days are looked at")
    return WindowsQuery(pb.duration_minutes, Window(pb.within.start_ms, pb.within.end_ms), pb.item)


def _price_query(pb: Any) -> PriceQuery:
    wish = BookWish.from_pb(pb.book)
    wish.check()
    return PriceQuery(wish)


def _status_query(pb: Any) -> StatusQuery:
    check_ids("QRY-01", pb.commitment)
    return StatusQuery(pb.commitment)


def _content_query(pb: Any) -> ContentQuery:
    check_ids("QRY-01", pb.commitment)
    if pb.offset_bytes >= MAX_SEALED:
        raise malformed("QRY-01", f"A sealed content has at most {MAX_SEALED} bytes")
    return ContentQuery(pb.commitment, pb.offset_bytes)


def _capabilities(pb: Any) -> CapabilitiesAnswer:
    if len(pb.kinds) > MAX_KINDS:
        raise malformed("QRY-01", f"An agent serves at most {MAX_KINDS} kinds")
    for kind in pb.kinds:
        check_name("QRY-01", "kind", kind, 32)
    return CapabilitiesAnswer(tuple(pb.kinds))


def _windows(pb: Any) -> WindowsAnswer:
    if len(pb.windows) > MAX_WINDOWS:
        raise malformed("QRY-01", f"An answer has at most {MAX_WINDOWS} windows")
    for number, window in enumerate(pb.windows, 1):
        check_span("QRY-01", f"Window {number}", window.start_ms, window.end_ms)
    return WindowsAnswer(tuple(Window(window.start_ms, window.end_ms) for window in pb.windows))


def _price(pb: Any) -> PriceAnswer:
    check_price("QRY-01", pb.price_minor, pb.currency, free=True)
    return PriceAnswer(pb.available, pb.price_minor, pb.currency)


def _status(pb: Any) -> StatusAnswer:
    check_ids("QRY-01", pb.commitment)
    if not REASON.fullmatch(pb.state):
        raise malformed("QRY-01", "A state is a name in capitals")
    check_text("stage", pb.stage, MAX_SENTENCE)
    return StatusAnswer(pb.commitment, pb.state, pb.events, pb.due_ms, pb.stage)


def _content(pb: Any) -> ContentAnswer:
    check_ids("QRY-01", pb.commitment)
    if not 0 < len(pb.sealed) <= MAX_PART or not pb.total_bytes <= MAX_SEALED:
        raise malformed("QRY-01", f"A part has 1 to {MAX_PART} bytes of at most {MAX_SEALED}")
    if pb.offset_bytes + len(pb.sealed) > pb.total_bytes:
        raise malformed("QRY-01", "A part lies within the whole")
    return ContentAnswer(pb.commitment, pb.offset_bytes, pb.total_bytes, pb.sealed)


def _refused(pb: Any) -> RejectBody:
    refusal = RejectBody(pb.reason, pb.sentence)
    refusal.check()
    return refusal


_QUERIES: dict[str, Callable[[Any], About]] = {
    "capabilities": lambda pb: CapabilitiesQuery(),
    "windows": _windows_query,
    "price": _price_query,
    "status": _status_query,
    "content": _content_query,
    "call": CallQuery.from_pb,
    "ballot": BallotQuery.from_pb,
}
_ANSWERS: dict[str, Callable[[Any], Told]] = {
    "capabilities": _capabilities,
    "windows": _windows,
    "price": _price,
    "status": _status,
    "content": _content,
    "ballot": BallotAnswer.from_pb,
    "refused": _refused,
}
