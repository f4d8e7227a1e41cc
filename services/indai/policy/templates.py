"""Policies to begin with: one file for each kind of owner, beside this module.

A file's first comment line is its title, the second says what it does. Circles are empty: an owner fills in
who their friends are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources

from indai.policy.language import parse
from indai.protocol.errors import NotFound, Reason
from indai.protocol.quoting import quoted

ABOVE_OWNERS = ("organisation",)  # meant for a layer above owners, so without a time zone of its own


@dataclass(frozen=True, slots=True)
class Template:
    """One template. `text` is a whole policy."""

    name: str
    title: str
    words: str
    text: str

    @property
    def layer(self) -> str:
        """The layer that it is meant for."""
        return "organisation" if self.name in ABOVE_OWNERS else "owner"


def templates() -> list[Template]:
    """All of them, by name."""
    folder = resources.files("indai.policy") / "templates"
    names = sorted(
        file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml")
    )
    return [template(name) for name in names]


def template(name: str) -> Template:
    """One by its name. Raises NotFound."""
    file = resources.files("indai.policy") / "templates" / f"{name}.yaml"
    if not re.fullmatch(r"[a-z-]+", name) or not file.is_file():
        raise NotFound(
            Reason.NOT_FOUND, f"There is no template {quoted(name)}.", hint="see: indai policy templates list"
        )
    text = file.read_text(encoding="utf-8")
    title, words, *_ = (line.removeprefix("# ") for line in text.splitlines())
    return Template(name, title, words, text)


def fill(one: Template, time_zone: str = "", currency: str = "") -> str:
    """The template's text for an owner's zone and currency. Raises InvalidInput(INVALID_POLICY) for wrong
    ones.
    """
    text = one.text
    if time_zone:
        text = re.sub(r"^timezone: .*$", lambda _: f"timezone: {time_zone}", text, flags=re.MULTILINE)
    if currency:
        text = re.sub(r"^currency: .*$", lambda _: f"currency: {currency}", text, flags=re.MULTILINE)
    parse(text, one.layer)
    return text
