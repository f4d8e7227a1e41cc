"""Reads `patterns.txt`: named parts of patterns, and the rules that are built of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files

from indai.memory.extraction.kin import WORDS

_NAME = re.compile(r"\{([A-Z]+)\}")


def _read() -> tuple[dict[str, str], list[list[str]]]:
    parts, rows = {"KIN": WORDS}, []
    for line in files("indai.memory.extraction").joinpath("patterns.txt").read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        if "\t" in line:
            *columns, pattern = line.split("\t")
            rows.append([*columns, _filled(pattern, parts)])
        elif " = " in line:
            name, _, pattern = line.partition(" = ")
            parts[name] = _filled(pattern, parts)
    return parts, rows


def _filled(pattern: str, parts: Mapping[str, str]) -> str:
    return _NAME.sub(lambda match: parts[match.group(1)], pattern)


_PARTS, ROWS = _read()


def compiled(name: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """A named part as a pattern of its own, in any case."""
    return re.compile(_PARTS[name], flags | re.IGNORECASE)
