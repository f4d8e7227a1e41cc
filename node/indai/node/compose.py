"""From a move that was decided to the signed bytes that are stored and sent."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from indai.client.network import Head
from indai.client.resolver import Resolved
from indai.protocol.envelope import Envelope, cosign, payload_type, seal
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.group.signing import read
from indai.protocol.header import new_id
from indai.protocol.keys import SigningKey
from indai.protocol.kinds.table import cost_to, kind_of, read_terms
from indai.protocol.messages import DAY_MS, Body, Message, Move, RelayBody, compose, describe
from indai.protocol.quoting import quoted
from indai.v1 import envelope_pb2, negotiation_pb2

RELAY_LIFE_MS = 366 * DAY_MS  # what is carried has a life of its own

_KINDS = {Move.OFFER: "commitment", Move.RECEIPT: "receipt", Move.EVENT: "event"}


@dataclass(frozen=True, slots=True)
class Letterhead:
    """Who writes to whom, with which key, having seen which registry head."""

    network: str
    own: Resolved
    peer: Resolved
    peer_key: str
    key: SigningKey
    head: Head


@dataclass(frozen=True, slots=True)
class Written:
    """A signed message and what the rules see of it."""

    envelope: Envelope
    message: Message
    header_id: bytes


def write(
    letterhead: Letterhead,
    move: Move,
    body: Body,
    thread: bytes,
    in_reply_to: bytes,
    now_ms: int,
    expires_at_ms: int,
    supersedes: bytes = b"",
    others: Sequence[negotiation_pb2.Party] = (),
    hops: int = 0,
) -> Written:
    """Compose and sign one message. `others`: who else is a party of an offer to several; `hops`: how many
    agents have passed on what led to the thread, which only its first message says."""
    header = _header(letterhead, thread, in_reply_to, now_ms, expires_at_ms)
    if not in_reply_to:
        header.hops = hops
    payload = compose(move, body, header, (*_parties(letterhead, header.key_id), *others), supersedes)
    envelope = seal(payload_type(_KINDS.get(move, "move")), payload.SerializeToString(), [letterhead.key])
    return Written(envelope, describe(payload, mid=envelope.mid, signatures=1), header.id)


def accept(offer: Envelope, keys: Mapping[str, SigningKey], own: Resolved, now_ms: int) -> Written:
    """Our signature under the very bytes of the offer, with the key that the offer names for us; raises
    ProtocolError when it is not held here, or `own` says that it may not sign (any more)."""
    payload = negotiation_pb2.Commitment.FromString(offer.payload)
    party = next((party for party in payload.parties if party.subject_id == own.subject_id), None)
    key = keys.get(party.key_id) if party else None
    if party is None or key is None:
        raise ProtocolError(
            Reason.UNKNOWN_KEY,
            f"The offer names the key {quoted(party.key_id if party else '')}, which is not held here.",
        )
    terms = read_terms(payload)
    own.chain.key_valid_at(key.key_id, now_ms, kind_of(terms).intent, cost_to(terms, first=False))
    envelope = cosign(offer, key)
    return Written(envelope, read(payload, envelope), payload.header.id)


def cost_to_accept(offer: Envelope) -> tuple[str, int] | None:
    """What our signature under an offer costs us: (currency, minor units); None for nothing."""
    return cost_to(read_terms(negotiation_pb2.Commitment.FromString(offer.payload)), first=False)


def several(envelope: Envelope) -> tuple[str, ...]:
    """The handles of a commitment's parties where they are more than two, the offerer first; else nothing."""
    parties = negotiation_pb2.Commitment.FromString(envelope.payload).parties
    return tuple(party.handle for party in parties) if len(parties) > 2 else ()


def relay(letterhead: Letterhead, envelope: bytes, thread: bytes, now_ms: int) -> Written:
    """What carries a message of several to one of them."""
    expires_ms = now_ms + RELAY_LIFE_MS
    return write(letterhead, Move.RELAY, RelayBody(envelope), thread, b"", now_ms, expires_ms)


def party_of(letterhead: Letterhead) -> negotiation_pb2.Party:
    """The peer as a party: it is to sign with the key it has signed with so far."""
    return _parties(letterhead, "")[1]


def _header(
    letterhead: Letterhead, thread: bytes, in_reply_to: bytes, now_ms: int, expires_at_ms: int
) -> envelope_pb2.Header:
    return envelope_pb2.Header(
        id=new_id(now_ms, os.urandom(10)),
        network=letterhead.network,
        sender=letterhead.own.handle,
        sender_subject=letterhead.own.subject_id,
        recipient=letterhead.peer.handle,
        recipient_subject=letterhead.peer.subject_id,
        key_id=letterhead.key.key_id,
        issued_at_ms=now_ms,
        expires_at_ms=expires_at_ms,
        nonce=os.urandom(16),
        in_reply_to=in_reply_to,
        thread=thread,
        registry_size=letterhead.head.size,
        registry_root=letterhead.head.root if letterhead.head.size else b"",
    )


def _parties(letterhead: Letterhead, key_id: str) -> tuple[negotiation_pb2.Party, ...]:
    """Offerer first. The other side is to sign with the key it has signed with so far."""
    own, peer = letterhead.own, letterhead.peer
    return (
        negotiation_pb2.Party(handle=own.handle, subject_id=own.subject_id, key_id=key_id),
        negotiation_pb2.Party(handle=peer.handle, subject_id=peer.subject_id, key_id=letterhead.peer_key),
    )


def newest_key(record: Resolved) -> str:
    """The id of the newest agent key in a record that is not revoked; "" for none."""
    live = [key for key in record.chain.state.agent_keys if not key.revoked_at_ms]
    return max(live, key=lambda key: key.valid_from_ms).key_id if live else ""
