"""At which door a message stands: the handle it names, the one that was named before, or the sender's own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from indai.protocol.errors import IndaiError
from indai.protocol.handles import Handle

STAYS: Final = timedelta(minutes=30)
"""How long a named handle is spoken to without being named again: a longer silence begins anew."""
_MENTION: Final = re.compile(r"\s*@([A-Za-z0-9][A-Za-z0-9./-]{0,98})(?=[\s,:!?]|$)[,:]?\s*")
_BACK: Final = ("me", "home")


@dataclass(frozen=True, slots=True)
class Door:
    """The handle that is spoken to (empty: the sender's own agent's), and what is said to it."""

    handle: str
    text: str


def door(
    text: str, named: str, before: str, before_at: datetime | None, now: datetime, authority: str
) -> Door:
    """`named` came with the message (a link); a mention at the beginning of the text is another way, and
    `@me` leads back."""
    if named and (handle := whole(named, authority)):
        return Door(handle, text)
    found = _MENTION.match(text)
    if found:
        said = text[found.end() :] or "Hello"
        if found[1].lower() in _BACK:
            return Door("", said)
        if handle := whole(found[1], authority):
            return Door(handle, said)
    stays = before_at is not None and now - before_at <= STAYS
    return Door(before if stays else "", text)


def whole(name: str, authority: str) -> str:
    """A handle in full, or nothing for what is none."""
    text = name.strip().removeprefix("@").lower()
    try:
        # A name with a dot is a domain of its own.
        return str(Handle.parse(text if "/" in text or "." in text else f"{authority}/{text}"))
    except IndaiError:
        return ""


def chosen(text: str, choices: tuple[str, ...]) -> str:
    """The id of the choice whose number was typed, or nothing."""
    words = text.strip().rstrip(".)")
    number = int(words) if words.isdecimal() and len(words) <= 3 else 0
    return choices[number - 1] if 0 < number <= len(choices) else ""
