"""Addresses of pages: `/alice` is `ind.ai/alice` on a node of `ind.ai`, `/alice/shop` its sub-handle; a
handle of elsewhere stands there whole (`/shop.example`, `/other.example/bob`). What belongs to a page begins
with a part that no name can be: `/alice/-/say`.
"""

from __future__ import annotations

from typing import Final

from indai.protocol.errors import IndaiError, NotFound, Reason
from indai.protocol.handles import Handle

_PART: Final = "[A-Za-z0-9][A-Za-z0-9.-]*"
PATH: Final = f"/{{name:{_PART}(?:/{_PART})?(?:/{_PART})?}}"


def handle_at(path: str, authority: str) -> str:
    """The handle of an address. Raises NotFound for what can be none."""
    whole = path if "." in path.partition("/")[0] else f"{authority}/{path}"
    try:
        return str(Handle.parse(whole))
    except IndaiError:
        raise nobody(path) from None


def address_of(handle: str, authority: str) -> str:
    """The path of a handle's page."""
    return f"/{handle.removeprefix(f'{authority}/')}"


def nobody(path: str) -> NotFound:
    """For an address at which nobody is met."""
    return NotFound(
        Reason.NOT_FOUND,
        f"There is nobody at /{path[:60]} here.",
        hint="check the address; a handle is written like ind.ai/alice, and its page like /alice",
    )
