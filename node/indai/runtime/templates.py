"""Templates of what changes from turn to turn: `{{name|"somebody"}}`, each with a default. Pure.

A value that somebody else gave stands in quotation marks on one line: it is data, and can't open a section.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

PERSON: Final = ("name", "who", "handle", "language")
"""What is known of the person: how they call themselves, owner or visitor, their proved handle."""
MOMENT: Final = ("time", "locale", "channel")
_PLACE: Final = re.compile(r"\{\{\s*(?P<name>\w+)\s*\|\s*\"(?P<default>[^\"{}\n]*)\"\s*\}\}")


def checked(text: str, known: tuple[str, ...]) -> str:
    """The template. Raises ValueError for a place that is none, has no default, or names what isn't known."""
    for found in _PLACE.finditer(text):
        if found["name"] not in known:
            raise ValueError(f"a template knows {', '.join(known)}, and no {found['name']!r}")
    if "{{" in (rest := _PLACE.sub("", text)) or "}}" in rest:
        raise ValueError('a place in a template is written {{name|"its default"}}')
    return text


def filled(text: str, values: Mapping[str, str]) -> str:
    """The template with what is known; its defaults where nothing is."""
    return _PLACE.sub(lambda found: values.get(found["name"]) or found["default"], text)


def defaults(text: str) -> str:
    """The template where nothing is known."""
    return filled(text, {})


def as_data(value: str, most: int = 100) -> str:
    """What somebody said of themselves, for a template; empty stays empty."""
    return json.dumps(" ".join(value.split())[:most], ensure_ascii=False) if value.strip() else ""
