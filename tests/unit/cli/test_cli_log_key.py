"""`indai registry rotate-log-key`: the key is made first, shown to witnesses, and then released."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from indai.client.network import NetworkPolicy
from indai.node.keyring import Keyring
from indai.node.keystore import open_keystore
from indai.protocol.note import Signer

from tests.unit.cli.runs import run, run_json

ORIGIN = "ind.ai/registry"


@pytest.fixture
def registry_data(tmp_path: Path) -> Path:
    keyring = Keyring(tmp_path / "keys", open_keystore(tmp_path, {}, create=True))
    keys = keyring.log_keys(ORIGIN, "ind.ai/clock")
    NetworkPolicy.of_registry(keys.verifier, keys.time_verifier).dump(tmp_path / "network.policy")
    return tmp_path


def later_keys(data: Path) -> list[str]:
    keys = Keyring(data / "keys", open_keystore(data, os.environ)).later_log_keys(ORIGIN)
    return [Signer(ORIGIN, key).verifier.vkey for key in keys]


def test_a_key_is_made_once_and_released_when_it_is_announced(registry_data: Path) -> None:
    where = ("registry", "rotate-log-key", "--data", str(registry_data))
    made = run_json(*where)
    assert run_json(*where)["vkey"] == made["vkey"]
    assert later_keys(registry_data) == []
    assert run_json(*where, "--announce") == {**made, "released": True}
    assert later_keys(registry_data) == [made["vkey"]]
    again = run_json(*where)
    run_json(*where, "--announce")
    assert later_keys(registry_data) == [made["vkey"], again["vkey"]]


def test_without_a_prepared_key_nothing_is_announced(registry_data: Path) -> None:
    result = run("registry", "rotate-log-key", "--announce", "--data", str(registry_data))
    assert result.exit_code
    assert "prepare it first" in result.output
    assert later_keys(registry_data) == []
