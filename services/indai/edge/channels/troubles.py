"""What a provider's refusal means, and what to do about it: words for the reasons of `judge`, and of a test.

The table is `troubles.yaml`; a reason that it does not have stays its own word. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

import yaml

_AWAY: Final = re.compile(
    r"(?:http|slack|telegram|gupshup)-5\d\d|whatsapp-(?:1|2|131000|131016|133004)"
    r"|slack-(?:internal_error|fatal_error|service_unavailable|request_timeout|team_added_to_org|no-json)"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a test has found: its machine-readable reason, a sentence, and what to do. `grave`: as
    long as it is so, nothing goes out or nothing comes in."""

    reason: str
    words: str
    hint: str
    grave: bool = True


def explained(reason: str, *, grave: bool = True, **values: str) -> Finding:
    """A reason in words; `values` are filled in, what a provider said as data on one line."""
    table = _table()
    # A subcode says more of a code, where it is known; a provider that is away says so by many.
    known = table.get(reason) or table.get(reason.rpartition("-")[0])
    words, hint = known or (table["away"] if _AWAY.fullmatch(reason) else ("", ""))
    shown = {name: " ".join(value.split())[:200] for name, value in values.items()}
    return Finding(
        reason, words.format_map(_Known(shown)), hint.format_map(_Known(shown)) if hint else "", grave
    )


class _Known(dict[str, str]):
    """What is not known stays empty."""

    def __missing__(self, _: str) -> str:
        return ""


@cache
def _table() -> Mapping[str, tuple[str, str]]:
    data = yaml.safe_load(resources.files(__package__).joinpath("troubles.yaml").read_text("utf-8"))
    return {reason: (words, hint) for reason, (words, hint) in data.items()}
