"""Handles from the command line: keys in files, signing without a network, getting a handle back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.test_commands import running_node
from tests.unit.cli.runs import run

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


class Here:
    """Commands in this process, on one data directory: a process for each would take most of the time."""

    def __init__(self, data: Path) -> None:
        self.data = data

    def json(self, *arguments: str, status: int = 0) -> Any:
        """The one object a command prints."""
        done = run(*arguments, "--json", INDAI_DATA=str(self.data))
        assert done.exit_code == status, done.output
        (line,) = done.stdout.splitlines()
        return json.loads(line)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    with running_node(tmp_path_factory.mktemp("handles")) as node:
        yield Here(node.data)


def claim(shell: Here, handle: str, folder: Path) -> dict[str, Any]:
    """A handle with two rotation keys: `top.key`, meant to be offline, above the one it was claimed with."""
    made = shell.json("handle", "claim", handle)
    top = shell.json("handle", "key", str(folder / "top.key"))
    low = shell.json("handle", "key", str(folder / "low.key"))
    first = made["rotation_key_file"]
    keys = ("--rotation-key", top["public"], "--rotation-key", low["public"])
    shell.json("handle", "update", handle, *keys, "--key", first)
    return {"top": str(folder / "top.key"), "low": str(folder / "low.key"), **made}


def test_a_stolen_key_is_overruled_by_one_signed_offline(shell: Here, tmp_path: Path) -> None:
    keys = claim(shell, "ind.ai/carol", tmp_path)
    thief = shell.json("handle", "key", str(tmp_path / "thief.key"))
    shell.json("handle", "update", "ind.ai/carol", "--rotation-key", thief["public"], "--key", keys["low"])
    history = shell.json("handle", "history", "ind.ai/carol", "-o", str(tmp_path / "carol.history"))
    assert [each["operation"] for each in history["operations"]] == ["CREATE", "UPDATE", "UPDATE"]

    # On the machine with the key: no data directory, no registry.
    offline = Here(tmp_path / "nothing")
    signed = str(tmp_path / "recover.json")
    signing = ("--history", str(tmp_path / "carol.history"), "--sign-only", "-o", signed)
    made = offline.json("handle", "recover", "ind.ai/carol", "--to", "1", "--key", keys["top"], *signing)
    assert (made["file"], made["index"]) == (signed, None)
    assert shell.json("handle", "history", "ind.ai/carol")["operations"][-1]["operation"] == "UPDATE"

    assert shell.json("handle", "submit", signed)["operation"] == "RECOVER"
    after = shell.json("handle", "history", "ind.ai/carol")
    assert [each["nullified"] for each in after["operations"]] == [False, False, True, False]
    assert thief["key"] in after["barred"]
    again = ("handle", "update", "ind.ai/carol", "--rotation-key", thief["public"], "--key", keys["top"])
    assert shell.json(*again, status=2)["error"]["reason"] == "INVALID_OPERATION"


def test_a_handle_is_delegated_and_passed_on_without_its_old_agent(shell: Here, tmp_path: Path) -> None:
    keys = claim(shell, "ind.ai/dora", tmp_path)
    sub = ("handle", "claim", "ind.ai/dora/work", "--key", keys["top"])
    assert shell.json(*sub)["handle"] == "ind.ai/dora/work"
    grant = ("handle", "delegate", "ind.ai/dora", "ind.ai/dora/work", "--key", keys["top"])
    assert shell.json(*grant, "--kind", "meet", "--budget", "EUR=5000")["operation"] == "DELEGATE"
    assert shell.json(*grant, "--end")["operation"] == "DELEGATE"
    assert shell.json(*grant, status=2)["error"]["hint"]

    heir = shell.json("handle", "key", str(tmp_path / "heir.key"))
    shell.json("handle", "transfer", "ind.ai/dora", "--to", heir["public"], "--key", keys["top"])
    # The former owner's agent lives here: an heir has to come from another node.
    here = shell.json("handle", "claim", "ind.ai/dora", "--key", str(tmp_path / "heir.key"), status=4)
    assert (here["error"]["reason"], "another node" in here["error"]["hint"]) == ("PIN_MISMATCH", True)
    history = shell.json("handle", "history", "ind.ai/dora")
    assert (bool(history["ended"]), history["earlier"]) == (True, [])


def test_a_retired_handle_cannot_be_claimed_again(shell: Here, tmp_path: Path) -> None:
    made = shell.json("handle", "claim", "ind.ai/edgar")
    shell.json("handle", "retire", "ind.ai/edgar", "--key", made["rotation_key_file"])
    assert shell.json("handle", "claim", "ind.ai/edgar", status=3)["error"]["reason"] == "HANDLE_TAKEN"


def test_an_agent_key_is_rotated_with_a_signature_made_elsewhere(shell: Here, tmp_path: Path) -> None:
    made = shell.json("handle", "claim", "ind.ai/frida")
    signed = str(tmp_path / "rotate.json")
    key = ("--key", made["rotation_key_file"])
    shell.json("handle", "rotate", "ind.ai/frida", *key, "--sign-only", "-o", signed)
    shell.json("handle", "submit", signed)
    keys = shell.json("handle", "resolve", "ind.ai/frida")["agent_keys"]
    assert [bool(each["revoked"]) for each in keys] == [True, False]
    live = keys[1]["key"]
    done = shell.json("handle", "rotate", "ind.ai/frida", *key, "--old", live)
    assert done["revoked"] == live


def test_wrong_files_are_named(shell: Here, tmp_path: Path) -> None:
    (tmp_path / "not.json").write_text("{}")
    for command in (
        ("handle", "submit", str(tmp_path / "not.json")),
        ("handle", "retire", "ind.ai/alice", "--sign-only"),
        ("handle", "transfer", "ind.ai/alice", "--to", "nonsense"),
        ("handle", "update", "ind.ai/alice"),
    ):
        assert shell.json(*command, status=2)["error"]["reason"] == "INVALID_ARGUMENT"
