"""Signed notes (C2SP signed-note) and the timestamped cosignatures of witnesses (C2SP tlog-cosignature).

A note is text, an empty line, and signature lines `— <key name> base64(4-byte key id || signature)`.
Ed25519 (type 1), Ed25519 cosignatures (type 4) and ML-DSA-44 cosignatures (type 6, verified only) are
understood.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PublicKey
from indai.protocol.errors import InvalidInput, ProtocolError, Reason
from indai.protocol.keys import PUBLIC_KEY_BYTES, SIGNATURE_BYTES, SigningKey, verify
from indai.protocol.quoting import quoted

ED25519 = 1
COSIGNATURE = 4
COSIGNATURE_ML_DSA_44 = 6

MAX_NOTE = 1_000_000
MAX_SIGNATURES = 100
_ML_DSA_44_KEY, _ML_DSA_44_SIGNATURE = 1_312, 2_420  # FIPS 204, table 2
_KEY_BYTES = {
    ED25519: PUBLIC_KEY_BYTES,
    COSIGNATURE: PUBLIC_KEY_BYTES,
    COSIGNATURE_ML_DSA_44: _ML_DSA_44_KEY,
}

_VKEY = re.compile(r"([^+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/=]+)")
_LINE = re.compile(r"\u2014 ([^ ]+) ([A-Za-z0-9+/=]+)")
_SPACE_OR_PLUS = re.compile(r"[\s+]")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")  # what is left of bytes that are not UTF-8


@dataclass(frozen=True, slots=True)
class Verifier:
    """A trusted key: its name, its algorithm (one of the constants above) and the public key's bytes."""

    name: str
    algorithm: int
    public_key: bytes

    @property
    def key_hash(self) -> bytes:
        """The 4-byte key id of a note's signature lines."""
        return key_hash(self.name, self.algorithm, self.public_key)

    @property
    def vkey(self) -> str:
        """The C2SP text of this key: name, key id and base64 of algorithm and key."""
        return format_vkey(self.name, self.public_key, self.algorithm)


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs notes as `name`; with `time` (seconds since the epoch) it signs a cosignature instead."""

    name: str
    key: SigningKey
    time: int | None = None

    @property
    def verifier(self) -> Verifier:
        """What checks this signer's signatures."""
        return Verifier(self.name, ED25519 if self.time is None else COSIGNATURE, self.key.public_key)


@dataclass(frozen=True, slots=True)
class NoteSignature:
    """A signature line as it stands; `key_hash` has 4 bytes."""

    name: str
    key_hash: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class VerifiedSignature:
    """A signature that verified; `time` is the cosigner's, in seconds since the epoch, if it has one."""

    verifier: Verifier
    time: int | None

    @property
    def name(self) -> str:
        """The name of the key."""
        return self.verifier.name


@dataclass(frozen=True, slots=True)
class OpenedNote:
    """A note with at least one verified signature; `text` ends in a newline."""

    text: str
    verified: tuple[VerifiedSignature, ...]
    unverified: tuple[NoteSignature, ...]


def key_hash(name: str, algorithm: int, public_key: bytes) -> bytes:
    """SHA-256(name || "\\n" || algorithm || public key), the first 4 bytes."""
    return hashlib.sha256(name.encode("utf-8") + b"\n" + bytes((algorithm,)) + public_key).digest()[:4]


def format_vkey(name: str, public_key: bytes, algorithm: int = ED25519) -> str:
    """The verifier key text `name+hash+base64`; raises InvalidInput for a name that cannot stand in one."""
    _check_name(name)
    encoded = base64.b64encode(bytes((algorithm,)) + public_key).decode("ascii")
    return f"{name}+{key_hash(name, algorithm, public_key).hex()}+{encoded}"


