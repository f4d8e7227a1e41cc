"""Answers of reads, kept for a minute by who asked and by their canonical arguments."""

from __future__ import annotations

from collections import OrderedDict

from indai.tools.values import Caller, Outcome

KEPT_MS = 60_000
MAX_KEPT = 1_024

Key = tuple[str, ...]


class ReadCache:
    """In this process only. An act of the same owner empties the owner's part: what was read may be old."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, tuple[int, Outcome]] = OrderedDict()

    def get(self, key: Key, now_ms: int) -> Outcome | None:
        """What was answered less than a minute ago."""
        found = self._kept.get(key)
        if found is None:
            return None
        at_ms, outcome = found
        if not 0 <= now_ms - at_ms < KEPT_MS:
            del self._kept[key]
            return None
        return outcome

    def put(self, key: Key, outcome: Outcome, now_ms: int) -> None:
        """Keep an answer; the oldest goes when there are too many."""
        self._kept[key] = now_ms, outcome
        self._kept.move_to_end(key)
        while len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)

    def forget(self, caller: Caller) -> None:
        """Something has changed for this caller's owner."""
        whose = (caller.tenant, caller.owner)
        for key in [key for key in self._kept if key[:2] == whose]:
            del self._kept[key]


def key_of(caller: Caller, name: str, digest: bytes) -> Key:
    """Whose answer it is: nobody else is given it, nor is the same person at another door. `digest` binds
    binding, session and arguments."""
    return caller.tenant, caller.owner, caller.person, caller.door, name, digest.hex()
