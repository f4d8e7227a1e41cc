"""Entries of a commitment ledger, and the one SQL call that records them inside somebody else's
transaction.

    mid of an entry, by kind: COMMITMENT      the commitment's own mid
                              DECISION        mid of the message signed, or refused, because of it
                              POLICY_VERSION  mid of the activation's envelope

Decisions and policy versions are not addressed to anybody: their envelopes are unsigned, and the signed
head of the ledger is what vouches for them.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import asyncpg
from indai.ledger.vault import Sealed, Vault, entry_name
from indai.protocol.envelope import message_id, payload_type
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.leaf import OPENING_SIZE, LeafKind, LedgerLeaf, blind
from indai.storage.migrations import Schema
from indai.v1 import envelope_pb2, policy_pb2

SCHEMA = Schema("ledger", "indai.ledger")

# One content in one line of an export, which a reader bounds at 2 MiB with base64 around it.
MAX_ENVELOPE = 1024 * 1024

# For callers that record from SQL of their own: the parameters $1 to $10 are log, epoch, expected size
# (or NULL), and the columns of `columns`. It returns (ord from 1, idx), and must be the last statement
# before COMMIT.
RECORD = "SELECT ord, idx FROM ledger.record($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ORDER BY ord"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Entry:
    """One leaf with what opens it. `leaf` has 42 bytes, `opening` 32 and is secret to the parties."""

    owner: str
    mid: bytes
    kind: LeafKind
    envelope: bytes = field(repr=False)
    opening: bytes = field(repr=False)
    leaf: bytes
    time_ms: int


class Columns(NamedTuple):
    """Entries as arrays, in the order of the parameters of `ledger.record`."""

    owners: list[str]
    mids: list[bytes]
    kinds: list[int]
    contents: list[bytes]
    keys: list[bytes]
    leaves: list[bytes]
    times: list[datetime]


def prepare(
    owner: str, mid: bytes, kind: LeafKind, envelope: bytes, time_ms: int, opening: bytes | None = None
) -> Entry:
    """An entry ready to be recorded. `envelope`: its exact bytes; `opening`: fresh random ones unless
    given.

    Raises ProtocolError(TOO_LARGE) over 1 MiB.
    """
    if len(envelope) > MAX_ENVELOPE:
        message = f"A ledger entry of {len(envelope)} bytes is over the limit of {MAX_ENVELOPE}."
        raise ProtocolError(Reason.TOO_LARGE, message)
    opening = secrets.token_bytes(OPENING_SIZE) if opening is None else opening
    leaf = LedgerLeaf(kind, time_ms, blind(opening, envelope)).encode()
    return Entry(owner, mid, kind, envelope, opening, leaf, time_ms)


def prepare_decision(record: policy_pb2.DecisionRecord, time_ms: int) -> Entry:
    """The entry of a policy decision, in the ledger of the owner it names."""
    envelope, _ = _unsigned("decision", record.SerializeToString(deterministic=True))
    return prepare(record.owner, record.mid, LeafKind.DECISION, envelope, time_ms)


def prepare_policy(activation: policy_pb2.PolicyActivation, time_ms: int) -> Entry:
    """The entry of a policy version that its owner activates."""
    envelope, mid = _unsigned("policy-version", activation.SerializeToString(deterministic=True))
    return prepare(activation.owner, mid, LeafKind.POLICY_VERSION, envelope, time_ms)


def seal(vault: Vault, entry: Entry) -> Sealed:
    """An entry's envelope and opening as they are stored."""
    return vault.seal(entry_name(entry.owner, entry.mid, entry.kind), entry.envelope, entry.opening)


def columns(entries: Sequence[Entry], vault: Vault) -> Columns:
    """What `ledger.record` takes, for asyncpg: the contents sealed."""
    sealed = [seal(vault, entry) for entry in entries]
    return Columns(
        [entry.owner for entry in entries],
        [entry.mid for entry in entries],
        [int(entry.kind) for entry in entries],
        [one.content for one in sealed],
        [one.key for one in sealed],
        [entry.leaf for entry in entries],
        [_EPOCH + timedelta(milliseconds=entry.time_ms) for entry in entries],
    )


async def record(
    connection: asyncpg.Connection,
    log: str,
    epoch: int,
    entries: Sequence[Entry],
    vault: Vault,
    expected_size: int | None = None,
) -> list[int]:
    """The index of each entry. The last statement of the caller's transaction; nothing is told before it
    commits.

    An entry that is there already gets its index again. Raises ProtocolError(ID_REUSE) if one is there
    with other bytes, and what `tlog.append` raises. The session must see every owner
    (`indai.storage.pool.transaction`).
    """
    try:
        rows = await connection.fetch(RECORD, log, epoch, expected_size, *columns(entries, vault))
    except asyncpg.PostgresError as error:
        if error.sqlstate != "IN001":
            raise
        message = "The ledger holds another message under the same owner, id and kind."
        raise ProtocolError(Reason.ID_REUSE, message) from None
    return [row["idx"] for row in rows]


async def erase(connection: asyncpg.Connection, log: str, owner: str, mids: Sequence[bytes]) -> int:
    """Erase what the owner's entries about these messages contain, with their keys; how many there were.

    `mids` are those of one thread: the first deed among them counts as its commitment, later ones as events.

    Their leaves stay, so the tree and every receipt do. It holds after the caller's COMMIT; the session must
    see the owner's rows. What dead rows, the server's log and backups keep for a while is sealed under the
    node's key.
    """
    erased: int = await connection.fetchval("SELECT ledger.erase($1, $2, $3)", log, owner, list(mids))
    return erased


def _unsigned(kind: str, payload: bytes) -> tuple[bytes, bytes]:
    """The bytes and mid of an envelope that nobody signs."""
    media_type = payload_type(kind)
    envelope = envelope_pb2.Envelope(payload=payload, payload_type=media_type)
    return envelope.SerializeToString(deterministic=True), message_id(media_type, payload)
