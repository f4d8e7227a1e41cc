"""What the documents say about the command line is what the program does."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from indai.cli.framework import Command
from indai.cli.main import cli
from indai.policy.compiled import compile_policy

from tests.unit.cli.documented import PATH, document

ROOT = Path(__file__).parents[3]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _blocks(path: Path, language: str) -> list[str]:
    return [text for name, text in _BLOCK.findall(path.read_text("utf-8")) if name == language]


def _commands() -> list[str]:
    lines = [line for block in _blocks(ROOT / "README.md", "") for line in block.splitlines()]
    return [line.removeprefix(".venv/bin/") for line in lines if "indai " in line and "git" not in line]


def test_the_reference_is_what_the_help_says() -> None:
    assert PATH.read_text("utf-8") == document(), "run: python -m tests.unit.cli.documented"


@pytest.mark.parametrize("line", _commands())
def test_every_command_of_the_readme_parses(line: str) -> None:
    _, *words = shlex.split(line)
    found: click.Command = cli
    while isinstance(found, click.Group):
        next_one = found.get_command(click.Context(found), words.pop(0))
        assert next_one is not None
        found = next_one
    assert isinstance(found, Command)
    found.make_context("indai", words).close()


def test_the_readme_shows_enough_commands_to_get_started() -> None:
    assert len(_commands()) > 15


def test_the_readmes_policy_compiles() -> None:
    (text,) = _blocks(ROOT / "README.md", "yaml")
    assert compile_policy(text).time_zone == "Europe/Berlin"


def test_every_link_of_the_front_pages_leads_somewhere() -> None:
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        for target in re.findall(r"\]\(([^)#]+)", (ROOT / name).read_text("utf-8")):
            assert target.startswith("https://") or (ROOT / target).exists(), f"{name}: {target}"
