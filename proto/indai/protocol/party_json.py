"""A side's messages as JSON, for storage between transactions.

Meetings that take place once are stored field by field, as they always were; all else as the protobuf message
that is signed, in base64. What is read here was checked before it was stored.
"""

from __future__ import annotations

import base64
import dataclasses
from typing import Any

from google.protobuf.message import Message as PbMessage
from indai.protocol import queries
from indai.protocol.bodies import (
    EventBody,
    EventKind,
    HoldBody,
    Move,
    ReceiptBody,
    RejectBody,
    RelayBody,
    WithdrawBody,
)
from indai.protocol.kinds.base import Terms, Window, Wish
from indai.protocol.kinds.meet import MeetTerms, MeetWish
from indai.protocol.kinds.table import KINDS
from indai.protocol.messages import Body, Message

_BODIES: dict[str, type[Any]] = {
    "wish": MeetWish,
    "terms": MeetTerms,
    "receipt": ReceiptBody,
    "hold": HoldBody,
    "reject": RejectBody,
    "withdraw": WithdrawBody,
}
_NAMES = {body: name for name, body in _BODIES.items()}
_REPEATS = ("repeats", "again_ms")
_MEETINGS = (MeetWish, MeetTerms)
_FIELDS = {
    body: tuple(field.name for field in dataclasses.fields(body) if field.name not in _REPEATS)
    for body in _NAMES
}


def body_to_json(body: Body | None) -> dict[str, Any] | None:
    """What a message says; None for nothing."""
    if body is None:
        return None
    if isinstance(body, EventBody):
        return _event_to_json(body)
    if isinstance(body, queries.QueryBody | queries.AnswerBody | RelayBody):
        raise TypeError("a query, or what only carries a message, is no part of a thread")
    # Asked in this order: whether something is of an abstract class takes longest to say.
    repeats = isinstance(body, _MEETINGS) and any(getattr(body, name, None) for name in _REPEATS)
    if (repeats or type(body) not in _NAMES) and isinstance(body, Wish | Terms):
        form = "wish" if isinstance(body, Wish) else "terms"
        return {"kind": f"{body.kind}-{form}", "signed": _base64(body.to_pb())}
    fields: dict[str, Any] = {"kind": _NAMES[type(body)]}
    for name in _FIELDS[type(body)]:
        value = getattr(body, name)
        if isinstance(value, bytes):
            value = value.hex()
        elif isinstance(value, tuple):
            value = [[window.start_ms, window.end_ms] for window in value]
        if name != "commitment" or value:
            fields[name] = value
    return fields


def body_from_json(fields: dict[str, Any] | None) -> Body | None:
    """What `body_to_json` wrote."""
    if fields is None:
        return None
    if fields["kind"] == "event":
        return _event_from_json(fields)
    if "signed" in fields:
        return _of_kind(fields)
    values = {name: value for name, value in fields.items() if name != "kind"}
    if "windows" in values:
        values["windows"] = tuple(Window(*window) for window in values["windows"])
    for name in ("mid", "commitment"):
        if name in values:
            values[name] = bytes.fromhex(values[name])
    body: Body = _BODIES[fields["kind"]](**values)
    return body


def message_to_json(message: Message) -> dict[str, Any]:
    """One message."""
    fields: dict[str, Any] = {
        "mid": message.mid.hex(),
        "move": message.move.value,
        "sender": message.sender,
        "recipient": message.recipient,
        "thread": message.thread.hex(),
        "in_reply_to": message.in_reply_to.hex(),
        "issued_at_ms": message.issued_at_ms,
        "expires_at_ms": message.expires_at_ms,
        "body": body_to_json(message.body),
    }
    if message.supersedes:
        fields["supersedes"] = message.supersedes.hex()
    if message.parties:
        fields["parties"] = list(message.parties)
    if message.hops:
        fields["hops"] = message.hops
    return fields


def message_from_json(fields: dict[str, Any]) -> Message:
    """What `message_to_json` wrote."""
    body = body_from_json(fields["body"])
    if body is None:
        raise RuntimeError("a stored message has no body")
    return Message(
        mid=bytes.fromhex(fields["mid"]),
        move=Move(fields["move"]),
        sender=fields["sender"],
        recipient=fields["recipient"],
        thread=bytes.fromhex(fields["thread"]),
        in_reply_to=bytes.fromhex(fields["in_reply_to"]),
        issued_at_ms=fields["issued_at_ms"],
        expires_at_ms=fields["expires_at_ms"],
        body=body,
        supersedes=bytes.fromhex(fields.get("supersedes", "")),
        parties=tuple(fields.get("parties", ())),
        hops=fields.get("hops", 0),
    )


def _base64(pb: PbMessage) -> str:
    return base64.b64encode(pb.SerializeToString()).decode()


def _of_kind(fields: dict[str, Any]) -> Wish | Terms:
    name, form = fields["kind"].rsplit("-", 1)
    kind = KINDS[name]
    said: type[Wish] | type[Terms] = kind.wish if form == "wish" else kind.terms
    return said.from_bytes(base64.b64decode(fields["signed"]))


def _event_to_json(body: EventBody) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "kind": "event",
        "event": body.kind.value,
        "commitment": body.commitment.hex(),
        "seq": body.seq,
        "prev": body.prev.hex(),
        "requests": [mid.hex() for mid in body.requests],
        "reason": body.reason,
        "sentence": body.sentence,
        "superseded_by": body.superseded_by.hex(),
        "posted_minor": body.posted_minor,
    }
    more = {"outcome": body.outcome, "time_ms": body.time_ms}
    return fields | {name: value for name, value in more.items() if value}


def _event_from_json(fields: dict[str, Any]) -> EventBody:
    return EventBody(
        commitment=bytes.fromhex(fields["commitment"]),
        kind=EventKind(fields["event"]),
        seq=fields["seq"],
        prev=bytes.fromhex(fields["prev"]),
        requests=tuple(bytes.fromhex(mid) for mid in fields["requests"]),
        reason=fields["reason"],
        sentence=fields["sentence"],
        superseded_by=bytes.fromhex(fields["superseded_by"]),
        posted_minor=fields["posted_minor"],
        outcome=fields.get("outcome", ""),
        time_ms=fields.get("time_ms", 0),
    )
