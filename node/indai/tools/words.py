"""What tools say to people themselves: English in the code, Hindi in both scripts in `words.yaml`, other
languages in the phrasebook."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

import yaml
from indai.language.phrasebook import phrase


def said(text: str, language: str, **values: str) -> str:
    """A sentence of ours in a language (BCP 47), or in English where it has none; `values` are filled in."""
    texts = _words().get(text, {})
    spoken = texts.get(language) or texts.get(language.partition("-")[0] if "Latn" not in language else "")
    if spoken is None:
        return phrase(text, language, **values)
    return spoken.format(**values) if values else spoken


@cache
def _words() -> Mapping[str, Mapping[str, str]]:
    data = yaml.safe_load(resources.files(__package__).joinpath("words.yaml").read_text("utf-8"))
    return {text: dict(texts) for text, texts in data.items()}
