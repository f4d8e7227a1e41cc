"""The reference of the command line, docs/cli.md, as the program itself tells it.

`python -m tests.unit.cli.documented` writes the file; a test compares the two.
"""

from __future__ import annotations

from pathlib import Path

import click
from indai.cli.main import cli

from tests.unit.cli.runs import commands, run

PATH = Path(__file__).parents[3] / "docs" / "cli.md"
_INTRODUCTION = """\
# The command line

This is what each `--help` says; a test compares them. Common to all commands:

- `--json` prints exactly one JSON object on stdout. An error is one too,
  `{"error": {"reason", "message", "hint"}}`, and its sentence stands on stderr in any case. Reasons are those
  of [errors](errors.md).
- Times are RFC 3339 in UTC in JSON, and in the owner's time zone for people.
- Commands that act as an owner read that owner's token from the data directory. `--as` may be left out when
  there is only one.
- Colour is for terminals only. Progress goes to stderr.
"""


def document() -> str:
    """The whole page."""
    parts = [_INTRODUCTION, _block((), 2)]
    groups: set[str] = set()
    for path, _ in commands():
        if len(path) > 1 and path[0] not in groups:
            groups.add(path[0])
            parts.append(_block(path[:1], 2))
        parts.append(_block(path, 1 + len(path)))
    return "\n".join(parts)


def _block(path: tuple[str, ...], level: int) -> str:
    title = " ".join(("indai", *path))
    return f"{'#' * level} {title}\n\n```text\n{run(*path, '--help').output.rstrip()}\n```\n"


if __name__ == "__main__":
    assert isinstance(cli, click.Group)
    PATH.write_text(document(), "utf-8")
