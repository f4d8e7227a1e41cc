"""A few seconds of the hammer, and what it finds when the ledger is broken on purpose."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


def hammer(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-m", "tests.hammer", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_no_acknowledged_append_is_lost_to_a_kill() -> None:
    done = hammer("--cycles", "40")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "'writer': 40, 'postgres': 4" in done.stdout
    assert done.stdout.startswith("seed ")


@pytest.mark.parametrize(
    ("fault", "found"),
    [("answer-before-commit", "was acknowledged at"), ("no-replay-row", "one entry stands at")],
)
def test_the_hammer_finds_a_ledger_that_is_broken(fault: str, found: str) -> None:
    done = hammer("--cycles", "200", "--fault", fault)  # ends at the first that it finds
    assert done.returncode == 1, done.stdout + done.stderr
    assert found in done.stdout
