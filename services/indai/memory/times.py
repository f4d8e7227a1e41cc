"""Times and ids: milliseconds in values, `timestamptz` in the database, UUIDv7 for rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

from indai.protocol.header import new_id

Clock = Callable[[], int]
NOWHERE = UUID(int=0)  # the scope of a value that is not stored yet
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def at(ms: int) -> datetime:
    """A moment for the database."""
    return _EPOCH + timedelta(milliseconds=ms)


def ms(moment: datetime | None) -> int:
    """A moment from the database, in ms; 0 for none."""
    return 0 if moment is None else (moment - _EPOCH) // timedelta(milliseconds=1)


def new_uuid(now_ms: int) -> UUID:
    """A fresh row id."""
    return UUID(bytes=new_id(now_ms, os.urandom(10)))
