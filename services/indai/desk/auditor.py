"""The auditor's page, which checks files in the browser, for anybody.

What it checks never leaves the browser: the page gives it the code and the tables of the contract's fields,
by which signed bytes are shown, and the words of its steps in the visitor's language.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files
from typing import Any, Final

from aiohttp import web
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from indai.v1 import negotiation_pb2
from indai.web.site import Site
from indai.web.visit import Visit

SCRIPTS: Final = ("verify.js", "registry.js", "evidence.js", "audit.js")
_SAID: Final = re.compile(r'\b(?:w|wrong|refuse)\(\s*("(?:[^"\\]|\\.)+")')
_SHOWN: Final = (negotiation_pb2.Commitment, negotiation_pb2.Event)


class Auditor:
    """The page, which needs no sign-in."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> tuple[web.RouteDef, ...]:
        """What the site serves of it."""
        return (
            self._site.get("/audit", self._audit),
            web.get("/audit/fields.json", _fields),
        )

    async def _audit(self, visit: Visit) -> web.Response:
        told = {said: visit.words(said) for said in script_words()}
        return visit.page("desk/audit.html", told=json.dumps(told, ensure_ascii=False))


@cache
def script_words() -> tuple[str, ...]:
    """What the scripts of the auditor's page say, in English, as their source has it: `w("…")`."""
    found: set[str] = set()
    for name in SCRIPTS:
        source = files("indai.web").joinpath("static", name).read_text("utf-8")
        found |= {json.loads(text) for text in _SAID.findall(source)}
    return tuple(sorted(found))


async def _fields(_: web.Request) -> web.Response:
    """The field tables, the same for everybody until the contract changes."""
    headers = {"Cache-Control": "public, max-age=3600", "X-Content-Type-Options": "nosniff"}
    answer = web.Response(text=json.dumps(field_tables()), content_type="application/json", headers=headers)
    answer.enable_compression()
    return answer


@cache
def field_tables() -> dict[str, dict[str, Any]]:
    """By message: field number to (name, type, repeated); by enumeration: `enum`, number to name."""
    tables: dict[str, dict[str, Any]] = {}
    for message in _SHOWN:
        _describe(message.DESCRIPTOR, tables)
    return tables


def _describe(descriptor: Descriptor, tables: dict[str, dict[str, Any]]) -> None:
    if descriptor.name in tables:
        return
    table = tables[descriptor.name] = {}
    for field in descriptor.fields:
        table[str(field.number)] = (field.name, _type(field, tables), field.is_repeated)


def _type(field: FieldDescriptor, tables: dict[str, dict[str, Any]]) -> str:
    if field.message_type is not None:
        _describe(field.message_type, tables)
        return field.message_type.name
    if field.enum_type is not None:
        values = {str(value.number): value.name for value in field.enum_type.values}
        tables[field.enum_type.name] = {"enum": values}
        return field.enum_type.name
    plain = {FieldDescriptor.TYPE_STRING: "string", FieldDescriptor.TYPE_BYTES: "bytes"}
    plain |= {FieldDescriptor.TYPE_BOOL: "bool", FieldDescriptor.TYPE_INT64: "int64"}
    return plain.get(field.type, "number")
