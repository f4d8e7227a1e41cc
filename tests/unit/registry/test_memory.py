"""What the registry holds in memory, through any order of commits, failures, signatures and look-ups."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from indai.protocol.sparsemap import EMPTY, SparseMap, Tile, map_key, verify_map_proof
from indai.registry.memory import Delta, Memory, TileMissing, prefixes


class Machine:
    """A registry without its database: `stored` are the committed tiles, `values` the map at each size."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.stored: dict[str, Tile] = {}
        self.values: list[dict[bytes, bytes]] = [{}]
        self.roots = [EMPTY[0]]
        self.signed = 0

    @property
    def size(self) -> int:
        return len(self.roots) - 1

    def read(self, key: bytes, missing: TileMissing) -> None:
        for path in prefixes(key, missing.path):
            self.memory.tiles.setdefault(path, self.stored.get(path))

    def write(self, handles: list[int], commits: bool) -> None:
        self.memory.settle(self.size)
        keys = [map_key(str(handle)) for handle in handles]
        value = bytes([self.size % 256]) * 32
        while True:
            tree = SparseMap(self.memory.newest_tile)
            try:
                roots = [tree.put(key, value) for key in keys]
            except TileMissing as missing:
                for key in keys:
                    if key.hex().startswith(missing.path):
                        self.read(key, missing)
                continue
            break
        end = self.size + len(keys)
        self.memory.deltas.append(Delta(self.size, end, {}, tree.changed, b""))
        if commits:
            self.stored.update(tree.changed)
            for key, root in zip(keys, roots, strict=True):
                self.values.append({**self.values[-1], key: value})
                self.roots.append(root)

    def sign(self) -> None:
        self.memory.publish(self.size)
        self.signed = self.size

    def look_up(self, handle: int) -> None:
        key = map_key(str(handle))
        while True:
            tree = SparseMap(self.memory.published_tile)
            try:
                proof, root = tree.prove(key), tree.root()
            except TileMissing as missing:
                self.read(key, missing)
                continue
            break
        assert root == self.roots[self.signed]
        verify_map_proof(root, key, self.values[self.signed].get(key), proof)


HANDLES = st.integers(0, 60)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.lists(HANDLES, min_size=1, max_size=6), st.booleans()),
        st.tuples(st.just("sign")),
        st.tuples(st.just("look up"), HANDLES),
        st.tuples(st.just("forget")),
    ),
    max_size=14,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_a_look_up_always_answers_for_the_signed_head(steps: list[tuple[object, ...]]) -> None:
    machine = Machine()
    for step in steps:
        match step:
            case ("write", list(handles), bool(commits)):
                machine.write(handles, commits)
            case ("look up", int(handle)):
                machine.look_up(handle)
            case ("sign",):
                machine.sign()
            case ("forget",):
                machine.sign()  # everything is dropped only when nothing is committed beyond the head
                machine.memory.drop()
    machine.look_up(1)
    machine.sign()
    machine.look_up(1)


def test_a_gap_in_what_is_known_starts_afresh() -> None:
    machine = Machine()
    machine.write([1, 2], True)
    machine.memory.settle(5)
    assert (machine.memory.deltas, machine.memory.tiles) == ([], {})
