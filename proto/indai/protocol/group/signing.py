"""The one commitment of several: who of them signed an envelope, and all their signatures in one."""

from __future__ import annotations

from collections.abc import Sequence

from indai.protocol.envelope import Envelope, Signature, countersigned
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.forms import malformed
from indai.protocol.messages import Message, Payload, describe
from indai.v1 import negotiation_pb2


def signer_of(commitment: negotiation_pb2.Commitment, envelope: Envelope) -> int | None:
    """Which party signed beside the offerer, by the hint of the second signature; None where it is no vote on
    a commitment of several. Whether it did, its signature has to show."""
    parties = commitment.parties
    if len(parties) <= 2 or len(envelope.signatures) != 2:
        return None
    hint = envelope.signatures[1].keyid
    found = next((index for index, party in enumerate(parties) if index and party.key_id == hint), None)
    if found is None:
        raise malformed("NEG-08", "The second signature names no key of another party")
    return found


def read(payload: Payload, envelope: Envelope) -> Message:
    """What the envelope says, be it a vote; raises ProtocolError(MALFORMED)."""
    signer = signer_of(payload, envelope) if isinstance(payload, negotiation_pb2.Commitment) else None
    return describe(payload, mid=envelope.mid, signatures=len(envelope.signatures), signer=signer)


def complete(offer: Envelope, votes: Sequence[tuple[str, bytes]]) -> Envelope:
    """The offer with every party's signature, in party order; `votes` are signatures by subject."""
    commitment = negotiation_pb2.Commitment.FromString(offer.payload)
    by_subject = dict(votes)
    others = [Signature(by_subject[party.subject_id], party.key_id) for party in commitment.parties[1:]]
    return countersigned(offer, (offer.signatures[0], *others))


def check_complete(envelope: Envelope, mid: bytes, offerer: str) -> negotiation_pb2.Commitment:
    """The commitment that a RECEIPT of `offerer` carries: its own, of several, with as many signatures as
    parties (GRP-03). Their verification is the caller's."""
    if envelope.kind != "commitment" or envelope.mid != mid:
        raise _error("The RECEIPT carries another commitment than it names")
    commitment = negotiation_pb2.Commitment.FromString(envelope.payload)
    if len(commitment.parties) <= 2 or len(envelope.signatures) != len(commitment.parties):
        raise _error("The commitment that the RECEIPT carries is not signed by all")
    if commitment.parties[0].subject_id != offerer:
        raise _error("The RECEIPT is not of the commitment's offerer")
    return commitment


def _error(what: str) -> ProtocolError:
    return ProtocolError(Reason.ILLEGAL_MOVE, what + ".", rule="GRP-03")
