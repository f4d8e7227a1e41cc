"""What goes wrong at a shell: one sentence, the next step, a status; as JSON too."""

from __future__ import annotations

import json
import os
import socket
from contextlib import nullcontext
from pathlib import Path

import pytest
from indai.cli import up
from indai.cli.demo import processes
from indai.cli.errors import CheckFailed
from indai.cli.home import Home, Run
from indai.cli.meet import check_outcome
from indai.protocol.errors import NotFound, Refused
from indai.v1 import owner_pb2

from tests.unit.cli.runs import run, run_json

HERE = str(os.getpid())


@pytest.mark.parametrize(
    "handle", ["alice", "ind.ai/Ålice", "ind.ai/a b", "ind.ai//x", "ind.ai/al", "1.2.3.4/alice"]
)
def test_a_malformed_handle_is_named(tmp_path: Path, handle: str) -> None:
    result = run("meet", handle, "--for", "30m", "--about", "x", "--data", str(tmp_path))
    assert result.exit_code == 2
    assert "is not a handle" in result.stderr
    assert "Next:" in result.stderr


def test_a_reserved_name_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    result = run("handle", "claim", "ind.ai/admin", "--data", str(tmp_path))
    assert result.exit_code == 2
    assert "reserved" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("threads",),
        ("inbox",),
        ("journal",),
        ("meet", "ind.ai/bob", "--for", "30m", "--about", "x"),
        ("handle", "resolve", "ind.ai/bob"),
        ("ledger", "export", "--node"),
        ("registry", "export"),
        ("calendar", "show"),
    ],
)
def test_without_a_node_every_command_says_how_to_start_one(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    result = run(*arguments, "--data", str(tmp_path / "none"))
    assert result.exit_code == 3
    assert "No node is running" in result.stderr
    assert "indai up" in result.stderr
    assert not (tmp_path / "none").exists()


def test_with_json_an_error_is_one_object_too(tmp_path: Path) -> None:
    error = run_json("threads", "--data", str(tmp_path))["error"]
    assert error["reason"] == "NOT_FOUND"
    assert "indai up" in error["hint"]


def test_a_run_file_of_a_dead_process_counts_for_nothing(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write(home.run_file, json.dumps(Run(2**22 + 1, "ind.ai/home", {}).to_json()))
    with pytest.raises(NotFound, match="No node is running"):
        home.running()
    home.write(home.run_file, json.dumps(Run(os.getpid(), "ind.ai/home", {}).to_json()))
    assert home.running().pid == os.getpid()


def test_a_damaged_run_file_is_named(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write(home.run_file, "{")
    with pytest.raises(NotFound, match=r"run\.json cannot be read"):
        home.running()


def test_an_unreachable_node_is_named_with_its_address(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write(home.run_file, json.dumps(Run(os.getpid(), "ind.ai/home", {"owner": "127.0.0.1:1"}).to_json()))
    home.write(home.token_file("ind.ai/alice"), "indai_x\n")
    result = run("threads", "--data", str(tmp_path))
    assert result.exit_code == 6
    assert "127.0.0.1:1" in result.stderr


def test_the_only_token_is_the_default_and_several_must_be_told_apart(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write(home.token_file("ind.ai/alice"), "t")
    assert home.owner("") == "ind.ai/alice"
    home.write(home.token_file("ind.ai/bob/work"), "t")
    assert home.owners() == ["ind.ai/alice", "ind.ai/bob/work"]
    with pytest.raises(Refused, match="Several handles live here"):
        home.owner("")
    assert home.owner("IND.AI/Bob") == "ind.ai/bob"


def test_private_files_are_private(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write(home.token_file("ind.ai/alice"), "t")
    assert home.token_file("ind.ai/alice").stat().st_mode & 0o077 == 0
    assert home.token_file("ind.ai/alice").parent.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--listen", "owner"), "does not say where"),
        (("--listen", "door=127.0.0.1:1"), "does not say where"),
        (("--registry", "nowhere"), "is not an address"),
        (("--handle", "x"), "is not a handle"),
        (("--tls-cert", "chain.pem"), "needs its key"),
        (("--network", "missing.policy"), "cannot be read"),
    ],
)
def test_up_refuses_what_cannot_be_before_it_starts(
    tmp_path: Path, option: tuple[str, str], words: str
) -> None:
    result = run("up", "--data", str(tmp_path / "d"), *option)
    assert result.exit_code == 2
    assert words in result.stderr.replace("\n", " ")
    assert not (tmp_path / "d").exists()


def test_up_refuses_a_second_process_on_the_same_data(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write(home.run_file, json.dumps(Run(os.getppid(), "ind.ai/home", {}).to_json()))
    result = run("up", "--data", str(tmp_path))
    assert result.exit_code == 3
    assert str(os.getppid()) in result.stderr


def test_a_missing_export_is_named() -> None:
    result = run("audit", "nothing.jsonl")
    assert result.exit_code == 2
    assert "nothing.jsonl" in result.stderr


def test_a_file_that_is_no_export_is_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("hello\n")
    result = run("audit", str(path))
    assert result.exit_code == 2
    assert "UNREADABLE" in result.output


def test_a_usage_error_is_an_object_too_when_json_is_wanted() -> None:
    result = run("approve", "--json")
    assert result.exit_code == 2
    error = json.loads(result.stdout)["error"]
    assert "CODE" in error["message"]
    assert error["hint"] == "see: indai approve --help"


def test_an_unknown_command_has_usage_and_status_2() -> None:
    result = run("frobnicate")
    assert result.exit_code == 2
    assert "No such command" in result.stderr


def test_a_port_that_may_be_any_is_chosen_when_the_registry_listens_and_never_before() -> None:
    """Found free earlier, it would be anybody's until Postgres has started."""
    told = up._listen(frozenset({"registry"}), ("registry=127.0.0.1:0",), up.BASE_PORT)
    assert told == {"registry": "127.0.0.1:0"}


def test_a_second_node_on_a_machine_shares_no_port_with_the_first() -> None:
    second = up._listen(frozenset({"node", "llm", "memory", "policy", "ledger", "edge"}), (), 7500)
    first = up._listen(frozenset({"registry", "node", "llm", "memory", "policy", "ledger", "edge"}), (), 7400)
    assert set(first) == {"registry", *second}
    assert not set(first.values()) & set(second.values())
    assert (first["registry"], second["owner"]) == ("127.0.0.1:7401", "127.0.0.1:7502")


def test_the_demonstration_takes_no_port_that_the_kernel_gives_to_connections() -> None:
    ports = processes.free_ports(9)
    assert len(set(ports)) == 9
    assert max(ports) < processes._kernels_ports()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", ports[3]))
        assert not set(processes.free_ports(9)) & set(ports)


@pytest.mark.parametrize("state", owner_pb2.ThreadState.values())
def test_a_script_goes_on_where_it_was_agreed_or_is_still_open(
    state: owner_pb2.ThreadState.ValueType,
) -> None:
    nothing = {
        owner_pb2.THREAD_STATE_REJECTED,
        owner_pb2.THREAD_STATE_WITHDRAWN,
        owner_pb2.THREAD_STATE_LAPSED,
    }
    with pytest.raises(CheckFailed) if state in nothing else nullcontext() as ended:
        check_outcome(owner_pb2.Thread(state=state))
    assert ended is None or ended.value.status == 3
