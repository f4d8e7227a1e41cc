"""Times, lengths and states as people read them, and as `--json` has them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from google.protobuf.timestamp_pb2 import Timestamp
from indai.cli.errors import wrong
from indai.tools.period import parse_period
from indai.v1 import owner_pb2, policy_pb2

STATES = {
    owner_pb2.THREAD_STATE_NEGOTIATING: "negotiating",
    owner_pb2.THREAD_STATE_ASKING_OWNER: "asking you",
    owner_pb2.THREAD_STATE_ON_HOLD: "waiting for their owner",
    owner_pb2.THREAD_STATE_AWAITING_RECEIPT: "awaiting receipt",
    owner_pb2.THREAD_STATE_COMMITTED: "agreed",
    owner_pb2.THREAD_STATE_REJECTED: "refused",
    owner_pb2.THREAD_STATE_WITHDRAWN: "withdrawn",
    owner_pb2.THREAD_STATE_LAPSED: "lapsed",
    owner_pb2.THREAD_STATE_IN_DOUBT: "in doubt",
}
STATE_STYLES = {
    "agreed": "green",
    "refused": "red",
    "asking you": "yellow",
    "in doubt": "yellow",
    "lapsed": "red",
    "withdrawn": "red",
}
LIVES = {
    owner_pb2.COMMITMENT_STATE_COMMITTED: "stands",
    owner_pb2.COMMITMENT_STATE_OVERDUE: "overdue",
    owner_pb2.COMMITMENT_STATE_FULFILLED: "fulfilled",
    owner_pb2.COMMITMENT_STATE_CANCELLED: "cancelled",
    owner_pb2.COMMITMENT_STATE_SUPERSEDED: "superseded",
    owner_pb2.COMMITMENT_STATE_EXPIRED: "expired",
    owner_pb2.COMMITMENT_STATE_PENDING: "pending",
    owner_pb2.COMMITMENT_STATE_POSTED: "paid",
    owner_pb2.COMMITMENT_STATE_VOIDED: "voided",
}
LIFE_STYLES = {
    "stands": "green",
    "overdue": "yellow",
    "fulfilled": "green",
    "pending": "yellow",
    "paid": "green",
    "voided": "red",
    "cancelled": "red",
    "expired": "red",
}
OUTCOMES = {
    policy_pb2.OUTCOME_PERMIT: "permit",
    policy_pb2.OUTCOME_REFUSE: "refuse",
    policy_pb2.OUTCOME_ASK: "ask",
}
_LENGTH = re.compile(r"(?:(\d{1,2})\s*h(?:ours?)?)?\s*(?:(\d{1,4})\s*m(?:in(?:utes?)?)?)?", re.IGNORECASE)


def state(value: int) -> str:
    """A thread's state for a person."""
    return {int(known): words for known, words in STATES.items()}.get(value, "unknown")


def life(thread: owner_pb2.Thread) -> str:
    """What became of what was agreed, for a person; empty before the deed."""
    words = LIVES.get(thread.commitment_state, "")
    return f"{words}, disputed" if thread.disputed else words


def life_name(value: int) -> str:
    """The same for a machine: `CANCELLED`; empty before the deed."""
    name = owner_pb2.CommitmentState.Name(value)  # type: ignore[arg-type]
    return name.removeprefix("COMMITMENT_STATE_") if value else ""


def state_name(value: int) -> str:
    """A thread's state for a machine: `COMMITTED`."""
    return owner_pb2.ThreadState.Name(value).removeprefix("THREAD_STATE_")  # type: ignore[arg-type]


def milliseconds(stamp: Timestamp) -> int:
    """Milliseconds since the epoch; 0 for none."""
    return stamp.seconds * 1000 + stamp.nanos // 1_000_000


def stamp(at_ms: int) -> Timestamp:
    """The other way."""
    made = Timestamp()
    made.FromMilliseconds(at_ms)
    return made


def iso(at_ms: int) -> str:
    """RFC 3339 in UTC, for `--json`; empty for 0."""
    if not at_ms:
        return ""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time_on(thread: owner_pb2.Thread, words: str, now_ms: int, zone: ZoneInfo) -> Timestamp:
    """The one time of a meeting that repeats which lies on the named day; InvalidInput where none does."""
    day = parse_period(words, now_ms, zone)
    for each in thread.times:
        if day.start_ms <= milliseconds(each) < day.end_ms:
            return each
    days = ", ".join(moment(milliseconds(each), zone) for each in thread.times)
    raise wrong(
        f"{thread.title!r} takes place at no time of {words!r} that still stands.",
        f"it does on {days}" if days else "it does not repeat: leave --only out",
    )


def moment(at_ms: int, zone: ZoneInfo) -> str:
    """`Tue 24 Nov 10:00`; empty for 0."""
    if not at_ms:
        return ""
    at = datetime.fromtimestamp(at_ms / 1000, zone)
    return f"{at:%a} {at.day:>2} {at:%b %H:%M}"


def span(start_ms: int, end_ms: int, zone: ZoneInfo) -> str:
    """`Tue 24 Nov 10:00-10:30`; the second day is named when it differs; empty for 0."""
    if not start_ms:
        return ""
    start, end = (datetime.fromtimestamp(at / 1000, zone) for at in (start_ms, end_ms))
    until = f"{end:%H:%M}" if start.date() == end.date() else moment(end_ms, zone)
    return f"{moment(start_ms, zone)}-{until}"


def parse_time(text: str, zone: str) -> int:
    """Milliseconds since the epoch of `2026-12-01T10:00`, in the named zone unless it has an offset."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise wrong(f"{text!r} is no time.", "write it like 2026-12-01T10:00") from None
    at = at if at.tzinfo else at.replace(tzinfo=ZoneInfo(zone))
    return round(at.timestamp() * 1000)


def length(text: str) -> int:
    """Minutes from `30m`, `1h30m` or `45`."""
    stripped = text.strip()
    match = _LENGTH.fullmatch(stripped)
    if stripped.isdecimal():
        minutes = int(stripped[:6])
    elif stripped and match:
        minutes = int(match[1] or 0) * 60 + int(match[2] or 0)
    else:
        raise wrong(f"{text!r} is not a length of time.", "write it like 30m, 1h or 1h30m")
    if not 1 <= minutes <= 1440:
        raise wrong(f"A meeting lasts 1 minute to 24 hours, not {text!r}.", "write it like 30m or 1h30m")
    return minutes


def thread_json(thread: owner_pb2.Thread) -> dict[str, Any]:
    """A thread for `--json`."""
    return {
        "thread": thread.thread_id,
        "peer": thread.peer,
        "state": state_name(thread.state),
        "kind": thread.kind,
        "outgoing": thread.outgoing,
        "title": thread.title,
        "start": iso(milliseconds(thread.start_time)),
        "end": iso(milliseconds(thread.end_time)),
        "commitment": thread.commitment_mid,
        "commitment_state": life_name(thread.commitment_state),
        "due": iso(milliseconds(thread.due_time)),
        "disputed": thread.disputed,
        "reason": thread.reason,
        "words": thread.words,
        "created": iso(milliseconds(thread.create_time)),
        "updated": iso(milliseconds(thread.update_time)),
        "ledger": _place(thread, "ours"),
        "receipt": _place(thread, "receipt"),
        "in_calendar": thread.in_calendar,
    }


def _place(thread: owner_pb2.Thread, name: str) -> dict[str, Any] | None:
    if not thread.HasField(name):  # type: ignore[arg-type]
        return None
    place = getattr(thread, name)
    return {"log": place.log, "index": place.index}
