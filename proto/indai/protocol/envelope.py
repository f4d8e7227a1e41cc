"""The signed envelope: DSSE v1 (github.com/secure-systems-lab/dsse) in its protobuf form.

Signatures are over PAE(payload_type, payload), and the message id is the SHA-256 of that PAE, so adding a
signature never changes the id. The exact bytes received are kept in `raw` and are what is stored and
forwarded: an envelope is encoded once, by whoever sealed or cosigned it, and never again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from indai.protocol.errors import InvalidInput, ProtocolError, Reason
from indai.protocol.keys import SigningKey, verify
from indai.protocol.quoting import quoted
from indai.protocol.wire import MAX_MESSAGE, malformed, read_varint

KINDS = (
    "move",
    "commitment",
    "receipt",
    "event",
    "operation",
    "decision",
    "policy-version",
    "voucher",
    "hello",
)
MAX_SIGNATURES = 32
MAX_SIGNATURE_BYTES = 8_192  # room for the hybrid of Ed25519 and ML-DSA-44 (2,420 bytes)
MAX_TYPE = 128
MAX_KEYID = 128

_TYPES = {kind: f"application/vnd.ind.{kind}.v1+protobuf" for kind in KINDS}
_KINDS = {media_type: kind for kind, media_type in _TYPES.items()}

# The tags of `Envelope{payload = 1, payload_type = 2, signatures = 3}` and `Signature{sig = 1, keyid = 2}`;
# all of them are length-delimited (wire type 2).
_FIRST, _SECOND, _THIRD = 1 << 3 | 2, 2 << 3 | 2, 3 << 3 | 2


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature over the PAE. `keyid` is an unsigned hint: keys come from the registry only."""

    sig: bytes
    keyid: str


@dataclass(frozen=True, slots=True)
class Envelope:
    """A parsed envelope with the exact bytes it came in; `pae` and `mid` (32 bytes) are computed once."""

    raw: bytes
    payload: bytes
    payload_type: str
    signatures: tuple[Signature, ...]
    pae: bytes = field(init=False, repr=False, compare=False)
    mid: bytes = field(init=False, compare=False)

    def __post_init__(self) -> None:
        encoded = pae(self.payload_type, self.payload)
        object.__setattr__(self, "pae", encoded)
        object.__setattr__(self, "mid", hashlib.sha256(encoded).digest())

    @property
    def kind(self) -> str:
        """The kind of the payload; raises ProtocolError(UNKNOWN_TYPE)."""
        return kind_of(self.payload_type)


