"""Points at which a test or the demonstration may kill this process, to show that nothing is lost there.

`INDAI_KILL_AT=NAME` makes the process send itself SIGKILL when it reaches that point; `NAME:3` the third
time.
Unset, which is the case outside tests, a point costs one comparison.
"""

from __future__ import annotations

import os
import signal

# Every point, in the order a negotiation meets them.
POINTS = (
    "before-load",  # taken from the queue, nothing read
    "before-apply",  # decided and signed, nothing stored
    "after-apply",  # stored, nobody told
    "after-offer",  # an OFFER is stored, nobody told
    "before-receipt",  # an ACCEPT has arrived, nothing stored
    "after-commit",  # COMMIT and RECEIPT are stored, nobody told
    "before-calendar",  # committed, calendar file not written
    "after-calendar",  # calendar file written, effect not marked done
)

_name, _left = "", 1


def arm(where: str) -> None:
    """Die at `where`: `NAME`, `NAME:3` for the third time, "" for nowhere."""
    global _name, _left
    _name, _, count = where.partition(":")
    _left = int(count or 1)


arm(os.environ.get("INDAI_KILL_AT", ""))


def reach(point: str) -> None:
    """Die here if told to."""
    global _left
    if point != _name:
        return
    _left -= 1
    if _left <= 0:
        os.kill(os.getpid(), signal.SIGKILL)
