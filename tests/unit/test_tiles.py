"""Tiles: paths, bundles, and proofs read from tiles alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.protocol import merkle
from indai.protocol.errors import InvalidInput, ProtocolError, Reason
from indai.protocol.tiles import (
    Tile,
    decode_entries,
    decode_hashes,
    encode_entries,
    encode_hashes,
    tile_reader,
    tiles_of,
)


@pytest.mark.parametrize(
    ("tile", "path"),
    [
        (Tile(0, 0), "tile/0/000"),
        (Tile(1, 1_234_067), "tile/1/x001/x234/067"),
        (Tile(0, 273, 112), "tile/0/273.p/112"),
        (Tile(None, 1_000, 1), "tile/entries/x001/000.p/1"),
    ],
)
def test_a_tile_has_one_path(tile: Tile, path: str) -> None:
    assert tile.path == path
    assert Tile.parse(path) == tile


@pytest.mark.parametrize(
    "path",
    [
        "",
        "tile/0/0",
        "tile/0/0000",
        "tile/0/x000/001",
        "tile/0/001/002",
        "tile/8/000",
        "tile/00/000",
        "tile/0/000.p/0",
        "tile/0/000.p/256",
        "tile/0/000.p/257",
        "tile/0/000.p/01",
        "tile/../secret",
        "tile/0/\u0661\u0661\u0661",
        "/tile/0/000",
        "tile/0/000\n",
        "tile/0" + "/x001" * 2_000 + "/000",
    ],
)
def test_any_other_spelling_of_a_path_is_refused(path: str) -> None:
    with pytest.raises(InvalidInput, match="path of a tile"):
        Tile.parse(path)


@given(st.integers(0, 7), st.integers(0, 1 << 40), st.integers(1, 256))
def test_paths_read_back(level: int, index: int, width: int) -> None:
    assert Tile.parse(Tile(level, index, width).path) == Tile(level, index, width)


def test_the_tiles_of_70_000_leaves_are_those_of_the_specification() -> None:
    tiles = list(tiles_of(70_000))
    count = {level: [tile.width for tile in tiles if tile.level == level] for level in (None, 0, 1, 2, 3)}
    assert count[0] == count[None] == [256] * 273 + [112]
    assert count[1] == [256, 17]
    assert count[2] == [1]
    assert count[3] == []


@given(st.integers(0, 100_000), st.integers(0, 100_000))
def test_growth_names_every_tile_that_changed(one: int, two: int) -> None:
    old, new = sorted((one, two))
    assert set(tiles_of(new)) - set(tiles_of(old)) == set(tiles_of(new, old))


@settings(max_examples=20)
@given(st.integers(1, 1_100), st.data())
def test_proofs_from_tiles_are_the_proofs_from_leaves(size: int, data: st.DataObject) -> None:
    leaves = [merkle.leaf_hash(b"%d" % index) for index in range(size)]
    above = [merkle.root(leaves[at : at + 256]) for at in range(0, size - 255, 256)]
    levels = [leaves, above]
    read = tile_reader(lambda level, index: levels[level][index * 256 : (index + 1) * 256])
    index = data.draw(st.integers(0, size - 1))
    assert merkle.root_from(read, size) == merkle.root(leaves)
    assert merkle.inclusion_proof_from(read, index, size) == merkle.inclusion_proof(leaves, index)
    assert merkle.consistency_proof_from(read, index + 1, size) == merkle.consistency_proof(leaves, index + 1)


@pytest.mark.rule("LOG-08")
def test_a_tile_that_is_too_narrow_is_a_bad_proof() -> None:
    read = tile_reader(lambda level, index: [merkle.leaf_hash(b"only")])
    with pytest.raises(ProtocolError) as refused:
        merkle.root_from(read, 2)
    assert refused.value.reason is Reason.BAD_PROOF


@given(st.lists(st.binary(max_size=80), min_size=1, max_size=20))
def test_entries_read_back(entries: list[bytes]) -> None:
    assert decode_entries(encode_entries(entries)) == entries
    hashes = [merkle.leaf_hash(entry) for entry in entries]
    assert decode_hashes(encode_hashes(hashes)) == hashes


@pytest.mark.rule("LOG-08")
@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x02a", b"\x00\x01a\x00", b"\x00\x00" * 257])
def test_a_broken_bundle_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError) as refused:
        decode_entries(data)
    assert refused.value.reason is Reason.MALFORMED


@pytest.mark.rule("LOG-08")
@pytest.mark.parametrize("size", [0, 31, 33, 257 * 32])
def test_a_broken_tile_is_refused(size: int) -> None:
    with pytest.raises(ProtocolError) as refused:
        decode_hashes(bytes(size))
    assert refused.value.reason is Reason.MALFORMED


def test_an_entry_too_long_for_a_bundle_is_refused() -> None:
    with pytest.raises(InvalidInput):
        encode_entries([bytes(65_536)])
    for level, index, width in ((8, 0, 1), (-1, 0, 1), (0, -1, 1), (0, 0, 0), (0, 0, 257)):
        with pytest.raises(InvalidInput):
            Tile(level, index, width)
