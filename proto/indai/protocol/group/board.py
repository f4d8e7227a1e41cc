"""What a coordinator knows while it looks for a slot, and what it can do next: values, scores, tie-breaks.

An algorithm (`indai.protocol.group.algorithms`) is a pure function from a board to its next step: any two can
be compared on the same boards, and none can do anything but ask, settle or give up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from indai.protocol.ballots import Ordinal
from indai.protocol.forms import MINUTE_MS
from indai.protocol.kinds.base import Window
from indai.protocol.kinds.meet import MeetWish

STEP_MS = 15 * MINUTE_MS  # slots begin on quarters of an hour, where a window lets them
MAX_CANDIDATES = 2_000


@dataclass(frozen=True, slots=True)
class Ask:
    """A question to one member: windows within these, or with `ballot` one word for each of these slots."""

    member: str
    ballot: bool
    windows: tuple[Window, ...]


@dataclass(frozen=True, slots=True)
class Said:
    """A member's answer `mid` to `ask`: windows best first, or one ordinal for each slot."""

    ask: Ask
    mid: bytes
    windows: tuple[Window, ...] = ()
    ordinals: tuple[Ordinal, ...] = ()


@dataclass(frozen=True, slots=True)
class Board:
    """`wish` is the coordinator's own, within what its owner and policy allow; `members` are subjects.

    `said` has the answers in the order of their questions, whatever order they came in.
    """

    thread: bytes
    wish: MeetWish
    members: tuple[str, ...]
    said: tuple[Said, ...] = ()

    @property
    def length_ms(self) -> int:
        """Of the meeting."""
        return self.wish.duration_minutes * MINUTE_MS

    @property
    def seed(self) -> bytes:
        """Breaks ties. Every answer has a nonce of its member's, so nobody can choose it alone (GRP-05)."""
        mids = sorted(each.mid for each in self.said)
        return hashlib.sha256(b"ind.ai/group/tie/v1\n" + self.thread + b"".join(mids)).digest()

    def called(self) -> list[Said]:
        """Answers that have windows."""
        return [each for each in self.said if not each.ask.ballot]

    def voted(self) -> list[Said]:
        """Ballots."""
        return [each for each in self.said if each.ask.ballot]


@dataclass(frozen=True, slots=True)
class Round:
    """Ask all of these at once, and go on when they have answered."""

    asks: tuple[Ask, ...]


@dataclass(frozen=True, slots=True)
class Settle:
    """Propose this slot to be signed by all."""

    slot: Window


@dataclass(frozen=True, slots=True)
class Fail:
    """There is none. `members` are those without whom there might be one; empty where it is nobody alone."""

    reason: str
    members: tuple[str, ...] = ()


Step: TypeAlias = Round | Settle | Fail
NO_COMMON_SLOT = "NO_COMMON_SLOT"


class Algorithm(Protocol):
    """How a coordinator finds a slot."""

    def next(self, board: Board) -> Step:
        """What to do, now that every question of the board is answered."""


def tie(seed: bytes, slot: Window) -> bytes:
    """Where this slot stands among equals."""
    return hashlib.sha256(seed + slot.start_ms.to_bytes(8, "big")).digest()


def intersect(one: Sequence[Window], other: Sequence[Window], length_ms: int) -> tuple[Window, ...]:
    """What lies in both and has room for the meeting, in the order of `one`."""
    common = []
    for a in one:
        for b in other:
            start, end = max(a.start_ms, b.start_ms), min(a.end_ms, b.end_ms)
            if end - start >= length_ms:
                common.append(Window(start, end))
    return tuple(dict.fromkeys(common))


def slots_in(windows: Iterable[Window], length_ms: int) -> list[Window]:
    """Slots on quarters of an hour in these windows, and at the beginning of each."""
    starts: dict[int, None] = {}
    for window in windows:
        last = window.end_ms - length_ms
        if window.start_ms <= last:
            starts[window.start_ms] = None
        first = -(-window.start_ms // STEP_MS) * STEP_MS
        starts |= dict.fromkeys(range(first, last + 1, STEP_MS))
        if len(starts) >= MAX_CANDIDATES:
            break
    return [Window(start, start + length_ms) for start in list(starts)[:MAX_CANDIDATES]]


def apart(slots: Sequence[Window], most: int) -> tuple[Window, ...]:
    """The first few that don't overlap, filled up with others: a choice, not one time said five times."""
    chosen: list[Window] = []
    for slot in slots:
        if len(chosen) < most and all(s.end_ms <= slot.start_ms or slot.end_ms <= s.start_ms for s in chosen):
            chosen.append(slot)
    rest = (slot for slot in slots if slot not in chosen)
    return (*chosen, *(slot for slot, _ in zip(rest, range(most - len(chosen)), strict=False)))


def elect(board: Board) -> Step:
    """The slot that nobody refuses: the best worst word, then the best sum, then the hash (GRP-05)."""
    words: dict[Window, list[Ordinal]] = {}
    for said in board.voted():
        for slot, ordinal in zip(said.ask.windows, said.ordinals, strict=True):
            words.setdefault(slot, []).append(ordinal)
    seed = board.seed
    good = [slot for slot, said in words.items() if Ordinal.NO not in said]
    if good:
        return Settle(min(good, key=lambda slot: (max(words[slot]), sum(words[slot]), tie(seed, slot))))
    against = {said.ask.member: _without(board.voted(), said) for said in board.voted()}
    return Fail(NO_COMMON_SLOT, tuple(member for member, alone in against.items() if alone))


def _without(ballots: Sequence[Said], left_out: Said) -> bool:
    """Whether the others have a slot in common: then this member alone stands in the way."""
    others = [each for each in ballots if each is not left_out]
    if Ordinal.NO not in left_out.ordinals or not others:
        return Ordinal.NO in left_out.ordinals
    refused = {
        s for o in others for s, word in zip(o.ask.windows, o.ordinals, strict=True) if word is Ordinal.NO
    }
    return any(slot not in refused for slot in left_out.ask.windows)
