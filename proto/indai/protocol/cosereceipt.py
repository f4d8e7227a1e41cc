"""The second encoding of a receipt: a COSE receipt of inclusion (RFC 9942, tree algorithm RFC9162_SHA256).

A tagged COSE_Sign1 (RFC 9052) whose detached payload is the root: a verifier computes the root from entry
and path, and the signature over it is the log's word. The protected header names the algorithm (1: EdDSA),
the tree (395: RFC 9162 with SHA-256), the key (4) and, as a CWT claim (15), the log as issuer. The path is
unprotected (396, -1), since only the right one leads to the root that was signed.

Unlike a tlog-proof it has no time and no cosignatures, and the root alone is signed: of the size it says only
what the path needs, so another size with the same path proves the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import cbor2
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.keys import SIGNATURE_BYTES, SigningKey, verify
from indai.protocol.merkle import HASH_SIZE, MAX_SIZE, leaf_hash, root_from_inclusion
from indai.protocol.quoting import quoted

MEDIA_TYPE = "application/cose"

_COSE_SIGN1 = 18
_ALGORITHM, _EDDSA = 1, -8
_KEY_ID = 4
_CWT_CLAIMS, _ISSUER = 15, 1
_TREE, _RFC9162_SHA256 = 395, 1
_PROOFS, _INCLUSION = 396, -1
_KNOWN = {_ALGORITHM, _KEY_ID, _CWT_CLAIMS, _TREE}
_SCHEME = "https://"
_MAX_RECEIPT = 8192
_MAX_HASHES = 63


@dataclass(frozen=True, slots=True)
class CoseReceipt:
    """A receipt as it was read. `protected` are the signed header's exact bytes, `log` the origin in them."""

    log: str
    key_id: bytes
    size: int
    index: int
    hashes: tuple[bytes, ...]
    protected: bytes
    signature: bytes

    def encode(self) -> bytes:
        """The bytes of the receipt."""
        proof = cbor2.dumps([self.size, self.index, list(self.hashes)])
        unprotected = {_PROOFS: {_INCLUSION: [proof]}}
        return cbor2.dumps(
            cbor2.CBORTag(_COSE_SIGN1, [self.protected, unprotected, None, self.signature]), canonical=True
        )

    @classmethod
    def parse(cls, raw: bytes) -> CoseReceipt:
        """Read a receipt, verifying nothing; raises ProtocolError (MALFORMED, TOO_LARGE)."""
        if len(raw) > _MAX_RECEIPT:
            message = f"A COSE receipt has at most {_MAX_RECEIPT} bytes."
            raise ProtocolError(Reason.TOO_LARGE, message, rule="LOG-05")
        protected, proof, signature = _parts(raw)
        log, key_id = _header(protected)
        size, index, hashes = _proof(proof)
        receipt = cls(log, key_id, size, index, hashes, protected, signature)
        if receipt.encode() != raw:
            raise _malformed("it has more than one reading")
        return receipt

    def verify(self, entry: bytes, log: str, public_key: bytes) -> bytes:
        """Check that `entry` is in `log`, whose Ed25519 key is `public_key`; returns the root it signed.

        Raises ProtocolError: BAD_PROOF for a path that cannot be one, BAD_SIGNATURE for another log, key,
        path or entry.
        """
        if self.log != log:
            message = f"The receipt is of log {quoted(self.log)}, not of {quoted(log)}."
            raise ProtocolError(Reason.BAD_SIGNATURE, message, rule="LOG-05")
        root = root_from_inclusion(leaf_hash(entry), self.index, self.size, self.hashes)
        if not verify(public_key, _to_be_signed(self.protected, root), self.signature):
            message = f"The log {quoted(log)} has not signed that it holds this entry."
            raise ProtocolError(Reason.BAD_SIGNATURE, message, rule="LOG-05")
        return root


