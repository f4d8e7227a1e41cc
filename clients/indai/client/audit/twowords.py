"""A portable proof that a party signed two different words on one commitment: two RECEIPTs that differ, a
RECEIPT and a REJECT (of several: a WITHDRAW, the release), or two events under one number.

It stands alone: whoever has the file and a mirror of the registry checks it, without the exports it came
from. The two messages may lie with two parties; either of them is innocent by itself.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from indai.client.audit.registry import KeyHistory
from indai.client.audit.report import Proof
from indai.client.audit.signatures import SignatureCheck
from indai.protocol.envelope import Envelope, parse_envelope
from indai.protocol.errors import IndaiError, InvalidInput, ProtocolError, Reason
from indai.protocol.messages import EventBody, Message, Move, ReceiptBody, describe
from indai.protocol.wire import strict_parse
from indai.v1 import negotiation_pb2

FORMAT = "indai-two-words/v1"
MAX_FILE = 1024 * 1024
_Payload = negotiation_pb2.Move | negotiation_pb2.Receipt | negotiation_pb2.Event
_PAYLOADS: dict[str, type[_Payload]] = {
    "move": negotiation_pb2.Move,
    "receipt": negotiation_pb2.Receipt,
    "event": negotiation_pb2.Event,
}


@dataclass(frozen=True, slots=True)
class TwoWords:
    """Both words, as exact envelope bytes; of a RECEIPT and a REJECT the RECEIPT first."""

    one: bytes
    other: bytes

    @property
    def proof(self) -> Proof:
        """As a file."""
        content = self.encode()
        return Proof(f"two-words-{hashlib.sha256(content).hexdigest()[:16]}.json", content)

    def encode(self) -> bytes:
        """The file's bytes."""
        shown = {name: base64.b64encode(getattr(self, name)).decode() for name in self.__slots__}
        return json.dumps({"format": FORMAT} | shown, indent=1).encode() + b"\n"

    @classmethod
    def parse(cls, raw: bytes) -> TwoWords:
        """Read a file, verifying nothing; raises InvalidInput."""
        try:
            values = json.loads(raw)
            proof = cls(*(base64.b64decode(values[name], validate=True) for name in cls.__slots__))
            same = proof.encode() == raw
        except (ValueError, KeyError, TypeError, binascii.Error):
            same = False
        if not same:
            raise InvalidInput(Reason.INVALID_ARGUMENT, f"This is not a file of the form {FORMAT}.")
        return proof

    def verify(self, history: KeyHistory) -> tuple[str, bytes]:
        """(the liar's handle, mid of the commitment) if this proves what it is for.

        Raises ProtocolError when a signature or key does not hold, or the two words agree.
        """
        one, handle = _said(self.one, history)
        other, other_handle = _said(self.other, history)
        if (one.sender, handle) != (other.sender, other_handle):
            raise _nothing("they are of two senders")
        commitment = _contradicted(one, other)
        if not commitment:
            raise _nothing("they do not contradict each other")
        return handle, commitment


def is_two_words(path: Path) -> bool:
    """Whether a file calls itself a proof of two words."""
    try:
        with path.open("rb") as file:
            return file.read(80).startswith(f'{{\n "format": "{FORMAT}"'.encode())
    except OSError:
        return False


def _contradicted(one: Message, other: Message) -> bytes:
    """The mid of the commitment that both words are about and exclude each other on; empty for none."""
    if isinstance(one.body, EventBody) and isinstance(other.body, EventBody):
        same = (one.body.commitment, one.body.seq) == (other.body.commitment, other.body.seq)
        return one.body.commitment if same and one.body.seq and one.mid != other.mid else b""
    if not isinstance(one.body, ReceiptBody):
        return b""
    # To several, what an offerer takes back for all is its word as much as a REJECT is.
    word = Move.WITHDRAW if one.body.commitment else Move.REJECT
    refuses = other.move is word and other.in_reply_to == one.body.mid
    differs = isinstance(other.body, ReceiptBody) and other.body.mid == one.body.mid
    return one.body.mid if refuses or (differs and other.body != one.body) else b""


def _said(raw: bytes, history: KeyHistory) -> tuple[Message, str]:
    """A message whose signature and key hold, and its sender's handle."""
    envelope: Envelope = parse_envelope(raw)
    payload_class = _PAYLOADS.get(envelope.kind)
    if payload_class is None:
        raise _nothing(f"a {envelope.kind} is no RECEIPT, REJECT or event")
    payload: _Payload = strict_parse(payload_class, envelope.payload)
    faults = SignatureCheck(history).message(envelope, payload.header, payload.header.issued_at_ms)
    if faults:
        raise ProtocolError(Reason.BAD_SIGNATURE, f"The proof does not hold: {faults[0].words}.")
    try:
        return describe(payload, mid=envelope.mid, signatures=1), payload.header.sender
    except IndaiError as error:
        raise _nothing(error.message) from None


def _nothing(why: str) -> ProtocolError:
    return ProtocolError(Reason.BAD_PROOF, f"The two messages prove nothing: {why}.")
