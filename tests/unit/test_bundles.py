"""Tiles and entry bundles cut out of an export: those of the textbook tree, carried on, never of two logs."""

from __future__ import annotations

from pathlib import Path

import pytest
from indai.client.bundles import write_bundles
from indai.protocol.checkpoint import open_checkpoint
from indai.protocol.errors import IndaiError, Reason
from indai.protocol.leaf import LeafKind
from indai.protocol.merkle import inclusion_nodes, inclusion_proof, inclusion_proof_from, leaf_hash, root
from indai.protocol.tiles import Tile, decode_entries, decode_hashes, tile_reader, tiles_of

from tests.unit.audit.worlds import ALICE, NOW, World, reseal, write
from tests.unit.cli.runs import run, run_json


def grown(world: World, size: int) -> World:
    """Alice's ledger with so many leaves."""
    for number in range(len(world.a.leaves), size):
        world.a.add(LeafKind.DECISION, ALICE, number.to_bytes(32, "big"), b"why", NOW + number)
    return world


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_they_hold_the_tree_of_the_signed_head_and_prove_every_leaf(tmp_path: Path) -> None:
    node, folder = grown(World(), 600).a, tmp_path / "tiles"
    made = write_bundles(write(tmp_path / "a.jsonl", node.records()), folder)
    hashes = [leaf_hash(leaf) for leaf in node.leaves]
    head, _ = open_checkpoint((folder / "checkpoint").read_bytes(), node.signer().verifier.vkey)
    assert (head.size, head.root) == (600, root(hashes))
    assert files(folder) == {"checkpoint", *(tile.path for tile in tiles_of(600))}
    assert made.written == len(list(tiles_of(600)))
    bundles = [tile for tile in tiles_of(600) if tile.level is None]
    entries = [entry for tile in bundles for entry in decode_entries((folder / tile.path).read_bytes())]
    assert entries == node.leaves

    def tile_hashes(level: int, index: int) -> list[bytes]:
        (place,) = (tile for tile in tiles_of(600) if (tile.level, tile.index) == (level, index))
        return decode_hashes((folder / place.path).read_bytes())

    for index in (0, 255, 256, 599):
        assert inclusion_nodes(index, 600)
        assert inclusion_proof_from(tile_reader(tile_hashes), index, 600) == inclusion_proof(hashes, index)


def test_a_later_export_carries_a_folder_on_and_mends_what_was_damaged(tmp_path: Path) -> None:
    world, folder, export = grown(World(), 500), tmp_path / "tiles", tmp_path / "a.jsonl"
    write_bundles(write(export, world.a.records()), folder)
    full = folder / Tile(0, 0).path
    full.write_bytes(b"damaged")
    write(export, grown(world, 600).a.records())
    again = write_bundles(export, folder)
    assert files(folder) >= {tile.path for tile in tiles_of(600)}
    assert not (folder / "tile/0/001.p").exists()  # it is full now
    # The second tile and bundle are full, the third ones begun, the level above has one hash more.
    assert (again.written, again.kept) == (1 + 2 + 2 + 1, 1)
    assert decode_hashes(full.read_bytes()) == [leaf_hash(leaf) for leaf in world.a.leaves[:256]]
    assert write_bundles(export, folder).written == 0


def test_a_head_that_does_not_extend_the_folders_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "tiles"
    write_bundles(write(tmp_path / "a.jsonl", grown(World(), 300).a.records()), folder)
    before = {name: (folder / name).read_bytes() for name in files(folder)}
    other = World()
    other.a.add(LeafKind.DECISION, ALICE, bytes(32), b"another history", NOW)
    older = grown(World(), 200).a
    elsewhere = grown(World(), 300).b
    for node, reason in (
        (grown(other, 400).a, Reason.SPLIT_VIEW),
        (older, Reason.INVALID_ARGUMENT),
        (elsewhere, Reason.INVALID_ARGUMENT),
    ):
        with pytest.raises(IndaiError) as refused:
            write_bundles(write(tmp_path / "other.jsonl", node.records()), folder)
        assert refused.value.reason is reason
    assert before == {name: (folder / name).read_bytes() for name in files(folder)}


def test_entries_that_the_head_does_not_cover_are_never_written(tmp_path: Path) -> None:
    node, export = grown(World(), 10).a, tmp_path / "a.jsonl"
    node.signed = [*node.leaves[:-1], b"x" * 42]
    write(export, node.records())
    with pytest.raises(IndaiError) as refused:
        write_bundles(export, tmp_path / "tiles")
    assert refused.value.reason is Reason.BAD_PROOF
    assert not (tmp_path / "tiles").exists()
    lines = export.read_bytes().splitlines(keepends=True)
    reseal(export, [lines[0].replace(b"ledger/2026+", b"ledger/2027+", 1), *lines[1:]])
    with pytest.raises(IndaiError):
        write_bundles(export, tmp_path / "tiles")


def test_the_command_cuts_a_registrys_mirror_too(tmp_path: Path) -> None:
    world = World()
    world.write(tmp_path)
    mirror, folder = str(tmp_path / "registry.jsonl"), str(tmp_path / "tiles")
    shown = run_json("ledger", "tiles", mirror, folder)
    assert (shown["origin"], shown["size"], shown["kept"]) == ("ind.ai/registry", 4, 0)
    bundle = (tmp_path / "tiles" / Tile(None, 0, 4).path).read_bytes()
    assert decode_entries(bundle) == world.registry.entries
    assert "2 were there" in run("ledger", "tiles", mirror, folder).output
    (tmp_path / "tiles" / "checkpoint").write_text("something else\n")
    assert run("ledger", "tiles", mirror, folder).exit_code == 2
    assert run("ledger", "tiles", str(tmp_path / "nothing"), folder).exit_code == 2
