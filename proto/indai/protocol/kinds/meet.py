"""`meet`: a time that both have, reserved by each side when it signs.

Either side may offer. A meeting is cancelled alone until it starts and due at its end, unless its terms
differ. One that repeats is one commitment over all its times, which the terms name one by one: no time zone
and no rule of a calendar is left to be understood differently by the two sides.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self

from indai.protocol.forms import DAY_MS, END_OF_TIME_MS, HOUR_MS, MINUTE_MS, check_span, check_text, malformed
from indai.protocol.kinds.base import Holding, Kind, Life, Slot, Terms, Window, Wish, meets
from indai.v1 import intents_pb2

MAX_TITLE = 200
MAX_PLACE = 200
MAX_UID = 255
MAX_ZONE = 64
MAX_MINUTES = 1_440
MAX_WINDOWS = 32
MAX_DUE_MS = 366 * DAY_MS
MAX_EVERY_DAYS = 31
MAX_TIMES = 52
MAX_SERIES_MS = 367 * DAY_MS
CLOCKS_MS = 2 * HOUR_MS  # so much earlier or later a clock may stand at another time of the year


@dataclass(frozen=True, slots=True)
class Repeats:
    """`count` times in all, `every_days` apart, at one local time of `time_zone` (IANA name)."""

    every_days: int
    count: int
    time_zone: str

    def check(self) -> None:
        """NEG-03."""
        if not 1 <= self.every_days <= MAX_EVERY_DAYS or not 2 <= self.count <= MAX_TIMES:
            what = f"A meeting repeats every 1 to {MAX_EVERY_DAYS} days, 2 to {MAX_TIMES} times"
            raise malformed("NEG-03", what)
        if self.every_days * (self.count - 1) > 366:
            raise malformed("NEG-03", "A meeting repeats for at most 366 days")
        check_text("time zone", self.time_zone, MAX_ZONE, required=True)

    def admits(self, start_ms: int, again_ms: tuple[int, ...]) -> bool:
        """Whether these are the times, but for what clocks are put forward and back."""
        due = (start_ms + n * self.every_days * DAY_MS for n in range(1, self.count))
        return len(again_ms) == self.count - 1 and all(
            abs(at - wanted) <= CLOCKS_MS for at, wanted in zip(again_ms, due, strict=True)
        )


@dataclass(frozen=True, slots=True)
class MeetTerms(Terms):
    """A concrete meeting, [start_ms, end_ms), with the UID of the iCalendar event both sides write.

    `cancel_until_ms` 0: either party may cancel alone until the start; `due_ms` 0: due at the end (of the
    last, where it repeats). `again_ms`: the starts of all but the first, each as long as that.
    `instead_of_ms`: the one time of what it supersedes whose place it takes, 0 for all.
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
    again_ms: tuple[int, ...] = ()
    instead_of_ms: int = 0

    @property
    def replaces_ms(self) -> int:
        """See `Terms`."""
        return self.instead_of_ms

    def about(self) -> str:
        """Its title."""
        return self.title

    @property
    def times(self) -> tuple[Window, ...]:
        """Each time it takes place."""
        length_ms = self.end_ms - self.start_ms
        return tuple(Window(start, start + length_ms) for start in (self.start_ms, *self.again_ms))

    def check(self) -> None:
        """NEG-02 or NEG-04."""
        check_text("title", self.title, MAX_TITLE, required=True)
        check_text("place", self.place, MAX_PLACE)
        check_text("iCalendar UID", self.ical_uid, MAX_UID, required=True)
        check_span("NEG-04", "The slot", self.start_ms, self.end_ms)
        if self.end_ms - self.start_ms > MAX_MINUTES * MINUTE_MS:
            raise malformed("NEG-04", f"The slot is longer than {MAX_MINUTES} minutes")
        times = self.times
        if len(times) > MAX_TIMES or times[-1].start_ms - self.start_ms > MAX_SERIES_MS:
            raise malformed("NEG-04", f"A meeting takes place at most {MAX_TIMES} times, within 366 days")
        if any(after.start_ms < before.end_ms for before, after in pairwise(times)):
            raise malformed("NEG-04", "The times of a meeting that repeats follow one another")
        if self.instead_of_ms and self.again_ms:
            raise malformed("NEG-04", "One time takes the place of one")
        if not 0 <= self.instead_of_ms <= END_OF_TIME_MS:
            raise malformed("NEG-04", "The time whose place it takes lies outside all time")
        if not 0 <= self.cancel_until_ms <= self.end_ms:
            raise malformed("NEG-04", "The time for cancelling alone lies after the meeting")
        last_ms = times[-1].end_ms
        if self.due_ms and not last_ms <= self.due_ms <= last_ms + MAX_DUE_MS:
            raise malformed("NEG-04", "The meeting is due before its end or more than 366 days after it")

    def gist(self) -> tuple[object, ...]:
        """Slot and place: a new title or UID is no new offer."""
        return 0, self.place, frozenset(self.times)

    def life(self) -> Life:
        """Reminded of before the start."""
        last_ms = self.times[-1].end_ms
        times_ms = tuple(each.start_ms for each in self.times) if self.again_ms else ()
        return Life(
            self.cancel_until_ms or self.start_ms,
            last_ms,
            self.due_ms or last_ms,
            self.start_ms,
            times_ms=times_ms,
        )

    def holdings(self, *, first: bool) -> tuple[Holding, ...]:
        """The slot, or each of them, on both sides."""
        return tuple(Slot(each.start_ms, each.end_ms) for each in self.times)

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
            again_ms=self.again_ms,
            instead_of_ms=self.instead_of_ms,
        )

    @classmethod
    def from_pb(cls, pb: Any) -> Self:
        """Unchecked."""
        times = (pb.cancel_until_ms, pb.due_ms, tuple(pb.again_ms), pb.instead_of_ms)
        return cls(pb.start_ms, pb.end_ms, pb.title, pb.place, pb.ical_uid, *times)


