"""The concierge of the catalogue as seven files: what one looks like."""

from __future__ import annotations

from importlib import resources
from typing import Final

SLUG: Final = "sahayak-pro-concierge"


def example() -> dict[str, str]:
    """Its texts by file name."""
    place = resources.files("indai.runtime").joinpath("catalogue", SLUG)
    return {each.name: each.read_text("utf-8") for each in place.iterdir() if each.name.endswith(".md")}
