"""JSON schemas of arguments and results: checked when a tool is registered, and at every call. Pure.

Draft 2020-12 (json-schema.org). Arguments are closed objects: a property that no schema names is refused, so
that a model can't pass on what nobody looks at.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Final

import rfc8785
from indai.protocol.errors import InvalidInput, Reason
from indai.tools.values import Caller, Spec
from jsonschema import Draft202012Validator, SchemaError

MAX_ARGUMENTS: Final = 64 * 1024  # characters of all texts and names together, and the same for numbers
MAX_RESULT: Final = 256 * 1024
MAX_DEPTH: Final = 32
_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_LONGEST_NAME: Final = 60
_CUT: Final = 200
_SECRET: Final = "[secret]"  # noqa: S105 - what stands in a secret's place


def check_spec(spec: Spec) -> None:
    """Raises InvalidInput for a tool that could not be offered or checked."""
    if len(spec.name) > _LONGEST_NAME or not _NAME.fullmatch(spec.name):
        raise _bad(f"A tool is called {spec.name[:80]!r}", "small letters, digits and single hyphens")
    for which, schema in (("arguments", spec.arguments), ("result", spec.result)):
        if wrong := _wrong(json.dumps(schema, sort_keys=True)):
            raise _bad(f"The schema of the {which} of {spec.name} is none", wrong)
        if _refers_outside(schema):
            # A reference to another place would be fetched from there, by whoever checks.
            raise _bad(f"The schema of the {which} of {spec.name} refers outside itself", "use #/$defs/…")
        if schema.get("type") != "object":
            raise _bad(f"The {which} of {spec.name} are no object", 'give it "type": "object"')
    if spec.arguments.get("additionalProperties") is not False:
        raise _bad(f"The arguments of {spec.name} are open", 'give them "additionalProperties": false')


@functools.lru_cache(maxsize=512)
def _wrong(schema: str) -> str:
    """What makes this JSON text no schema, or empty. Nodes of one process register the same tools,
    and the check walks the whole of the standard's own schema for each."""
    try:
        Draft202012Validator.check_schema(json.loads(schema))
    except SchemaError as error:
        return error.message[:_CUT] or "it is none"
    return ""


def _refers_outside(schema: Any) -> bool:
    if isinstance(schema, Mapping):
        said = (schema.get(key, "#") for key in ("$ref", "$dynamicRef"))
        outside = any(isinstance(each, str) and not each.startswith("#") for each in said)
        return outside or any(map(_refers_outside, schema.values()))
    return isinstance(schema, list | tuple) and any(map(_refers_outside, schema))


def misfit(validator: Draft202012Validator, value: Any) -> str:
    """What is wrong with a value, naming the place and never what stands there; empty when nothing is."""
    error = next(iter(validator.iter_errors(value)), None)
    if error is None:
        return ""
    where = ".".join(str(part) for part in error.absolute_path)
    return f"{where or 'the whole'}: {_problem(error)}"


def validator(schema: Mapping[str, Any]) -> Draft202012Validator:
    """What checks values by a schema."""
    return Draft202012Validator(schema)


def _problem(error: Any) -> str:
    rule = error.validator
    match rule:
        case "required":
            missing = [name for name in error.validator_value if name not in error.instance]
            return f"{', '.join(missing)} is missing"
        case "additionalProperties":
            extra = sorted(set(error.instance) - set(error.schema.get("properties", ())))
            return f"there is no property {', '.join(repr(name[:40]) for name in extra[:3])}"
        case "enum":
            return f"must be one of {', '.join(map(str, error.validator_value))}"[:_CUT]
        case "type":
            return f"must be of the type {error.validator_value}"
        case _:
            return f"must satisfy {rule} {str(error.validator_value)[:80]}"


def too_large(value: Any, limit: int) -> bool:
    """Whether plain data is larger than `limit` or nested too deeply; ends as soon as that is known."""
    left, waiting = limit, [(value, 0)]
    while waiting:
        one, depth = waiting.pop()
        if isinstance(one, Mapping):
            left -= sum(len(str(key)) + 4 for key in one)
            waiting.extend((each, depth + 1) for each in one.values())
        elif isinstance(one, list | tuple):
            left -= 2 * len(one)
            waiting.extend((each, depth + 1) for each in one)
        else:
            left -= len(one) if isinstance(one, str) else 8
        if left < 0 or depth > MAX_DEPTH:
            return True
    return False


def canonical(value: Any) -> bytes:
    """RFC 8785 bytes of plain data. Raises InvalidInput for what JSON can't hold."""
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, ValueError, TypeError):
        raise InvalidInput(Reason.INVALID_ARGUMENT, "The value is no plain data.") from None


def action_hash(caller: Caller, name: str, arguments: Mapping[str, Any]) -> bytes:
    """SHA-256 of exactly one act: for whom, which tool, which arguments."""
    act = {
        "tenant": caller.tenant,
        "binding": caller.binding,
        "owner": caller.owner,
        "session": caller.session,
        "person": caller.person,
        "door": caller.door,
        "tool": name,
        "arguments": dict(arguments),
    }
    return hashlib.sha256(b"ind.ai tool call\n" + canonical(act)).digest()


def without_secrets(schema: Mapping[str, Any], value: Any) -> Any:
    """The value with a word in the place of every property that is marked `x-secret`, or `x-unkept`: seen by
    who asked, and in no row."""
    if isinstance(value, Mapping):
        properties = schema.get("properties", {})
        return {
            key: _SECRET
            if _is_unkept(properties.get(key, {}))
            else without_secrets(properties.get(key, {}), each)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [without_secrets(schema.get("items", {}), each) for each in value]
    return value


def _is_unkept(about: Mapping[str, Any]) -> bool:
    return bool(about.get("x-secret") or about.get("x-unkept"))


def _bad(what: str, hint: str) -> InvalidInput:
    return InvalidInput(Reason.INVALID_ARGUMENT, f"{what}.", hint=hint)