def parse_vkey(text: str) -> Verifier:
    """Read a verifier key; raises InvalidInput(INVALID_ARGUMENT)."""
    match = _VKEY.fullmatch(text)
    if match is None or (data := decode_base64(match[3])) is None or not data:
        raise _bad_vkey(text, "it is not name+hash+base64")
    _check_name(match[1])
    verifier = Verifier(match[1], data[0], data[1:])
    if verifier.algorithm not in _KEY_BYTES:
        raise _bad_vkey(text, f"signature type {verifier.algorithm} is not known here")
    if len(verifier.public_key) != _KEY_BYTES[verifier.algorithm]:
        raise _bad_vkey(text, "the key has the wrong length for its type")
    if verifier.key_hash.hex() != match[2]:
        raise _bad_vkey(text, "the hash in it is not the key's")
    return verifier


def sign_note(text: str, signers: Iterable[Signer]) -> bytes:
    """A new note over `text`, which must end in a newline."""
    if not text.endswith("\n") or _CONTROL.search(text) or _SURROGATE.search(text):
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "A note's text is UTF-8, ends in a newline and has no control characters.",
        )
    return text.encode("utf-8") + b"\n" + b"".join(signature_line(text, signer) for signer in signers)


def add_signatures(raw: bytes, signers: Iterable[Signer]) -> bytes:
    """The note with more signature lines; the bytes that were there stay as they are."""
    text, _ = parse_note(raw)
    return raw + b"".join(signature_line(text, signer) for signer in signers)


def signature_line(text: str, signer: Signer) -> bytes:
    """One signature line, with its newline."""
    _check_name(signer.name)
    if signer.time is not None and not 0 <= signer.time < 1 << 63:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"{signer.time} is not a time in seconds since 1970.")
    blob = signer.verifier.key_hash
    if signer.time is None:
        blob += signer.key.sign(text.encode("utf-8"))
    else:
        signed = signer.key.sign(_cosigned(text, signer.time))
        blob += struct.pack(">Q", signer.time) + signed
    return f"\u2014 {signer.name} {base64.b64encode(blob).decode('ascii')}\n".encode()


def open_note(raw: bytes, verifiers: Sequence[Verifier]) -> OpenedNote:
    """Read a note and verify the signatures of known keys.

    Of several cosignatures by one key the latest counts. Signatures by unknown keys, and ML-DSA ones where
    OpenSSL lacks it, are listed in `unverified`. Raises ProtocolError: MALFORMED for bytes that are no
    note, BAD_SIGNATURE if a known key's signature fails or if no known key signed.
    """
    text, signatures = parse_note(raw)
    known = {(verifier.name, verifier.key_hash): verifier for verifier in verifiers}
    verified: dict[Verifier, VerifiedSignature] = {}
    unverified = []
    for signature in signatures:
        verifier = known.get((signature.name, signature.key_hash))
        if verifier is None or not _can_verify(verifier):
            unverified.append(signature)
            continue
        signed = VerifiedSignature(verifier, _verify(verifier, text, signature))
        if (signed.time or 0) >= (verified.get(verifier, signed).time or 0):
            verified[verifier] = signed
    if not verified:
        raise ProtocolError(
            Reason.BAD_SIGNATURE, "The note is signed by no key that is trusted here.", rule="LOG-03"
        )
    return OpenedNote(text, tuple(verified.values()), tuple(unverified))


def parse_note(raw: bytes) -> tuple[str, tuple[NoteSignature, ...]]:
    """Split a note into its text and signature lines, verifying nothing; raises ProtocolError(MALFORMED)."""
    if len(raw) > MAX_NOTE:
        raise ProtocolError(Reason.TOO_LARGE, f"A note has at most {MAX_NOTE} bytes.", rule="LOG-03")
    try:
        note = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise _malformed("it is not UTF-8") from None
    if _CONTROL.search(note):
        raise _malformed("it has a control character")
    text, separator, lines = note.rpartition("\n\n")
    if not separator or not lines.endswith("\n"):
        raise _malformed("it has no signature lines after an empty line")
    split = lines[:-1].split("\n")
    if len(split) > MAX_SIGNATURES:
        raise _malformed(f"it has more than {MAX_SIGNATURES} signatures")
    return text + "\n", tuple(_parse_line(line) for line in split)


