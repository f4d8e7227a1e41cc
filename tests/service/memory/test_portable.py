"""Export and import: an open format, complete, strict, and the same however often it is taken in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from indai.protocol.errors import IndaiError, Reason, Refused
from indai.v1 import memory_pb2 as pb

from tests.service.memory.rooms import BOB, CONTEXT, HOUR, Room, admin, private, scope


async def exported(room: Room, access: pb.Access) -> list[dict[str, Any]]:
    request = pb.ExportRequest(access=access)
    parts = [part.lines async for part in room.service.Export(request, CONTEXT)]
    return [json.loads(line) for line in b"".join(parts).splitlines()]


def lines(objects: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in objects)


async def take_in(room: Room, access: pb.Access, raw: bytes) -> pb.ImportResponse:
    return await room.service.Import(pb.ImportRequest(access=access, lines=raw), CONTEXT)


def comparable(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what belongs to the tenant and to where it came from."""
    gone = ("tenant", "exported_ms", "origin")
    return [{key: value for key, value in one.items() if key not in gone} for one in objects]


@pytest.fixture
async def full(room: Room) -> Room:
    await room.remember(private(), "I love dosa", "नमस्ते", "maybe blue")
    room.now += HOUR
    await room.remember(private(), "I love idli", "one more", session="later")
    await room.remember(private(), "bob likes tea", scope=scope("relationship", BOB))
    opinion = pb.Opinion(topic="tea", stance="fond of it")
    await room.service.PutOpinion(pb.PutOpinionRequest(access=private(), opinion=opinion), CONTEXT)
    told = pb.CommitmentMemory(mid=bytes(32), peer=BOB, text="meet with bob", state="committed")
    request = pb.RecordCommitmentsRequest(access=private(), commitments=[told])
    assert (await room.service.RecordCommitments(request, CONTEXT)).changed == 1
    assert (await room.service.RecordCommitments(request, CONTEXT)).changed == 0
    return room


async def test_another_tenant_that_takes_it_in_exports_the_same(full: Room) -> None:
    mine = await exported(full, private())
    assert {one.get("type") for one in mine} == {None, "turn", "fact", "relation", "opinion", "commitment"}
    raw = lines(mine)
    answer = await take_in(full, private("ind.ai/new"), raw)
    assert (sum(answer.added.values()), answer.known) == (len(mine) - 1, 0)
    theirs = await exported(full, private("ind.ai/new"))
    key = lambda one: json.dumps(one, sort_keys=True)  # noqa: E731
    assert sorted(comparable(theirs), key=key) == sorted(comparable(mine), key=key)
    again = await take_in(full, private("ind.ai/new"), raw)
    assert (dict(again.added), again.known) == ({}, len(mine) - 1)
    assert await exported(full, private("ind.ai/new")) == theirs


async def test_an_administrator_takes_documents_to_another_tenant(room: Room) -> None:
    where = scope("team", "sales")
    document = pb.Document(name="faq", title="FAQ", text="Returns within 7 days.", scope=where)
    await room.service.PutDocument(pb.PutDocumentRequest(access=admin(), document=document), CONTEXT)
    raw = lines(await exported(room, admin()))
    assert dict((await take_in(room, admin(BOB), raw)).added) == {"document": 1}
    with pytest.raises(IndaiError):
        await take_in(room, private(BOB), raw)


FACT = {
    "type": "fact",
    "scope": {"kind": "private", "id": ""},
    "key": "k",
    "value": 1,
    "confidence": 1,
    "pending": False,
    "language": "",
    "person": "",
    "source": "",
    "origin": "owner",
    "trust": "owner",
    "valid_from_ms": 1,
    "valid_to_ms": 0,
}


@pytest.mark.parametrize(
    "change",
    [
        {"type": "nothing"},
        {"scope": {"kind": "private", "id": "x"}},
        {"scope": {"kind": "elsewhere", "id": ""}},
        {"scope": {"kind": "user_binding", "id": "x"}},
        {"confidence": 2},
        {"valid_from_ms": -1},
        {"valid_from_ms": "now"},
        {"trust": "mine"},
        {"key": "a\0b"},
        {"source": "no uuid"},
    ],
)
async def test_a_line_that_is_not_of_the_format_is_named_and_nothing_is_stored(
    room: Room, change: dict[str, Any]
) -> None:
    raw = lines([{"format": "indai-memory", "version": 1}, FACT, {**FACT, **change}])
    with pytest.raises(IndaiError, match="Line 3"):
        await take_in(room, private(), raw)
    assert not await room.facts(private(), all_states=True)


@pytest.mark.parametrize(
    "raw", [b"{", b"[]\n", b'{"format":"indai-memory","version":2}\n', b"\xff\n", b"[" * 9_000]
)
async def test_what_is_no_export_is_refused(room: Room, raw: bytes) -> None:
    with pytest.raises(IndaiError) as refused:
        await take_in(room, private(), raw)
    assert refused.value.reason in (Reason.INVALID_EXPORT, Reason.UNSUPPORTED)


async def test_visitors_export_what_they_see_and_import_nothing(full: Room) -> None:
    visitor = pb.Access(tenant="ind.ai/alice", door=pb.DOOR_PUBLIC)
    assert len(await exported(full, visitor)) == 1
    with pytest.raises(Refused):
        await take_in(full, visitor, lines([FACT]))
