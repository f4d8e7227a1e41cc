"""What the demonstration shows, and the checks behind every line of it."""

from __future__ import annotations

import sys
import time

from indai.cli.output import Page, wants_json


class DemoFailed(Exception):
    """A check did not hold; the message names it."""


class Stage:
    """Numbered scenes with short lines. With `--json` they go to stderr, and stdout keeps the one object."""

    def __init__(self) -> None:
        self._page = Page(sys.stderr if wants_json() else sys.stdout)
        self._scenes = 0
        self._begun = time.monotonic()
        self.checks = 0

    def scene(self, title: str) -> None:
        """The next scene."""
        self._scenes += 1
        self._page.line()
        self._page.line(f"{self._scenes}  {title}", "bold")

    def say(self, text: str) -> None:
        """What happens."""
        self._page.line(text, indent=3)

    def check(self, held: object, what: str) -> None:
        """One claim; raises DemoFailed when it does not hold."""
        if not held:
            self._page.item("NO", what, "red", indent=3)
            raise DemoFailed(what)
        self.checks += 1
        self._page.item("ok", what, "green", indent=3)

    @property
    def page(self) -> Page:
        """For tables and closing words."""
        return self._page

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._begun
