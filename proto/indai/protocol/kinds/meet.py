"""`meet`: a time that both have, reserved by each side when it signs.

Either side may offer. A meeting is cancelled alone until it starts and due at its end, unless its terms
differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from indai.protocol.forms import DAY_MS, MINUTE_MS, check_span, check_text, malformed
from indai.protocol.kinds.base import Holding, Kind, Life, Slot, Terms, Window, Wish, meets
from indai.v1 import intents_pb2

MAX_TITLE = 200
MAX_PLACE = 200
MAX_UID = 255
MAX_MINUTES = 1_440
MAX_WINDOWS = 32
MAX_DUE_MS = 366 * DAY_MS


@dataclass(frozen=True, slots=True)
class MeetTerms(Terms):
    """A concrete meeting, [start_ms, end_ms), with the UID of the iCalendar event both sides write.

    `cancel_until_ms` 0: either party may cancel alone until the start; `due_ms` 0: due at the end.
    """

    kind: ClassVar[str] = "meet"
    pb = intents_pb2.MeetTerms
    start_ms: int
    end_ms: int
    title: str
    place: str
    ical_uid: str
    cancel_until_ms: int = 0
    due_ms: int = 0

    def about(self) -> str:
        """Its title."""
        return self.title

    def check(self) -> None:
        """NEG-02 or NEG-04."""
        check_text("title", self.title, MAX_TITLE, required=True)
        check_text("place", self.place, MAX_PLACE)
        check_text("iCalendar UID", self.ical_uid, MAX_UID, required=True)
        check_span("NEG-04", "The slot", self.start_ms, self.end_ms)
        if self.end_ms - self.start_ms > MAX_MINUTES * MINUTE_MS:
            raise malformed("NEG-04", f"The slot is longer than {MAX_MINUTES} minutes")
        if not 0 <= self.cancel_until_ms <= self.end_ms:
            raise malformed("NEG-04", "The time for cancelling alone lies after the meeting")
        if self.due_ms and not self.end_ms <= self.due_ms <= self.end_ms + MAX_DUE_MS:
            raise malformed("NEG-04", "The meeting is due before its end or more than 366 days after it")

    def gist(self) -> tuple[object, ...]:
        """Slot and place: a new title or UID is no new offer."""
        return 0, self.place, frozenset((Window(self.start_ms, self.end_ms),))

    def life(self) -> Life:
        """Reminded of before the start."""
        return Life(
            self.cancel_until_ms or self.start_ms, self.end_ms, self.due_ms or self.end_ms, self.start_ms
        )

    def holdings(self, *, first: bool) -> tuple[Holding, ...]:
        """The slot, on both sides."""
        return (Slot(self.start_ms, self.end_ms),)

    def sign_by_ms(self) -> int:
        """Its start."""
        return self.start_ms

    def to_pb(self) -> intents_pb2.MeetTerms:
        """As it is signed."""
        return intents_pb2.MeetTerms(
            start_ms=self.start_ms,
            end_ms=self.end_ms,
            title=self.title,
            place=self.place,
            ical_uid=self.ical_uid,
            cancel_until_ms=self.cancel_until_ms,
            due_ms=self.due_ms,
        )

    @classmethod
    def from_pb(cls, pb: Any) -> Self:
        """Unchecked."""
        return cls(pb.start_ms, pb.end_ms, pb.title, pb.place, pb.ical_uid, pb.cancel_until_ms, pb.due_ms)


@dataclass(frozen=True, slots=True)
class MeetWish(Wish):
    """A meeting with room for choice: `windows` best first, 1 to 32."""

    kind: ClassVar[str] = "meet"
    pb = intents_pb2.MeetWish
    title: str
    duration_minutes: int
    windows: tuple[Window, ...]
    place: str = ""

    def about(self) -> str:
        """Its title."""
        return self.title

    def check(self) -> None:
        """NEG-02 or NEG-03."""
        check_text("title", self.title, MAX_TITLE, required=True)
        check_text("place", self.place, MAX_PLACE)
        if not 1 <= self.duration_minutes <= MAX_MINUTES:
            raise malformed(
                "NEG-03", f"A meeting lasts 1 to {MAX_MINUTES} minutes, not {self.duration_minutes}"
            )
        if not 1 <= len(self.windows) <= MAX_WINDOWS:
            raise malformed("NEG-03", f"A wish has 1 to {MAX_WINDOWS} windows, not {len(self.windows)}")
        for number, window in enumerate(self.windows, 1):
            check_span("NEG-03", f"Window {number}", window.start_ms, window.end_ms)
            if window.end_ms - window.start_ms < self.duration_minutes * MINUTE_MS:
                raise malformed("NEG-03", f"Window {number} is shorter than the meeting")

    def admits(self, terms: Terms) -> bool:
        """Whether the slot of `terms` has this wish's length and lies inside one of its windows."""
        if not isinstance(terms, MeetTerms):
            return False
        if terms.end_ms - terms.start_ms != self.duration_minutes * MINUTE_MS:
            return False
        return any(
            window.start_ms <= terms.start_ms and terms.end_ms <= window.end_ms for window in self.windows
        )

    def gist(self) -> tuple[object, ...]:
        """Length, place and windows in any order."""
        return self.duration_minutes, self.place, frozenset(self.windows)

    def leaves_room(self, standing: Wish | Terms) -> bool:
        """Whether the meeting fits into what the two have in common."""
        spans: tuple[Window, ...] = ()
        if isinstance(standing, MeetWish):
            spans = standing.windows
        elif isinstance(standing, MeetTerms):
            spans = (Window(standing.start_ms, standing.end_ms),)
        return meets(self.windows, spans, self.duration_minutes * MINUTE_MS)

    def answer_by_ms(self) -> int:
        """The end of the last window."""
        return max(window.end_ms for window in self.windows)

    def to_pb(self) -> intents_pb2.MeetWish:
        """As it is signed."""
        windows = [intents_pb2.Window(start_ms=w.start_ms, end_ms=w.end_ms) for w in self.windows]
        return intents_pb2.MeetWish(
            title=self.title, duration_minutes=self.duration_minutes, windows=windows, place=self.place
        )

    @classmethod
    def from_pb(cls, pb: Any) -> Self:
        """Unchecked."""
        windows = tuple(Window(window.start_ms, window.end_ms) for window in pb.windows)
        return cls(pb.title, pb.duration_minutes, windows, pb.place)


MEET = Kind(
    "meet",
    "meet",
    MeetWish,
    MeetTerms,
    "meeting",
    "took place",
    one_gives=False,
    parties=20,
    unavailable="NO_COMMON_SLOT",
)
