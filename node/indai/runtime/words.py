"""The runtime's own sentences, where no model speaks.

Most are messages of `indai.language`, in all its languages; what only a turn says stands in `words.yaml`,
where a language without a text of its own has English.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final

import yaml
from indai import language as languages
from indai.runtime.tiers import Human

DEFAULT: Final = "en"


def say(key: str, language: str = "", **values: str) -> str:
    """A sentence in a language (BCP 47), or its nearest."""
    texts = _words().get(key)
    if texts is None:
        return languages.say(key, language or DEFAULT, **values)
    text = next(texts[each] for each in (language, language.partition("-")[0], DEFAULT) if each in texts)
    return text.format(**values) if values else text


def deflection(human: Human, language: str) -> str:
    """What a persona says when it is asked about the platform: its own words, in the language or its own
    first one, else ours."""
    own, plain = human.deflection, language.partition("-")[0]
    wanted = (language, plain, *human.languages)
    return next((own[each] for each in wanted if each in own), "") or say("deflection", language)


@cache
def _words() -> Mapping[str, Mapping[str, str]]:
    data = yaml.safe_load(resources.files(__package__).joinpath("words.yaml").read_text("utf-8"))
    return {key: dict(texts) for key, texts in data.items()}
