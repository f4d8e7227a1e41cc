"""Plan: what is known of a request that takes several messages. Pure.

A call of a tool that lacks arguments is not run: what was given is kept in working memory, the person is
asked for the rest, and the next call of the same tool is completed with what was kept. Code does this, so it
holds whatever the model remembers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from indai.tools.schemas import misfit, validator
from indai.tools.values import Spec
from indai.v1 import llm_pb2 as pb

MAX_KEPT: Final = 2_000
"""Characters of arguments that are kept."""


@dataclass(frozen=True, slots=True)
class Slots:
    """A request that is not whole yet."""

    tool: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)
    missing: tuple[str, ...] = ()

    def as_plain(self) -> dict[str, Any] | None:
        """For working memory; None when there is nothing."""
        if not self.tool:
            return None
        return {"tool": self.tool, "given": dict(self.given), "missing": list(self.missing)}


def slots_of(working: Mapping[str, Any]) -> Slots:
    """What working memory has kept."""
    kept = working.get("slots")
    if not isinstance(kept, dict):
        return Slots()
    return Slots(kept.get("tool", ""), kept.get("given", {}), tuple(kept.get("missing", ())))


def completed(call: pb.ToolCall, slots: Slots, specs: Sequence[Spec]) -> pb.ToolCall:
    """The call with what was given before, if that makes it whole; else the call as it is."""
    spec = next((each for each in specs if each.name == call.name), None)
    arguments = _arguments(call)
    if spec is None or arguments is None or not call.problem or slots.tool != call.name:
        return call
    whole = {**slots.given, **arguments}
    if misfit(validator(spec.arguments), whole):
        return call
    return pb.ToolCall(
        id=call.id,
        name=call.name,
        arguments_json=json.dumps(whole, ensure_ascii=False),
        opaque=call.opaque,
    )


def lacking(call: pb.ToolCall, slots: Slots, specs: Sequence[Spec]) -> Slots:
    """What a call that could not be run has and lacks; nothing if that is not what is wrong with it."""
    spec = next((each for each in specs if each.name == call.name), None)
    arguments = _arguments(call)
    if spec is None or arguments is None or not call.problem:
        return Slots()
    given = {**(slots.given if slots.tool == call.name else {}), **arguments}
    missing = tuple(name for name in spec.arguments.get("required", ()) if name not in given)
    if not missing or len(json.dumps(given)) > MAX_KEPT:
        return Slots()
    return Slots(call.name, given, missing)


def _arguments(call: pb.ToolCall) -> dict[str, Any] | None:
    try:
        found = json.loads(call.arguments_json or "{}")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
