"""Files that a tool hands to the person it works for: an invitation, a code to pay by.

A tool keeps the bytes (`Keep`) and names them in its result, under `files`. Only a tool whose spec says so
(`Spec.files`) hands any over: what another server calls a file is data like all it says. A model never sees
them; they go with the answer, as each channel sends files.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

MOST: Final = 3
"""Files of one result."""
CALENDAR: Final = "text/calendar"
PICTURE: Final = "image/png"
FILES: Final[dict[str, Any]] = {
    "type": "array",
    "maxItems": MOST,
    "x-hidden": True,
    "items": {
        "type": "object",
        "properties": {
            "reference": {"type": "string", "pattern": "^media:[0-9a-f]{64}$"},
            "file_name": {"type": "string", "minLength": 1, "maxLength": 100},
            "media_type": {"type": "string", "maxLength": 100},
            "size": {"type": "integer", "minimum": 1},
        },
        "required": ["reference", "file_name", "media_type", "size"],
        "additionalProperties": False,
    },
}
"""The schema of a result's `files`."""


@dataclass(frozen=True, slots=True)
class Attached:
    """One file, kept under its reference."""

    reference: str
    file_name: str
    media_type: str
    size: int


Keep = Callable[[str, str, bytes], Awaitable[Mapping[str, Any]]]
"""Keeps a file (its name, media type and bytes) and gives what a result says of it."""


def attached(result: Mapping[str, Any]) -> tuple[Attached, ...]:
    """The files of a result that fits the schema."""
    return tuple(Attached(**each) for each in result.get("files", ())[:MOST])
