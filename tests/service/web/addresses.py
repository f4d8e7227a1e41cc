"""The addresses that a site serves, as its router has them, filled in for a request."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Final

from indai.web.site import Made

RAW: Final = {
    ("GET", "/audit/fields.json"),  # the contract's tables, the same for everybody
    ("GET", "/static/{hash:[0-9a-f]+}/{name}"),
    ("GET", "/widget.js"),  # one line in other people's pages asks for it
}
"""Addresses of the pages that the site does not guard: nothing of anybody's is there."""
_PART: Final = re.compile(r"\{(\w+)(?::((?:[^{}]|\{[0-9,]+\})+))?\}")
_LIKELY: Final = (
    "riverton",
    "a" * 32,
    "a" * 64,
    str(uuid.UUID(int=7)),
    "proof",
    f"1-{'a' * 64}",
    "a" * 20,
    "pause",
    "x",
)


def filled(path: str, values: Mapping[str, str] | None = None) -> str:
    """An address with something that fits in each of its parts; `values` by the part's name."""

    def part(found: re.Match[str]) -> str:
        name, shape = found[1], found[2] or "[^/]+"
        fitting = [one for one in ((values or {}).get(name, ""), *_LIKELY) if re.fullmatch(shape, one)]
        assert fitting, f"nothing fits {found[0]}"
        return fitting[0]

    return _PART.sub(part, path)


def is_stream(made: Made) -> bool:
    """Whether it never ends."""
    return made.path.endswith("/live")


def is_file(made: Made) -> bool:
    """Whether it is no page."""
    return bool(re.search(r"\.(csv|json|jsonl|ics|\{form:proof\|cose\})$", made.path))
