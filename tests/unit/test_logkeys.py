"""A log's next key: what makes it believed, and each thing without which it is not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from indai.protocol.checkpoint import Checkpoint, sign_checkpoint
from indai.protocol.errors import IndaiError, ProtocolError, Reason
from indai.protocol.keys import SigningKey
from indai.protocol.logkeys import KeyChange, announce, follow, read_announcement
from indai.protocol.merkle import inclusion_proof, leaf_hash, root
from indai.protocol.note import Signer, sign_note
from indai.protocol.registryleaf import KIND, LOG_KEY_KIND, RegistryLeaf, encode_registry_leaf
from indai.protocol.tlogpolicy import Group, TlogPolicy

LOG = "ind.ai/registry"
NOW_S = 1_790_000_000


def key(name: str) -> SigningKey:
    return SigningKey.from_seed(name.encode().ljust(32, b"."))


OLD, NEW, THIEF = key("old"), key("new"), key("thief")
WITNESSES = [Signer(f"w{number}", key(f"w{number}"), time=NOW_S) for number in range(3)]
POLICY = TlogPolicy(
    (Signer(LOG, OLD).verifier,),
    {witness.name: witness.verifier for witness in WITNESSES},
    {"two": Group(2, ("w0", "w1", "w2"))},
    "two",
)


def leaf(body: bytes, kind: int = LOG_KEY_KIND) -> bytes:
    return encode_registry_leaf(RegistryLeaf(NOW_S * 1000, bytes(32), body, kind))


def change(
    announcement: bytes, *, log: SigningKey = OLD, cosigners: int = 2, covered: bool = True
) -> KeyChange:
    """The announcement as the last but one of five leaves, under a head of `log` and some witnesses."""
    leaves = [b"a", b"b", b"c", announcement if covered else b"x", b"d"]
    hashes = [leaf_hash(one) for one in leaves]
    signers = [Signer(LOG, log), *WITNESSES[:cosigners]]
    note = sign_checkpoint(Checkpoint(LOG, 5, root(hashes)), signers)
    return KeyChange(3, announcement, tuple(inclusion_proof(hashes, 3)), note)


def refused(one: KeyChange, policy: TlogPolicy = POLICY) -> Reason:
    with pytest.raises(ProtocolError) as caught:
        follow(policy, one)
    return caught.value.reason


@pytest.mark.rule("REG-43", "REG-44")
def test_an_announced_key_is_believed_after_the_old_one_and_the_quorum_said_so() -> None:
    head, policy = follow(POLICY, change(leaf(announce(LOG, OLD, NEW))))
    assert head.size == 5
    assert policy == replace(POLICY, logs=(Signer(LOG, NEW).verifier,))


@pytest.mark.rule("REG-44")
def test_without_the_quorum_an_announced_key_is_not_believed() -> None:
    announced = leaf(announce(LOG, OLD, NEW))
    assert refused(change(announced, cosigners=1)) is Reason.BAD_CHECKPOINT
    no_quorum = replace(POLICY, quorum="none")
    assert refused(change(announced), no_quorum) is Reason.BAD_CHECKPOINT


@pytest.mark.rule("REG-44")
def test_a_head_of_another_key_or_without_the_leaf_announces_nothing() -> None:
    announced = leaf(announce(LOG, OLD, NEW))
    assert refused(change(announced, log=NEW)) is Reason.BAD_SIGNATURE
    assert refused(change(announced, covered=False)) is Reason.BAD_PROOF


@pytest.mark.rule("REG-43")
def test_a_key_that_the_key_so_far_did_not_announce_is_not_believed() -> None:
    """A thief who can write into the log's database, and even one who has an older key of it."""
    assert refused(change(leaf(announce(LOG, THIEF, NEW)))) is Reason.BAD_SIGNATURE
    _, policy = follow(POLICY, change(leaf(announce(LOG, OLD, NEW))))
    stale = change(leaf(announce(LOG, OLD, THIEF)), log=OLD)
    assert refused(stale, policy) is Reason.BAD_SIGNATURE


@pytest.mark.rule("REG-43")
def test_an_announcement_needs_both_signatures_and_its_one_form() -> None:
    good = announce(LOG, OLD, NEW)
    assert read_announcement(good) == (Signer(LOG, OLD).verifier, Signer(LOG, NEW).verifier)
    text = good.decode().partition("\n\n")[0] + "\n"
    for wrong in (
        sign_note(text, [Signer(LOG, OLD)]),
        sign_note(text, [Signer(LOG, NEW)]),
        sign_note(text.replace("log-key/v1", "log-key/v2"), [Signer(LOG, OLD), Signer(LOG, NEW)]),
        sign_note(text + "more\n", [Signer(LOG, OLD), Signer(LOG, NEW)]),
        announce(LOG, OLD, OLD),
        b"no note",
    ):
        with pytest.raises(IndaiError):
            read_announcement(wrong)
    assert refused(change(leaf(good, KIND))) is Reason.MALFORMED
