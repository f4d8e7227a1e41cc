"""The runtime's own sentences, where no model speaks: `words.yaml`, a text for each language.

A language without a text of its own has English. Placeholders are filled with plain text, never formatted
again.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final

import yaml

DEFAULT: Final = "en"


def say(key: str, language: str = "", **values: str) -> str:
    """A sentence in a language (BCP 47), or its nearest."""
    texts = _words()[key]
    text = next(texts[each] for each in (language, language.partition("-")[0], DEFAULT) if each in texts)
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return text


@cache
def _words() -> Mapping[str, Mapping[str, str]]:
    data = yaml.safe_load(resources.files(__package__).joinpath("words.yaml").read_text("utf-8"))
    return {key: dict(texts) for key, texts in data.items()}
