"""Checkpoints: signed by their log, under its origin."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from indai.protocol.checkpoint import Checkpoint, open_checkpoint, read_checkpoint, sign_checkpoint
from indai.protocol.errors import InvalidInput, ProtocolError, Reason
from indai.protocol.keys import SigningKey
from indai.protocol.merkle import EMPTY_ROOT
from indai.protocol.note import Signer, add_signatures, sign_note

KEY = SigningKey.from_seed(hashlib.sha256(b"log").digest())
LOG = Signer("ind.ai/registry", KEY)
WITNESS = Signer("witness.example", SigningKey.from_seed(hashlib.sha256(b"witness").digest()), time=7)
HEAD = Checkpoint("ind.ai/registry", 0, EMPTY_ROOT)
ROOT_HASH = EMPTY_ROOT
ROOT = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="


def refused(raw: bytes) -> Reason:
    with pytest.raises(ProtocolError) as caught:
        open_checkpoint(raw, LOG.verifier, [WITNESS.verifier])
    return caught.value.reason


def test_a_checkpoint_opens_with_its_logs_key_and_names_its_cosigners() -> None:
    raw = add_signatures(sign_checkpoint(HEAD, [LOG]), [WITNESS])
    head, cosignatures = open_checkpoint(raw, LOG.verifier.vkey, [WITNESS.verifier])
    assert head == read_checkpoint(raw) == HEAD
    assert [(cosigned.name, cosigned.time) for cosigned in cosignatures] == [("witness.example", 7)]


def test_the_logs_own_second_key_counts_as_a_cosigner() -> None:
    second = Signer("ind.ai/registry", KEY, time=9)
    raw = sign_checkpoint(HEAD, [LOG, second])
    _, cosignatures = open_checkpoint(raw, LOG.verifier, [second.verifier])
    assert [cosigned.time for cosigned in cosignatures] == [9]


@pytest.mark.rule("LOG-04")
def test_witnesses_alone_do_not_make_a_checkpoint() -> None:
    assert refused(sign_checkpoint(HEAD, [WITNESS])) is Reason.BAD_SIGNATURE


@pytest.mark.rule("LOG-04")
def test_a_checkpoint_of_another_origin_is_refused_even_with_the_logs_key() -> None:
    assert refused(sign_checkpoint(Checkpoint("ind.ai/other", 0, EMPTY_ROOT), [LOG])) is Reason.BAD_CHECKPOINT


@pytest.mark.rule("LOG-04")
@pytest.mark.parametrize(
    "text",
    [
        "ind.ai/registry\n",
        "ind.ai/registry\n0\n",
        f"ind.ai/registry\n00\n{ROOT}\n",
        f"ind.ai/registry\n-1\n{ROOT}\n",
        f"ind.ai/registry\n+1\n{ROOT}\n",
        f"ind.ai/registry\n\u0661\n{ROOT}\n",
        f"ind.ai/registry\n9999999999999999999\n{ROOT}\n",
        f"ind.ai/registry\n0\n{ROOT[:-1]}\n",
        f"ind.ai/registry\n0\n{ROOT[:-2]}V=\n",
        "ind.ai/registry\n0\nAAAA\n",
        f"ind.ai/registry\n0\n{ROOT}\n\nextension\n",
        f"\n0\n{ROOT}\n",
    ],
)
def test_a_signed_text_that_is_no_checkpoint_is_refused(text: str) -> None:
    assert refused(sign_note(text, [LOG])) is Reason.BAD_CHECKPOINT


@given(st.integers(0, (1 << 63) - 1), st.binary(min_size=32, max_size=32), st.lists(st.sampled_from("abc")))
def test_the_text_of_a_checkpoint_reads_back(size: int, root: bytes, extensions: list[str]) -> None:
    head = Checkpoint("ind.ai/registry", size, root, tuple(extensions))
    assert Checkpoint.parse(head.format()) == head


def test_a_checkpoint_that_could_not_be_read_back_is_not_made() -> None:
    for origin, size, root in (
        ("", 0, EMPTY_ROOT),
        ("a\nb", 0, EMPTY_ROOT),
        ("a", -1, EMPTY_ROOT),
        ("a", 0, b""),
    ):
        with pytest.raises(InvalidInput):
            Checkpoint(origin, size, root)
