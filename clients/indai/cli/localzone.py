"""This machine's time zone by its IANA name: `TZ`, else what /etc/localtime points at, else UTC."""

from __future__ import annotations

import os
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

_LINK = Path("/etc/localtime")


def local_zone() -> ZoneInfo:
    """The zone; a `TZ` that is no IANA name (such as `CET-1CEST`) is passed over."""
    for name in (os.environ.get("TZ", "").removeprefix(":"), _linked()):
        if name in available_timezones() and name not in ("localtime", "Factory"):
            return ZoneInfo(name)
    return ZoneInfo("UTC")


def _linked() -> str:
    try:
        target = os.path.realpath(_LINK)
    except OSError:
        return ""
    return target.partition("zoneinfo/")[2]
