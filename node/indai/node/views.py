"""Rows of the node's tables as the messages that owners read. Times in rows are ms; in messages,
timestamps."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from google.protobuf.timestamp_pb2 import Timestamp
from indai.node.inbound import PAYLOADS
from indai.node.kinds import words
from indai.protocol.envelope import parse_envelope
from indai.protocol.group import signing
from indai.protocol.kinds.meet import MEET
from indai.protocol.lifecycle import History, State
from indai.protocol.messages import (
    AnswerBody,
    EventBody,
    HoldBody,
    Message,
    QueryBody,
    ReceiptBody,
    RejectBody,
    RelayBody,
    Terms,
    Wish,
)
from indai.protocol.party_state import Phase, Side
from indai.protocol.quoting import quoted
from indai.protocol.wire import strict_parse
from indai.v1 import owner_pb2, policy_pb2

Row = Mapping[str, Any]

STATES = {
    Phase.NEGOTIATING: owner_pb2.THREAD_STATE_NEGOTIATING,
    Phase.ASKING_OWNER: owner_pb2.THREAD_STATE_ASKING_OWNER,
    Phase.ON_HOLD: owner_pb2.THREAD_STATE_ON_HOLD,
    Phase.AWAITING_RECEIPT: owner_pb2.THREAD_STATE_AWAITING_RECEIPT,
    Phase.COMMITTED: owner_pb2.THREAD_STATE_COMMITTED,
    Phase.REJECTED: owner_pb2.THREAD_STATE_REJECTED,
    Phase.WITHDRAWN: owner_pb2.THREAD_STATE_WITHDRAWN,
    Phase.LAPSED: owner_pb2.THREAD_STATE_LAPSED,
    Phase.IN_DOUBT: owner_pb2.THREAD_STATE_IN_DOUBT,
}


LIVES = {
    State.COMMITTED: owner_pb2.COMMITMENT_STATE_COMMITTED,
    State.OVERDUE: owner_pb2.COMMITMENT_STATE_OVERDUE,
    State.FULFILLED: owner_pb2.COMMITMENT_STATE_FULFILLED,
    State.CANCELLED: owner_pb2.COMMITMENT_STATE_CANCELLED,
    State.SUPERSEDED: owner_pb2.COMMITMENT_STATE_SUPERSEDED,
    State.EXPIRED: owner_pb2.COMMITMENT_STATE_EXPIRED,
    State.PENDING: owner_pb2.COMMITMENT_STATE_PENDING,
    State.POSTED: owner_pb2.COMMITMENT_STATE_POSTED,
    State.VOIDED: owner_pb2.COMMITMENT_STATE_VOIDED,
}


def timestamp(ms: int | None) -> Timestamp | None:
    """A timestamp, or None for no time."""
    if ms is None:
        return None
    return Timestamp(seconds=ms // 1000, nanos=ms % 1000 * 1_000_000)


def milliseconds(moment: Timestamp) -> int:
    """Milliseconds since the epoch."""
    return moment.seconds * 1000 + moment.nanos // 1_000_000


def thread(row: Row, ledger: str) -> owner_pb2.Thread:
    """One row of node.threads, with `in_calendar`; `ledger` is the origin of our own ledger, unless the
    row says `our_log`."""
    receipt = ours = None
    life = _life(row)
    gone = life is not None and life.state in (State.CANCELLED, State.SUPERSEDED)
    if row["ledger_index"] is not None:
        ours = owner_pb2.LedgerPlace(log=row.get("our_log") or ledger, index=row["ledger_index"])
    if row["receipt_index"] is not None:
        receipt = owner_pb2.LedgerPlace(log=row["receipt_log"], index=row["receipt_index"])
    return owner_pb2.Thread(
        thread_id=row["thread"].hex(),
        peer=row["peer"],
        state=STATES[Phase(row["phase"])],
        kind=row["kind"] or MEET.name,
        outgoing=row["outgoing"],
        title=row["title"],
        start_time=timestamp(row["start_ms"]),
        end_time=timestamp(row["end_ms"]),
        commitment_mid=row["mid"].hex() if row["mid"] else "",
        reason=row["reason"],
        words=row["words"],
        create_time=timestamp(row["created_ms"]),
        update_time=timestamp(row["updated_ms"]),
        ours=ours,
        receipt=receipt,
        in_calendar=row["in_calendar"] and not gone,
        erased=row.get("erased_ms") is not None,
        commitment_state=LIVES[life.state] if life else owner_pb2.COMMITMENT_STATE_UNSPECIFIED,
        due_time=timestamp(life.deed.due_ms) if life else None,
        disputed=bool(life and life.disputed),
        times=_standing(life),
    )


def _standing(life: History | None) -> list[Timestamp]:
    """The starts of what repeats, without those that were left out."""
    found = (timestamp(at) for at in life.deed.times_ms if at not in life.omitted) if life else ()
    return [each for each in found if each is not None]


def _life(row: Row) -> History | None:
    """From memory as `life`, else out of the stored state; None before the deed, and once erased."""
    if "life" in row:
        life: History | None = row["life"]
        return life
    agreed = row["phase"] == Phase.COMMITTED.value and row["side"]
    return Side.from_json(row["side"]).life if agreed else None


def message(row: Row, zone: ZoneInfo) -> owner_pb2.ThreadMessage:
    """One row of node.messages."""
    decision = policy_pb2.Decision.FromString(row["decision"]) if row["decision"] else None
    words = _words(read(row["envelope"]), zone) if row["envelope"] else "erased"
    return owner_pb2.ThreadMessage(
        mid=row["mid"].hex(),
        move=row["move"],
        outgoing=row["outgoing"],
        words=words,
        time=timestamp(row["stored_ms"]),
        envelope=row["envelope"],
        decision=decision,
    )


def read(raw: bytes) -> Message:
    """A message out of our own tables, which was verified before it was stored."""
    envelope = parse_envelope(raw)
    payload = strict_parse(PAYLOADS[envelope.kind], envelope.payload)
    return signing.read(payload, envelope)


def approval(row: Row, code_length: int) -> owner_pb2.Approval:
    """One row of node.approvals."""
    action_hash = row["action_hash"].hex()
    return owner_pb2.Approval(
        code=action_hash[:code_length],
        action_hash=action_hash,
        thread_id=row["thread"].hex(),
        peer=row["peer"],
        terms=row["terms"],
        why=row["why"],
        expire_time=timestamp(row["expires_ms"]),
        create_time=timestamp(row["created_ms"]),
        known_since=timestamp(row["known_since_ms"]),
        agreed_before=row["agreed_before"],
        kind=row["kind"],
        start_time=timestamp(row["start_ms"]),
        end_time=timestamp(row["end_ms"]),
        answer=row["state"] if row["answered_ms"] else "",
        answer_time=timestamp(row["answered_ms"]),
        answer_channel=row["answered_on"],
    )


def journal_entry(row: Row) -> owner_pb2.JournalEntry:
    """One row of node.journal."""
    return owner_pb2.JournalEntry(
        time=timestamp(row["at_ms"]),
        thread_id=row["thread"].hex() if row["thread"] else "",
        mid=row["mid"].hex() if row["mid"] else "",
        peer=row["peer"],
        event=row["event"],
        reason=row["reason"],
        words=row["words"],
    )


def _words(seen: Message, zone: ZoneInfo) -> str:
    """One line for the owner; a peer's own text is quoted."""
    match seen.body:
        case Wish() | Terms() as wanted:
            return words.line(wanted, zone)
        case ReceiptBody() as receipt:
            return f"stands as entry {receipt.index} of {receipt.log}"
        case HoldBody() as hold:
            until = datetime.fromtimestamp(hold.deadline_ms / 1000, zone)
            return f"the owner is being asked, until {until:%a %-d %b, %H:%M}"
        case EventBody() as event:
            asked = "asks for " if not event.seq else ""
            said = ": ".join(filter(None, (event.reason, quoted(event.sentence) if event.sentence else "")))
            about = f" of {words.moment(event.time_ms, zone)}" if event.time_ms else ""
            return f"{asked}{event.kind.value}{about}" + (f", {said}" if said else "")
        case RejectBody() as reject:
            return f"{reject.reason}: {quoted(reject.sentence)}" if reject.sentence else reject.reason
        case QueryBody() as query:
            return words.asked(query.about)
        case AnswerBody() as answer:
            return words.told(answer.told)
        case RelayBody():
            return "the message before it, to one of several"
        case _:
            return "taken back"