def sign_receipt(
    log: str, key: SigningKey, size: int, root: bytes, index: int, hashes: tuple[bytes, ...]
) -> CoseReceipt:
    """The log's receipt that its tree of `size` with `root` holds entry `index`.

    Sign only roots that a checkpoint of the log was signed for: a receipt is a signed head too.
    """
    header = {
        _ALGORITHM: _EDDSA,
        _KEY_ID: key.key_id.encode("ascii"),
        _CWT_CLAIMS: {_ISSUER: _SCHEME + log},
        _TREE: _RFC9162_SHA256,
    }
    protected = cbor2.dumps(header, canonical=True)
    signature = key.sign(_to_be_signed(protected, root))
    return CoseReceipt(log, key.key_id.encode("ascii"), size, index, hashes, protected, signature)


def _to_be_signed(protected: bytes, root: bytes) -> bytes:
    """Sig_structure of RFC 9052, section 4.4; its first bytes keep it apart from a checkpoint's text."""
    return cbor2.dumps(["Signature1", protected, b"", root])


def _load(raw: bytes) -> Any:
    try:
        return cbor2.loads(raw)
    except (cbor2.CBORDecodeError, ValueError, TypeError, RecursionError):
        raise _malformed("it is not CBOR") from None


def _parts(raw: bytes) -> tuple[bytes, bytes, bytes]:
    """The protected header, the proof and the signature."""
    match _load(raw):
        case cbor2.CBORTag(tag=tag, value=value) if tag == _COSE_SIGN1:
            pass
        case _:
            raise _malformed("it is not a tagged COSE_Sign1")
    match list(value) if isinstance(value, list | tuple) else None:
        case [bytes(protected), Mapping() as unprotected, None, bytes(signature)]:
            pass
        case _:
            raise _malformed("it is not a COSE_Sign1 with a detached payload")
    match unprotected.get(_PROOFS):
        case Mapping() as proofs if len(unprotected) == len(proofs) == 1:
            found = proofs.get(_INCLUSION)
        case _:
            raise _malformed("it does not carry proofs and nothing else")
    if not isinstance(found, list | tuple) or len(found) != 1 or not isinstance(found[0], bytes):
        raise _malformed("it does not carry one inclusion proof")
    if len(signature) != SIGNATURE_BYTES:
        raise _malformed("its signature is not one of Ed25519")
    return protected, found[0], signature


def _header(protected: bytes) -> tuple[str, bytes]:
    """The log's origin and the key's id."""
    header = _load(protected)
    if not isinstance(header, Mapping) or set(header) - _KNOWN:
        raise _malformed("its header says what nobody here understands")
    if header.get(_ALGORITHM) != _EDDSA or header.get(_TREE) != _RFC9162_SHA256:
        raise _malformed("its algorithms are not EdDSA and RFC9162_SHA256")
    claims = header.get(_CWT_CLAIMS)
    issuer = claims.get(_ISSUER) if isinstance(claims, Mapping) else None
    key_id = header.get(_KEY_ID)
    if not isinstance(issuer, str) or not issuer.startswith(_SCHEME) or not isinstance(key_id, bytes):
        raise _malformed("it names no log or no key")
    return issuer.removeprefix(_SCHEME), key_id


def _proof(raw: bytes) -> tuple[int, int, tuple[bytes, ...]]:
    match _load(raw):
        case [int(size), int(index), [*hashes]] if 0 <= index < size < MAX_SIZE:
            pass
        case _:
            raise _malformed("its proof is not a size, an index below it, and a path")
    if len(hashes) > _MAX_HASHES or any(not isinstance(h, bytes) or len(h) != HASH_SIZE for h in hashes):
        raise _malformed("its path is not a list of hashes")
    return size, index, tuple(hashes)


def _malformed(why: str) -> ProtocolError:
    return ProtocolError(Reason.MALFORMED, f"This is not a COSE receipt: {why}.", rule="LOG-05")
