"""Running commands in this process, for the tests of the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click
from click.testing import CliRunner, Result
from indai.cli.framework import Command
from indai.cli.main import cli


def run(*arguments: str, **environment: str) -> Result:
    """One command, as at a shell without any INDAI_ variable."""
    unset = {"INDAI_DATA": None, "INDAI_HANDLE": None, "COLUMNS": "80"}
    return CliRunner().invoke(
        cli, list(arguments), env={**unset, **environment}, prog_name="indai", catch_exceptions=False
    )


def run_json(*arguments: str, **environment: str) -> Any:
    """The one object that a command with `--json` prints."""
    (line,) = run(*arguments, "--json", **environment).stdout.splitlines()
    return json.loads(line)


def commands(
    group: click.Group = cli, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Command]]:
    """Every command with the words that lead to it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from commands(found, (*path, name))
        else:
            assert isinstance(found, Command)
            yield (*path, name), found
