"""The demonstration as a user runs it: a process, with every claim it makes checked from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from icalendar import Calendar
from indai.client.audit import audit
from indai.client.network import NetworkPolicy
from playwright.sync_api import expect, sync_playwright

from tests.web.conftest import ARGUMENTS, CHROMIUM, HAVE_CHROMIUM, PHONE

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]
LIMIT_S = 240


@dataclass
class Run:
    """One run of `indai demo --serve`, which all tests of this file look at, in their order."""

    base: Path
    process: subprocess.Popen[str]
    said: dict[str, Any]
    shown: Path

    @property
    def human(self) -> str:
        """What a person read so far."""
        return self.shown.read_text()


@pytest.fixture(scope="module")
def demo(base: Path) -> Iterator[Run]:
    """A run whose scenes are over, and whose nodes are left running."""
    shown, base = base / "shown.txt", base / "data"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("INDAI_")}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    with shown.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "indai.cli.main", "demo", "--serve", "--json", "--data", str(base)],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=environment,
        )
    with process:
        assert process.stdout is not None
        line = process.stdout.readline()  # when all scenes are over; the test's own timeout guards it
        assert line, shown.read_text()[-4000:]
        yield Run(base, process, json.loads(line), shown)
        process.terminate()
        process.wait(LIMIT_S)


def test_everything_held(demo: Run) -> None:
    assert demo.process.poll() is None, demo.human[-4000:]
    assert "NO " not in demo.human


def test_the_last_line_is_one_object_with_what_was_dealt(demo: Run) -> None:
    value = demo.said
    outcomes = [thread["outcome"] for thread in value["threads"]]
    assert outcomes == ["COMMITTED", "COMMITTED", "REJECTED", "COMMITTED", "COMMITTED"]
    assert [thread["interrupted"] for thread in value["threads"]] == [False, False, False, True, True]
    assert value["commitments"] == 4
    assert 0 < value["milliseconds"]["p50"] <= value["milliseconds"]["p95"]
    assert value["audit"]["verdict"] == "VALID"
    assert value["audit"]["verdicts"]["VALID"] == 4


def test_human_output_fits_eighty_columns(demo: Run) -> None:
    assert [line for line in demo.human.splitlines() if len(line) > 80 and str(demo.base) not in line] == []


def test_what_was_kept_can_be_audited_again(demo: Run) -> None:
    base = demo.base
    exports = base / "exports"
    trust = NetworkPolicy.load(base / "registry" / "network.policy").policy
    report = audit([exports / "node-a.jsonl", exports / "node-b.jsonl"], exports / "registry.jsonl", trust)
    assert report.exit_status == 0
    assert report.verdicts["VALID"] == 4


def test_the_flipped_copy_differs_in_one_line(demo: Run) -> None:
    base = demo.base
    one = (base / "exports" / "node-b.jsonl").read_bytes().splitlines()
    other = (base / "exports" / "node-b.flipped.jsonl").read_bytes().splitlines()
    assert sum(a != b for a, b in zip(one, other, strict=True)) == 1


def test_both_calendars_hold_the_same_four_meetings(demo: Run) -> None:
    base = demo.base
    found = []
    for name in ("alice", "bob"):
        calendar = Calendar.from_ical((base / "calendars" / f"{name}.ics").read_bytes())
        ours = [event for event in calendar.events if event.get("X-INDAI-MEETING")]
        found.append(sorted((str(event["UID"]), event.decoded("DTSTART")) for event in ours))
    assert len(found[0]) == 4
    assert found[0] == found[1]


def test_from_the_link_to_the_first_approval_a_phone_needs_at_most_six_clicks(demo: Run) -> None:
    if not HAVE_CHROMIUM:
        pytest.skip(f"there is no browser at {CHROMIUM}: apt-get install chromium")
    clicks = 0
    expect.set_options(timeout=60_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        page = browser.new_page(viewport=PHONE)
        page.goto(demo.said["sign_in"])
        for name in ("Sign in", "Approve"):
            page.get_by_role("button", name=name, exact=True).click()
            clicks += 1
        expect(page.get_by_role("status")).to_have_text("You said yes. It is being signed.")
        expect(page.get_by_text("stands", exact=True)).to_be_visible()
        browser.close()
    assert clicks <= 6


def test_being_told_to_stop_ends_it_well(demo: Run) -> None:
    demo.process.terminate()
    assert demo.process.wait(LIMIT_S) == 0, demo.human[-4000:]


def test_no_process_is_left_behind(demo: Run) -> None:
    base = demo.base
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(base) not in listed


def test_no_secret_is_in_any_log(demo: Run) -> None:
    base = demo.base
    secrets = [path.read_text().strip() for path in base.glob("node-*/tokens/*.token")]
    secrets += [path.read_text().strip() for path in base.glob("node-*/operator.token")]
    assert len(secrets) == 4
    logs = "".join(path.read_text() for path in (base / "logs").iterdir())
    assert [secret for secret in secrets if secret in logs] == []
