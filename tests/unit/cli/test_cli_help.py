"""Help texts: complete, within 80 columns, and their examples are commands that parse."""

from __future__ import annotations

import shlex
import subprocess
import sys

import click
import pytest
from indai.cli.errors import STATUSES
from indai.cli.framework import SUMMARY, Command
from indai.cli.main import SECTIONS, cli
from indai.protocol.errors import Reason

from tests.unit.cli.runs import commands, run

ALL = [pytest.param(path, command, id=" ".join(path)) for path, command in commands()]


@pytest.mark.parametrize(("path", "command"), ALL)
def test_every_command_has_help_with_an_example_and_json(path: tuple[str, ...], command: Command) -> None:
    result = run(*path, "--help")
    assert result.exit_code == 0
    assert "--json" in result.output
    assert "Example" in result.output
    assert command.examples


@pytest.mark.parametrize(("path", "command"), ALL)
def test_every_example_is_a_command_that_parses(path: tuple[str, ...], command: Command) -> None:
    for example in command.examples:
        words = shlex.split(example.partition("$(")[2].rstrip(")") or example)
        assert words[: len(path) + 1] == ["indai", *path]
        command.make_context(" ".join(path), words[len(path) + 1 :]).close()


@pytest.mark.parametrize(("path", "command"), ALL)
def test_help_fits_eighty_columns_but_for_lines_to_paste(path: tuple[str, ...], command: Command) -> None:
    lines = run(*path, "--help").output.splitlines()
    pasted = {f"  {example}" for example in command.examples}
    assert [line for line in lines if len(line) > 80 and line not in pasted] == []


def test_the_program_lists_every_command_and_every_exit_status() -> None:
    output = run("--help").output
    for path, _ in commands():
        assert f"  {path[0]} " in output
    for status in STATUSES:
        assert f"  {status} " in output
    assert all(len(line) <= 80 for line in output.splitlines())


def test_no_summary_of_a_command_is_cut_off() -> None:
    groups = ("handle", "policy", "calendar", "ledger", "registry")
    assert [words for words in ((), *((group,) for group in groups)) if "..." in _summaries(*words)] == []


def _summaries(*group: str) -> str:
    return run(*group, "--help").output.partition("Options:")[2]


def test_every_reason_has_a_documented_exit_status() -> None:
    assert {reason.status.exit for reason in Reason} <= set(STATUSES)


def test_the_list_of_all_commands_says_what_each_says_of_itself() -> None:
    context = click.Context(cli)
    for section in SECTIONS.values():
        for name, where in section.items():
            found = cli.get_command(context, name)
            assert found is not None
            assert where.partition(" ")[2] == found.get_short_help_str(limit=SUMMARY), name


def test_the_list_of_all_commands_loads_none_of_them() -> None:
    """In a process of its own: this one has loaded everything."""
    program = (
        "import sys; from indai.cli.main import cli\n"
        "try: cli(['--help'])\n"
        "finally: print(*(each for each in sys.modules if each.startswith('indai.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    frame = {f"indai.cli.{each}" for each in ("main", "framework", "errors", "output")}
    assert {each for each in loaded if each.startswith("indai.cli.")} == frame
    assert not [each for each in loaded if each.startswith(("indai.node", "indai.v1"))]


def test_groups_show_their_commands_without_arguments() -> None:
    context = click.Context(cli)
    for name in ("handle", "policy", "calendar", "ledger", "registry"):
        group = cli.get_command(context, name)
        assert isinstance(group, click.Group)
        output = run(name).output
        assert all(f"  {each} " in output for each in group.list_commands(context))
