"""The eight-leaf tree of Certificate Transparency's reference tests (RFC 6962), with its roots and proofs."""

from __future__ import annotations

import pytest
from indai.protocol import merkle

ENTRIES = [
    "",
    "00",
    "10",
    "2021",
    "3031",
    "40414243",
    "5051525354555657",
    "606162636465666768696a6b6c6d6e6f",
]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
LEAF_1 = "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7"
NODE_2_3 = "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e"
NODE_4_7 = "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4"
LEAF_4 = "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b"
NODE_6_7 = "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0"
NODE_4_5 = "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a"
LEAVES = [merkle.leaf_hash(bytes.fromhex(entry)) for entry in ENTRIES]


def unhex(*texts: str) -> list[bytes]:
    return [bytes.fromhex(text) for text in texts]


@pytest.mark.parametrize("size", range(1, 9))
def test_the_root_at_each_size(size: int) -> None:
    assert merkle.root(LEAVES[:size]).hex() == ROOTS[size - 1]


@pytest.mark.rule("LOG-01")
@pytest.mark.parametrize(
    ("index", "size", "proof"),
    [
        (0, 1, []),
        (0, 8, [LEAF_1, NODE_2_3, NODE_4_7]),
        (5, 8, [LEAF_4, NODE_6_7, ROOTS[3]]),
        (2, 3, [ROOTS[1]]),
        (1, 5, [ROOTS[0], NODE_2_3, LEAF_4]),
    ],
)
def test_the_published_inclusion_proofs(index: int, size: int, proof: list[str]) -> None:
    assert merkle.inclusion_proof(LEAVES[:size], index) == unhex(*proof)
    merkle.verify_inclusion(LEAVES[index], index, size, unhex(*proof), bytes.fromhex(ROOTS[size - 1]))


@pytest.mark.rule("LOG-02")
@pytest.mark.parametrize(
    ("old", "new", "proof"),
    [
        (1, 1, []),
        (1, 8, [LEAF_1, NODE_2_3, NODE_4_7]),
        (6, 8, [NODE_4_5, NODE_6_7, ROOTS[3]]),
        (2, 5, [NODE_2_3, LEAF_4]),
    ],
)
def test_the_published_consistency_proofs(old: int, new: int, proof: list[str]) -> None:
    assert merkle.consistency_proof(LEAVES[:new], old) == unhex(*proof)
    roots = unhex(ROOTS[old - 1], ROOTS[new - 1])
    merkle.verify_consistency(old, roots[0], new, roots[1], unhex(*proof))
