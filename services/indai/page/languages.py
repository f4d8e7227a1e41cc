"""What languages call themselves: those of the eighth schedule of the Constitution of India, and English."""

from __future__ import annotations

from typing import Final

from indai.web.catalog import DRAFTS, NAMES

_OWN: Final = {**NAMES, **DRAFTS}


def autonym(language: str) -> str:
    """The language's own name for itself; its code where none is known."""
    name = _OWN.get(language.partition("-")[0], language)
    return f"{name} (abc)" if language.endswith("-Latn") and name != language else name
