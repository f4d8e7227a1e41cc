"""Secrets by reference: sealed files bound to their names, the environment, and what commands say."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from indai.cli.main import cli
from indai.node.keystore import KeyStore
from indai.node.secrets import Secrets
from indai.protocol.errors import IndaiError, InvalidInput, NotFound, Reason

VALUE = "sk-not-to-be-seen-anywhere"
STORE = KeyStore(bytes(range(32)))


def test_a_secret_is_read_by_its_reference_and_lies_sealed(tmp_path: Path) -> None:
    secrets = Secrets(tmp_path, STORE, {"KEY": "from outside"})
    secrets.set("anthropic", "old")
    secrets.set("anthropic", VALUE)
    assert secrets.get("vault:anthropic") == secrets.get("vault:sealed/anthropic") == VALUE
    assert secrets.get("vault:env/KEY") == "from outside"
    path = tmp_path / "secrets" / "anthropic"
    assert VALUE.encode() not in path.read_bytes()
    assert path.stat().st_mode & 0o077 == 0
    assert secrets.names() == ["anthropic"]
    assert VALUE not in repr(secrets)


def test_a_sealed_secret_opens_under_its_own_name_and_key_only(tmp_path: Path) -> None:
    secrets = Secrets(tmp_path, STORE, {})
    secrets.set("one", VALUE)
    (tmp_path / "secrets" / "two").write_bytes((tmp_path / "secrets" / "one").read_bytes())
    for store, reference in ((STORE, "vault:two"), (KeyStore(bytes(32)), "vault:one")):
        with pytest.raises(IndaiError) as raised:
            Secrets(tmp_path, store, {}).get(reference)
        assert raised.value.reason is Reason.NODE_KEY
        assert VALUE not in str(raised.value)


@pytest.mark.parametrize(
    "reference", ["vault:none", "vault:sealed/none", "vault:env/NONE", "vault:env/EMPTY"]
)
def test_what_is_not_there_is_named(tmp_path: Path, reference: str) -> None:
    with pytest.raises(NotFound, match=reference.rpartition("/")[2].removeprefix("vault:")):
        Secrets(tmp_path, STORE, {"EMPTY": ""}).get(reference)


@pytest.mark.parametrize(
    "reference", ["anthropic", "vault:kms/x", "vault:../x", "vault:a/b/c", "vault:", "vault:.x"]
)
def test_what_is_no_reference_is_refused(tmp_path: Path, reference: str) -> None:
    with pytest.raises(InvalidInput):
        Secrets(tmp_path, STORE, {}).get(reference)


def indai(data: Path, *arguments: str, given: str = "") -> tuple[int, str]:
    done = CliRunner().invoke(cli, [*arguments, "--data", str(data)], input=given, prog_name="indai")
    return done.exit_code, done.output


def test_commands_take_the_value_from_stdin_and_never_show_it(tmp_path: Path) -> None:
    status, shown = indai(tmp_path, "secret", "set", "anthropic", given=f"{VALUE}\n")
    assert status == 0
    assert "vault:anthropic" in shown
    assert VALUE not in shown
    assert indai(tmp_path, "secret", "list") == (0, "vault:anthropic\n")
    assert indai(tmp_path, "secret", "set", "empty")[0] == 2
    assert indai(tmp_path, "secret", "set", "anthropic", VALUE)[0] == 2  # a value is no argument
    assert indai(tmp_path, "secret", "remove", "anthropic")[0] == 0
    assert indai(tmp_path, "secret", "remove", "anthropic")[0] == 3


def test_a_configuration_is_checked_without_a_node(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    text = "version: 1\nproviders: {local: {kind: local}}\nmodels: {m: {provider: local, model: x}}\n"
    good.write_text(text + "routes: {default: [m]}\n")
    bad.write_text(text + "routes: {default: [n]}\n")
    runner = CliRunner()
    assert runner.invoke(cli, ["llm", "check", str(good)]).exit_code == 0
    done = runner.invoke(cli, ["llm", "check", str(bad)])
    assert done.exit_code == 2
    assert "there is no model n" in done.output
