"""What commands say: one JSON object with `--json`, else lines for a person.

Human output fits 80 columns, is aligned, and is coloured on a terminal only (`NO_COLOR` is respected). Text
that came from elsewhere is never markup and never a control sequence here.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

import click
from click.core import ParameterSource
from indai.protocol.errors import IndaiError
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

WIDTH = 80
_JSON = "indai.json"

Row = Sequence[str]


class Page:
    """Lines for a person. A style is one of rich's: `bold`, `green`, `red`, `yellow`, `dim`."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._width = min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns)
        self._console = Console(
            file=self._stream, width=self._width, highlight=False, markup=False, emoji=False
        )

    def line(self, text: str = "", style: str = "", indent: int = 0) -> None:
        """One paragraph, wrapped; an empty one without text."""
        lead = " " * indent
        for paragraph in clean(text).split("\n"):
            # A word that is longer than a line, such as a path, is not broken: people copy it.
            lines = textwrap.wrap(
                paragraph, self._width - indent, break_long_words=False, break_on_hyphens=False
            )
            for line in lines or [""]:
                self._print(Text(lead + line, style), wrapped=False)

    def item(self, mark: str, text: str, style: str = "", indent: int = 0) -> None:
        """A paragraph behind a mark, its lines below each other."""
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_row(Text(mark, style), Text(clean(text)))
        self._print(Padding(grid, (0, 0, 0, indent), expand=False))

    def raw(self, text: str) -> None:
        """Text exactly as it is, for a program or a clipboard."""
        self._print(Text(text), wrapped=False)

    def command(self, text: str) -> None:
        """A command to paste: never wrapped."""
        self._print(Text("  " + clean(text), "cyan"), wrapped=False)

    def fields(self, rows: Sequence[tuple[str, str]], indent: int = 0) -> None:
        """Names and values, aligned; rows without a value are left out."""
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True, style="dim")
        table.add_column(overflow="fold")
        for name, value in rows:
            if value:
                table.add_row(name, Text(clean(value)))
        self._print(Padding(table, (0, 0, 0, indent), expand=False))

    def table(self, header: Row, rows: Sequence[Row], styles: Mapping[str, str] | None = None) -> None:
        """A table; the last column wraps. `styles` colours cells by their text."""
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        for number, name in enumerate(header):
            last = number + 1 == len(header)
            table.add_column(name, no_wrap=not last, overflow="fold" if last else "ellipsis")
        for row in rows:
            table.add_row(*(Text(clean(cell), (styles or {}).get(cell, "")) for cell in row))
        self._print(table)

    def next_step(self, *commands: str) -> None:
        """What to do now."""
        self.line("Next:", "dim")
        for command in commands:
            self.command(_as_given(command))

    def _print(self, content: RenderableType, *, wrapped: bool = True) -> None:
        with self._console.capture() as capture:
            self._console.print(content, soft_wrap=not wrapped)
        # What rich fills lines up with would be copied along with the text.
        lines = [line.rstrip() for line in capture.get().split("\n")]
        self._stream.write("\n".join(lines))
        self._stream.flush()


def emit(value: Mapping[str, Any], human: Callable[[Page], None]) -> None:
    """The result of a command: `value` as JSON when that was asked for, else what `human` writes."""
    if wants_json():
        click.echo(json.dumps(value, ensure_ascii=False))
    else:
        human(Page())


def emit_error(error: IndaiError) -> None:
    """The sentence and the next step on stderr; with `--json` an object on stdout as well."""
    if wants_json():
        shown = {"reason": error.reason.name, "message": error.message, "hint": error.hint}
        if error.fields:
            shown = {**shown, "fields": error.fields}  # type: ignore[dict-item]
        click.echo(json.dumps({"error": shown}, ensure_ascii=False))
    page = Page(sys.stderr)
    page.line(f"indai: {sentence(error.message)}", "red")
    for name, problem in error.fields.items():
        if problem.rstrip(".") not in error.message:
            page.line(f"{name}: {problem}", indent=2)
    if error.hint:
        page.line(f"Next: {error.hint.rstrip('.')}")


def note(text: str) -> None:
    """A word about progress, on stderr so that stdout stays the result."""
    if not wants_json():
        Page(sys.stderr).line(text, "dim")


def wants_json() -> bool:
    """True when the running command was given `--json`."""
    context = click.get_current_context(silent=True)
    return bool(context and context.find_root().meta.get(_JSON))


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--json`; `emit` looks at it."""

    def remember(context: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            context.find_root().meta[_JSON] = True

    # Eager: also an error in another option is then told as JSON.
    return click.option(
        "--json",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=remember,
        help="Print one JSON object.",
    )(command)


def _as_given(command: str) -> str:
    """A command to paste, with the `--as` and `--data` that the running one was given."""
    context = click.get_current_context(silent=True)
    name = command.split()[1]
    for option, parameter, without in (("--as", "acting", _NOBODY), ("--data", "home", _NOWHERE)):
        given = context and context.get_parameter_source(parameter) is ParameterSource.COMMANDLINE
        if context and given and name not in without and option not in command:
            value = context.params[parameter]
            command += f" {option} {shlex.quote(str(getattr(value, 'path', value)))}"
    return command


# Commands without these options.
_NOWHERE = ("up", "audit")
_NOBODY = (*_NOWHERE, "handle", "registry", "secret")


def sentence(text: str) -> str:
    """A message as a sentence: its first letter large unless it is a name's, with a full stop."""
    stripped = text.strip()
    ended = stripped if stripped.endswith((".", "!", "?", ":")) else stripped + "."
    return ended[0].upper() + ended[1:] if stripped.partition(" ")[0].isalpha() else ended


def clean(text: str) -> str:
    """One or more lines without control characters."""
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text)
