"""Tools on the wire: the same bytes for the same tools, since they stand above the cache boundary."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from indai.runtime.tiers import ToolUse
from indai.tools.values import Spec
from indai.v1 import llm_pb2 as pb

_NO_USES: Mapping[str, ToolUse] = MappingProxyType({})


def wire_tools(specs: Sequence[Spec], uses: Mapping[str, ToolUse] = _NO_USES) -> list[pb.ToolSpec]:
    """In the order of the specs, each as its agent uses it."""
    return [_wire(spec, uses.get(spec.name)) for spec in specs]


def _wire(spec: Spec, use: ToolUse | None) -> pb.ToolSpec:
    schema, description = dict(spec.arguments), spec.description
    if use is not None:
        description = f"{description}\n{use.when}"
        if use.arguments:
            given = {*use.arguments, *schema.get("required", ())}
            properties = schema.get("properties", {})
            schema["properties"] = {name: properties[name] for name in properties if name in given}
    return pb.ToolSpec(
        name=spec.name,
        description=description,
        arguments_schema_json=json.dumps(schema, ensure_ascii=False),
    )
