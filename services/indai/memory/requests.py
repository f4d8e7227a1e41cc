"""Requests as values: checked once, here, with the path of the field that is wrong."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from google.protobuf.timestamp_pb2 import Timestamp
from indai.memory.access import SINGLE, Access, Door, Scope, ScopeKind, Sight, sight
from indai.memory.chunks import NewChunk
from indai.memory.forgetting import Conditions
from indai.memory.graph import Edge
from indai.memory.interfaces import Fact, Json, Kind, Role, Trust, Turn
from indai.memory.knowledge import Document
from indai.memory.states import Opinion
from indai.memory.times import new_uuid
from indai.memory.turns import Saying
from indai.protocol.errors import InvalidInput, Reason
from indai.v1 import memory_pb2 as pb

MAX_NAME = 200  # bytes
MAX_TEXT = 128 * 1024
MAX_QUERY = 16 * 1024
MAX_VALUE = 8 * 1024
MAX_WORKING = 64 * 1024
MAX_DOCUMENT = 1024 * 1024
MAX_TURNS = 1_000
MAX_FACTS = 200
MAX_PAGE = 1_000
PAGE = 100
MAX_MS = 253_402_300_799_999  # the year 9999
_PREDICATE = re.compile(r"[a-z][a-z0-9_]{0,99}")

DOORS = {
    pb.DOOR_PRIVATE: Door.PRIVATE,
    pb.DOOR_WORK: Door.WORK,
    pb.DOOR_PUBLIC: Door.PUBLIC,
    pb.DOOR_DISTRIBUTION: Door.DISTRIBUTION,
    pb.DOOR_AGENT: Door.AGENT,
    pb.DOOR_ADMIN: Door.ADMIN,
}
SCOPE_KINDS = {
    pb.SCOPE_KIND_PRIVATE: ScopeKind.PRIVATE,
    pb.SCOPE_KIND_PUBLIC: ScopeKind.PUBLIC,
    pb.SCOPE_KIND_RELATIONSHIP: ScopeKind.RELATIONSHIP,
    pb.SCOPE_KIND_USER_BINDING: ScopeKind.USER_BINDING,
    pb.SCOPE_KIND_TEAM: ScopeKind.TEAM,
    pb.SCOPE_KIND_HUMAN: ScopeKind.HUMAN,
}
ROLES = {
    pb.SPEAKER_ROLE_PERSON: Role.PERSON,
    pb.SPEAKER_ROLE_AGENT: Role.AGENT,
    pb.SPEAKER_ROLE_SYSTEM: Role.SYSTEM,
    pb.SPEAKER_ROLE_TOOL: Role.TOOL,
    pb.SPEAKER_ROLE_RECALLED: Role.RECALLED,
}
KINDS = {
    pb.MEMORY_KIND_TURN: Kind.TURN,
    pb.MEMORY_KIND_SUMMARY: Kind.SUMMARY,
    pb.MEMORY_KIND_DOCUMENT: Kind.DOCUMENT,
    pb.MEMORY_KIND_COMMITMENT: Kind.COMMITMENT,
    pb.MEMORY_KIND_FACT: Kind.FACT,
}


def wrong(path: str, problem: str, reason: Reason = Reason.INVALID_ARGUMENT) -> InvalidInput:
    """The error for one field."""
    return InvalidInput(reason, f"The field {path} {problem}.", fields={path: problem})


def text(value: str, path: str, most: int = MAX_NAME, *, empty: bool = False) -> str:
    """Text that the database can hold, of at most so many bytes."""
    if not value and not empty:
        raise wrong(path, "is required")
    if "\0" in value:
        raise wrong(path, "contains a NUL character")
    if len(value) > most // 4 and len(value.encode("utf-8", "surrogatepass")) > most:
        raise wrong(path, f"is longer than {most} bytes", Reason.TOO_LARGE)
    return value


def name(value: str, path: str, *, empty: bool = True) -> str:
    """A name on one line."""
    if "\n" in text(value, path, empty=empty):
        raise wrong(path, "contains a line feed")
    return value


def who(access: pb.Access) -> Sight:
    """What the caller's door shows. Raises InvalidInput for a door that lacks a name, or no door."""
    if access.door not in DOORS:
        raise wrong("access.door", "is required")
    return sight(
        Access(
            name(access.tenant, "access.tenant", empty=False),
            DOORS[access.door],
            *(
                name(getattr(access, each), f"access.{each}")
                for each in ("peer", "person", "binding", "team", "human")
            ),
        )
    )


def scope(look: Sight, request: pb.Scope, path: str) -> Scope:
    """The scope under the tenant of the call."""
    kind = SCOPE_KINDS.get(request.kind)
    if kind is None:
        raise wrong(f"{path}.kind", "is required")
    key = name(request.id, f"{path}.id")
    if kind in SINGLE and key:
        raise wrong(f"{path}.id", f"must be empty: there is one scope {kind}")
    if kind not in SINGLE and not key:
        raise wrong(f"{path}.id", "is required")
    return Scope(look.tenant, kind, key)


