"""The commands against a running node, each as a process of its own, as a user types them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from indai.cli import up

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]
# All that it listens on: a second node of another worker, or somebody's own, has the ports people type.
LISTEN = [
    option
    for port in ("registry", "owner", "peer", "http", "a2a")
    for option in ("--listen", f"{port}=127.0.0.1:0")
]
BOB = """\
version: 1
timezone: Asia/Kolkata
rules:
  - id: short
    allow: meet
    with: verified
    duration: { max: 30m }
  - id: long
    ask: meet
    with: verified
    duration: { min: 31m }
  - id: no-quick-chats
    deny: meet
    duration: { max: 14m }
"""


@dataclass(frozen=True, slots=True)
class Shell:
    """Runs `indai` on one data directory."""

    data: Path

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """One command."""
        return subprocess.run(
            [sys.executable, "-m", "indai.cli.main", *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            env=_environment() | {"INDAI_DATA": str(self.data)},
            check=False,
        )

    def json(self, *arguments: str, status: int = 0) -> Any:
        """The one object a command prints."""
        done = self.run(*arguments, "--json")
        assert done.returncode == status, done.stderr
        (line,) = done.stdout.splitlines()
        return json.loads(line)


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("INDAI_")}
    return kept | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TZ": "UTC"}


@contextmanager
def running_node(base: Path) -> Iterator[Shell]:
    """A node on ports of its own, with its data below `base`."""
    # Postgres' own account may pass, so that the cluster lies here when root runs the tests.
    (base / "home").mkdir(mode=0o711)
    arguments = ("up", "--json", "--data", str(base / "home"), *LISTEN)
    with (
        (base / "up.log").open("w") as log,
        subprocess.Popen(
            [sys.executable, "-m", "indai.cli.main", *arguments],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=_environment(),
        ) as node,
    ):
        assert node.stdout is not None
        said = node.stdout.readline()
        roles = json.loads(said or "{}").get("roles")
        assert roles, said + (base / "up.log").read_text()
        typed = {str(up.BASE_PORT + number) for number in up.PORTS.values()}
        assert not typed & {address.rpartition(":")[2] for address in roles.values()}
        try:
            yield Shell(base / "home")
        finally:
            node.send_signal(signal.SIGTERM)
            status = node.wait(120)
        assert status == 0, (base / "up.log").read_text()[-4000:]
        assert not (base / "home" / "run.json").exists()


@pytest.fixture(scope="module")
def shell(base: Path) -> Iterator[Shell]:
    """A node with alice and bob on it."""
    with running_node(base) as shell:
        (base / "bob.yaml").write_text(BOB)
        shell.json("handle", "claim", "ind.ai/alice")
        shell.json("handle", "claim", "ind.ai/bob", "--policy", str(base / "bob.yaml"))
        yield shell


def _meet(shell: Shell, length: str, title: str, status: int = 0) -> Any:
    when = ("--when", "within 3 days", "--about", title, "--as", "ind.ai/alice")
    return shell.json("meet", "ind.ai/bob", "--for", length, *when, status=status)


def test_a_meeting_is_agreed_shown_and_proved(shell: Shell, tmp_path: Path) -> None:
    thread = _meet(shell, "30m", "Lunch")
    assert thread["state"] == "COMMITTED"
    assert thread["in_calendar"]

    listed = shell.json("threads", "--as", "ind.ai/bob")["threads"]
    assert [each["state"] for each in listed if each["thread"] == thread["thread"]] == ["COMMITTED"]
    detail = shell.json("threads", thread["thread"][:14], "--as", "ind.ai/bob")
    assert [each["move"] for each in detail["messages"]] == ["PROPOSE", "OFFER", "ACCEPT", "RECEIPT"]
    assert detail["journal"]
    events = shell.json("calendar", "show", "--as", "ind.ai/bob")["events"]
    assert [event["start"] for event in events if event["agreed"]] == [thread["start"]]

    first = shell.json("ledger", "checkpoint", "--node")["vkey"]
    changed = shell.json("ledger", "rotate-key")
    head = shell.json("ledger", "checkpoint", "--node")
    assert (changed["former"], changed["vkey"]) == (first, head["vkey"])
    assert first != head["vkey"]
    _signed_elsewhere(shell, tmp_path, head["vkey"])
    head = shell.json("ledger", "checkpoint", "--node")
    ledger = shell.json("ledger", "export", "--node", "-o", str(tmp_path / "node.jsonl"))
    assert (ledger["size"], ledger["root"]) == (head["size"], head["root"])
    shell.json("registry", "export", "-o", str(tmp_path / "registry.jsonl"))
    report = shell.json("audit", str(tmp_path / "node.jsonl"), "--registry", str(tmp_path / "registry.jsonl"))
    assert report["verdicts"]["VALID"] >= 1
    assert report["exit_status"] == 0

    receipt = shell.json(
        "receipt", "get", thread["thread"], "--as", "ind.ai/bob", "-o", str(tmp_path / "lunch.json")
    )
    mirror = ("--registry", str(tmp_path / "registry.jsonl"), "--network", str(shell.data / "network.policy"))
    shown = shell.json("receipt", "verify", receipt["file"], *mirror)
    assert sorted(shown["parties"]) == ["ind.ai/alice", "ind.ai/bob"]


def _signed_elsewhere(shell: Shell, folder: Path, vkey: str) -> None:
    """The ledger's key is changed once more, by a rotation key that is on another machine."""
    change, signed, there = str(folder / "change.json"), str(folder / "signed.json"), Shell(folder / "there")
    (own,) = (shell.data / "offline").glob("*home*")
    own.rename(key := folder / "node.key")
    prepared = shell.json("ledger", "rotate-key", "--prepare", change)
    assert (prepared["former"], prepared["vkey"] != vkey) == (vkey, True)
    words = ("--change", change, "--key", str(key), "--sign-only", "-o", signed)
    assert there.json("ledger", "rotate-key", *words)["handle"] == prepared["node"]
    assert shell.json("ledger", "rotate-key", "--finish")["vkey"] == vkey  # nothing is changed yet
    shell.json("handle", "submit", signed)
    assert shell.json("ledger", "rotate-key", "--finish")["vkey"] == prepared["vkey"]
    key.rename(own)


