"""Implementations that others wrote open what we write, and we open what they write."""

from __future__ import annotations

import base64
import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PrivateKey
from indai.protocol import merkle
from indai.protocol.checkpoint import Checkpoint, open_checkpoint, sign_checkpoint
from indai.protocol.envelope import Envelope, Signature, payload_type, seal, verify_signature
from indai.protocol.errors import ProtocolError
from indai.protocol.keys import SigningKey
from indai.protocol.note import COSIGNATURE_ML_DSA_44, Signer, Verifier
from pymerkle import InmemoryTree
from pymerkle import verify_consistency as their_verify_consistency
from pymerkle import verify_inclusion as their_verify_inclusion
from securesystemslib import signer
from securesystemslib.dsse import Envelope as TheirEnvelope

SEED = hashlib.sha256(b"an independent key").digest()
KEY = SigningKey.from_seed(SEED)
ENTRIES = [b"entry %d" % index for index in range(21)]
LEAVES = [merkle.leaf_hash(entry) for entry in ENTRIES]


def test_securesystemslib_verifies_our_dsse_envelope() -> None:
    ours = seal(payload_type("commitment"), b"some payload", [KEY])
    signatures = {KEY.key_id: signer.Signature(KEY.key_id, ours.signatures[0].sig.hex())}
    theirs = TheirEnvelope(ours.payload, ours.payload_type, signatures)
    public_key = signer.SSlibKey.from_crypto(
        Ed25519PublicKey.from_public_bytes(KEY.public_key), keyid=KEY.key_id
    )
    assert theirs.pae() == ours.pae
    assert list(theirs.verify([public_key], threshold=1)) == [KEY.key_id]


def test_we_verify_an_envelope_that_securesystemslib_signed() -> None:
    theirs = TheirEnvelope(b"their payload", payload_type("receipt"), {})
    made = theirs.sign(signer.CryptoSigner(Ed25519PrivateKey.from_private_bytes(SEED)))
    signature = Signature(bytes.fromhex(made.signature), made.keyid)
    verify_signature(Envelope(b"", theirs.payload, theirs.payload_type, (signature,)), 0, KEY.public_key)
    with pytest.raises(ProtocolError):
        verify_signature(Envelope(b"", b"other", theirs.payload_type, (signature,)), 0, KEY.public_key)


def pymerkle_tree() -> InmemoryTree:
    tree = InmemoryTree(algorithm="sha256")
    for entry in ENTRIES:
        tree.append_entry(entry)
    return tree


@pytest.mark.rule("LOG-01")
def test_pymerkle_and_we_agree_on_roots_and_inclusion() -> None:
    tree = pymerkle_tree()
    for size in range(1, len(ENTRIES) + 1):
        root = merkle.root(LEAVES[:size])
        assert tree.get_root(size) == root
        for index in range(size):
            theirs = tree.prove_inclusion(index + 1, size)
            ours = merkle.inclusion_proof(LEAVES[:size], index)
            assert theirs.path == [LEAVES[index], *ours]
            their_verify_inclusion(LEAVES[index], root, theirs, index=index + 1, size=size)
            merkle.verify_inclusion(LEAVES[index], index, size, theirs.path[1:], root)


@pytest.mark.rule("LOG-02")
def test_pymerkle_accepts_the_histories_we_accept() -> None:
    tree = pymerkle_tree()
    for new in range(2, len(ENTRIES) + 1):
        for old in range(1, new):
            roots = merkle.root(LEAVES[:old]), merkle.root(LEAVES[:new])
            theirs = tree.prove_consistency(old, new)
            their_verify_consistency(*roots, theirs, prior_size=old, later_size=new)
            merkle.verify_consistency(
                old, roots[0], new, roots[1], merkle.consistency_proof(LEAVES[:new], old)
            )


def test_an_ml_dsa_cosignature_that_openssl_made_is_verified() -> None:
    secret = MLDSA44PrivateKey.from_seed_bytes(SEED)
    name, time = "w.example", 1_790_000_000
    witness = Verifier(name, COSIGNATURE_ML_DSA_44, secret.public_key().public_bytes_raw())
    log = Signer("ind.ai/registry", KEY)
    head = Checkpoint(log.name, len(LEAVES), merkle.root(LEAVES))
    # c2sp.org/tlog-cosignature: label, cosigner, time, origin, start, end, hash; strings have a length byte.
    message = b"subtree/v1\n\x00\x09w.example" + time.to_bytes(8, "big") + b"\x0find.ai/registry"
    message += bytes(8) + len(LEAVES).to_bytes(8, "big") + head.root
    raw = sign_checkpoint(head, [log])
    opened = {}
    for claimed in (time, time + 1):
        blob = witness.key_hash + claimed.to_bytes(8, "big") + secret.sign(message)
        opened[claimed] = raw + cosignature_line(name, blob)
    _, cosignatures = open_checkpoint(opened[time], log.verifier, [witness])
    assert [cosigned.time for cosigned in cosignatures] == [time]
    with pytest.raises(ProtocolError):
        open_checkpoint(opened[time + 1], log.verifier, [witness])


def cosignature_line(name: str, blob: bytes) -> bytes:
    return f"\u2014 {name} {base64.b64encode(blob).decode()}\n".encode()
