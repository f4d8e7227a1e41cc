"""Tools on the wire: the same bytes for the same tools, since they stand above the cache boundary."""

from __future__ import annotations

import json
from collections.abc import Sequence

from indai.tools.values import Spec
from indai.v1 import llm_pb2 as pb


def wire_tools(specs: Sequence[Spec]) -> list[pb.ToolSpec]:
    """In the order of the specs."""
    return [
        pb.ToolSpec(
            name=spec.name,
            description=spec.description,
            arguments_schema_json=json.dumps(dict(spec.arguments), ensure_ascii=False),
        )
        for spec in specs
    ]
