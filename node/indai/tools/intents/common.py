"""What the intents have in common: schemas of arguments and results, and a thread as a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from indai.protocol.errors import InvalidInput, Reason
from indai.tools.desk import Desk
from indai.tools.files import FILES
from indai.tools.normalise import local_time
from indai.tools.values import Caller, Touch
from indai.v1 import owner_pb2

ACTS: Final = frozenset({Touch.PRIVATE, Touch.OUTSIDE})
TIMEOUT_S: Final = 20.0

WITH: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": 200,
    "description": "Name or handle.",
    "x-label": "With",
}
WHEN: Final = {
    "type": "string",
    "maxLength": 80,
    "description": "In English: today, tomorrow, this week, next monday, 25 august, within 3 days.",
    "x-label": "When",
}
TIME: Final = {
    "type": "string",
    "maxLength": 20,
    "description": "HH:MM, or morning, afternoon, evening, night. Leave out when it does not matter.",
    "x-label": "Time",
}
MINUTES: Final = {"type": "integer", "minimum": 1, "maximum": 1440, "x-label": "Minutes"}

STATES: Final = {
    "agreed": "agreed",
    "needs_you": "waits for your word",
    "waiting": "waits for the other side",
    "refused": "refused",
    "declined": "declined by you",
    "cancelled": "taken back",
    "expired": "ran out of time",
}
_STATE: Final = {
    owner_pb2.THREAD_STATE_COMMITTED: "agreed",
    owner_pb2.THREAD_STATE_ASKING_OWNER: "needs_you",
    owner_pb2.THREAD_STATE_REJECTED: "refused",
    owner_pb2.THREAD_STATE_WITHDRAWN: "cancelled",
    owner_pb2.THREAD_STATE_LAPSED: "expired",
}
_GONE: Final = {
    owner_pb2.COMMITMENT_STATE_CANCELLED: "cancelled",
    owner_pb2.COMMITMENT_STATE_SUPERSEDED: "cancelled",
}

THREAD: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "state": {"type": "string", "x-format": "code", "x-names": STATES, "x-importance": 3},
        "with": {"type": "string", "x-importance": 3},
        "about": {"type": "string", "x-importance": 2},
        "they_call_it": {"type": "string", "x-label": "they call it", "x-untrusted": True},
        "when": {"type": "string", "x-importance": 3},
        "start_ms": {"type": "integer", "x-hidden": True},
        "minutes": {"type": "integer"},
        "reason": {"type": "string", "x-label": "why", "x-importance": 3},
        "said": {"type": "string", "x-label": "they said", "x-untrusted": True},
        "thread_id": {"type": "string", "x-hidden": True},
        "running": {"type": "boolean", "x-hidden": True},
        "approval": {"type": "object", "x-hidden": True},
        "files": FILES,
    },
    "required": ["state", "with"],
}
_REASONS: Final = {
    "POLICY_DENIED": "it is not allowed",
    "NO_COMMON_SLOT": "there is no time that suits both",
    "UNREACHABLE": "their side cannot be reached",
    "UNANSWERED": "nobody said yes or no in time",
    "OVERTAKEN": "another change of it came first",
}


def arguments(required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    """A closed schema of arguments."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def with_more(**properties: Any) -> dict[str, Any]:
    """The schema of a thread's result with further properties."""
    return {**THREAD, "properties": {**THREAD["properties"], **properties}}


def zone_of(caller: Caller) -> ZoneInfo:
    """The caller's time zone. Raises InvalidInput for one that is none."""
    try:
        return ZoneInfo(caller.time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, "The time zone of this conversation is not known.", hint="Asia/Kolkata"
        ) from None


async def shown(caller: Caller, desk: Desk, thread: owner_pb2.Thread) -> dict[str, Any]:
    """A thread as a result."""
    state = _GONE.get(thread.commitment_state) or _STATE.get(thread.state, "waiting")
    result: dict[str, Any] = {
        "state": state,
        "with": thread.peer,
        # What the other side calls it is their word.
        "about" if thread.outgoing else "they_call_it": thread.title,
        "thread_id": thread.thread_id,
    }
    if thread.start_time.seconds:
        start_ms, end_ms = thread.start_time.ToMilliseconds(), thread.end_time.ToMilliseconds()
        result["when"] = local_time(start_ms, zone_of(caller))
        result["start_ms"] = start_ms
        result["minutes"] = (end_ms - start_ms) // 60_000
    if thread.reason:
        result["reason"] = _REASONS.get(thread.reason, thread.reason.lower().replace("_", " "))
    if thread.words and state in ("refused", "cancelled"):
        result["said"] = thread.words
    if state == "waiting":
        result["running"] = True
    if state == "needs_you" and (asked := await _asked(desk, thread.thread_id)):
        result["approval"] = asked
    return result


async def _asked(desk: Desk, thread_id: str) -> Mapping[str, Any] | None:
    """The question about a thread that waits for the owner."""
    inbox = await desk.owner.ListInbox(owner_pb2.ListInboxRequest(page_size=500))
    for one in inbox.approvals:
        if one.thread_id == thread_id:
            return {
                "code": one.code,
                "action_hash": one.action_hash,
                "terms": one.terms,
                "expires_ms": one.expire_time.ToMilliseconds(),
            }
    return None
