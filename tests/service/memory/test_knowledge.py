"""Knowledge that an administrator authors: cut, embedded anew where it changed, searched apart."""

from __future__ import annotations

import pytest
from indai.memory.queue import Task
from indai.protocol.errors import IndaiError, NotFound, Refused
from indai.v1 import memory_pb2 as pb

from tests.service.memory.rooms import CONTEXT, Letters, Room, admin, fan, private, scope

SALES = scope("team", "sales")
PARTS = [f"# Part {n}\n\n" + f"All about topic {n} and its colour. " * 20 for n in range(5)]


async def put(room: Room, text: str, name: str = "book") -> pb.PutDocumentResponse:
    document = pb.Document(name=name, title="Book", text=text, scope=SALES)
    return await room.service.PutDocument(pb.PutDocumentRequest(access=admin(), document=document), CONTEXT)


async def test_only_the_parts_that_changed_are_embedded_anew(room: Room) -> None:
    assert isinstance(room.embedder, Letters)
    first = await put(room, "\n\n".join(PARTS))
    assert (first.changed, first.document.version, first.document.chunks) == (True, 1, 5)
    await room.run_jobs(Task.EMBED)
    assert len(room.embedder.asked) == 5
    assert not (await put(room, "\n\n".join(PARTS))).changed
    PARTS_NOW = [*PARTS[:2], "# Part 2\n\nSomething else.", *PARTS[3:]]  # noqa: N806
    second = await put(room, "\n\n".join(PARTS_NOW))
    assert (second.changed, second.document.version, second.document.embedded) == (True, 2, 4)
    await room.run_jobs(Task.EMBED)
    assert len(room.embedder.asked) == 6
    listed = await room.service.ListDocuments(pb.ListDocumentsRequest(access=admin()), CONTEXT)
    assert [(one.name, one.chunks, one.embedded) for one in listed.documents] == [("book", 5, 5)]


async def test_a_search_finds_documents_only_and_end_users_of_the_team_find_them_too(room: Room) -> None:
    await put(room, "You may return a saree within seven days.", "returns")
    who = fan("fan-1", team="sales")
    await room.remember(who, "can I return a saree?")
    for access in (admin(), who):
        request = pb.SearchDocumentsRequest(access=access, query="return saree")
        hits = (await room.service.SearchDocuments(request, CONTEXT)).hits
        assert [hit.kind for hit in hits] == [pb.MEMORY_KIND_DOCUMENT]
    everything = (await room.recall(who, "return saree")).hits
    assert {hit.kind for hit in everything} == {pb.MEMORY_KIND_DOCUMENT, pb.MEMORY_KIND_TURN}


async def test_only_an_administrator_writes_documents(room: Room) -> None:
    document = pb.Document(name="x", text="y", scope=SALES)
    for access in (private(), fan("fan-1", team="sales")):
        request = pb.PutDocumentRequest(access=access, document=document)
        with pytest.raises(Refused):
            await room.service.PutDocument(request, CONTEXT)


async def test_a_deleted_document_is_found_no_more_and_not_deleted_twice(room: Room) -> None:
    await put(room, "\n\n".join(PARTS))
    request = pb.DeleteDocumentRequest(access=admin(), scope=SALES, name="book")
    assert (await room.service.DeleteDocument(request, CONTEXT)).chunks == 5
    with pytest.raises(NotFound):
        await room.service.DeleteDocument(request, CONTEXT)
    search = pb.SearchDocumentsRequest(access=admin(), query="topic colour")
    assert not (await room.service.SearchDocuments(search, CONTEXT)).hits


async def test_a_document_without_text_is_refused(room: Room) -> None:
    with pytest.raises(IndaiError) as refused:
        await put(room, "")
    assert "document.text" in refused.value.fields
