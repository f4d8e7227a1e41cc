"""Edits of iCalendar bytes: which give way to which, so that a meeting stands in them once, as it is now.

Pure. Both kinds of calendar use it: on the bytes of a whole file, and on those of one CalDAV resource. Every
byte that is not ours stays as it was.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from indai.node.calendar.busy import Calendar, Span
from indai.node.calendar.content import MAX_BYTES
from indai.node.calendar.meeting import MeetingEvent
from indai.protocol.errors import InvalidInput, Reason, Refused


@dataclass(frozen=True, slots=True)
class Splice:
    """Bytes `[start, end)` of the file that give way to `text`: nothing for a removal, else `event`."""

    uid: str
    start: int
    end: int
    text: bytes = b""
    event: MeetingEvent | None = None


def writes(calendar: Calendar, events: Sequence[MeetingEvent], line_end: bytes) -> list[Splice]:
    """The edits that bring these meetings into a calendar; none for one that stands there already.

    Raises Refused(ALREADY_EXISTS) for the UID of an event that is not ours."""
    newest: dict[str, MeetingEvent] = {}
    for event in events:
        if event.uid not in newest or newest[event.uid].sequence <= event.sequence:
            newest[event.uid] = event
    splices: list[Splice] = []
    for event in newest.values():
        spans = calendar.spans.get(event.uid, [])
        if _stands(calendar, event):
            continue
        if not event.cancelled:
            _check_ours(event.uid, spans)
        if spans and (event.cancelled or event.sequence):
            # The owner's program may have counted changes of its own; ours must be the last.
            event = replace(event, sequence=max(event.sequence, *(span.sequence + 1 for span in spans)))
        text = event.to_ical().replace(b"\r\n", line_end)
        first, *rest = spans or [Span(calendar.insert_at, calendar.insert_at, 0, True)]
        splices.append(Splice(event.uid, first.start, first.end, text, event))
        splices.extend(Splice(event.uid, span.start, span.end) for span in rest)
    return sorted(splices, key=lambda splice: splice.start)


def _stands(calendar: Calendar, event: MeetingEvent) -> bool:
    """True when the file has this version or a later one, be it without our mark: some programs drop it.

    What the owner edited in a first version stays; a later version is what both sides agreed since, and
    stands only at its own time. A cancellation stands, too, where there is nothing of ours left to cancel.
    """
    spans = calendar.spans.get(event.uid, [])
    known = calendar.singles.get(event.uid)
    if event.cancelled:
        ours = bool(spans) and all(span.ours for span in spans)
        as_agreed = known is not None and (known.start_ms, known.end_ms) == _times(event)
        return not (ours or as_agreed) or (known is not None and not known.busy)
    if any(span.ours and span.sequence >= event.sequence for span in spans):
        return not event.sequence or known is None or (known.start_ms, known.end_ms) == _times(event)
    return known is not None and replace(known, ours=True, summary=event.summary) == event.occurrence()


def _times(event: MeetingEvent) -> tuple[int, int]:
    seen = event.occurrence()
    return seen.start_ms, seen.end_ms


def removals(calendar: Calendar, uid: str) -> list[Splice]:
    """The edits that take a meeting of ours out."""
    spans = calendar.spans.get(uid, [])
    _check_ours(uid, spans)
    return [Splice(uid, span.start, span.end) for span in spans]


def _check_ours(uid: str, spans: Sequence[Span]) -> None:
    """A peer chooses the uid of a meeting: it must not be able to name an event of the owner's own."""
    if not all(span.ours for span in spans):
        raise Refused(
            Reason.ALREADY_EXISTS,
            f"The calendar already has an event {uid[:80]!r} that this node did not write.",
            hint="It is left as it is; the meeting needs another uid.",
            metadata={"uid": uid[:200]},
        )


def spliced(data: bytes, splices: Sequence[Splice]) -> bytes:
    """The bytes after the edits, which are in order. Raises InvalidInput(TOO_LARGE)."""
    parts: list[bytes] = []
    position = 0
    for splice in splices:
        parts += [data[position : splice.start], splice.text]
        position = splice.end
    whole = b"".join([*parts, data[position:]])
    if len(whole) > MAX_BYTES:
        raise InvalidInput(
            Reason.TOO_LARGE,
            f"With this meeting the calendar would exceed {MAX_BYTES // 2**20} MiB.",
            hint="Move old events to another calendar file.",
        )
    return whole


def apply(calendar: Calendar, splices: Sequence[Splice]) -> None:
    """Bring the copy in memory to the state of the file just written, without reading it again."""
    ends = [splice.end for splice in splices]
    shifts = list(accumulate((len(s.text) - (s.end - s.start) for s in splices), initial=0))
    changed = {splice.uid for splice in splices}
    for uid in changed:
        for table in (calendar.singles, calendar.series, calendar.spans):
            table.pop(uid, None)
    for uid, spans in calendar.spans.items():
        calendar.spans[uid] = [_shifted(span, shifts[bisect_right(ends, span.start)]) for span in spans]
    for index, splice in enumerate(splices):
        if splice.event is not None:
            start = splice.start + shifts[index]
            end = start + len(splice.text)
            calendar.spans[splice.uid] = [Span(start, end, splice.event.sequence, True)]
            calendar.singles[splice.uid] = splice.event.occurrence()
    calendar.insert_at += shifts[-1]


def _shifted(span: Span, by: int) -> Span:
    return replace(span, start=span.start + by, end=span.end + by) if by else span


def line_end(data: bytes) -> bytes:
    """The line end of the file's first line, so that what we add looks like the rest."""
    first = (
        data.splitlines(keepends=True)[0] if len(data) < 4096 else data[:4096].splitlines(keepends=True)[0]
    )
    return first[len(first.rstrip(b"\r\n")) :] or b"\r\n"
