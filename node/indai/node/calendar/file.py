"""The owner's calendar file: read when it changed, written one event at a time, never half.

The file belongs to its owner, whose own programs edit it too. So:
- a query reads the file again whenever its (mtime, ctime, size, inode) differ from those of the copy in
  memory;
- a write puts our VEVENT before the last END:VCALENDAR, or in the place of its former version, and keeps
  every other byte; the new file is written aside, synced, and renamed over the old one (the commit point),
  with its mode and owner;
- before the rename the file is looked at once more: if somebody else saved it meanwhile, the write starts
  again from their version. Other nodes of ours are kept out by a lock on the file itself. Programs that
  take no lock and save between that look and the rename (microseconds) can't be seen by anyone.

Reading, parsing and writing run in a thread: a full calendar takes longer than an event loop may stand still.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import stat
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from zoneinfo import ZoneInfo

from indai.node.calendar.busy import Calendar, CalendarEvent, read_calendar
from indai.node.calendar.content import MAX_BYTES
from indai.node.calendar.edits import Splice, apply, line_end, removals, spliced, writes
from indai.node.calendar.meeting import MeetingEvent, empty_calendar
from indai.node.calendar.slots import Interval
from indai.protocol.errors import IndaiError, InvalidInput, Reason, Unavailable

_MAX_TRIES = 8
_OWN_WRITES = 256  # of the last ones it is known what they came from
_LIGHT = 1000  # single events that are searched in some 100 us
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

# What tells one version of the file from another: mtime and ctime in ns, size, inode.
Signature = tuple[int, int, int, int]
T = TypeVar("T")


class CalendarFile:
    """One owner's calendar. Times are ms since the epoch; `owner_zone` is that of floating and all-day
    events.

    Every method may raise InvalidInput (INVALID_CALENDAR, TOO_LARGE) for a file that cannot be read or
    written, with its path, and Unavailable (STORAGE_FULL). A missing file is an empty calendar; the first
    write creates it.
    """

    def __init__(self, path: Path, owner_zone: ZoneInfo) -> None:
        self._path = path
        self._zone = owner_zone
        # Guards `_calendar` and `_signature`: calls run in threads, and a parse in progress must not be
        # doubled. One edit at a time holds `_editing`, and this only where it looks and where it commits.
        self._mutex = threading.Lock()
        self._editing = threading.Lock()
        self._calendar: Calendar | None = None
        self._signature: Signature | None = None
        self._came_from: OrderedDict[Signature, Signature] = OrderedDict()  # of what we wrote

    @property
    def name(self) -> str:
        """See `Source`."""
        return str(self._path)

    @property
    def version(self) -> object:
        """See `Source`. Looks at the file system: for threads only."""
        try:
            return _signature(os.stat(self._path))
        except OSError:
            return None

    def is_ours(self, old: object, new: object) -> bool:
        """See `Source`: each of our writes says from which version of the file it came."""
        for _ in range(_OWN_WRITES):
            if new == old:
                return True
            came_from = self._came_from.get(new) if isinstance(new, tuple) else None
            if came_from is None:
                return False
            new = came_from
        return False

    async def refresh(self) -> None:
        """See `Source`: every query looks at the file itself."""

    async def busy(self, start_ms: int, end_ms: int) -> list[Interval]:
        """Busy time within `[start_ms, end_ms)`, merged, sorted and cut to it."""
        return await self._ask(lambda calendar: calendar.busy(start_ms, end_ms))

    async def events(self, start_ms: int, end_ms: int) -> list[CalendarEvent]:
        """Occurrences that touch `[start_ms, end_ms)`, in order of time, free ones too."""
        return await self._ask(lambda calendar: calendar.events(start_ms, end_ms))

    async def standing(
        self, uids: Collection[str], start_ms: int, end_ms: int
    ) -> dict[str, list[CalendarEvent]]:
        """See `Source`."""
        return await self._ask(
            lambda calendar: {
                uid: found for uid in uids if (found := calendar.standing(uid, start_ms, end_ms))
            }
        )

    async def holding(self, uids: Collection[str]) -> set[str]:
        """See `Source`."""
        return await self._ask(lambda calendar: set(uids) & calendar.spans.keys())

    async def put(self, event: MeetingEvent) -> bool:
        """Write a meeting; see `put_many`. True when the file changed."""
        return await self.put_many([event]) == 1

    async def put_many(self, events: Sequence[MeetingEvent]) -> int:
        """Write several meetings in one rename; returns how many changed the file.

        Idempotent: a uid that stands in the file with the same or a higher SEQUENCE is left as it is, also
        when the owner has edited it since. On return the file is durable.
        """
        return await asyncio.to_thread(self._edit, lambda calendar, end: writes(calendar, events, end))

    async def remove(self, uid: str) -> bool:
        """Take a meeting out of the file; False when it was not there (also a success: it is gone)."""
        return await asyncio.to_thread(self._edit, lambda calendar, _: removals(calendar, uid)) > 0

    async def _ask(self, ask: Callable[[Calendar], T]) -> T:
        """In a thread, unless the copy in memory is good and small: then the way to a thread costs more."""
        if self._mutex.acquire(blocking=False):
            try:
                calendar = self._light()
                if calendar is not None:
                    return ask(calendar)
            finally:
                self._mutex.release()
        return await asyncio.to_thread(self._query, ask)

    def _light(self) -> Calendar | None:
        """The copy in memory, if it is of the file as it is now and can be asked in no time."""
        known = self._calendar
        if known is None or known.series or len(known.singles) > _LIGHT:
            return None
        try:
            return known if self._signature == _signature(os.stat(self._path)) else None
        except OSError:
            return None  # the slow way names the error

    def _query(self, ask: Callable[[Calendar], T]) -> T:
        with self._mutex, _as_errors(self._path, "read"):
            try:
                if self._calendar is None or self._signature != _signature(os.stat(self._path)):
                    self._load()
            except FileNotFoundError:
                return ask(Calendar(self._zone))
            assert self._calendar is not None  # noqa: S101 - narrowed for the type checker: `_load` set it
            return ask(self._calendar)

    def _load(self) -> tuple[Calendar, bytes, os.stat_result]:
        """Read the file; parse it unless the copy in memory is of these very bytes."""
        data, status = _read_stable(self._path)
        if self._calendar is None or self._signature != _signature(status):
            self._signature = None
            self._calendar = read_calendar(data, self._zone)
            self._signature = _signature(status)
        return self._calendar, data, status

    def _edit(self, plan: Callable[[Calendar, bytes], list[Splice]]) -> int:
        with self._editing, _as_errors(self._path, "written"):
            # A link stays a link: what it points at is replaced.
            path = Path(os.path.realpath(self._path))
            if not path.exists():
                if not plan(Calendar(self._zone), b""):
                    return 0
                _create_missing(path)
            for _ in range(_MAX_TRIES):
                with _locked(path):
                    with self._mutex:
                        calendar, data, status = self._load()
                        splices = plan(calendar, line_end(data))
                    if not splices:
                        return 0
                    if self._replace(path, calendar, splices, spliced(data, splices), status):
                        return len({splice.uid for splice in splices})
            raise Unavailable(
                Reason.UNREACHABLE,
                f"The calendar {self._path} is being changed all the time by another program.",
                hint="Try again in a moment.",
            )

    def _replace(
        self, path: Path, calendar: Calendar, splices: list[Splice], data: bytes, expected: os.stat_result
    ) -> bool:
        """Put `data`, which is `calendar` with the splices, in the place of the file whose status was
        `expected`; False if it is that no longer. Queries are answered while the disk is waited for."""
        with _temporary(path) as (descriptor, temporary):
            os.fchmod(descriptor, stat.S_IMODE(expected.st_mode))
            with contextlib.suppress(PermissionError):  # only root can give a file away
                os.fchown(descriptor, expected.st_uid, expected.st_gid)
            _write_all(descriptor, data)
            with self._mutex:
                if self._calendar is not calendar or _signature(os.stat(path)) != _signature(expected):
                    return False
                os.rename(temporary, path)  # the commit point
                written = _signature(os.fstat(descriptor))
                apply(calendar, splices)
                self._signature = written
                self._came_from[written] = _signature(expected)
                if len(self._came_from) > _OWN_WRITES:
                    self._came_from.popitem(last=False)
        _sync_directory(path.parent)
        return True


# The file system


def _signature(status: os.stat_result) -> Signature:
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def _read_stable(path: Path) -> tuple[bytes, os.stat_result]:
    """The bytes with the status they belong to, even while another program writes the file."""
    for _ in range(_MAX_TRIES):
        with path.open("rb") as file:
            before = os.fstat(file.fileno())
            data = file.read(MAX_BYTES + 1)
            if _signature(os.fstat(file.fileno())) == _signature(before):
                return data, before
    raise Unavailable(
        Reason.UNREACHABLE, f"The calendar {path} keeps changing while it is read.", hint="Try again."
    )


def _create_missing(path: Path) -> None:
    with _temporary(path) as (descriptor, temporary):
        _write_all(descriptor, empty_calendar())
        with contextlib.suppress(FileExistsError):
            # Linking, unlike renaming, can't overwrite a file that appeared meanwhile.
            os.link(temporary, path)
    _sync_directory(path.parent)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of the file that `path` names now: whoever waited for a file renamed away tries the new
    one."""
    while True:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with contextlib.suppress(
                OSError
            ):  # file systems without locks still have the look before the rename
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_ino == os.stat(path).st_ino:
                yield
                return
        finally:
            os.close(descriptor)


@contextmanager
def _temporary(path: Path) -> Iterator[tuple[int, Path]]:
    """An open file in the same directory that is gone afterwards, unless it was renamed."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        yield descriptor, Path(name)
    finally:
        os.close(descriptor)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.fsync(descriptor)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _as_errors(path: Path, verb: str) -> Iterator[None]:
    """Name the file in every error, and let no OSError out."""
    try:
        yield
    except InvalidInput as error:
        named = f"{path}: {error.message}"
        raise InvalidInput(error.reason, named, hint=error.hint, fields=error.fields) from error
    except OSError as error:
        raise _file_error(path, verb, error) from error


def _file_error(path: Path, verb: str, error: OSError) -> IndaiError:
    if error.errno in _FULL:
        return Unavailable(
            Reason.STORAGE_FULL,
            f"There is no space left to write the calendar {path}.",
            hint="Free some space.",
        )
    reason = (error.strerror or "unknown error").lower()
    return InvalidInput(
        Reason.INVALID_CALENDAR,
        f"The calendar {path} cannot be {verb}: {reason}.",
        hint="Check the path and its permissions.",
    )
