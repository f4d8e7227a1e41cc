"""Whom a rule is about: a handle, `acme.com/*` (everyone under an authority), `ind.ai/*/work` (one sub of
everyone).
"""

from __future__ import annotations

import re

from indai.policy.values import Problem
from indai.protocol.errors import InvalidInput
from indai.protocol.handles import Handle
from indai.protocol.quoting import quoted

_STAND_IN = "any-name"


def check_pattern(text: str) -> str:
    """The pattern in canonical form. Raises Problem."""
    stars = text.count("*")
    if stars and (stars > 1 or not re.fullmatch(r"[^*/]+/\*(?:/[^*/]+)?", text)):
        raise Problem(
            f"{quoted(text)} is no pattern; * stands for the whole name after an authority, as in acme.com/*"
        )
    try:
        handle = str(Handle.parse(text.replace("*", _STAND_IN)))
    except InvalidInput as error:
        why = error.fields.get("handle", error.message)
        raise Problem(
            f"{quoted(text)} is no handle: {why}; write one like ind.ai/bob, or acme.com/*"
        ) from None
    return handle.replace(f"/{_STAND_IN}", "/*", 1) if stars else handle


def matches(pattern: str, handle: str) -> bool:
    """Whether the handle is the pattern's, or one of those it stands for; `*` is any text, as in Cedar's
    `like`.
    """
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), handle) is not None
