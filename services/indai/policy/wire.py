"""Facts as they come over the wire, as values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from indai.policy.facts import Facts
from indai.policy.kinds import ASK, BOOK, KINDS, MEET, PAY, SHARE, Value
from indai.protocol.errors import InvalidInput, Reason
from indai.protocol.handles import Handle
from indai.v1 import policy_pb2 as pb


def handle_of(text: str, field: str) -> str:
    """A handle in canonical form; the error names the field."""
    try:
        return str(Handle.parse(text))
    except InvalidInput as error:
        error.fields = {field: error.message}
        raise


def facts_from(facts: pb.Facts, path: str) -> Facts:
    """One of a call's facts; `path` names it in an error. What is wrong with values is told on deciding."""
    kind = facts.WhichOneof("intent")
    if kind is None:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "The facts name no intent.",
            fields={f"{path}.intent": f"must be one of {', '.join(KINDS)}"},
        )
    start, end, already = _times(facts, kind)
    return Facts(
        peer=handle_of(facts.peer, f"{path}.peer") if facts.peer else "",
        start_ms=start,
        end_ms=end,
        now_ms=facts.now_ms,
        verified=facts.verified,
        already_that_day=already,
        channel=facts.channel,
        outgoing=facts.outgoing,
        kind=kind,
        door=facts.door or "agent",
        relationship=facts.relationship,
        known_days=facts.known_days,
        trust=facts.trust,
        hops=facts.hops,
        depth=facts.depth,
        from_peer_today=facts.from_peer_today,
        details=_DETAILS[kind](facts),
    )


def about_from(facts: pb.Facts) -> Facts:
    """What is known about a meeting that has no time yet."""
    meet = pb.MeetFacts(attendees=facts.meet.attendees, recurring=facts.meet.recurring)
    asked = pb.Facts()
    asked.CopyFrom(facts)
    asked.peer, asked.channel = "", facts.channel or "agent"
    asked.meet.CopyFrom(meet)
    return facts_from(asked, "about")


def _times(facts: pb.Facts, kind: str) -> tuple[int, int, int]:
    if kind == MEET:
        return facts.meet.start_ms, facts.meet.end_ms, facts.meet.already_that_day
    if kind == BOOK and facts.book.start_ms:
        return facts.book.start_ms, facts.book.end_ms, facts.count_today
    return facts.now_ms, facts.now_ms, facts.count_today


def _meet(facts: pb.Facts) -> dict[str, Value]:
    return {"attendees": facts.meet.attendees or 2, "recurring": facts.meet.recurring}


def _share(facts: pb.Facts) -> dict[str, Value]:
    one = facts.share
    return {
        "item": one.item,
        "tags": tuple(one.tags),
        "purpose": one.purpose_code,
        "retention_days": one.retention_days,
        "recurring": one.recurring,
    }


def _book(facts: pb.Facts) -> dict[str, Value]:
    stated = _same(facts.book, "sku", "quantity", "currency", "spent_today_minor", "spent_month_minor")
    return stated | {"amount_minor": facts.book.price_minor, "stock_left": facts.book.stock_left}


def _pay(facts: pb.Facts) -> dict[str, Value]:
    return _same(facts.pay, *(field.name for field in pb.PayFacts.DESCRIPTOR.fields))


def _same(message: Any, *names: str) -> dict[str, Value]:
    return {name: getattr(message, name) for name in names}


_DETAILS: Mapping[str, Callable[[pb.Facts], dict[str, Value]]] = {
    MEET: _meet,
    SHARE: _share,
    ASK: lambda facts: _same(facts.ask, "topic", "is_request", "department"),
    PAY: _pay,
    BOOK: _book,
}