def scopes(look: Sight, request: Sequence[pb.Scope]) -> list[Scope]:
    """The named scopes."""
    return [scope(look, one, f"scopes[{place}]") for place, one in enumerate(request)]


def target(look: Sight, request: Any) -> Scope:
    """Where a request writes: its `scope`, or the door's own."""
    return look.write(scope(look, request.scope, "scope") if request.HasField("scope") else None)


def source(look: Sight, request: Any) -> Scope:
    """The one scope a request reads: its `scope`, or the door's own."""
    if request.HasField("scope"):
        return look.read(scope(look, request.scope, "scope"))
    return look.write(None)


def time_ms(stamp: Timestamp, path: str) -> int:
    """Milliseconds since the epoch."""
    value = stamp.seconds * 1000 + stamp.nanos // 1_000_000
    if not 0 <= value <= MAX_MS:
        raise wrong(path, "is not a time from 1970 to 9999")
    return value


def moment(request: Any, field: str, default: int, path: str = "") -> int:
    """The time in a field, or the default when it is not set."""
    return time_ms(getattr(request, field), path or field) if request.HasField(field) else default


def said(look: Sight, turns: Sequence[pb.Turn], now_ms: int) -> list[Saying]:
    """Turns to store, each source once. What a tool or a memory says is nobody's word."""
    if len(turns) > MAX_TURNS:
        raise wrong("turns", f"has more than {MAX_TURNS} turns", Reason.TOO_LARGE)
    sayings: dict[str, Saying] = {}
    for place, turn in enumerate(turns):
        saying = _saying(look, turn, f"turns[{place}]", now_ms)
        sayings.setdefault(saying.turn.source_id, saying)
    return list(sayings.values())


def _saying(look: Sight, turn: pb.Turn, path: str, now_ms: int) -> Saying:
    role = ROLES.get(turn.role)
    if role is None:
        raise wrong(f"{path}.role", "is required")
    value = Turn(
        source_id=text(turn.source_id, f"{path}.source_id"),
        speaker=name(turn.speaker, f"{path}.speaker"),
        role=role,
        text=text(turn.text, f"{path}.text", MAX_TEXT),
        said_ms=moment(turn, "said_time", now_ms, f"{path}.said_time"),
        session=text(turn.session, f"{path}.session", empty=True),
    )
    own = role in (Role.PERSON, Role.AGENT)
    return Saying(
        value, name(turn.person, f"{path}.person") or look.person, look.trust if own else Trust.OUTSIDE
    )