def pae(payload_type: str, payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding: what is signed."""
    media_type = payload_type.encode("utf-8")
    return b"DSSEv1 %d %b %d %b" % (len(media_type), media_type, len(payload), payload)


def message_id(payload_type: str, payload: bytes) -> bytes:
    """The 32-byte id of a message: SHA-256 of its PAE, whoever signed it."""
    return hashlib.sha256(pae(payload_type, payload)).digest()


def payload_type(kind: str) -> str:
    """The media type of one of `KINDS`; raises ProtocolError(UNKNOWN_TYPE)."""
    if kind not in _TYPES:
        raise _unknown_type(kind)
    return _TYPES[kind]


def kind_of(payload_type: str) -> str:
    """The kind a media type names; raises ProtocolError(UNKNOWN_TYPE)."""
    if payload_type not in _KINDS:
        raise _unknown_type(payload_type)
    return _KINDS[payload_type]


def seal(payload_type: str, payload: bytes, keys: Sequence[SigningKey]) -> Envelope:
    """A new envelope over `payload`, signed by each of `keys` in order."""
    message = pae(payload_type, payload)
    return _build(payload_type, payload, tuple(Signature(key.sign(message), key.key_id) for key in keys))


def cosign(envelope: Envelope, key: SigningKey) -> Envelope:
    """The same payload with one more signature at the end: same `mid`, new `raw`."""
    added = Signature(key.sign(envelope.pae), key.key_id)
    return _build(envelope.payload_type, envelope.payload, (*envelope.signatures, added))


def countersigned(envelope: Envelope, signatures: Sequence[Signature]) -> Envelope:
    """The same payload under these signatures, made elsewhere: same `mid`, new `raw`. Nothing is verified."""
    return _build(envelope.payload_type, envelope.payload, tuple(signatures))


def verify_signature(envelope: Envelope, index: int, public_key: bytes) -> None:
    """Check signature `index` with the registry's key for its signer; raises ProtocolError(BAD_SIGNATURE)."""
    if not 0 <= index < len(envelope.signatures):
        message = f"The envelope has no signature number {index + 1}."
        raise ProtocolError(Reason.BAD_SIGNATURE, message, rule="ENV-04")
    if not verify(public_key, envelope.pae, envelope.signatures[index].sig):
        keyid = quoted(envelope.signatures[index].keyid)
        message = f"Signature number {index + 1}, which names key {keyid}, does not verify."
        raise ProtocolError(Reason.BAD_SIGNATURE, message, rule="ENV-04")


def parse_envelope(raw: bytes, *, limit: int = MAX_MESSAGE) -> Envelope:
    """Read an envelope strictly, verifying nothing; raises ProtocolError(TOO_LARGE or MALFORMED)."""
    if len(raw) > limit:
        message = f"An envelope of {len(raw)} bytes is over the limit of {limit}."
        raise ProtocolError(Reason.TOO_LARGE, message, rule="ENV-01")
    fields = _fields("Envelope", raw, (_FIRST, _SECOND), repeated=_THIRD)
    payload, media_type, signatures = fields[_FIRST], fields[_SECOND], fields[_THIRD]
    if not payload or not payload[0] or not media_type or not signatures:
        raise malformed("An envelope needs a payload, a payload type and a signature")
    if len(signatures) > MAX_SIGNATURES:
        raise malformed(f"An envelope has more than {MAX_SIGNATURES} signatures")
    parsed = tuple(_signature(part) for part in signatures)
    return Envelope(raw, payload[0], _text(media_type[0], MAX_TYPE, "payload type"), parsed)


def _signature(data: bytes) -> Signature:
    fields = _fields("Signature", data, (_FIRST, _SECOND))
    if not fields[_FIRST] or not 0 < len(fields[_FIRST][0]) <= MAX_SIGNATURE_BYTES:
        raise malformed(f"A signature has 1 to {MAX_SIGNATURE_BYTES} bytes")
    keyid = fields[_SECOND]
    return Signature(fields[_FIRST][0], _text(keyid[0], MAX_KEYID, "key id") if keyid else "")


def _fields(name: str, data: bytes, singular: tuple[int, ...], repeated: int = 0) -> dict[int, list[bytes]]:
    """The values of each length-delimited tag; refuses other tags and a second value of a singular one."""
    found: dict[int, list[bytes]] = {tag: [] for tag in (*singular, repeated)}
    pos, end = 0, len(data)
    while pos < end:
        tag, pos = read_varint(data, pos, end)
        values = found.get(tag)
        if values is None or not tag:
            raise malformed(f"{name} has field {tag >> 3} of wire type {tag & 7}, which it must not have")
        if values and tag != repeated:
            raise malformed(f"{name} has field {tag >> 3} twice")
        size, pos = read_varint(data, pos, end)
        if size > end - pos:
            raise malformed(f"{name} ends inside field {tag >> 3}")
        values.append(data[pos : pos + size])
        pos += size
    return found


def _text(data: bytes, limit: int, what: str) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise malformed(f"The {what} is not UTF-8") from None
    if not text or len(text) > limit or not text.isprintable():
        raise malformed(f"The {what} {quoted(text)} is not 1 to {limit} printable characters")
    return text


def _build(payload_type: str, payload: bytes, signatures: tuple[Signature, ...]) -> Envelope:
    if not payload or not signatures or len(signatures) > MAX_SIGNATURES:
        message = f"An envelope needs a payload and 1 to {MAX_SIGNATURES} signatures."
        raise InvalidInput(Reason.INVALID_ARGUMENT, message)
    raw = _field(_FIRST, payload) + _field(_SECOND, payload_type.encode("utf-8"))
    for signature in signatures:
        inner = _field(_FIRST, signature.sig) + _field(_SECOND, signature.keyid.encode("utf-8"))
        raw += _field(_THIRD, inner)
    return Envelope(raw, payload, payload_type, signatures)


def _field(tag: int, value: bytes) -> bytes:
    size = len(value)
    length = bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    return bytes((tag, *length)) + value


def _unknown_type(named: str) -> ProtocolError:
    message = f"{quoted(named)} is not a kind of message this version knows."
    return ProtocolError(Reason.UNKNOWN_TYPE, message, rule="ENV-03")
