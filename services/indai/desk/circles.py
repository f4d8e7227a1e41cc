"""A peer put into a circle, or taken out, in the text of the rules; comments and order stay as they are."""

from __future__ import annotations

import re
from typing import Final

from indai.protocol.errors import InvalidInput, Reason

_CIRCLES: Final = re.compile(r"^circles:[ ]*\n((?:[ ]+.*\n|[ ]*\n|#.*\n)*)", re.MULTILINE)


def with_member(text: str, circle: str, handle: str, *, inside: bool) -> str:
    """The text with `handle` in the circle, or without it. Raises InvalidInput for a circle that is not
    written as `name: [..., ...]` on one line."""
    block = _CIRCLES.search(text)
    line = re.compile(rf"^([ ]+{re.escape(circle)}:[ ]*\[)([^\]\n]*)(\].*)$", re.MULTILINE)
    found = line.search(block[1]) if block else None
    if block is None or found is None:
        raise InvalidInput(
            Reason.INVALID_POLICY,
            f"The circle {circle} cannot be changed from here.",
            hint="write it as `name: [ind.ai/bob, ind.ai/carol]` on one line, or change the rules' text",
        )
    members = [member for part in found[2].split(",") if (member := part.strip())]
    members = [member for member in members if member != handle] + ([handle] if inside else [])
    changed = block[1][: found.start()] + found[1] + ", ".join(members) + found[3] + block[1][found.end() :]
    return text[: block.start(1)] + changed + text[block.end(1) :]
