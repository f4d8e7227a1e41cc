"""A proposed change of a persona as a value, and what would come of it. Pure.

A change is a merge patch (RFC 7396) of the HUMAN tier: what it doesn't name stays, null takes a key away.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import yaml
from indai.protocol.errors import InvalidInput, Reason
from indai.protocol.quoting import quoted
from indai.runtime.tiers import Human, Kind, dump, parse

MAX_CHANGE: Final = 16 * 1024
PERSONALITY: Final = (
    "identity",
    "voice",
    "languages",
    "mixes",
    "formality",
    "never",
    "greetings",
    "deflection",
)
"""What a proposal may change. A guardrail is no matter of personality, nor is who somebody is called."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """One row. `asked`: in how many conversations people wished for it; `version`: what it became."""

    id: UUID
    tenant: str
    human: str
    state: str
    change: Mapping[str, Any]
    wish: str
    reason: str
    created_by: str
    created_at: datetime
    asked: int
    decided_by: str
    note: str
    decided_at: datetime | None
    version: int | None


def read_change(text: str) -> dict[str, Any]:
    """A change from YAML. Raises InvalidInput for anything that is no change of a personality."""
    if len(text) > MAX_CHANGE:
        raise _wrong(f"A change has at most {MAX_CHANGE // 1024} KiB.")
    try:
        # A few lines of aliases are a tree of billions, or one without an end.
        refers = any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader))
        value = None if refers else yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError):  # ValueError: the thirtieth of February
        raise _wrong("The change is no YAML.") from None
    if refers:
        raise _wrong("A change says nothing by alias.", "write it out each time")
    if not isinstance(value, dict) or not value:
        raise _wrong("A change names what is to be different.", "formality: formal")
    if not _is_plain(value):
        raise _wrong("A change has only texts, numbers, yes and no, lists and mappings.")
    for key in value:
        if key not in PERSONALITY:
            raise _wrong(f"A proposal can't change {quoted(str(key))}.", f"it may: {', '.join(PERSONALITY)}")
    return value


def changed(config: Mapping[str, Any], change: Mapping[str, Any], slug: str) -> Human:
    """The persona with a change. Raises InvalidInput for what would be no persona."""
    human = parse(Kind.HUMAN, _merged(config, change), f"persona {slug} with this change")
    assert isinstance(human, Human)  # noqa: S101 - the kind says so
    return human


def difference(config: Mapping[str, Any], after: Human, slug: str, version: int) -> str:
    """What a change does to a version, as a unified diff; nothing when it does nothing."""
    return "\n".join(
        difflib.unified_diff(
            as_yaml(config).splitlines(),
            as_yaml(dump(after)).splitlines(),
            f"{slug} version {version}",
            f"{slug} as proposed",
            lineterm="",
        )
    )


def as_yaml(config: Mapping[str, Any]) -> str:
    """As configurations are shown."""
    return yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True, width=100)


def _is_plain(value: object) -> bool:
    """Whether a row can hold it as JSON, and give it back the same."""
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value) and all(map(_is_plain, (*value, *value.values())))
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int) or (isinstance(value, str) and "\0" not in value)


def _merged(value: object, patch: object) -> object:
    if not isinstance(patch, Mapping):
        return patch
    whole = dict(value) if isinstance(value, Mapping) else {}
    for key, each in patch.items():
        if each is None:
            whole.pop(key, None)
        else:
            whole[key] = _merged(whole.get(key), each)
    return whole


def _wrong(message: str, hint: str = "see docs/tiers.md") -> InvalidInput:
    return InvalidInput(Reason.INVALID_ARGUMENT, message, hint=hint)
