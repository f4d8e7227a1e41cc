"""Where tests keep their files: in memory where there is room, since most of what they wait for is a disk.

One directory for a run and its workers, made before pytest asks for one, traversable so that Postgres' own
account reaches clusters inside when root runs the tests, and removed at the end. What a killed run left is
removed by the next one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import psutil

_VARIABLE = "INDAI_TESTS_SCRATCH"
_MEMORY = Path("/dev/shm")  # noqa: S108 - a directory of our own is made inside
_ROOM_BYTES = 6 << 30


def prepare() -> bool:
    """Set the temporary directory of this process and its children; whether this process made it."""
    known = os.environ.get(_VARIABLE)
    made = known is None
    if known is None:
        parent = _MEMORY if _has_room(_MEMORY) else Path(tempfile.gettempdir())
        _remove_abandoned(parent)
        known = tempfile.mkdtemp(prefix=f"indai-tests-{os.getpid()}-", dir=parent)
        Path(known).chmod(0o711)
        os.environ[_VARIABLE] = known
    os.environ["TMPDIR"] = tempfile.tempdir = known
    return made


def remove() -> None:
    """The run is over."""
    shutil.rmtree(os.environ.pop(_VARIABLE), ignore_errors=True)


def _has_room(parent: Path) -> bool:
    try:
        free = shutil.disk_usage(parent).free
    except OSError:
        return False
    # A full memory disk would take the machine down with it: half of what is really free must remain.
    return os.access(parent, os.W_OK) and min(free, psutil.virtual_memory().available // 2) >= _ROOM_BYTES


def _remove_abandoned(parent: Path) -> None:
    for left in parent.glob("indai-tests-*-*"):
        number = left.name.split("-")[2]
        if number.isdigit() and not psutil.pid_exists(int(number)):
            shutil.rmtree(left, ignore_errors=True)
