"""Tools that only look something up: events and checked facts of the team, documents to fill in.

What the team knows is written by its administrators as documents (`indai memory document`), named `event/…`
or `fact/…`; nothing is answered that is not written there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import yaml
from indai.protocol.errors import InvalidInput, Reason
from indai.tools.intents.remembering import access_of
from indai.tools.normalise import one_line
from indai.tools.values import Caller, Progress, Spec, Tool
from indai.v1 import memory_pb2 as pb

if TYPE_CHECKING:
    from indai.v1.memory_pb2_grpc import MemoryServiceAsyncStub

ANYWHERE: Final = frozenset({"private", "public", "distribution"})
_FOUND: Final = {
    "type": "object",
    "properties": {
        "found": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "text": {"type": "string", "x-label": "", "x-importance": 3},
                    "source": {"type": "string"},
                },
            },
        },
        "count": {"type": "integer"},
    },
    "required": ["found", "count"],
}
_SHELVES: Final = {
    "fetch-event": ("event/", "Look up events: shows, releases, meetings of fans."),
    "fact-check-lookup": ("fact/", "Look up what the team has checked of a claim, with its source."),
}
_FIELD: Final = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True)
class Shelf:
    """Documents of the team whose names begin alike."""

    name: str
    prefix: str
    description: str
    memory: MemoryServiceAsyncStub

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        query = {"type": "string", "minLength": 1, "maxLength": 500, "x-label": "About"}
        arguments = {
            "type": "object",
            "properties": {"query": query},
            "required": ["query"],
            "additionalProperties": False,
        }
        return Spec(self.name, self.description, arguments, _FOUND, doors=ANYWHERE)

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`."""
        request = pb.SearchDocumentsRequest(access=access_of(caller), query=arguments["query"], limit=20)
        hits = (await self.memory.SearchDocuments(request)).hits
        found = [
            {"text": each.text, "source": each.source_id}
            for each in hits
            if each.source_id.startswith(self.prefix)
        ]
        return {"found": found[:5], "count": len(found)}


@dataclass(frozen=True, slots=True)
class DocTemplate:
    """Fills in one of the documents that come with the program."""

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        fields = {
            "type": "object",
            "maxProperties": 20,
            "additionalProperties": {"type": "string", "maxLength": 2_000},
        }
        template = {"type": "string", "enum": sorted(templates()), "x-label": "Template"}
        arguments = {
            "type": "object",
            "properties": {"template": template, "fields": {**fields, "x-label": "Fields"}},
            "required": ["template"],
            "additionalProperties": False,
        }
        result = {
            "type": "object",
            "properties": {
                "title": {"type": "string", "x-importance": 2},
                "text": {"type": "string", "x-importance": 3},
            },
            "required": ["title", "text"],
        }
        return Spec(
            "doc-template",
            "Fill in a document: a notice, a demand or a complaint. It gives no advice.",
            arguments,
            result,
            doors=ANYWHERE,
        )

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`. Raises InvalidInput that asks for what is missing."""
        template, given = templates()[arguments["template"]], arguments.get("fields", {})
        unknown = sorted(set(given) - set(template["fields"]))
        missing = [label for name, label in template["fields"].items() if not given.get(name, "").strip()]
        if unknown or missing:
            asked = (
                f"Please tell me: {'; '.join(missing)}."
                if missing
                else f"There is no field {unknown[0][:40]}."
            )
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, asked, metadata={"code": "MISSING" if missing else "UNKNOWN_FIELD"}
            )
        # Each is put in once: braces inside what was given are not fields.
        text = _FIELD.sub(lambda found: one_line(given[found[1]], 2_000), template["text"])
        return {"title": template["title"], "text": text}


@cache
def templates() -> Mapping[str, Any]:
    """The documents by name."""
    text = resources.files(__package__).joinpath("templates.yaml").read_text("utf-8")
    found: Mapping[str, Any] = yaml.safe_load(text)
    return found


def library(memory: MemoryServiceAsyncStub | None) -> tuple[Tool, ...]:
    """The tools that look something up; shelves need a memory role."""
    shelves: tuple[Tool, ...] = ()
    if memory is not None:
        shelves = tuple(Shelf(name, prefix, words, memory) for name, (prefix, words) in _SHELVES.items())
    return DocTemplate(), *shelves
