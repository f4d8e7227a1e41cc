"""Where a process spends its CPU: stacks sampled on its own CPU clock (setitimer(2), ITIMER_PROF).

For each slice of CPU that a thread of the process burns (a tick of the kernel, mostly 4 ms), the main thread
notes which part of the program it is in: the innermost frame that belongs to a part of `PARTS`. Work of other
threads, gRPC's own and those that write calendars, shows where the main thread happens to be, mostly waiting
in the event loop.
"""

from __future__ import annotations

import signal
from collections import Counter
from types import FrameType

INTERVAL_S = 0.001
DEPTH = 48
# First match wins, from the innermost frame outwards. A part is named by a piece of the file's path.
PARTS = (
    ("/indai/node/calendar/", "calendar"),
    ("/indai/node/effects", "calendar"),
    ("/indai/policy/", "policy"),
    ("/indai/client/decisions", "policy"),
    ("/indai/node/host", "policy"),
    ("/indai/node/policies", "policy"),
    ("/indai/protocol/keys", "signatures"),
    ("/indai/protocol/envelope", "signatures"),
    ("/nacl/", "signatures"),
    ("/asyncpg/", "database driver"),
    ("/indai/storage/", "database driver"),
    ("/grpc/", "gRPC"),
    ("/indai/client/channels", "gRPC"),
    ("/indai/node/service", "gRPC"),
    ("/indai/node/inprocess", "gRPC"),
    ("/indai/client/", "registry client"),
    ("/indai/protocol/", "protocol rules"),
    ("/indai/tlog/", "log signing"),
    ("/indai/ledger/", "ledger entries"),
    ("/indai/node/owner_service", "owner's calls"),
    ("/indai/node/views", "owner's calls"),
    ("/indai/node/app", "event loop, gRPC core"),
    ("/indai/node/", "engine"),
    ("/indai/registry/", "registry"),
)
OTHER = "event loop, gRPC core"


class Sampler:
    """Counts from `start` to `stop`; `stacks` has the innermost frames, for a closer look."""

    def __init__(self) -> None:
        self.parts: Counter[str] = Counter()
        self.stacks: Counter[str] = Counter()

    def start(self) -> None:
        """Forget what was counted and begin. Call it in the main thread."""
        self.parts.clear()
        self.stacks.clear()
        signal.signal(signal.SIGPROF, self._note)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)

    def stop(self) -> None:
        """No more samples."""
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _note(self, _: int, frame: FrameType | None) -> None:
        stack: list[str] = []
        part = OTHER
        while frame is not None and len(stack) < DEPTH:
            path = frame.f_code.co_filename
            stack.append(f"{path.rpartition('/')[2]}:{frame.f_code.co_qualname}")
            if part is OTHER:
                part = next((name for piece, name in PARTS if piece in path), OTHER)
            frame = frame.f_back
        self.parts[part] += 1
        self.stacks[";".join(reversed(stack))] += 1
