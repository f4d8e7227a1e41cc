"""One worked example of each format, made once and accepted by implementations written by others."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from indai.protocol import merkle
from indai.protocol.checkpoint import Checkpoint, open_checkpoint
from indai.protocol.cosereceipt import CoseReceipt
from indai.protocol.envelope import parse_envelope, seal, verify_signature
from indai.protocol.errors import ProtocolError
from indai.protocol.keys import SigningKey
from indai.protocol.leaf import LeafKind, LedgerLeaf
from indai.protocol.note import COSIGNATURE_ML_DSA_44, add_signatures
from indai.protocol.tiles import (
    Tile,
    decode_entries,
    decode_hashes,
    encode_entries,
    encode_hashes,
    tile_reader,
)
from indai.protocol.tlogpolicy import parse_policy
from indai.protocol.tlogproof import TlogProof

VECTORS = Path(__file__).parent / "vectors"
ALICE = "0dbf537428a90f3038938d7d9fafd94dd94558e92959a804f948cd24a2a0c887"
BOB = "62b5c2a68a8a9f5e847efeb0945f1b1ecf3380f431fd946920303bde884c1020"


def read(name: str) -> bytes:
    return (VECTORS / name).read_bytes()


def golden_key(name: str) -> SigningKey:
    return SigningKey.from_seed(hashlib.sha256(f"ind.ai golden seed {name}".encode()).digest())


POLICY = parse_policy(read("policy.txt"))
INPUT: dict[str, Any] = json.loads(read("go_input.json"))
HEADS = {size: POLICY.open(read(f"checkpoint.{size}")) for size in (50, 70)}


def unbase64(*names: str) -> list[bytes]:
    return [base64.b64decode(name) for name in names]


@pytest.mark.rule("ENV-06")
def test_the_envelope_is_signed_by_both_and_sealing_again_gives_its_bytes() -> None:
    envelope = parse_envelope(read("envelope.bin"))
    keys = [golden_key("alice"), golden_key("bob")]
    assert [key.public_key.hex() for key in keys] == [ALICE, BOB]
    for index, key in enumerate(keys):
        verify_signature(envelope, index, key.public_key)
        assert envelope.signatures[index].keyid == key.key_id
    assert envelope.payload == read("payload.json")
    assert envelope.raw == read("envelope.bin")
    assert seal(envelope.payload_type, envelope.payload, keys) == envelope
    parties = json.loads(envelope.payload)["parties"]
    assert [party["key_id"] for party in parties] == [key.key_id for key in keys]


@pytest.mark.rule("ENV-05")
def test_the_message_id_is_that_of_the_first_signature_alone() -> None:
    envelope = parse_envelope(read("envelope.bin"))
    assert seal(envelope.payload_type, envelope.payload, [golden_key("alice")]).mid == envelope.mid


def test_the_leaf_opens_to_the_envelope() -> None:
    leaf = LedgerLeaf.parse(read("entry.bin"))
    assert (leaf.kind, leaf.time_ms) == (LeafKind.COMMITMENT, 1_790_000_000_123)
    assert leaf.opens(hashlib.sha256(b"opening").digest(), read("envelope.bin"))
    assert leaf.encode() == read("entry.bin")
    assert [read("entry.bin")] == unbase64(INPUT["entry"])


@pytest.mark.parametrize("size", [50, 70])
def test_the_checkpoint_is_signed_by_log_and_both_witnesses(size: int) -> None:
    head, cosignatures = HEADS[size]
    root = unbase64(INPUT[f"root{size}"])[0]
    assert head == Checkpoint("ind.ai/ledger/2026", size, root)
    assert {cosigned.name for cosigned in cosignatures} == {"w1.example", "w2.example"}
    assert COSIGNATURE_ML_DSA_44 in {cosigned.verifier.algorithm for cosigned in cosignatures}
    assert POLICY.time(cosignatures) == 1_790_000_000 + {50: 60, 70: 120}[size]
    assert read(f"checkpoint.{size}").decode() == INPUT[f"cp{size}"]
    assert open_checkpoint(read(f"checkpoint.{size}"), INPUT["vkey"]) == (head, ())


def test_a_flipped_bit_in_any_signature_of_a_checkpoint_is_found() -> None:
    raw = read("checkpoint.70")
    text = raw.index(b"\n\n") + 2
    for line in raw[text:].splitlines():
        words = line.split(b" ")
        blob = bytearray(base64.b64decode(words[2]))
        blob[40] ^= 1
        with pytest.raises(ProtocolError):
            POLICY.open(raw.replace(words[2], base64.b64encode(bytes(blob))))


def test_an_ml_dsa_cosignature_is_bound_to_its_cosigners_time_and_tree() -> None:
    raw = read("checkpoint.70")
    later = bytearray(base64.b64decode(raw.splitlines()[-1].split(b" ")[2]))
    later[11] += 1
    forged = raw.replace(raw.splitlines()[-1].split(b" ")[2], base64.b64encode(bytes(later)))
    with pytest.raises(ProtocolError, match="w2"):
        POLICY.open(forged)
    swapped = read("checkpoint.50").split(b"\n\n")[0] + b"\n\n" + raw.split(b"\n\n")[1]
    with pytest.raises(ProtocolError):
        POLICY.open(swapped)
    assert add_signatures(raw, []) == raw


def test_the_policy_reads_back() -> None:
    assert [log.vkey for log in POLICY.logs] == [INPUT["vkey"]]
    assert parse_policy(POLICY.format().encode()) == POLICY
    assert POLICY.format().encode() == read("policy.txt")


def test_the_bundle_hashes_to_the_tile_and_the_tile_to_the_checkpoint() -> None:
    entries, hashes = decode_entries(read("entries_000.p_70")), decode_hashes(read("tile_0_000.p_70"))
    assert [merkle.leaf_hash(entry) for entry in entries] == hashes
    assert entries[41] == read("entry.bin")
    assert encode_entries(entries) == read("entries_000.p_70")
    assert encode_hashes(hashes) == read("tile_0_000.p_70")
    assert Tile.parse("tile/0/000.p/70").width == len(hashes)
    for size in (50, 70):
        assert merkle.root(hashes[:size]) == HEADS[size][0].root


def test_the_proofs_are_the_ones_of_the_independent_implementation() -> None:
    hashes = decode_hashes(read("tile_0_000.p_70"))
    reader = tile_reader(lambda level, index: hashes)
    assert merkle.inclusion_proof_from(reader, 41, 70) == unbase64(*INPUT["inclusion"])
    assert merkle.consistency_proof_from(reader, 50, 70) == unbase64(*INPUT["consistency"])
    merkle.verify_inclusion(hashes[41], INPUT["index"], 70, unbase64(*INPUT["inclusion"]), HEADS[70][0].root)
    roots = (HEADS[50][0].root, HEADS[70][0].root)
    merkle.verify_consistency(50, roots[0], 70, roots[1], unbase64(*INPUT["consistency"]))


def test_the_receipt_proves_the_entry_and_carries_its_opening() -> None:
    receipt = TlogProof.parse(read("receipt.tlog-proof"))
    assert receipt.encode() == read("receipt.tlog-proof")
    assert receipt.extra == hashlib.sha256(b"opening").digest()
    witnesses = tuple(POLICY.witnesses.values())
    head, cosignatures = receipt.verify(read("entry.bin"), POLICY.logs[0], witnesses)
    POLICY.check(cosignatures)
    assert (receipt.index, head.size) == (41, 70)


@pytest.mark.rule("LOG-05")
def test_the_cose_receipt_proves_the_same_entry() -> None:
    receipt = CoseReceipt.parse(read("receipt.cose"))
    assert receipt.encode() == read("receipt.cose")
    signer = golden_key("cose-log").public_key
    assert receipt.verify(read("entry.bin"), "ind.ai/ledger/2026", signer) == HEADS[70][0].root
    assert (receipt.index, receipt.size, receipt.key_id) == (41, 70, b"ind-ledger-cose-1")
    assert receipt.hashes == TlogProof.parse(read("receipt.tlog-proof")).hashes
    with pytest.raises(ProtocolError):
        receipt.verify(read("envelope.bin"), "ind.ai/ledger/2026", signer)


def test_every_vector_is_used() -> None:
    used = set(Path(__file__).read_text("utf-8").replace("{size}", "50").split('"'))
    used |= {"checkpoint.70", "ed25519-speccheck.json"}
    assert {path.name for path in VECTORS.iterdir()} <= used
