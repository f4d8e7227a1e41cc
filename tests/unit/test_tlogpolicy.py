"""Log policies: whom to believe, and when a quorum is reached."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.protocol.checkpoint import Checkpoint, sign_checkpoint
from indai.protocol.errors import InvalidInput, ProtocolError, Reason
from indai.protocol.keys import SigningKey
from indai.protocol.merkle import EMPTY_ROOT
from indai.protocol.note import Signer
from indai.protocol.tlogpolicy import TlogPolicy, parse_policy


def signer(name: str, time: int | None = None) -> Signer:
    return Signer(name, SigningKey.from_seed(hashlib.sha256(name.encode()).digest()), time)


LOG, OTHER_LOG = signer("ind.ai/registry"), signer("other.example/registry")
X = [signer(f"x{number}.example", time=number) for number in (1, 2, 3)]
Y = [signer(f"y{number}.example", time=10 * number) for number in (1, 2)]
VKEYS = {made.name.split(".")[0].upper(): made.verifier.vkey for made in (*X, *Y)}
WITNESSES = "".join(f"witness {name} {vkey}\n" for name, vkey in VKEYS.items())
TEXT = f"""# two organisations
log {LOG.verifier.vkey} https://ind.ai/log
log {OTHER_LOG.verifier.vkey}

{WITNESSES}
group  Xs 2\tX1 X2 X3
group Ys any Y1 Y2
  group both all Xs Ys
quorum both
"""
POLICY = parse_policy(TEXT.encode())
HEAD = Checkpoint(LOG.name, 0, EMPTY_ROOT)


def test_a_policy_reads_back_from_its_own_text() -> None:
    assert parse_policy(POLICY.format().encode()) == POLICY
    assert [log.name for log in POLICY.logs] == ["ind.ai/registry", "other.example/registry"]
    assert POLICY.groups["Xs"].threshold == 2
    assert (POLICY.groups["Ys"].threshold, POLICY.groups["both"].threshold) == (1, 2)


@pytest.mark.rule("LOG-06")
@settings(max_examples=40)
@given(st.sets(st.sampled_from([*X, *Y])))
def test_a_checkpoint_is_believed_exactly_when_its_cosigners_reach_the_quorum(cosigners: set[Signer]) -> None:
    raw = sign_checkpoint(HEAD, [LOG, *cosigners])
    enough = len(cosigners & set(X)) >= 2 and len(cosigners & set(Y)) >= 1
    if enough:
        head, cosignatures = POLICY.open(raw)
        assert head == HEAD
        assert len(cosignatures) == len(cosigners)
        return
    with pytest.raises(ProtocolError, match="quorum") as refused:
        POLICY.open(raw)
    assert refused.value.reason is Reason.BAD_CHECKPOINT


def test_the_time_of_a_head_is_the_latest_a_whole_quorum_vouches_for() -> None:
    _, cosignatures = POLICY.open(sign_checkpoint(HEAD, [LOG, *X, *Y]))
    assert POLICY.time(cosignatures) == 2
    assert POLICY.time(cosignatures[1:]) == 2
    assert POLICY.time(cosignatures[:2]) is None
    assert TlogPolicy(POLICY.logs).time(cosignatures) is None


@pytest.mark.rule("LOG-04")
def test_a_log_the_policy_does_not_name_is_not_believed() -> None:
    with pytest.raises(ProtocolError) as refused:
        POLICY.open(sign_checkpoint(HEAD, [signer("unknown.example"), *X, *Y]))
    assert refused.value.reason is Reason.BAD_SIGNATURE
    with pytest.raises(ProtocolError):
        POLICY.open(sign_checkpoint(HEAD, [OTHER_LOG, *X, *Y]))


def test_without_a_quorum_the_logs_word_is_enough() -> None:
    policy = parse_policy(f"log {LOG.verifier.vkey}\nquorum none\n".encode())
    assert policy.open(sign_checkpoint(HEAD, [LOG]))[0] == HEAD


W = VKEYS["X1"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no quorum"),
        (f"log {LOG.verifier.vkey}\n", "no quorum"),
        ("quorum none\nquorum none\n", "Line 2.*second quorum"),
        ("quorum q\n", "Line 1.*not defined"),
        ("\n\nfrob x\n", "Line 3.*not log, witness"),
        ("log\n", "not log, witness"),
        (f"log {LOG.verifier.vkey} url more\n", "not log, witness"),
        ("log nonsense\n", "Line 1.*verifier key"),
        (f"log {W}\n", "type 4 does not fit"),
        (f"witness w {LOG.verifier.vkey}\n", "type 1 does not fit"),
        (f"witness none {W}\n", "taken"),
        (f"witness w {W}\nwitness w {VKEYS['X2']}\n", "taken"),
        (f"witness w {W}\nwitness v {W}\n", "twice"),
        (f"log {LOG.verifier.vkey}\nlog {LOG.verifier.vkey}\n", "twice"),
        (f"witness w {W}\ngroup g any\n", "not log, witness"),
        (f"witness w {W}\ngroup g 0 w\n", "not any, all or a number"),
        (f"witness w {W}\ngroup g 01 w\n", "not any, all or a number"),
        (f"witness w {W}\ngroup g 2 w\n", "can never be reached"),
        (f"witness w {W}\ngroup g any w w\n", "member twice"),
        (f"witness w {W}\ngroup g any w\ngroup h any w\n", "member twice"),
        (f"witness w {W}\ngroup g any none\n", "not defined"),
        ("group g any g\n", "not defined"),
        (f"log \udcff+{W.split('+', 1)[1]}\n", "cannot name a key"),
        ("quorum none\r\n", "control character"),
        ("quorum none\x00\n", "control character"),
    ],
)
def test_a_broken_policy_is_refused_with_its_line(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        parse_policy(text.encode("utf-8", "surrogateescape"))


def test_names_are_opaque_octets() -> None:
    policy = parse_policy(b"witness \xff\xfe " + W.encode() + b"\nquorum \xff\xfe\n")
    assert policy.witnesses[policy.quorum].vkey == W


def test_an_oversized_policy_is_refused() -> None:
    for raw in (b"#" * 1_000_001, b"\n" * 2_000):
        with pytest.raises(InvalidInput, match="at most"):
            parse_policy(raw)


@given(st.binary(max_size=80))
def test_arbitrary_bytes_are_a_policy_or_invalid_input(raw: bytes) -> None:
    try:
        policy = parse_policy(raw)
    except InvalidInput:
        return
    assert policy.quorum == "none"
