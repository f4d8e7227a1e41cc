"""Lines of the memory export format, taken in: strictly, all of a call or nothing, and once however often."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import asyncpg
from indai.memory import chunks, factstore, graph, knowledge, requests, states, turns
from indai.memory.access import Scope, ScopeKind, Sight
from indai.memory.facts import Record
from indai.memory.interfaces import Fact, Kind, Role, Trust, Turn
from indai.memory.portable import FORMAT, MAX_LINES, VERSION
from indai.memory.queue import Job, Task, enqueue
from indai.memory.session import writing
from indai.memory.times import new_uuid
from indai.memory.turns import Saying
from indai.protocol.errors import IndaiError, InvalidInput, Reason

_KINDS = {kind.value: kind for kind in (Kind.SUMMARY, Kind.COMMITMENT)}
_SOURCES = "SELECT id FROM memory.chunks WHERE scope = $1 AND id = ANY ($2)"


@dataclass(slots=True)
class Parsed:
    """The lines of one scope."""

    turns: list[tuple[UUID, Saying]] = field(default_factory=list)
    chunks: list[tuple[Kind, chunks.NewChunk]] = field(default_factory=list)
    facts: list[Record] = field(default_factory=list)
    edges: list[graph.Edge] = field(default_factory=list)
    opinions: list[tuple[states.Opinion, str, Trust, int]] = field(default_factory=list)
    documents: list[tuple[knowledge.Document, int]] = field(default_factory=list)
    lines: int = 0


@dataclass(frozen=True, slots=True)
class Imported:
    """How many lines of each type were new, and how many were known."""

    added: Mapping[str, int]
    known: int


async def take_in(pool: asyncpg.Pool, look: Sight, lines: bytes, now_ms: int) -> Imported:
    """Take lines in. Raises InvalidInput (INVALID_EXPORT) naming the first line that is wrong, and then
    nothing
    of its scope is stored."""
    parsed = parse(look, lines, now_ms)
    added: Counter[str] = Counter()
    count = 0
    for scope, part in parsed.items():
        person = scope.key if scope.kind is ScopeKind.RELATIONSHIP else ""
        async with writing(pool, scope, person=person) as connection:
            added.update(await _store(connection, look, scope, part, now_ms))
        count += part.lines
    return Imported({name: n for name, n in added.items() if n}, count - added.total())


def parse(look: Sight, lines: bytes, now_ms: int) -> dict[Scope, Parsed]:
    """The lines by scope. Raises InvalidInput, NotFound or Refused for the first that can't be taken."""
    if len(lines) > MAX_LINES:
        raise InvalidInput(
            Reason.TOO_LARGE, "One import takes at most 1 MiB of lines.", hint="send fewer at a time"
        )
    parsed: dict[Scope, Parsed] = {}
    for number, line in enumerate(lines.splitlines(), 1):
        try:
            value = json.loads(line)
            if "format" in value:
                _header(value)
            else:
                part = parsed.setdefault(_scope(look, value["scope"]), Parsed())
                _READERS[value["type"]](part, value, now_ms)
                part.lines += 1
        except IndaiError as error:
            error.message = f"Line {number}: {error.message}"
            raise
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise InvalidInput(
                Reason.INVALID_EXPORT,
                f"Line {number} is not one of the memory export format.",
                hint="see docs/memory-export.md",
            ) from None
    return parsed


def _header(value: Mapping[str, Any]) -> None:
    if value["format"] != FORMAT or value["version"] != VERSION:
        raise InvalidInput(
            Reason.UNSUPPORTED,
            "This is no memory export of a version that is known here.",
            hint=f"it takes {FORMAT}, version {VERSION}",
        )


def _scope(look: Sight, value: Mapping[str, Any]) -> Scope:
    key = requests.name(value["id"], "scope.id")
    return look.write(Scope(look.tenant, ScopeKind(value["kind"]), key))


def _turn(parsed: Parsed, value: Mapping[str, Any], now_ms: int) -> None:
    turn = Turn(
        requests.text(value["source_id"], "source_id"),
        requests.name(value["speaker"], "speaker"),
        Role(value["role"]),
        requests.text(value["text"], "text", requests.MAX_TEXT),
        _time(value["said_ms"]),
        requests.text(value["session"], "session", empty=True),
    )
    saying = Saying(turn, requests.name(value["person"], "person"), Trust(value["trust"]))
    parsed.turns.append((UUID(value["id"]), saying))


def _chunk(parsed: Parsed, value: Mapping[str, Any], now_ms: int) -> None:
    chunk = chunks.NewChunk(
        requests.text(value["source_id"], "source_id"),
        requests.text(value["text"], "text", requests.MAX_TEXT),
        _time(value["said_ms"]),
        requests.name(value["origin"], "origin"),
        Trust(value["trust"]),
        session=requests.text(value["session"], "session", empty=True),
        speaker=requests.name(value["speaker"], "speaker"),
        person=requests.name(value["person"], "person"),
        importance=_share(value["importance"]),
        id=UUID(value["id"]),
    )
    parsed.chunks.append((_KINDS[value["type"]], chunk))