@dataclass(frozen=True, slots=True)
class MeetWish(Wish):
    """A meeting with room for choice: `windows` best first, 1 to 32, for its first time."""

    kind: ClassVar[str] = "meet"
    pb = intents_pb2.MeetWish
    title: str
    duration_minutes: int
    windows: tuple[Window, ...]
    place: str = ""
    repeats: Repeats | None = None
    instead_of_ms: int = 0

    @property
    def replaces_ms(self) -> int:
        """See `Terms`."""
        return self.instead_of_ms

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
        if not 0 <= self.instead_of_ms <= END_OF_TIME_MS or (self.instead_of_ms and self.repeats):
            raise malformed("NEG-03", "One time takes the place of one")
        if self.repeats is not None:
            self.repeats.check()
            if self.duration_minutes > self.repeats.every_days * DAY_MS // MINUTE_MS:
                raise malformed("NEG-03", "A meeting is over before it takes place again")

    def admits(self, terms: Terms) -> bool:
        """Whether the slot of `terms` is as long, lies inside one of the windows, and repeats as wished."""
        if not isinstance(terms, MeetTerms):
            return False
        if not (self.repeats.admits(terms.start_ms, terms.again_ms) if self.repeats else not terms.again_ms):
            return False
        if terms.end_ms - terms.start_ms != self.duration_minutes * MINUTE_MS:
            return False
        if terms.instead_of_ms != self.instead_of_ms:
            return False
        return any(
            window.start_ms <= terms.start_ms and terms.end_ms <= window.end_ms for window in self.windows
        )

    def gist(self) -> tuple[object, ...]:
        """Length, place and windows in any order, and how it repeats."""
        return self.duration_minutes, self.place, frozenset(self.windows), self.repeats

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
        wish = intents_pb2.MeetWish(
            title=self.title,
            duration_minutes=self.duration_minutes,
            windows=windows,
            place=self.place,
            instead_of_ms=self.instead_of_ms,
        )
        if self.repeats is not None:
            wish.repeats.every_days, wish.repeats.count = self.repeats.every_days, self.repeats.count
            wish.repeats.time_zone = self.repeats.time_zone
        return wish

    @classmethod
    def from_pb(cls, pb: Any) -> Self:
        """Unchecked."""
        windows = tuple(Window(window.start_ms, window.end_ms) for window in pb.windows)
        repeats = None
        if pb.HasField("repeats"):
            repeats = Repeats(pb.repeats.every_days, pb.repeats.count, pb.repeats.time_zone)
        return cls(pb.title, pb.duration_minutes, windows, pb.place, repeats, pb.instead_of_ms)


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