def value(request: str, path: str, most: int = MAX_VALUE) -> Json:
    """A value from its JSON."""
    try:
        parsed: Json = json.loads(text(request, path, most), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise wrong(path, "is not JSON") from None
    if "\\u0000" in json.dumps(parsed):
        raise wrong(path, "contains a NUL character")
    return parsed


def _no_constant(word: str) -> Json:
    raise ValueError(word)


def stated(facts: Sequence[pb.Fact]) -> list[tuple[Fact, str]]:
    """Facts that are stated directly, each with whom it is about."""
    if len(facts) > MAX_FACTS:
        raise wrong("facts", f"has more than {MAX_FACTS} facts", Reason.TOO_LARGE)
    return [_stated(fact, f"facts[{place}]") for place, fact in enumerate(facts)]


def _stated(fact: pb.Fact, path: str) -> tuple[Fact, str]:
    if not 0 <= fact.confidence <= 1:
        raise wrong(f"{path}.confidence", "is not from 0 to 1")
    parsed = Fact(
        key=name(fact.key, f"{path}.key", empty=False),
        value=value(fact.value_json, f"{path}.value_json"),
        confidence=fact.confidence or 1.0,
        language=name(fact.language, f"{path}.language"),
        valid_from_ms=moment(fact, "valid_from_time", 0, f"{path}.valid_from_time"),
        valid_to_ms=moment(fact, "valid_to_time", 0, f"{path}.valid_to_time"),
    )
    return parsed, name(fact.person, f"{path}.person")


def kind(request: pb.MemoryKind.ValueType) -> Kind:
    """A kind of memory."""
    if request not in KINDS:
        raise wrong("kinds", "names a kind that is not one")
    return KINDS[request]


def conditions(request: pb.ForgetRequest) -> Conditions:
    """What must match to be forgotten."""
    return Conditions(
        key=name(request.key, "key"),
        person=name(request.person, "person"),
        session=text(request.session, "session", empty=True),
        from_ms=moment(request, "start_time", 0),
        to_ms=moment(request, "end_time", 0),
        id=identifier(request.id, "id") if request.id else None,
    )


def only_everything(request: pb.ForgetRequest, named: Conditions) -> None:
    """Raises InvalidInput where `everything` stands beside something that would be less."""
    if named.names or request.HasField("scope"):
        raise wrong("everything", "stands alone")


def document(request: pb.Document) -> Document:
    """A document to put."""
    return Document(
        name(request.name, "document.name", empty=False),
        name(request.title, "document.title"),
        text(request.text, "document.text", MAX_DOCUMENT),
    )


def entries(
    request: pb.SetWorkingMemoryRequest, expires_ms: int
) -> tuple[dict[str, tuple[Json, int]], list[str]]:
    """Entries to set, each with when it expires, and names to remove."""
    given: dict[str, tuple[Json, int]] = {}
    unset = []
    for place, one in enumerate(request.entries):
        path = f"entries[{place}]"
        label = name(one.name, f"{path}.name", empty=False)
        if one.value_json:
            until = moment(one, "expire_time", expires_ms, f"{path}.expire_time")
            given[label] = value(one.value_json, f"{path}.value_json", MAX_WORKING), until
        else:
            unset.append(label)
    return given, unset


def opinion(request: pb.Opinion, now_ms: int) -> Opinion:
    """An opinion to put."""
    return Opinion(
        name(request.topic, "opinion.topic", empty=False),
        text(request.stance, "opinion.stance", 4 * 1024),
        moment(request, "valid_from_time", now_ms, "opinion.valid_from_time"),
        identifier(request.source, "opinion.source") if request.source else None,
    )


def edge(look: Sight, request: pb.Relation, path: str, now_ms: int) -> Edge:
    """An edge to add."""
    if not _PREDICATE.fullmatch(request.predicate):
        raise wrong(f"{path}.predicate", "is not a word in lower case, such as works_at")
    if not 0 <= request.confidence <= 1:
        raise wrong(f"{path}.confidence", "is not from 0 to 1")
    return Edge(
        new_uuid(now_ms),
        name(request.subject, f"{path}.subject", empty=False),
        request.predicate,
        name(request.object, f"{path}.object", empty=False),
        request.confidence or 1.0,
        look.origin,
        look.trust,
        moment(request, "valid_from_time", now_ms, f"{path}.valid_from_time"),
        look.person,
        identifier(request.source, f"{path}.source") if request.source else None,
        ended_ms=moment(request, "valid_to_time", 0, f"{path}.valid_to_time"),
    )


def aliases(request: Sequence[pb.Alias]) -> dict[str, str]:
    """Names and what they are other names of."""
    return {
        name(one.name, f"aliases[{place}].name", empty=False): name(
            one.canonical, f"aliases[{place}].canonical", empty=False
        )
        for place, one in enumerate(request)
    }


def commitments(request: Sequence[pb.CommitmentMemory], now_ms: int) -> tuple[list[NewChunk], list[str]]:
    """What was agreed, as memories: found by what it says, by the peer and by its state. And the sources of
    what was erased."""
    made, erased = [], []
    for place, one in enumerate(request):
        path = f"commitments[{place}]"
        if len(one.mid) != 32:
            raise wrong(f"{path}.mid", "is not 32 bytes")
        if not one.text:
            erased.append(one.mid.hex())
            continue
        peer, state = name(one.peer, f"{path}.peer"), name(one.state, f"{path}.state", empty=False)
        made.append(
            NewChunk(
                one.mid.hex(),
                f"{text(one.text, f'{path}.text', MAX_VALUE)} ({state})",
                moment(one, "due_time", moment(one, "update_time", now_ms), f"{path}.due_time"),
                "ledger",
                Trust.OWNER,
                speaker=peer,
                person=peer,
                importance=0.7,
            )
        )
    return made, erased


def identifier(request: str, path: str) -> UUID:
    """An id from its text."""
    try:
        return UUID(request)
    except ValueError:
        raise wrong(path, "is not a UUID") from None


def size(request: int) -> int:
    """How many rows a page has."""
    return min(request or PAGE, MAX_PAGE)


def token(position: Sequence[object]) -> str:
    """A page's token for the position after which the next one begins."""
    return base64.urlsafe_b64encode(json.dumps([str(each) for each in position]).encode()).decode()


def position(request: str, start: Sequence[Any]) -> tuple[Any, ...]:
    """The position in a page's token, shaped as `start`, which stands for no token."""
    if not request:
        return tuple(start)
    try:
        parts = json.loads(base64.urlsafe_b64decode(request.encode()))
        return tuple(type(kind)(part) for kind, part in zip(start, parts, strict=True))
    except (ValueError, TypeError, AttributeError):
        raise wrong("page_token", "is not one that this service gave") from None


def dumped(parsed: Json) -> str:
    """A value as JSON."""
    return json.dumps(parsed, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
