"""Merkle trees: every proof of every small tree verifies, and nothing else does."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.protocol import merkle
from indai.protocol.errors import InvalidInput, ProtocolError, Reason
from indai.protocol.merkle import CompactRange, verify_consistency, verify_inclusion

LEAVES = [merkle.leaf_hash(b"%d" % index) for index in range(40)]
OTHER = merkle.leaf_hash(b"other")


def refuses(check: Callable[[], None], rule: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        check()
    assert refused.value.reason is Reason.BAD_PROOF
    assert refused.value.rule == rule


def test_the_empty_tree_has_the_hash_of_nothing_as_its_root() -> None:
    assert merkle.root([]) == merkle.EMPTY_ROOT == hashlib.sha256(b"").digest()
    assert merkle.root_from(lambda level, index: b"", 0) == merkle.EMPTY_ROOT


@pytest.mark.rule("LOG-01")
def test_every_leaf_of_every_small_tree_has_a_proof_that_verifies() -> None:
    for size in range(1, len(LEAVES)):
        root = merkle.root(LEAVES[:size])
        for index in range(size):
            proof = merkle.inclusion_proof(LEAVES[:size], index)
            verify_inclusion(LEAVES[index], index, size, proof, root)


@pytest.mark.rule("LOG-02")
def test_every_pair_of_small_sizes_has_a_proof_that_verifies() -> None:
    for new in range(1, len(LEAVES)):
        root = merkle.root(LEAVES[:new])
        for old in range(1, new + 1):
            proof = merkle.consistency_proof(LEAVES[:new], old)
            verify_consistency(old, merkle.root(LEAVES[:old]), new, root, proof)


@pytest.mark.rule("LOG-01")
@settings(max_examples=100)
@given(st.data())
def test_a_changed_inclusion_claim_does_not_verify(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(LEAVES)))
    index = data.draw(st.integers(0, size - 1))
    leaf, root = LEAVES[index], merkle.root(LEAVES[:size])
    proof = merkle.inclusion_proof(LEAVES[:size], index)
    other = data.draw(st.integers(0, 60).filter(lambda value: value != index))
    refuses(lambda: verify_inclusion(OTHER, index, size, proof, root), "LOG-01")
    refuses(lambda: verify_inclusion(leaf, other, size, proof, root), "LOG-01")
    refuses(lambda: verify_inclusion(leaf, index, size, proof, OTHER), "LOG-01")
    refuses(lambda: verify_inclusion(leaf, index, size, [*proof, OTHER], root), "LOG-01")
    refuses(lambda: verify_inclusion(leaf, index, size, [OTHER, *proof], root), "LOG-01")
    if proof:
        at = data.draw(st.integers(0, len(proof) - 1))
        refuses(lambda: verify_inclusion(leaf, index, size, proof[:-1], root), "LOG-01")
        refuses(lambda: verify_inclusion(leaf, index, size, proof[1:], root), "LOG-01")
        refuses(
            lambda: verify_inclusion(leaf, index, size, [*proof[:at], OTHER, *proof[at + 1 :]], root),
            "LOG-01",
        )


@pytest.mark.rule("LOG-02")
@settings(max_examples=100)
@given(st.data())
def test_a_changed_consistency_claim_does_not_verify(data: st.DataObject) -> None:
    new = data.draw(st.integers(2, len(LEAVES)))
    old = data.draw(st.integers(1, new - 1))
    before, after = merkle.root(LEAVES[:old]), merkle.root(LEAVES[:new])
    proof = merkle.consistency_proof(LEAVES[:new], old)
    forked = merkle.root([OTHER, *LEAVES[1:new]])
    at = data.draw(st.integers(0, len(proof) - 1))
    refuses(lambda: verify_consistency(old, OTHER, new, after, proof), "LOG-02")
    refuses(lambda: verify_consistency(old, before, new, forked, proof), "LOG-02")
    refuses(lambda: verify_consistency(old, before, new, after, [*proof, OTHER]), "LOG-02")
    refuses(lambda: verify_consistency(old, before, new, after, proof[:-1]), "LOG-02")
    refuses(lambda: verify_consistency(old, before, new, after, proof[1:]), "LOG-02")
    changed = [*proof[:at], OTHER, *proof[at + 1 :]]
    refuses(lambda: verify_consistency(old, before, new, after, changed), "LOG-02")


@pytest.mark.rule("LOG-02")
def test_nothing_is_consistent_with_the_empty_tree_or_with_a_smaller_one() -> None:
    root = merkle.root(LEAVES[:4])
    refuses(lambda: verify_consistency(0, merkle.EMPTY_ROOT, 4, root, []), "LOG-02")
    refuses(lambda: verify_consistency(0, merkle.EMPTY_ROOT, 0, merkle.EMPTY_ROOT, []), "LOG-02")
    refuses(lambda: verify_consistency(5, merkle.root(LEAVES[:5]), 4, root, []), "LOG-02")
    refuses(lambda: verify_consistency(4, root, 4, root, [OTHER]), "LOG-02")
    refuses(lambda: verify_consistency(4, OTHER, 4, root, []), "LOG-02")
    refuses(lambda: verify_consistency(4, root, 8, merkle.root(LEAVES[:8]), []), "LOG-02")
    for old, new in ((0, 4), (5, 4), (-1, 4)):
        with pytest.raises(InvalidInput, match="no consistency proof"):
            merkle.consistency_proof(LEAVES[:new], old)


@pytest.mark.rule("LOG-01")
def test_a_leaf_outside_the_tree_has_no_proof() -> None:
    for index in (-1, 4, 1 << 70):
        with pytest.raises(InvalidInput, match="no leaf"):
            merkle.inclusion_proof(LEAVES[:4], index)
        refuses(partial(verify_inclusion, OTHER, index, 4, [], OTHER), "LOG-01")
    refuses(lambda: verify_inclusion(LEAVES[0], 0, 2, [b"short"], OTHER), "LOG-01")


def test_an_inner_node_cannot_pass_for_a_leaf() -> None:
    left, right = b"a" * 32, b"b" * 32
    assert merkle.leaf_hash(left + right) != merkle.node_hash(left, right)


@settings(max_examples=60)
@given(size=st.integers(1, 200), split=st.integers(0, 200))
def test_a_tree_that_grew_from_its_saved_edge_has_the_same_root_and_nodes(size: int, split: int) -> None:
    leaves = [merkle.leaf_hash(b"%d" % index) for index in range(size)]
    tree = CompactRange()
    nodes: dict[tuple[int, int], bytes] = {}
    for number, leaf in enumerate(leaves):
        if number == split:
            tree = CompactRange(tree.size, tree.edge)
        nodes.update({(level, index): hashed for level, index, hashed in tree.append(leaf)})
    assert tree.size == size
    assert tree.root() == merkle.root(leaves)

    def reader(level: int, index: int) -> bytes:
        return nodes[level, index]

    assert merkle.root_from(reader, size) == tree.root()
    old = min(split, size) or 1
    assert merkle.inclusion_proof_from(reader, old - 1, size) == merkle.inclusion_proof(leaves, old - 1)
    assert merkle.consistency_proof_from(reader, old, size) == merkle.consistency_proof(leaves, old)


@given(st.integers(1, (1 << 63) - 1), st.integers(1, (1 << 63) - 1))
def test_proofs_of_huge_trees_need_few_nodes(one: int, two: int) -> None:
    old, new = sorted((one, two))
    for proof in (merkle.inclusion_nodes(old - 1, new), merkle.consistency_nodes(old, new)):
        assert len(proof) <= 64
        assert sum(len(nodes) for nodes in proof) <= 130
    assert len(merkle.root_nodes(new)) == new.bit_count()


@pytest.mark.parametrize(
    ("size", "edge"), [(1, []), (0, [OTHER]), (2, [OTHER, OTHER]), (1, [b"short"]), (-1, [])]
)
def test_an_edge_that_does_not_fit_its_size_is_refused(size: int, edge: list[bytes]) -> None:
    with pytest.raises(InvalidInput, match="edge"):
        CompactRange(size, edge)


@pytest.mark.rule("LOG-01")
def test_a_proof_is_bound_to_the_size_it_is_claimed_for() -> None:
    root = merkle.root(LEAVES[:2])
    for size in range(3, 20):
        refuses(partial(verify_inclusion, LEAVES[0], 0, size, [LEAVES[1]], root), "LOG-01")
        refuses(partial(verify_consistency, 1, LEAVES[0], size, root, [LEAVES[1]]), "LOG-02")


@pytest.mark.rule("LOG-01")
def test_a_hash_of_another_length_is_refused_even_where_it_leads_to_the_root() -> None:
    root = merkle.node_hash(LEAVES[0], b"short")
    refuses(partial(verify_inclusion, LEAVES[0], 0, 2, [b"short"], root), "LOG-01")
    refuses(partial(verify_consistency, 1, LEAVES[0], 2, root, [b"short"]), "LOG-02")
