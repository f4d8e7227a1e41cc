"""A log's next key, announced in a leaf of the log itself.

The announcement is a signed note (C2SP signed-note) of four lines, with the signatures of both keys:

    ind.ai/log-key/v1
    <origin>
    <verifier key so far>
    <verifier key from now on>

Who trusts the key so far trusts the next one when the leaf is in the log under a head that the key so far
has signed and the policy's quorum has cosigned. So neither a stolen key alone nor whoever can write into the
log's database can name a successor, as long as the quorum is independent of them. The first such head is the
last one of the key so far: what it signs of a larger tree counts for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from indai.protocol.checkpoint import Checkpoint
from indai.protocol.errors import IndaiError, ProtocolError, Reason
from indai.protocol.keys import SigningKey
from indai.protocol.merkle import leaf_hash, verify_inclusion
from indai.protocol.note import ED25519, Signer, Verifier, open_note, parse_note, parse_vkey, sign_note
from indai.protocol.registryleaf import LOG_KEY_KIND, RegistryLeaf, parse_registry_leaf
from indai.protocol.tlogpolicy import NO_QUORUM, TlogPolicy

_FORMAT = "ind.ai/log-key/v1"


@dataclass(frozen=True, slots=True)
class KeyChange:
    """What shows that a log has another key: leaf `index`, its inclusion proof in the head of `note`."""

    index: int
    leaf: bytes
    proof: tuple[bytes, ...]
    note: bytes


def announce(origin: str, old: SigningKey, new: SigningKey) -> bytes:
    """The body of the leaf by which the log `origin` names `new` as its next key."""
    signers = [Signer(origin, old), Signer(origin, new)]
    vkeys = [signer.verifier.vkey for signer in signers]
    return sign_note("".join(f"{line}\n" for line in (_FORMAT, origin, *vkeys)), signers)


def read_announcement(body: bytes) -> tuple[Verifier, Verifier]:
    """The key so far and the next, both signatures verified; raises ProtocolError(MALFORMED or
    BAD_SIGNATURE)."""
    lines = parse_note(body)[0].split("\n")
    if len(lines) != 5 or lines[0] != _FORMAT or lines[4]:
        raise _malformed("it has not its four lines")
    try:
        old, new = parse_vkey(lines[2]), parse_vkey(lines[3])
    except IndaiError as error:
        raise _malformed(error.message.rstrip(".")) from None
    if old.name != lines[1] or new.name != lines[1] or {old.algorithm, new.algorithm} != {ED25519}:
        raise _malformed("both keys are of the log that it names, and Ed25519")
    if old == new or {one.verifier for one in open_note(body, [old, new]).verified} != {old, new}:
        message = "The announcement of a log's next key lacks the signature of one of the two."
        raise ProtocolError(Reason.BAD_SIGNATURE, message, rule="REG-43")
    return old, new


def next_key(leaf: RegistryLeaf, current: Verifier) -> Verifier:
    """The key that the leaf announces as the successor of `current`; raises ProtocolError(REG-43)."""
    if leaf.kind != LOG_KEY_KIND:
        raise _malformed("the leaf is not an announcement")
    old, new = read_announcement(leaf.body)
    if old != current:
        message = f"The next key of {current.name} is announced by a key that is not its own now."
        raise ProtocolError(Reason.BAD_SIGNATURE, message, rule="REG-43")
    return new


def follow(policy: TlogPolicy, change: KeyChange) -> tuple[Checkpoint, TlogPolicy]:
    """The verified head that covers the announcement, and `policy` with the announced key.

    `policy` has one log and a quorum. Raises ProtocolError: BAD_SIGNATURE for a head or an announcement that
    the policy's key did not sign, BAD_CHECKPOINT where the quorum is not reached, BAD_PROOF.
    """
    if policy.quorum == NO_QUORUM:
        message = "A log's next key counts only under a quorum, and this policy has none."
        raise ProtocolError(Reason.BAD_CHECKPOINT, message, rule="REG-44")
    head, _ = policy.open(change.note)
    verify_inclusion(leaf_hash(change.leaf), change.index, head.size, change.proof, head.root)
    new = next_key(parse_registry_leaf(change.leaf), policy.logs[0])
    return head, replace(policy, logs=(new,))


def announced_by(leaf: bytes) -> Verifier:
    """The key whose successor the leaf names, to choose what to follow; raises ProtocolError."""
    return read_announcement(parse_registry_leaf(leaf).body)[0]


def _malformed(why: str) -> ProtocolError:
    message = f"This does not announce a log's next key: {why}."
    return ProtocolError(Reason.MALFORMED, message, rule="REG-43")
