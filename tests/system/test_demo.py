"""The demonstration as a user runs it: a process, with every claim it makes checked from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from icalendar import Calendar
from indai.client.audit import audit
from indai.client.network import NetworkPolicy

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]
LIMIT_S = 240


@pytest.fixture(scope="module")
def demo(base: Path) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """One run for all tests: (its directory, what it said)."""
    base = base / "data"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("INDAI_")}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-m", "indai.cli.main", "demo", "--json", "--data", str(base)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env=environment,
        check=False,
    )
    return base, done


Run = tuple[Path, subprocess.CompletedProcess[str]]


def test_everything_held(demo: Run) -> None:
    _, done = demo
    assert done.returncode == 0, done.stderr[-4000:]
    assert "NO " not in done.stderr


def test_the_last_line_is_one_object_with_what_was_dealt(demo: Run) -> None:
    _, done = demo
    value = json.loads(done.stdout.splitlines()[-1])
    outcomes = [thread["outcome"] for thread in value["threads"]]
    assert outcomes == ["COMMITTED", "COMMITTED", "REJECTED", "COMMITTED", "COMMITTED"]
    assert [thread["interrupted"] for thread in value["threads"]] == [False, False, False, True, True]
    assert value["commitments"] == 4
    assert 0 < value["milliseconds"]["p50"] <= value["milliseconds"]["p95"]
    assert value["audit"]["verdict"] == "VALID"
    assert value["audit"]["verdicts"]["VALID"] == 4


def test_human_output_fits_eighty_columns(demo: Run) -> None:
    base, done = demo
    assert [line for line in done.stderr.splitlines() if len(line) > 80 and str(base) not in line] == []


def test_what_was_kept_can_be_audited_again(demo: Run) -> None:
    base, _ = demo
    exports = base / "exports"
    trust = NetworkPolicy.load(base / "registry" / "network.policy").policy
    report = audit([exports / "node-a.jsonl", exports / "node-b.jsonl"], exports / "registry.jsonl", trust)
    assert report.exit_status == 0
    assert report.verdicts["VALID"] == 4


def test_the_flipped_copy_differs_in_one_line(demo: Run) -> None:
    base, _ = demo
    one = (base / "exports" / "node-b.jsonl").read_bytes().splitlines()
    other = (base / "exports" / "node-b.flipped.jsonl").read_bytes().splitlines()
    assert sum(a != b for a, b in zip(one, other, strict=True)) == 1


def test_both_calendars_hold_the_same_four_meetings(demo: Run) -> None:
    base, _ = demo
    found = []
    for name in ("alice", "bob"):
        calendar = Calendar.from_ical((base / "calendars" / f"{name}.ics").read_bytes())
        ours = [event for event in calendar.events if event.get("X-INDAI-MEETING")]
        found.append(sorted((str(event["UID"]), event.decoded("DTSTART")) for event in ours))
    assert len(found[0]) == 4
    assert found[0] == found[1]


def test_no_process_is_left_behind(demo: Run) -> None:
    base, _ = demo
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(base) not in listed


def test_no_secret_is_in_any_log(demo: Run) -> None:
    base, _ = demo
    secrets = [path.read_text().strip() for path in base.glob("node-*/tokens/*.token")]
    secrets += [path.read_text().strip() for path in base.glob("node-*/operator.token")]
    assert len(secrets) == 4
    logs = "".join(path.read_text() for path in (base / "logs").iterdir())
    assert [secret for secret in secrets if secret in logs] == []
