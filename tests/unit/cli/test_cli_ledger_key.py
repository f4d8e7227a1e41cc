"""A ledger's next key, signed for on a machine that has the node's rotation key and nothing else."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path

import pytest
from indai.cli.operation_files import read_operation, write_change
from indai.client.handlekeys import claim, create_key_file
from indai.protocol.handlestate import NodeRecord
from indai.protocol.keys import SigningKey
from indai.protocol.logkeys import announce
from indai.protocol.note import Signer
from indai.protocol.operations import parse_operation
from indai.v1 import ledger_pb2

from tests.unit.cli.runs import run, run_json

NODE, LEDGER, THEN = "ind.ai/node-a", "ind.ai/node-a/ledger/2026", 1_700_000_000_000
FORMER, NEXT, OTHER = (Signer(LEDGER, SigningKey(bytes([number]) * 32)) for number in (1, 2, 3))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With the rotation key, and what --prepare writes on the node's machine."""
    rotation = create_key_file(tmp_path / "node.key")
    record = NodeRecord("127.0.0.1:7403", b"", LEDGER, FORMER.verifier.vkey)
    first = claim(NODE, "ind.ai/registry", [rotation], now_ms=THEN, node_record=record)
    history = {"operations": [b64encode(first.raw).decode()], "times_ms": [THEN], "before": ""}
    change = ledger_pb2.PrepareLedgerKeyResponse(
        vkey=FORMER.verifier.vkey,
        next_vkey=NEXT.verifier.vkey,
        announcement=announce(LEDGER, FORMER.key, NEXT.key),
    )
    write_change(str(tmp_path / "change.json"), json.dumps(history).encode(), change)
    return tmp_path


def signing(folder: Path, *more: str) -> tuple[str, ...]:
    files = ("--change", str(folder / "change.json"), "--key", str(folder / "node.key"))
    return ("ledger", "rotate-key", *files, "--sign-only", "-o", str(folder / "signed.json"), *more)


def test_the_operation_that_names_the_next_key_is_signed_without_a_network(folder: Path) -> None:
    assert run_json(*signing(folder), INDAI_DATA=str(folder / "none"))["handle"] == NODE
    state = parse_operation(read_operation(str(folder / "signed.json"))).state
    assert state is not None
    change = announce(LEDGER, FORMER.key, NEXT.key)
    wanted = NodeRecord("127.0.0.1:7403", b"", LEDGER, NEXT.verifier.vkey, change)
    assert NodeRecord.from_proto(state.node_record) == wanted


LIES = {
    "announces another key": {"next_vkey": OTHER.verifier.vkey},
    "another key than the one that it names": {"vkey": OTHER.verifier.vkey},
    "not a signed note": {"announcement": "AAAA"},
    "does not name the key that": {
        "vkey": NEXT.verifier.vkey,
        "next_vkey": OTHER.verifier.vkey,
        "announcement": b64encode(announce(LEDGER, NEXT.key, OTHER.key)).decode(),
    },
    "is damaged": {"times_ms": None},
    "is damaged. Make": {"announcement": 7},
    "is not a file of this kind": {"format": "ind.ai handle history"},
}


@pytest.mark.parametrize("words", LIES)
def test_nothing_is_signed_that_the_ledgers_own_keys_have_not(folder: Path, words: str) -> None:
    path = folder / "change.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | LIES[words]))
    done = run(*signing(folder))
    assert words.partition(". ")[0] in " ".join(done.stderr.split())
    assert done.exit_code != 0
    assert not (folder / "signed.json").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("--prepare", "x", "--finish"),
        ("--change", "x"),
        ("--change", "x", "--sign-only"),
        ("--sign-only", "-o", "x"),
        ("--prepare", "x", "--key", "y"),
        ("-o", "x"),
    ],
)
def test_options_that_do_not_go_together_are_refused(words: tuple[str, ...]) -> None:
    done = run("ledger", "rotate-key", *words)
    assert "do not go together" in " ".join(done.stderr.split())
