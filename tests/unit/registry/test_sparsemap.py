"""The sparse map against the plainest model: a full tree computed by recursion over a dictionary."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.sparsemap import (
    DEPTH,
    EMPTY,
    Proof,
    SparseMap,
    Tile,
    decode_tile,
    encode_tile,
    map_key,
    map_value,
    verify_map_proof,
)

# Keys that share long prefixes, so that splits deep inside and at the very last tile happen.
_PREFIXES = st.sampled_from([b"", b"\x00" * 31, b"\xab" * 16, b"\xab" * 2])
KEYS = st.builds(lambda head, tail: (head + tail)[:32], _PREFIXES, st.binary(min_size=32, max_size=32))
VALUES = st.binary(min_size=32, max_size=32)


def model_root(leaves: dict[bytes, bytes], depth: int = 0) -> bytes:
    if not leaves:
        return EMPTY[depth]
    if depth == DEPTH:
        ((key, value),) = leaves.items()
        return hashlib.sha256(b"\x00" + key + value).digest()
    halves: tuple[dict[bytes, bytes], dict[bytes, bytes]] = ({}, {})
    for key, value in leaves.items():
        halves[key[depth // 8] >> (7 - depth % 8) & 1][key] = value
    left, right = (model_root(half, depth + 1) for half in halves)
    return hashlib.sha256(b"\x01" + left + right).digest()


class Store:
    """A tile store that goes through the stored form."""

    def __init__(self) -> None:
        self.rows: dict[str, bytes] = {}

    def load(self, path: str) -> Tile | None:
        return decode_tile(self.rows[path]) if path in self.rows else None

    def save(self, updated: SparseMap) -> None:
        self.rows.update((path, encode_tile(tile)) for path, tile in updated.changed.items())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(KEYS, VALUES), max_size=12), st.integers(1, 5), KEYS)
def test_every_root_and_proof_agrees_with_the_plain_model(
    puts: list[tuple[bytes, bytes]], batch: int, stranger: bytes
) -> None:
    store, model = Store(), dict[bytes, bytes]()
    for start in range(0, len(puts), batch):
        updated = SparseMap(store.load)
        for key, value in puts[start : start + batch]:
            model[key] = value
            assert updated.put(key, value) == model_root(model)
        store.save(updated)
    reader = SparseMap(store.load)
    root = reader.root()
    assert root == model_root(model)
    for key in [*model, stranger]:
        assert reader.get(key) == model.get(key)
        verify_map_proof(root, key, model.get(key), reader.prove(key))


@pytest.fixture
def filled() -> SparseMap:
    tree = SparseMap(lambda path: None)
    for number in range(200):
        tree.put(map_key(f"ind.ai/user{number}"), map_value(f"ind.ai/user{number}", b"m" * 32))
    return tree


def refused(tree: SparseMap, handle: str, value: bytes | None, proof: Proof) -> None:
    with pytest.raises(ProtocolError) as caught:
        verify_map_proof(tree.root(), map_key(handle), value, proof)
    assert caught.value.reason is Reason.BAD_PROOF


@pytest.mark.rule("REG-10")
def test_a_proof_shows_one_thing_only(filled: SparseMap) -> None:
    handle, value = "ind.ai/user7", map_value("ind.ai/user7", b"m" * 32)
    proof = filled.prove(map_key(handle))
    verify_map_proof(filled.root(), map_key(handle), value, proof)
    refused(filled, handle, None, proof)
    refused(filled, handle, map_value(handle, b"n" * 32), proof)
    refused(filled, "ind.ai/user8", value, proof)
    refused(filled, "ind.ai/nobody", value, filled.prove(map_key("ind.ai/nobody")))


@pytest.mark.rule("REG-10")
def test_a_damaged_proof_is_refused(filled: SparseMap) -> None:
    handle, value = "ind.ai/user7", map_value("ind.ai/user7", b"m" * 32)
    bitmap, siblings = filled.prove(map_key(handle))
    for number in range(len(siblings)):
        refused(filled, handle, value, Proof(bitmap, siblings[:number] + siblings[number + 1 :]))
        flipped = bytes([siblings[number][0] ^ 1]) + siblings[number][1:]
        refused(filled, handle, value, Proof(bitmap, (*siblings[:number], flipped, *siblings[number + 1 :])))
    refused(filled, handle, value, Proof(bitmap, (*siblings, siblings[0])))
    refused(filled, handle, value, Proof(bitmap[:31], siblings))


@pytest.mark.rule("REG-10")
def test_an_empty_sibling_spelled_out_is_refused(filled: SparseMap) -> None:
    handle, value = "ind.ai/user7", map_value("ind.ai/user7", b"m" * 32)
    bitmap, siblings = filled.prove(map_key(handle))
    assert not bitmap[31] & 1
    spelled = bytes([*bitmap[:31], bitmap[31] | 1])
    refused(filled, handle, value, Proof(spelled, (*siblings, EMPTY[DEPTH])))


def test_a_small_proof_for_many_handles(filled: SparseMap) -> None:
    assert len(filled.prove(map_key("ind.ai/user7")).siblings) < 20


def test_the_value_binds_each_of_its_parts() -> None:
    values = {
        map_value("ind.ai/alice", b"m" * 32),
        map_value("ind.ai/alicem", b"m" * 32),
        map_value("ind.ai/alicem", b"m" * 31),
        map_value("ind.ai/alice", b"n" * 32),
    }
    assert len(values) == 4


def test_a_damaged_stored_tile_is_noticed(filled: SparseMap) -> None:
    stored = encode_tile(filled.changed[""])
    for damaged in (stored[:-1], stored + b"\x00", b"\x07" + stored[1:], b""):
        with pytest.raises(ProtocolError):
            decode_tile(damaged)


def test_an_update_that_cannot_read_a_tile_changes_nothing() -> None:
    store = Store()
    first = SparseMap(store.load)
    for number in range(40):
        first.put(map_key(str(number)), b"v" * 32)
    store.save(first)

    def only_root(path: str) -> Tile | None:
        if path:
            raise LookupError(path)
        return store.load(path)

    broken = SparseMap(only_root)
    with pytest.raises(LookupError):
        broken.put(map_key("0"), b"w" * 32)
    assert not broken.changed
