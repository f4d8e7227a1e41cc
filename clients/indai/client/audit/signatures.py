"""Whether the right keys signed: the signature itself, and the key's life in the registry."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from indai.client.audit.registry import KeyHistory
from indai.client.audit.shared import Digests
from indai.protocol.envelope import Envelope, verify_signature
from indai.protocol.errors import ProtocolError
from indai.protocol.group.signing import signer_of
from indai.protocol.kinds.base import Terms
from indai.protocol.kinds.table import KINDS, cost_to, read_terms
from indai.v1 import negotiation_pb2
from indai.v1.envelope_pb2 import Header


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a signature does not count. `check` is `signature`, `key` or `parties`."""

    check: str
    words: str
    contested: bool = False


class SignatureCheck:
    """Verifies each signature once, however many files hold it. Without a history nothing can be judged.

    `known` are digests of those that were verified, here or elsewhere; it is added to.
    """

    def __init__(self, history: KeyHistory | None, known: Digests | None = None) -> None:
        self._history, self._known = history, set[bytes]() if known is None else known

    @property
    def network(self) -> str | None:
        """The network that messages must name."""
        return self._history.network if self._history else None

    def message(self, envelope: Envelope, header: Header, time_ms: int, intent: str = "") -> list[Fault]:
        """Faults of a message signed by its sender alone, in a thread of this kind of intent, if known."""
        if len(envelope.signatures) != 1:
            return [Fault("parties", f"{header.sender} alone signs this message")]
        signer = negotiation_pb2.Party(
            handle=header.sender, subject_id=header.sender_subject, key_id=header.key_id
        )
        return self._signature(envelope, 0, signer, time_ms, intent)

    def commitment(
        self, envelope: Envelope, commitment: negotiation_pb2.Commitment, time_ms: int
    ) -> list[Fault]:
        """Faults of an OFFER (one signature), an ACCEPT (all, in party order) or a vote (two of several)."""
        parties, kind = commitment.parties, KINDS.get(commitment.WhichOneof("terms") or "")
        intent = kind.intent if kind else ""
        terms = _terms(commitment)
        signers = parties[: len(envelope.signatures)]
        if voter := signer_of(commitment, envelope):
            signers = [parties[0], parties[voter]]
        faults = [
            fault
            for index, party in enumerate(signers)
            for fault in self._signature(
                envelope, index, party, time_ms, intent, _cost(terms, first=index == 0)
            )
        ]
        header = commitment.header
        named = [(party.handle, party.subject_id) for party in parties[:2]]
        if named != [
            (header.sender, header.sender_subject),
            (header.recipient, header.recipient_subject),
        ] or (parties[0].key_id != header.key_id):
            faults.append(Fault("parties", "the parties are not the header's sender and recipient"))
        if len({party.subject_id for party in parties}) != len(parties) or len(parties) < 2:
            faults.append(Fault("parties", "a commitment binds at least two different parties"))
        return faults

    def _signature(
        self,
        envelope: Envelope,
        index: int,
        signer: negotiation_pb2.Party,
        time_ms: int,
        intent: str,
        amount: tuple[str, int] | None = None,
    ) -> list[Fault]:
        if envelope.signatures[index].keyid != signer.key_id:
            words = f"signature {index + 1} names another key than {signer.handle}'s {signer.key_id}"
            return [Fault("parties", words)]
        if self._history is None:
            return []
        judged = self._history.judge(signer.handle, signer.subject_id, signer.key_id, time_ms, intent, amount)
        if judged.public_key and not self._verifies(envelope, index, judged.public_key):
            return [Fault("signature", f"the signature of {signer.handle} does not verify")]
        return [Fault("key", judged.fault, judged.contested)] if judged.fault else []

    def _verifies(self, envelope: Envelope, index: int, public_key: bytes) -> bool:
        seen = hashlib.sha256(envelope.mid + public_key + envelope.signatures[index].sig).digest()
        if seen not in self._known:
            try:
                verify_signature(envelope, index, public_key)
            except ProtocolError:
                return False
            self._known.add(seen)
        return True


def _terms(commitment: negotiation_pb2.Commitment) -> Terms | None:
    """None for terms that can't be read: they are a fault of their own, said elsewhere."""
    try:
        return read_terms(commitment)
    except ProtocolError:
        return None


def _cost(terms: Terms | None, *, first: bool) -> tuple[str, int] | None:
    """What it costs this party."""
    return None if terms is None else cost_to(terms, first=first)