def test_an_owner_says_when_they_like_to_meet_and_hands_out_an_invitation(
    shell: Shell, tmp_path: Path
) -> None:
    said = shell.json(
        *("calendar", "prefer", "--as", "ind.ai/alice", "--hours", "mon-sun 0-24", "--before", "5m"),
        *("--travel", "office|airport=1h", "--on-change", "ignore"),
    )
    assert (said["before_minutes"], said["on_change"], len(said["hours"])) == (5, "ignore", 7)
    assert shell.json("calendar", "prefer", "--clear", "--as", "ind.ai/alice")["hours"] == []

    thread = _meet(shell, "20m", "Invited")
    path = tmp_path / "meeting.ics"
    names = ("calendar", "invite", thread["thread"][:14], "--as", "ind.ai/bob", "--output", str(path))
    assert shell.json(*names, "--mail", "x@example.org")["method"] == "request"
    assert "To: x@example.org" in path.read_text()
    assert shell.json("calendar", "changes", "--as", "ind.ai/bob")["changes"] == []


def test_a_calendar_server_that_is_not_there_is_said_and_nothing_is_kept(
    shell: Shell, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_text("hunter2\n")
    words = ("--user", "bob", "--secret-file", str(secret), "--as", "ind.ai/bob")
    away = shell.json("calendar", "add", "http://127.0.0.1:9/", *words, status=6)
    assert away["error"]["reason"] == "UNREACHABLE"
    assert "hunter2" not in json.dumps(away)
    checked = shell.json("calendar", "check", "--as", "ind.ai/bob")
    assert (checked["ok"], len(checked["calendars"])) == (True, 1)


def test_a_question_is_approved_by_its_code_once(shell: Shell) -> None:
    thread = _meet(shell, "1h", "Plan the trip")
    assert thread["state"] == "ON_HOLD"
    (question,) = shell.json("inbox", "--as", "ind.ai/bob")["approvals"]
    assert question["thread"] == thread["thread"]
    assert shell.json("approve", question["code"], "--as", "ind.ai/bob")["state"] == "COMMITTED"
    assert shell.json("inbox", "--as", "ind.ai/bob")["approvals"] == []
    # Said again it is answered as before; the contrary comes too late.
    assert shell.json("approve", question["code"], "--as", "ind.ai/bob")["thread"] == thread["thread"]
    assert shell.json("decline", question["code"], "--as", "ind.ai/bob", status=3)["error"]["hint"]


def test_what_came_to_nothing_has_a_status_that_a_script_sees(shell: Shell) -> None:
    assert _meet(shell, "10m", "Quick question", status=3)["state"] == "REJECTED"
    as_alice = ("--as", "ind.ai/alice")
    assert shell.json("book", "ind.ai/bob", "lamp", *as_alice, status=3)["state"] == "REJECTED"
    assert (
        shell.json("pay", "to", "ind.ai/bob", "10", "--for", "tea", *as_alice, status=3)["state"]
        == "REJECTED"
    )


def test_a_question_can_be_declined(shell: Shell) -> None:
    _meet(shell, "90m", "Quarterly numbers")
    (question,) = shell.json("inbox", "--as", "ind.ai/bob")["approvals"]
    assert shell.json("decline", question["code"], "--as", "ind.ai/bob")["state"] == "REJECTED"


def test_a_handle_is_resolved_rotated_and_taken_once(shell: Shell) -> None:
    before = shell.json("handle", "resolve", "ind.ai/alice")
    rotated = shell.json("handle", "rotate", "ind.ai/alice")
    after = shell.json("handle", "resolve", "ind.ai/alice")
    assert rotated["revoked"] == before["agent_keys"][0]["key"]
    assert [key["key"] for key in after["agent_keys"] if not key["revoked"]] == [rotated["key"]]
    assert after["subject"] == before["subject"]
    assert shell.json("handle", "claim", "ind.ai/alice", status=3)["error"]["reason"] == "HANDLE_TAKEN"
    assert shell.json("handle", "resolve", "ind.ai/nobody-here", status=3)["error"]["reason"] == "NOT_FOUND"
    assert _meet(shell, "15m", "After the rotation")["state"] == "COMMITTED"


def test_a_policy_is_set_and_the_same_again_changes_nothing(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "alice.yaml"
    path.write_text(BOB.replace("Kolkata", "Tokyo"))
    assert shell.json("policy", "set", str(path), "--as", "ind.ai/alice")["changed"] is True
    assert shell.json("policy", "set", str(path), "--as", "ind.ai/alice")["changed"] is False
    assert shell.json("calendar", "show", "--as", "ind.ai/alice")["time_zone"] == "Asia/Tokyo"


def test_a_model_is_asked_and_what_it_cost_is_shown(shell: Shell) -> None:
    alice = ("--as", "ind.ai/alice")
    answer = shell.json("llm", "ask", "hello", *alice)
    assert (answer["model"], answer["finish"], answer["cost_micros"]) == ("local", "done", 0)
    assert answer["text"].startswith("Hello!")
    shown = shell.run("llm", "ask", "hello", *alice).stdout
    assert shown.startswith("Hello! What can I do for you?\n")
    assert [call["model"] for call in shell.json("llm", "calls", *alice)["calls"]] == ["local", "local"]
    assert shell.json("llm", "calls", "--as", "ind.ai/bob")["calls"] == []
    assert [day["calls"] for day in shell.json("llm", "cost", "--tenant", "personal")["costs"]] == [2]
    shell.json("llm", "limit", "5.00", "--owner", "ind.ai/alice", "--per", "day")
    assert [each["limit_micros"] for each in shell.json("llm", "limits", *alice)["limits"]] == [5_000_000]


def test_a_concierge_is_imported_and_its_persona_changed_by_a_proposal(shell: Shell, tmp_path: Path) -> None:
    acme, desk = ("--tenant", "acme"), tmp_path / "desk"
    (tmp_path / "acme.yaml").write_text("kind: tenant\nslug: acme\nname: Acme\n")
    shell.json("tenant", "apply", str(tmp_path / "acme.yaml"), *acme)
    (tmp_path / "all.yaml").write_text(shell.json("binding", "catalogue")["yaml"])
    shell.json("binding", "apply", str(tmp_path / "all.yaml"), *acme)
    shell.json("agent", "example", str(desk))
    assert [each["slug"] for each in shell.json("agent", "import", str(desk), *acme)["changed"]] == [
        "desk"
    ] * 4
    assert "When a visitor" in shell.json("agent", "show", "desk", *acme)["config"]
    (tmp_path / "change.yaml").write_text("formality: formal\n")
    drafted = shell.json(
        "persona", "propose", "desk", str(tmp_path / "change.yaml"), "--reason", "cold", *acme
    )
    (found,) = shell.json("persona", "proposals", *acme)["proposals"]
    assert (found["proposal"], found["base_version"]) == (drafted["proposal"], 1)
    assert "+formality: formal" in found["diff"]
    accept = ("persona", "accept", found["proposal"], *acme, "--version")
    assert shell.json(*accept, "2", status=3)["error"]["reason"] == "ILLEGAL_MOVE"
    assert shell.json(*accept, "1")["version"] == 2
    assert "+formality: formal" in shell.json("persona", "diff", "desk", "1", *acme)["diff"]
    assert shell.json("persona", "reject", found["proposal"], *acme, status=3)["error"]["reason"]


def test_something_is_booked_and_paid_for(shell: Shell, tmp_path: Path) -> None:
    rules = BOB + "  - id: trade\n    allow: [pay, book]\n    with: verified\n"
    (tmp_path / "trade.yaml").write_text(rules)
    for who in ("ind.ai/alice", "ind.ai/bob"):
        shell.json("policy", "set", str(tmp_path / "trade.yaml"), "--as", who)
    shell.json("stock", "set", "lamp", "2", "--price", "1250", "--as", "ind.ai/bob")
    booked = shell.json("book", "ind.ai/bob", "lamp", "--quantity", "2", "--as", "ind.ai/alice")
    assert (booked["state"], booked["kind"]) == ("COMMITTED", "book")
    (item,) = shell.json("stock", "list", "--as", "ind.ai/bob")["items"]
    assert (item["units"], item["held"]) == (2, 2)

    shell.json("pay", "account", "--address", "upi:bob@okbank", "--as", "ind.ai/bob")
    agreed = shell.json("pay", "ind.ai/bob", "₹2,500", "--for", "Two lamps", "--as", "ind.ai/alice")
    assert (agreed["commitment_state"], agreed["amount_minor"]) == ("PENDING", 250_000)
    code = tmp_path / "bill.svg"
    link = shell.json("pay", "link", agreed["thread"], "--out", str(code), "--as", "ind.ai/alice")
    assert f"&tr={link['reference']}&" in link["upi_link"]
    assert "<svg" in code.read_text()
    shown = shell.run("pay", "link", agreed["thread"], "--as", "ind.ai/alice").stdout
    assert "₹2,500.00" in shown
    mandate = shell.json("mandate", "add", "ind.ai/bob", "500", "--as", "ind.ai/alice")
    assert shell.json("mandate", "revoke", mandate["mandate_id"][:8], "--as", "ind.ai/alice")["revoke_time"]


def test_an_owner_must_say_who_they_are_when_several_live_here(shell: Shell) -> None:
    assert "ind.ai/alice, ind.ai/bob" in shell.json("threads", status=2)["error"]["message"]


def test_private_files_can_be_read_by_nobody_else(shell: Shell) -> None:
    private = [*shell.data.glob("offline/*"), *shell.data.glob("tokens/*"), shell.data / "operator.token"]
    assert len(private) == 6
    assert [path for path in private if path.stat().st_mode & 0o077] == []


def test_human_output_of_a_live_node_fits_eighty_columns(shell: Shell) -> None:
    for words in (
        ("threads",),
        ("stock", "list"),
        ("mandate", "list"),
        ("pay", "account"),
        ("inbox",),
        ("journal",),
        ("calendar", "show"),
        ("calendar", "check"),
        ("llm", "providers"),
    ):
        done = shell.run(*words, "--as", "ind.ai/bob")
        assert done.returncode == 0
        assert [line for line in done.stdout.splitlines() if len(line) > 80] == []
        assert "\x1b" not in done.stdout
