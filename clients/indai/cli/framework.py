"""The commands' own frame on click: lazy loading, sections in the help, examples, one place for errors."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import click
from indai.cli.errors import STATUSES, exit_status, wrong
from indai.cli.output import json_option, wants_json
from indai.client.because import acting_on

T = TypeVar("T")

SUMMARY = 68  # letters, of what a command is for
SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 80}


class Command(click.Command):
    """A command whose help ends with examples; a test runs each of them through the parser."""

    def __init__(self, name: str | None, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(name, **{**settings, "context_settings": SETTINGS})
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples, one a line, never wrapped."""
        with formatter.section("Example" if len(self.examples) == 1 else "Examples"):
            for example in self.examples:
                formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


class Group(click.Group):
    """Commands in named sections, each loaded when it is used: `{section: {name: "module:attribute"}}`, or
    `"module:attribute What it is for."` for a list that needn't load it to say so."""

    def __init__(self, name: str | None, sections: Mapping[str, Mapping[str, str]], **settings: Any) -> None:
        super().__init__(name, **{**settings, "context_settings": SETTINGS, "no_args_is_help": True})
        self._sections = sections

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the sections."""
        return [name for commands in self._sections.values() for name in commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load one command."""
        for commands in self._sections.values():
            if cmd_name in commands:
                module, _, attribute = commands[cmd_name].partition(" ")[0].partition(":")
                found: click.Command = getattr(importlib.import_module(module, "indai.cli"), attribute)
                return found
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The sections, each with its commands."""
        width = max(map(len, self.list_commands(ctx)))
        for section, names in self._sections.items():
            with formatter.section(section):
                formatter.write_dl([(name.ljust(width), self._purpose(ctx, name)) for name in names])

    def _purpose(self, ctx: click.Context, name: str) -> str:
        where = next(commands[name] for commands in self._sections.values() if name in commands)
        if words := where.partition(" ")[2]:
            return words
        found = self.get_command(ctx, name)
        return "" if found is None else found.get_short_help_str(limit=SUMMARY)


class Program(Group):
    """The whole program: every error ends here, as one sentence and an exit status."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; see `indai.cli.errors`."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            if not wants_json():
                raise
            where = error.ctx.command_path if error.ctx else "indai"
            ctx.exit(exit_status(wrong(error.format_message(), f"see: {where} --help")))
        except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
            raise  # a reader that has seen enough (`| head`) is no error to speak of: click ends quietly
        except (Exception, KeyboardInterrupt, asyncio.CancelledError) as error:  # noqa: BLE001 - the program's last line of defence
            ctx.exit(exit_status(error))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Environment and exit statuses."""
        with formatter.section("Environment"):
            formatter.write_dl(
                [
                    ("INDAI_DATA", "data directory (default: ~/.indai; root: /var/lib/indai/home)"),
                    ("INDAI_HANDLE", "the handle to act as, when several live here"),
                    ("INDAI_BECAUSE", "threads that a program acts on by this command: a hop more"),
                    ("INDAI_DATABASE_URL", "another Postgres instead of the embedded one"),
                    ("INDAI_CELL_TOKEN", "what roles in several processes show each other"),
                    ("NO_COLOR", "no colour, also on a terminal"),
                ]
            )
        with formatter.section("Exit status"):
            formatter.write_dl([(str(status), words) for status, words in STATUSES.items()])


def command(name: str, *examples: str) -> Callable[[Callable[..., Any]], Command]:
    """A command with `--json` and examples."""

    def decorate(function: Callable[..., Any]) -> Command:
        return click.command(name, cls=Command, examples=examples)(json_option(function))

    return decorate


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's asynchronous part. What INDAI_BECAUSE names is what a program that runs the command
    acts on: it is passed on."""
    with acting_on(*filter(None, os.environ.get("INDAI_BECAUSE", "").split(","))):
        return asyncio.run(work)
