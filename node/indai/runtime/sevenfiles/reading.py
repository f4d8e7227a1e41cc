"""The seven files of a concierge, read strictly: what isn't understood is an error, never left out. Pure.

    agents.md     where it answers: `- door: distribution`, `- channels: web`, …
    identity.md   `# Name`, who that is, `## Voice` and how it sounds, `- languages: en, hi`
    soul.md       `## Voice`: `- say:`, `- avoid:`, `- never:`; `## Rules`: one rule a line
    tools.md      `## name(arg, arg)`, then when to use it
    memory.md     `- memory: session`, `- recall: 0`
    user.md       a template of what is known of the person: `{{name|"somebody"}}`
    heartbeat.md  a template of the moment: `{{time|"unknown"}}`

Text that stands in no section is said to whoever reads the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from indai.protocol.errors import InvalidInput, Reason
from indai.protocol.quoting import quoted
from indai.runtime.templates import defaults

NAMES: Final = ("agents", "identity", "soul", "tools", "memory", "user", "heartbeat")
"""In the order in which they make one prompt."""
MAX_FILE: Final = 64 * 1024
RULE: Final = "\n\n---\n\n"
_PAIR: Final = re.compile(r"[-*] +(?P<key>[a-z_]+) *: *(?P<value>.+)")
_HEADING: Final = re.compile(r"(?P<level>#{1,6}) +(?P<title>.+)")
_TOOL: Final = re.compile(r"(?P<name>[a-z][a-z0-9_-]*)\((?P<arguments>[^()]*)\)")
_ARGUMENT: Final = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Section:
    """What stands under a heading. `title` is empty for what stands before the first one of the second level;
    `top` is the file's own heading."""

    top: str
    title: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """Its lines as one paragraph."""
        return " ".join(line for line in self.lines if line)


@dataclass(frozen=True, slots=True)
class ToolText:
    """A tool as tools.md describes it."""

    name: str
    arguments: tuple[str, ...]
    when: str


@dataclass(frozen=True, slots=True)
class SevenFiles:
    """The files as they were written, by name without its ending."""

    texts: Mapping[str, str] = field(repr=False)

    def flat(self) -> str:
        """One prompt of them, as such a concierge had it, with the templates' defaults."""
        filled = {**self.texts, **{name: defaults(self.texts[name]) for name in ("user", "heartbeat")}}
        return RULE.join(filled[name].strip() for name in NAMES)


def seven_files(given: Mapping[str, str]) -> SevenFiles:
    """From file names and texts. Raises InvalidInput that names what is missing, too much, or too long."""
    texts: dict[str, str] = {}
    for file, text in given.items():
        name = file.lower().removesuffix(".md")
        if not file.lower().endswith(".md") or name not in NAMES or name in texts:
            raise wrong(f"{quoted(file)} is none of the seven files", f"they are {_listed(NAMES)}")
        if len(text) > MAX_FILE:
            raise wrong(f"{file} is longer than {MAX_FILE // 1024} KiB")
        if not text.strip() or "\0" in text:
            raise wrong(f"{file} is empty or no text")
        texts[name] = text.replace("\r\n", "\n")
    if missing := [name for name in NAMES if name not in texts]:
        raise wrong(f"Of the seven files {_listed(missing)} is missing")
    return SevenFiles(texts)


def sections(text: str, where: str, known: Sequence[str]) -> dict[str, Section]:
    """By title in lower case, with what stands before the first as "". Raises InvalidInput for a section that
    isn't known, stands twice, or lies deeper."""
    top, title = "", ""
    lines: dict[str, list[str]] = {"": []}
    for line in map(str.strip, text.splitlines()):
        found = _HEADING.fullmatch(line)
        if found is None:
            lines[title].append(line)
            continue
        said = found["title"].strip()
        if found["level"] == "#" and not top and title == "":
            top = said
            continue
        title = said.casefold()
        if found["level"] != "##" or title in lines or title not in known:
            raise wrong(
                f"{where} has an unknown section {quoted(line)}", f"it may have {_listed(known, '## ')}"
            )
        lines[title] = []
    return {name: Section(top, name, tuple(each)) for name, each in lines.items()}


def pairs(lines: Sequence[str], where: str, known: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """The values of `- key: value`, and the lines that are none. Raises InvalidInput for a key that isn't
    known: one that is misspelt must not be missing silently."""
    found: dict[str, list[str]] = {}
    rest = []
    for line in lines:
        pair = _PAIR.fullmatch(line)
        if pair is None:
            rest.append(line)
            continue
        if pair["key"] not in known:
            raise wrong(f"{where} has an unknown key {quoted(pair['key'])}", f"it may have {_listed(known)}")
        found.setdefault(pair["key"], []).append(pair["value"].strip())
    return found, rest


def tools(text: str) -> tuple[ToolText, ...]:
    """The tools of tools.md, in its order."""
    made: list[tuple[str, tuple[str, ...], list[str]]] = []
    for line in map(str.strip, text.splitlines()):
        heading = _HEADING.fullmatch(line)
        if heading is None:
            if made:
                made[-1][2].append(line)
            continue
        if heading["level"] == "#" and not made:
            continue
        call = _TOOL.fullmatch(heading["title"].strip())
        if heading["level"] != "##" or call is None:
            raise wrong(f"tools.md has {quoted(line)}", "write: ## name(arg, arg), then when to use it")
        arguments = tuple(each.strip() for each in call["arguments"].split(",") if each.strip())
        if not all(_ARGUMENT.fullmatch(each) for each in arguments) or len(set(arguments)) < len(arguments):
            raise wrong(f"tools.md has {quoted(line)}", "arguments are different words: name, email_address")
        made.append((call["name"].replace("_", "-"), arguments, []))
    whole = tuple(ToolText(name, given, " ".join(filter(None, when))) for name, given, when in made)
    for tool in whole:
        if not tool.when:
            raise wrong(f"tools.md does not say when {tool.name} is used")
    if len({tool.name for tool in whole}) < len(whole):
        raise wrong("tools.md has a tool twice")
    return whole


def wrong(what: str, hint: str = "see docs/tiers.md") -> InvalidInput:
    """One sentence about the files."""
    return InvalidInput(Reason.INVALID_ARGUMENT, f"{what}.", hint=hint)


def _listed(names: Sequence[str], before: str = "") -> str:
    return ", ".join(f"{before}{name}" for name in names)
