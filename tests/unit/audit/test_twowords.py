"""Two words of one offerer on one commitment, as a file that proves it alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from indai.client.audit.findings import Findings
from indai.client.audit.registry import KeyHistory, replay_registry
from indai.client.audit.twowords import TwoWords
from indai.client.exports import IN
from indai.protocol.errors import InvalidInput, ProtocolError

from .worlds import ALICE, BOB, NOW, Deal, World


def contradicting(*, refuses: bool) -> tuple[World, bytes]:
    """Bob gave alice's node another word than his own node shows."""
    world = World()
    deal = Deal(world)
    accepted = deal.run()
    world.a.messages.pop()
    word = deal.refuse(accepted.mid) if refuses else deal.stands(accepted.mid, 7, NOW + 4)
    world.a.say(ALICE, deal.thread, word, IN)
    return world, accepted.mid


def history(folder: Path, world: World) -> KeyHistory:
    found, _ = replay_registry(folder / "registry.jsonl", world.trust, Findings(), lambda *_: None)
    assert found is not None
    return found


@pytest.mark.parametrize("refuses", [True, False])
def test_the_audit_hands_out_a_proof_that_stands_alone(refuses: bool, tmp_path: Path) -> None:
    world, mid = contradicting(refuses=refuses)
    (raw,) = [found.content for found in world.audit(tmp_path).proofs]
    proof = TwoWords.parse(raw)
    assert proof.verify(history(tmp_path, world)) == (BOB, mid)
    for part in ("one", "other"):
        whole = getattr(proof, part)
        changed = whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:]
        parts = {"one": proof.one, "other": proof.other} | {part: changed}
        with pytest.raises(ProtocolError):
            TwoWords(**parts).verify(history(tmp_path, world))


def test_words_that_agree_prove_nothing(tmp_path: Path) -> None:
    world, _ = contradicting(refuses=True)
    (raw,) = [found.content for found in world.audit(tmp_path).proofs]
    proof, known = TwoWords.parse(raw), history(tmp_path, world)
    for one, other in (
        (proof.one, proof.one),
        (proof.other, proof.one),
        (proof.one, world.a.messages[0].envelope),
        (proof.one, world.a.messages[1].envelope),
    ):
        with pytest.raises(ProtocolError):
            TwoWords(one, other).verify(known)
    for damaged in (b"", raw + b" ", raw.replace(b"v1", b"v2")):
        with pytest.raises(InvalidInput):
            TwoWords.parse(damaged)


def test_an_honest_audit_proves_nothing(tmp_path: Path) -> None:
    world = World()
    Deal(world).run()
    assert world.audit(tmp_path).proofs == ()
