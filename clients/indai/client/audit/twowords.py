"""A portable proof that an offerer signed two different words on one commitment: two RECEIPTs that differ, or
a RECEIPT and a REJECT.

It stands alone: whoever has the file and a mirror of the registry checks it, without the exports it came
from. The two messages may lie with two parties; either of them is innocent by itself.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass

from indai.client.audit.registry import KeyHistory
from indai.client.audit.signatures import SignatureCheck
from indai.protocol.envelope import Envelope, parse_envelope
from indai.protocol.errors import IndaiError, InvalidInput, ProtocolError, Reason
from indai.protocol.messages import Message, Move, ReceiptBody, describe
from indai.protocol.wire import strict_parse
from indai.v1 import negotiation_pb2

FORMAT = "indai-two-words/v1"
_PAYLOADS = {"move": negotiation_pb2.Move, "receipt": negotiation_pb2.Receipt}


@dataclass(frozen=True, slots=True)
class TwoWords:
    """The RECEIPT and the other word, as exact envelope bytes."""

    receipt: bytes
    other: bytes

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
        """(the offerer's handle, mid of the commitment) if this proves what it is for.

        Raises ProtocolError when a signature or key does not hold, or the two words agree.
        """
        receipt, handle = _said(self.receipt, history)
        other, other_handle = _said(self.other, history)
        body = receipt.body
        if not isinstance(body, ReceiptBody) or (receipt.sender, handle) != (other.sender, other_handle):
            raise _nothing("they are not a RECEIPT and another word of the same sender")
        refuses = other.move is Move.REJECT and other.in_reply_to == body.mid
        differs = isinstance(other.body, ReceiptBody) and other.body.mid == body.mid and other.body != body
        if not refuses and not differs:
            raise _nothing("they do not contradict each other")
        return handle, body.mid


def _said(raw: bytes, history: KeyHistory) -> tuple[Message, str]:
    """A message whose signature and key hold, and its sender's handle."""
    envelope: Envelope = parse_envelope(raw)
    payload_class = _PAYLOADS.get(envelope.kind)
    if payload_class is None:
        raise _nothing(f"a {envelope.kind} is neither a RECEIPT nor a REJECT")
    payload: negotiation_pb2.Move | negotiation_pb2.Receipt = strict_parse(payload_class, envelope.payload)
    faults = SignatureCheck(history).message(envelope, payload.header, payload.header.issued_at_ms)
    if faults:
        raise ProtocolError(Reason.BAD_SIGNATURE, f"The proof does not hold: {faults[0].words}.")
    try:
        return describe(payload, mid=envelope.mid, signatures=1), payload.header.sender
    except IndaiError as error:
        raise _nothing(error.message) from None


def _nothing(why: str) -> ProtocolError:
    return ProtocolError(Reason.BAD_PROOF, f"The two messages prove nothing: {why}.")