def _fact(parsed: Parsed, value: Mapping[str, Any], now_ms: int) -> None:
    held = requests.value(requests.dumped(value["value"]), "value")
    fact = Fact(
        requests.name(value["key"], "key", empty=False),
        held,
        _share(value["confidence"]),
        requests.name(value["language"], "language"),
    )
    source = UUID(value["source"]) if value["source"] else None
    parsed.facts.append(
        Record(
            new_uuid(now_ms),
            fact,
            requests.name(value["person"], "person"),
            requests.name(value["origin"], "origin"),
            Trust(value["trust"]),
            _time(value["valid_from_ms"]),
            source,
            bool(value["pending"]),
            _time(value["valid_to_ms"]),
            frozenset({source} if source else ()),
        )
    )


def _relation(parsed: Parsed, value: Mapping[str, Any], now_ms: int) -> None:
    parsed.edges.append(
        graph.Edge(
            new_uuid(now_ms),
            requests.name(value["subject"], "subject", empty=False),
            requests.name(value["predicate"], "predicate", empty=False),
            requests.name(value["object"], "object", empty=False),
            _share(value["confidence"]),
            requests.name(value["origin"], "origin"),
            Trust(value["trust"]),
            _time(value["valid_from_ms"]),
            requests.name(value["person"], "person"),
            ended_ms=_time(value["valid_to_ms"]),
        )
    )


def _opinion(parsed: Parsed, value: Mapping[str, Any], now_ms: int) -> None:
    opinion = states.Opinion(
        requests.name(value["topic"], "topic", empty=False),
        requests.text(value["stance"], "stance", 4 * 1024),
        _time(value["valid_from_ms"]),
    )
    origin, trust = requests.name(value["origin"], "origin"), Trust(value["trust"])
    parsed.opinions.append((opinion, origin, trust, _time(value["valid_to_ms"])))


def _document(parsed: Parsed, value: Mapping[str, Any], now_ms: int) -> None:
    document = knowledge.Document(
        requests.name(value["name"], "name", empty=False),
        requests.name(value["title"], "title"),
        requests.text(value["text"], "text", requests.MAX_DOCUMENT),
    )
    parsed.documents.append((document, _time(value["updated_ms"])))


_READERS: Mapping[str, Callable[[Parsed, Mapping[str, Any], int], None]] = {
    "turn": _turn,
    "summary": _chunk,
    "commitment": _chunk,
    "fact": _fact,
    "relation": _relation,
    "opinion": _opinion,
    "document": _document,
}


def _time(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= requests.MAX_MS:
        raise ValueError(value)
    return value


def _share(value: object) -> float:
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(value)
    return float(value)


async def _store(
    connection: asyncpg.Connection,
    look: Sight,
    scope: Scope,
    part: Parsed,
    now_ms: int,
) -> dict[str, int]:
    added = {"turn": await _store_turns(connection, scope, [saying for _, saying in part.turns], part)}
    for kind in _KINDS.values():
        some = [chunk for each, chunk in part.chunks if each is kind]
        columns = await turns.count_terms([chunk.text for chunk in some])
        added[kind.value] = len(await chunks.put(connection, scope, kind, some, columns))
    added["fact"] = await factstore.restore(
        connection, scope, await _sourced(connection, scope, part.facts), now_ms
    )
    added["relation"] = await graph.restore(connection, scope, part.edges)
    added["opinion"] = sum(
        [
            await states.restore_opinion(connection, scope, opinion, origin, trust, ended, now_ms)
            for opinion, origin, trust, ended in part.opinions
        ]
    )
    documents = 0
    for document, updated_ms in part.documents:
        documents += await knowledge.put(connection, scope, document, look.origin, look.trust, updated_ms)
    added["document"] = documents
    if added["turn"] or part.chunks:
        await enqueue(connection, [Job(Task.EMBED, scope.id)])
    return added


async def _store_turns(
    connection: asyncpg.Connection, scope: Scope, sayings: Sequence[Saying], part: Parsed
) -> int:
    if not sayings:
        return 0
    columns = await turns.count_terms([saying.turn.text for saying in sayings])
    ids = [identifier for identifier, _ in part.turns]
    batch = await turns.store(connection, scope, "import", sayings, columns, ids)
    return len(batch.new)


async def _sourced(connection: asyncpg.Connection, scope: Scope, facts: Sequence[Record]) -> list[Record]:
    """Facts whose turn is not here stand without it."""
    rows = await connection.fetch(_SOURCES, scope.id, [row.source for row in facts if row.source])
    here = {row["id"] for row in rows}
    return [row if row.source in here else row.without_source() for row in facts]
