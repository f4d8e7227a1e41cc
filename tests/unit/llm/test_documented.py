"""The configuration that the documentation shows is one that the program takes."""

from __future__ import annotations

import re
from pathlib import Path

from indai.llm.config import Limits, parse_config
from indai.llm.values import ModelClass

PAGE = (Path(__file__).parents[3] / "docs" / "services" / "llm.md").read_text("utf-8")


def test_the_example_of_the_documentation_is_valid_and_shows_the_defaults() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    config = parse_config(example)
    assert set(config.routes) == set(ModelClass)
    assert config.limits == Limits()
    assert {each.kind for each in config.providers.values()} == {
        "anthropic",
        "gemini",
        "sarvam",
        "openai",
        "local",
    }
