"""Three ways to find a slot for several; `docs/groups.md` compares them on cost, messages and leakage.

`windows`: call everybody for windows at once, vote on the slots that most of them cover. `narrowing`: ask one
after the other for windows within what those before have left. `slots`: vote at once on the coordinator's
own slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from indai.protocol.group.board import (
    NO_COMMON_SLOT,
    Algorithm,
    Ask,
    Board,
    Fail,
    Round,
    Said,
    Settle,
    Step,
    apart,
    elect,
    intersect,
    slots_in,
    tie,
)
from indai.protocol.kinds.base import Window

MAX_VOTED = 5
MAX_OWN_SLOTS = 8
DEFAULT = "windows"


@dataclass(frozen=True, slots=True)
class WindowsFirst:
    """Two rounds, and one to sign: the slots voted on are those that the most members' windows cover."""

    most: int = MAX_VOTED

    def next(self, board: Board) -> Step:
        """Call, vote, settle."""
        if not board.said:
            return Round(tuple(Ask(member, False, board.wish.windows) for member in board.members))
        if board.voted():
            return elect(board)
        called = board.called()
        spans = list(board.wish.windows)
        spans += [window for said in called for window in said.windows]
        slots = [slot for slot in slots_in(spans, board.length_ms) if _inside(slot, board.wish.windows)]
        seed = board.seed
        slots.sort(key=lambda slot: (-_covering(slot, called), _places(slot, called), tie(seed, slot)))
        if not slots:
            return Fail(NO_COMMON_SLOT)
        # A member reveals few windows and may have others: what no window covers is still voted on.
        return _vote(board, apart(slots, self.most))


@dataclass(frozen=True, slots=True)
class Narrowing:
    """One member after the other, each within what is left. Fewest messages, most rounds; each learns what
    those before it have in common."""

    def next(self, board: Board) -> Step:
        """The next member, or the slot."""
        left: tuple[Window, ...] = board.wish.windows
        for said in board.called():
            left = intersect(said.windows, left, board.length_ms)
            if not left:
                return Fail(NO_COMMON_SLOT, (said.ask.member,))
        asked = {said.ask.member for said in board.called()}
        order = sorted(board.members, key=lambda member: (member in asked, board.members.index(member)))
        if order[0] not in asked:
            return Round((Ask(order[0], False, left),))
        seed = board.seed
        return Settle(min(slots_in(left, board.length_ms), key=lambda slot: tie(seed, slot)))


@dataclass(frozen=True, slots=True)
class SlotsFirst:
    """One round, and one to sign: the coordinator names slots of its own, and nobody names a window."""

    most: int = MAX_OWN_SLOTS

    def next(self, board: Board) -> Step:
        """Vote, settle."""
        if board.voted():
            return elect(board)
        slots = slots_in(board.wish.windows, board.length_ms)
        if not slots:
            return Fail(NO_COMMON_SLOT)
        return _vote(board, _spread(apart(slots, len(slots)), self.most))


ALGORITHMS: dict[str, Algorithm] = {DEFAULT: WindowsFirst(), "narrowing": Narrowing(), "slots": SlotsFirst()}


def _vote(board: Board, slots: tuple[Window, ...]) -> Round:
    return Round(tuple(Ask(member, True, slots) for member in board.members))


def _inside(slot: Window, windows: Sequence[Window]) -> bool:
    return any(w.start_ms <= slot.start_ms and slot.end_ms <= w.end_ms for w in windows)


def _covering(slot: Window, called: Sequence[Said]) -> int:
    return sum(_inside(slot, said.windows) for said in called)


def _places(slot: Window, called: Sequence[Said]) -> int:
    """How far down the members' lists the slot stands, in all."""
    return sum(
        next((place for place, window in enumerate(said.windows) if _inside(slot, (window,))), 0)
        for said in called
    )


def _spread(slots: Sequence[Window], most: int) -> tuple[Window, ...]:
    """So many out of all, evenly."""
    if len(slots) <= most:
        return tuple(slots)
    return tuple(slots[index * len(slots) // most] for index in range(most))
