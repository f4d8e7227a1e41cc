"""The whole suite: `python -m tests [pytest's arguments]`.

What failed is tried once more, alone, as CPython's own test runner does with `--rerun`. A test that passes
then was disturbed by what ran beside it: the run ends well, and its last lines name the test, since either it
or what it tests has a fault to be found. More than a few failures are no accident and are not tried again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FEW = 3  # tests of one run that may be tried again
_FAILED = Path(".pytest_cache/v/cache/lastfailed")
_PYTEST = [sys.executable, "-m", "pytest"]


def main(arguments: list[str]) -> int:
    """pytest's exit status, after the second try if there was one."""
    status = subprocess.call([*_PYTEST, *arguments])
    failed = _failed()
    if status != 1 or not 0 < len(failed) <= FEW:
        return status
    print(f"\n{len(failed)} failed; trying again, alone:", *failed, sep="\n  ", flush=True)
    status = subprocess.call([*_PYTEST, *arguments, "-n", "0", "--last-failed", "--lfnf=none"])
    if status == 0:
        print("UNSTEADY, failed beside the others and passed alone:", *failed, sep="\n  ", flush=True)
    return status


def _failed() -> list[str]:
    try:
        return sorted(json.loads(_FAILED.read_text()))
    except (OSError, ValueError):
        return []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