def _parse_line(line: str) -> NoteSignature:
    match = _LINE.fullmatch(line)
    blob = decode_base64(match[2]) if match and not _SPACE_OR_PLUS.search(match[1]) else None
    if match is None or blob is None or len(blob) < 5:
        raise _malformed(f"{quoted(line)} is not a signature line")
    return NoteSignature(match[1], blob[:4], blob[4:])


def _verify(verifier: Verifier, text: str, signature: NoteSignature) -> int | None:
    """The time of a cosignature, None for a plain signature; raises if it does not verify."""
    if verifier.algorithm == ED25519:
        time, valid = None, verify(verifier.public_key, text.encode("utf-8"), signature.signature)
    else:
        time, valid = _verify_cosignature(verifier, text, signature.signature)
    if not valid:
        message = f"The signature of {quoted(verifier.name)} on the note does not verify."
        raise ProtocolError(Reason.BAD_SIGNATURE, message, rule="LOG-03")
    return time


def _verify_cosignature(verifier: Verifier, text: str, blob: bytes) -> tuple[int, bool]:
    size = SIGNATURE_BYTES if verifier.algorithm == COSIGNATURE else _ML_DSA_44_SIGNATURE
    if len(blob) != 8 + size:
        return 0, False
    time: int = struct.unpack(">Q", blob[:8])[0]
    if verifier.algorithm == COSIGNATURE:
        return time, verify(verifier.public_key, _cosigned(text, time), blob[8:])
    message = _cosigned_subtree(verifier.name, text, time)
    return time, message is not None and _verify_ml_dsa_44(verifier.public_key, message, blob[8:])


def _cosigned(text: str, time: int) -> bytes:
    return f"cosignature/v1\ntime {time}\n{text}".encode()


def _cosigned_subtree(name: str, text: str, time: int) -> bytes | None:
    """The `subtree/v1` message over a checkpoint's whole tree; None if the text is no checkpoint."""
    lines = text.split("\n")
    root = decode_base64(lines[2]) if len(lines) > 3 else None
    origin, cosigner = lines[0].encode("utf-8"), name.encode("utf-8")
    if root is None or len(root) != 32 or not re.fullmatch(r"0|[1-9][0-9]{0,18}", lines[1], re.ASCII):
        return None
    if not 0 < len(origin) < 256 or not 0 < len(cosigner) < 256:
        return None
    parts = struct.pack(">B", len(cosigner)) + cosigner + struct.pack(">QB", time, len(origin)) + origin
    return b"subtree/v1\n\x00" + parts + struct.pack(">QQ", 0, int(lines[1])) + root


def _can_verify(verifier: Verifier) -> bool:
    """False for an ML-DSA-44 key where the OpenSSL below `cryptography` has no ML-DSA."""
    if verifier.algorithm != COSIGNATURE_ML_DSA_44:
        return True
    try:
        MLDSA44PublicKey.from_public_bytes(verifier.public_key)
    except UnsupportedAlgorithm:
        return False
    except ValueError:
        pass  # a malformed key verifies nothing, and is refused as that
    return True


def _verify_ml_dsa_44(public_key: bytes, message: bytes, signature: bytes) -> bool:
    try:
        MLDSA44PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def _check_name(name: str) -> None:
    if not name or any(pattern.search(name) for pattern in (_SPACE_OR_PLUS, _CONTROL, _SURROGATE)):
        message = f"{quoted(name)} cannot name a key: it is empty, not UTF-8, or has a space or a plus."
        raise InvalidInput(Reason.INVALID_ARGUMENT, message)


def decode_base64(text: str) -> bytes | None:
    """Standard base64 (RFC 4648 section 4) in its one canonical form; None for anything else."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    # One text for one value: Python forgives bits that are set in the padding.
    return data if base64.b64encode(data).decode("ascii") == text else None


def _malformed(why: str) -> ProtocolError:
    return ProtocolError(Reason.MALFORMED, f"This is not a signed note: {why}.", rule="LOG-03")


def _bad_vkey(text: str, why: str) -> InvalidInput:
    return InvalidInput(Reason.INVALID_ARGUMENT, f"{quoted(text)} is not a verifier key: {why}.")
