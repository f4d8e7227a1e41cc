"""The incremental right edge agrees with the textbook tree, wherever it is interrupted."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from indai.protocol.merkle import leaf_hash, root
from indai.protocol.tiles import TILE_WIDTH
from indai.tlog.frontier import Frontier

# Sizes around full tiles, where every off-by-one lives; 65,536 is the first full tile of level 1.
_sizes = st.one_of(st.integers(0, 600), st.sampled_from([255, 256, 257, 511, 512, 513, 1024]))


def _leaves(start: int, end: int) -> list[bytes]:
    return [b"leaf %d" % number for number in range(start, end)]


@settings(max_examples=40, deadline=None)
@given(st.lists(_sizes, min_size=1, max_size=3))
def test_the_root_is_that_of_the_whole_tree_however_it_grew(steps: list[int]) -> None:
    frontier = Frontier()
    for step in steps:
        frontier.extend(_leaves(frontier.size, frontier.size + step))
    assert frontier.root() == root([leaf_hash(leaf) for leaf in _leaves(0, frontier.size)])


@settings(max_examples=40, deadline=None)
@given(_sizes, _sizes)
def test_a_frontier_goes_on_from_its_stored_tiles(before: int, after: int) -> None:
    stored: dict[tuple[int, int], tuple[bytes, ...]] = {}
    first = Frontier()
    stored |= {(tile.level, tile.index): tile.hashes for tile in first.extend(_leaves(0, before))}
    partial = {level: stored[level, index][:width] for level, index, width in Frontier.partial_tiles(before)}
    second = Frontier(before, partial)
    second.extend(_leaves(before, before + after))
    assert second.root() == root([leaf_hash(leaf) for leaf in _leaves(0, before + after)])


def test_full_tiles_of_every_level_are_handed_out_once() -> None:
    size = 2 * TILE_WIDTH * TILE_WIDTH + 300
    frontier = Frontier()
    grown = frontier.extend(_leaves(0, size))
    full = [(tile.level, tile.index) for tile in grown if len(tile.hashes) == TILE_WIDTH]
    assert len(full) == len(set(full)) == 513 + 2
    assert {(1, 0), (1, 1), (0, 0), (0, 512)} <= set(full)
    assert {
        (tile.level, tile.index, len(tile.hashes)) for tile in grown if len(tile.hashes) < TILE_WIDTH
    } == {
        (0, 513, 44),
        (1, 2, 1),
        (2, 0, 2),
    }
    assert frontier.root() == root([leaf_hash(leaf) for leaf in _leaves(0, size)])
