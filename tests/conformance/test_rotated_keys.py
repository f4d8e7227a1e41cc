"""A receipt from 2026 checked in 2031, with files alone: its node has had two other ledger keys since, and a
clock of five years later moves nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from indai.client.audit.findings import Findings
from indai.client.audit.registry import KeyHistory, replay_registry
from indai.client.receipts import verify_receipt
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.leaf import LeafKind
from indai.protocol.tlogpolicy import parse_policy

FOLDER = Path(__file__).parent / "rotated"
NODE = "ind.ai/node-b"
SIGNED_MS = 1_790_000_000_004
FIVE_YEARS_MS = 5 * 365 * 86_400_000


def history() -> KeyHistory:
    findings = Findings()
    trust = parse_policy((FOLDER / "network.policy").read_bytes())
    found, _ = replay_registry(FOLDER / "registry.jsonl", trust, findings, lambda *_: None)
    assert found is not None
    assert findings.found == []
    return found


@pytest.mark.parametrize("name", ["receipt.cose", "receipt.tlog-proof"])
def test_a_receipt_holds_after_its_key_was_rotated(name: str) -> None:
    keys = list(history().ledgers(NODE))
    assert len({vkey for _, vkey in keys}) == 3
    leaf = (FOLDER / "leaf.bin").read_bytes()
    proved = verify_receipt((FOLDER / name).read_bytes(), leaf, keys)
    assert (proved.log, proved.index, proved.size) == (f"{NODE}/ledger/2026", 2, 3)
    assert (proved.leaf.kind, proved.leaf.time_ms) == (LeafKind.COMMITMENT, SIGNED_MS)
    assert proved.leaf.opens((FOLDER / "opening.bin").read_bytes(), (FOLDER / "commitment.bin").read_bytes())


@pytest.mark.parametrize("name", ["receipt.cose", "receipt.tlog-proof"])
def test_the_newest_key_alone_does_not_prove_it(name: str) -> None:
    newest = list(history().ledgers(NODE))[-1:]
    with pytest.raises(ProtocolError) as caught:
        verify_receipt((FOLDER / name).read_bytes(), (FOLDER / "leaf.bin").read_bytes(), newest)
    assert caught.value.reason is Reason.BAD_SIGNATURE
    with pytest.raises(ProtocolError) as caught:
        verify_receipt((FOLDER / name).read_bytes(), (FOLDER / "leaf.bin").read_bytes(), [])
    assert caught.value.reason is Reason.UNKNOWN_KEY
