"""What a witness must answer, case by case as the specification lists them."""

from __future__ import annotations

import contextlib
import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.protocol.checkpoint import Checkpoint, sign_checkpoint
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.keys import SigningKey
from indai.protocol.merkle import EMPTY_ROOT, consistency_proof, leaf_hash, prefix_root, root
from indai.protocol.note import Signer
from indai.protocol.witnessing import AddCheckpoint, Refusal, judge, read_size

ORIGIN = "ind.ai/registry"
LEAVES = [leaf_hash(b"%d" % number) for number in range(40)]
FORK = [*LEAVES[:3], *(leaf_hash(b"fork %d" % number) for number in range(37))]


def signer(name: str) -> Signer:
    return Signer(name, SigningKey.from_seed(hashlib.sha256(name.encode()).digest()))


LOG = signer(ORIGIN)
LOGS = {ORIGIN: LOG.verifier}


def head(size: int, leaves: list[bytes] = LEAVES, origin: str = ORIGIN) -> Checkpoint:
    return Checkpoint(origin, size, root(leaves[:size]) if size else EMPTY_ROOT)


def note(size: int, leaves: list[bytes] = LEAVES, by: Signer = LOG, origin: str = ORIGIN) -> bytes:
    return sign_checkpoint(head(size, leaves, origin), [by])


def request(old: int, new: int, leaves: list[bytes] = LEAVES) -> AddCheckpoint:
    proof = consistency_proof(leaves[:new], old) if 0 < old < new else []
    return AddCheckpoint(old, tuple(proof), note(new, leaves))


def status(asked: AddCheckpoint, last: int | None) -> int:
    answer = judge(asked, LOGS, {} if last is None else {ORIGIN: head(last)})
    return answer.status if isinstance(answer, Refusal) else 200


@pytest.mark.rule("WIT-01")
@settings(max_examples=40)
@given(st.integers(0, 39), st.integers(1, 40))
def test_a_request_reads_back_from_its_own_bytes(old: int, new: int) -> None:
    asked = request(min(old, new), new)
    assert AddCheckpoint.parse(asked.encode()) == asked


@pytest.mark.rule("WIT-01")
@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"old 3\n",
        b"old 03\n\n" + note(4),
        b"old -1\n\n" + note(4),
        b"new 3\n\n" + note(4),
        b"old 3\nAAAA\n\n" + note(4),
        b"old 3\n" + b"x" * 44 + b"\n\n" + note(4),
        b"old 3\n\n",
        AddCheckpoint(3, (bytes(32),) * 64, note(4)).encode(),
    ],
)
def test_a_malformed_request_is_none(raw: bytes) -> None:
    with pytest.raises(ProtocolError) as refused:
        AddCheckpoint.parse(raw)
    assert refused.value.reason is Reason.MALFORMED


@pytest.mark.rule("WIT-02")
@settings(max_examples=60)
@given(st.integers(0, 40), st.integers(0, 40))
def test_a_head_that_extends_the_last_is_cosigned(last: int, new: int) -> None:
    last, new = sorted((last, new))
    assert status(request(last, new), last if last else None) == 200
    assert judge(request(last, new), LOGS, {ORIGIN: head(last)}) == head(new)


@pytest.mark.rule("WIT-02")
def test_each_refusal_has_the_status_of_the_specification() -> None:
    stranger = signer("other.example/log")
    assert status(AddCheckpoint(0, (), b"no note"), None) == 400
    assert status(AddCheckpoint(0, (), note(4, by=stranger, origin=stranger.name)), None) == 404
    assert status(AddCheckpoint(0, (), note(4, by=Signer(ORIGIN, stranger.key))), None) == 403
    assert status(AddCheckpoint(9, (), note(4)), None) == 400
    assert status(request(0, 9), 5) == 409
    assert status(request(6, 9), 5) == 409
    assert status(AddCheckpoint(9, (), note(9, FORK)), 9) == 409
    assert status(request(5, 9, FORK), 5) == 422
    assert status(AddCheckpoint(5, (), note(9)), 5) == 422
    assert status(AddCheckpoint(0, (bytes(32),), note(9)), None) == 422
    assert status(AddCheckpoint(5, (bytes(32),), note(5)), 5) == 422


def test_an_unsigned_head_of_a_known_log_is_refused_before_its_sizes_are_looked_at() -> None:
    wrong = AddCheckpoint(30, (), note(4, by=Signer(ORIGIN, signer("x").key)))
    assert status(wrong, 5) == 403


def test_a_conflict_says_the_size_that_was_cosigned() -> None:
    answer = judge(request(0, 9), LOGS, {ORIGIN: head(5)})
    assert isinstance(answer, Refusal)
    assert (answer.body, read_size(answer.body)) == (b"5\n", 5)
    assert [read_size(body) for body in (b"", b"5", b"05\n", b"5\n\n", b"x\n")] == [None] * 5


@settings(max_examples=60)
@given(st.integers(1, 39), st.integers(2, 40))
def test_a_proof_shows_with_what_tree_a_larger_one_begins(old: int, new: int) -> None:
    old, new = sorted((old, new))
    shown = prefix_root(old, new, head(new).root, consistency_proof(LEAVES[:new], old))
    powers = old == new or old & (old - 1) == 0
    assert shown == (None if powers else head(old).root)
    assert prefix_root(old, new, bytes(32), consistency_proof(LEAVES[:new], old)) is None


@settings(max_examples=60)
@given(st.binary(max_size=300))
def test_no_bytes_make_the_parser_fail_otherwise(raw: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        AddCheckpoint.parse(b"old 1\n" + raw)
