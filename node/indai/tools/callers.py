"""Callers as they are stored beside what waits or runs for them. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from indai.tools.values import Caller, Touch


def dump_caller(caller: Caller) -> str:
    """A caller as JSON text."""
    value = asdict(caller) | {
        "approvals": sorted(caller.approvals),
        "session_tools": None if caller.session_tools is None else sorted(caller.session_tools),
        "context": sorted(each.value for each in caller.context),
    }
    return json.dumps(value)


def read_caller(text: str) -> Caller:
    """A stored caller."""
    value = json.loads(text)
    narrowed = value["session_tools"]
    return replace(
        Caller(**value),
        approvals=frozenset(value["approvals"]),
        session_tools=None if narrowed is None else frozenset(narrowed),
        context=frozenset(Touch(each) for each in value["context"]),
    )
