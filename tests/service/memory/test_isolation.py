"""Nothing crosses a scope: every role, through every method, and with the queries' own filters gone."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from indai.memory.access import user_binding
from indai.memory.requests import who
from indai.memory.search import vector_text
from indai.memory.session import chosen
from indai.protocol.errors import IndaiError, InvalidInput, NotFound, Reason, Refused
from indai.storage.embedded import ServerInfo
from indai.storage.pool import open_pool, transaction
from indai.v1 import memory_pb2 as pb

from tests.databases import create_database, drop_database
from tests.service.memory.rooms import (
    ALICE,
    BOB,
    CAROL,
    CONTEXT,
    Letters,
    Room,
    admin,
    agent,
    fan,
    private,
    scope,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Where something was put, and as whom. The word is in everything that is kept there, and nowhere else.
ROOMS: dict[str, tuple[pb.Access, pb.Scope]] = {
    "alpha": (private(), scope("private")),
    "bravo": (private(), scope("public")),
    "charlie": (private(), scope("relationship", BOB)),
    "delta": (private(), scope("relationship", CAROL)),
    "echo": (fan("fan-1"), scope("user_binding", user_binding("fan-1", "shop"))),
    "foxtrot": (fan("fan-2"), scope("user_binding", user_binding("fan-2", "shop"))),
    "golf": (admin(), scope("team", "sales")),
    "hotel": (admin(), scope("team", "support")),
    "india": (admin(), scope("human", "asha")),
    "juliett": (private(BOB), scope("private")),
    "kilo": (private(BOB), scope("relationship", ALICE)),
}
ROLES: dict[str, tuple[pb.Access, set[str]]] = {
    "owner": (private(), {"alpha", "bravo", "charlie", "delta"}),
    "owner at work": (
        pb.Access(tenant=ALICE, door=pb.DOOR_WORK, team="sales", human="asha"),
        {"alpha", "bravo", "charlie", "delta", "golf", "india"},
    ),
    "administrator": (admin(), {"bravo", "golf", "hotel", "india"}),
    "anonymous visitor": (pb.Access(tenant=ALICE, door=pb.DOOR_PUBLIC), {"bravo"}),
    "visitor bob": (pb.Access(tenant=ALICE, door=pb.DOOR_PUBLIC, peer=BOB), {"bravo", "charlie"}),
    "agent of bob": (agent(BOB), {"bravo", "charlie"}),
    "agent of a stranger": (agent("ind.ai/mallory"), {"bravo"}),
    "fan one": (fan("fan-1"), {"bravo", "echo"}),
    "fan two with a team": (fan("fan-2", team="sales", human="asha"), {"bravo", "foxtrot", "golf", "india"}),
    "owner of another tenant": (private(BOB), {"juliett", "kilo"}),
}
TABLES = (
    *("scopes", "scope_sizes", "sessions", "chunks", "postings", "embeddings", "reads", "facts", "mentions"),
    *("relations", "names", "working", "opinions", "documents", "derivations"),
)
WORD = re.compile("|".join(ROOMS))
QUESTION = "what about the secret word"


@dataclass(frozen=True, slots=True)
class Building:
    """One database for all tests here: furnishing takes a second."""

    room: Room
    admin_dsn: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def building(postgres_server: ServerInfo, migrated_template: str) -> AsyncIterator[Building]:
    url, admin_url = await create_database(postgres_server, migrated_template, "isolation")
    room = Room(await open_pool(url, max_size=5))
    await fill(room)
    yield Building(room, admin_url)
    room.pool.terminate()
    await drop_database(postgres_server, "isolation")


@pytest.fixture
def furnished(building: Building) -> Room:
    return building.room


async def fill(room: Room) -> None:
    for word, (access, where) in ROOMS.items():
        await furnish(room, word, access, where)
    await room.run_jobs()
    async with transaction(room.pool) as connection:
        for word, (access, _) in ROOMS.items():
            await connection.execute(
                "SELECT memory.open_scopes($1, $2, '{}')", access.tenant, [identity(word)]
            )
            await connection.execute(
                "INSERT INTO memory.reads SELECT scope, id, tenant, 1, said_at FROM memory.chunks"
            )
            await connection.execute(
                "INSERT INTO memory.derivations SELECT scope, id, id, tenant FROM memory.chunks"
            )
            await connection.execute(
                "SELECT memory.post_terms($1, array_agg(id)) FROM memory.chunks", identity(word)
            )


async def furnish(room: Room, word: str, access: pb.Access, where: pb.Scope) -> None:
    service = room.service
    facts = [pb.Fact(key=f"secret.{word}", value_json=f'"{word}"')]
    await room.remember(
        access, f"the secret word is {word}", f"I love {word}", scope=where, facts=facts, session=word
    )
    opinion = pb.Opinion(scope=where, topic=f"topic {word}", stance=f"fond of {word}")
    await service.PutOpinion(pb.PutOpinionRequest(access=access, opinion=opinion), CONTEXT)
    entries = [pb.WorkingEntry(name="plan", value_json=f'"{word}"')]
    await service.SetWorkingMemory(
        pb.SetWorkingMemoryRequest(access=access, scope=where, session="w", entries=entries), CONTEXT
    )
    if access.door == pb.DOOR_ADMIN:
        document = pb.Document(name=f"doc {word}", title=word, text=f"secret word {word}", scope=where)
        await service.PutDocument(pb.PutDocumentRequest(access=access, document=document), CONTEXT)


def identity(word: str) -> Any:
    access, where = ROOMS[word]
    look = who(access)
    return next(iter(chosen(look, [_scope(look, where)])[0])).id


def _scope(look: Any, where: pb.Scope) -> Any:
    from indai.memory.requests import scope as parsed

    return parsed(look, where, "scope")


async def _list(call: Any, request: Any) -> set[str]:
    return set(WORD.findall(str(await call(request, CONTEXT))))


async def _beside(room: Room, access: pb.Access, named: list[pb.Scope]) -> set[str]:
    """Of the answer only what comes beside the hits, which must be what the lists say."""
    asked = pb.RecallRequest(
        access=access, query=QUESTION, scopes=named, limit=1, facts=200, relations=200, opinions=200
    )
    found = await room.service.Recall(asked, CONTEXT)
    facts = await room.service.ListFacts(pb.ListFactsRequest(access=access, scopes=named), CONTEXT)
    edges = await room.service.ListRelations(pb.ListRelationsRequest(access=access, scopes=named), CONTEXT)
    held = await room.service.ListOpinions(pb.ListOpinionsRequest(access=access, scopes=named), CONTEXT)
    assert list(found.facts) == list(facts.facts)
    assert list(found.relations) == list(edges.relations)
    assert list(found.opinions) == list(held.opinions)
    return set(WORD.findall(f"{found.facts}{found.relations}{found.opinions}"))


async def _export(room: Room, access: pb.Access, named: list[pb.Scope]) -> set[str]:
    parts = [
        part.lines
        async for part in room.service.Export(pb.ExportRequest(access=access, scopes=named), CONTEXT)
    ]
    return set(WORD.findall(b"".join(parts).decode()))


READS: dict[str, Callable[[Room, pb.Access, list[pb.Scope]], Awaitable[set[str]]]] = {
    "Recall": lambda room, access, named: _list(
        room.service.Recall,
        pb.RecallRequest(access=access, query=QUESTION, scopes=named, limit=50, budget_tokens=100_000),
    ),
    "Recall, what goes beside it": lambda room, access, named: _beside(room, access, named),
    "ListFacts": lambda room, access, named: _list(
        room.service.ListFacts, pb.ListFactsRequest(access=access, scopes=named, all_states=True)
    ),
    "ListRelations": lambda room, access, named: _list(
        room.service.ListRelations, pb.ListRelationsRequest(access=access, scopes=named, all_times=True)
    ),
    "ListOpinions": lambda room, access, named: _list(
        room.service.ListOpinions, pb.ListOpinionsRequest(access=access, scopes=named)
    ),
    "Export": _export,
}


@pytest.mark.parametrize("method", READS)
async def test_every_role_reads_its_own_scopes_and_no_other(furnished: Room, method: str) -> None:
    for role, (access, seen) in ROLES.items():
        assert await READS[method](furnished, access, []) == seen, role


@pytest.mark.parametrize("method", READS)
async def test_a_scope_that_may_not_be_seen_looks_like_one_that_is_not_there(
    furnished: Room, method: str
) -> None:
    for role, (access, seen) in ROLES.items():
        for word, (owner, where) in ROOMS.items():
            if word in seen:
                assert await READS[method](furnished, access, [where]) == {word}, role
                continue
            if owner.tenant != access.tenant and where.kind == pb.SCOPE_KIND_PRIVATE:
                continue  # the name means the role's own tenant: there is no way to name another's
            with pytest.raises(NotFound) as refused:
                await READS[method](furnished, access, [where])
            assert refused.value.message.startswith("There is no memory scope"), role


async def test_documents_turns_and_working_memory_keep_to_their_scopes(furnished: Room) -> None:
    service = furnished.service
    for role, (access, seen) in ROLES.items():
        documents = seen & {"golf", "hotel", "india"}
        search = pb.SearchDocumentsRequest(access=access, query=QUESTION, limit=50)
        assert await _list(service.SearchDocuments, search) == documents, role
        assert await _list(service.ListDocuments, pb.ListDocumentsRequest(access=access)) == documents, role
        for word, (_, where) in ROOMS.items():
            turns = pb.ListTurnsRequest(access=access, scope=where)
            working = pb.GetWorkingMemoryRequest(access=access, scope=where, session="w")
            for call, request in ((service.ListTurns, turns), (service.GetWorkingMemory, working)):
                try:
                    found = await _list(call, request)
                except NotFound:
                    found = set()
                assert found <= ({word} if word in seen else seen), (role, word)


async def test_no_role_writes_or_removes_outside_its_scopes(furnished: Room) -> None:
    service = furnished.service
    before = await _export(furnished, private(), [])
    for role, (access, seen) in ROLES.items():
        for word in ROOMS.keys() - seen:
            owner, where = ROOMS[word]
            if owner.tenant != access.tenant:
                continue
            for call in (
                service.Remember(pb.RememberRequest(access=access, scope=where), CONTEXT),
                service.Forget(pb.ForgetRequest(access=access, scope=where), CONTEXT),
                service.PutOpinion(
                    pb.PutOpinionRequest(
                        access=access, opinion=pb.Opinion(scope=where, topic="t", stance="s")
                    ),
                    CONTEXT,
                ),
                service.PutRelations(pb.PutRelationsRequest(access=access, scope=where), CONTEXT),
                service.SetWorkingMemory(pb.SetWorkingMemoryRequest(access=access, scope=where), CONTEXT),
                service.PutDocument(
                    pb.PutDocumentRequest(access=access, document=pb.Document(name="n", scope=where)), CONTEXT
                ),
                service.DeleteDocument(
                    pb.DeleteDocumentRequest(access=access, scope=where, name=f"doc {word}"), CONTEXT
                ),
            ):
                with pytest.raises(IndaiError) as refused:
                    await call
                assert refused.value.reason in (Reason.NOT_FOUND, Reason.PERMISSION_DENIED), (role, word)
    assert await _export(furnished, private(), []) == before


async def test_a_fact_of_another_scope_cannot_be_corrected_or_forgotten_by_its_id(furnished: Room) -> None:
    (fact,) = await furnished.facts(private(), scopes=[scope("private")], key_prefix="secret")
    for role, (access, seen) in ROLES.items():
        if "alpha" in seen:
            continue
        with pytest.raises((NotFound, Refused)):
            await furnished.service.CorrectFact(pb.CorrectFactRequest(access=access, id=fact.id), CONTEXT)
        try:
            assert not (await furnished.forget(access, id=fact.id)).removed, role
        except Refused:
            continue
    assert await furnished.facts(private(), scopes=[scope("private")], key_prefix="secret") == [fact]


async def test_what_only_owners_and_administrators_may_do_is_refused_to_others(furnished: Room) -> None:
    service = furnished.service
    for access, _ in ROLES.values():
        if access.door in (pb.DOOR_PRIVATE, pb.DOOR_WORK, pb.DOOR_ADMIN):
            continue
        for call in (
            service.ListScopes(pb.ListScopesRequest(access=access), CONTEXT),
            service.ListJobs(pb.ListJobsRequest(access=access), CONTEXT),
            service.RetryJobs(pb.RetryJobsRequest(access=access), CONTEXT),
            service.Import(pb.ImportRequest(access=access), CONTEXT),
            service.RecordCommitments(pb.RecordCommitmentsRequest(access=access), CONTEXT),
        ):
            with pytest.raises(Refused):
                await call


async def test_jobs_and_scopes_of_another_tenant_are_not_listed(furnished: Room) -> None:
    service = furnished.service
    mine = (await service.ListJobs(pb.ListJobsRequest(access=private(BOB)), CONTEXT)).jobs
    every = await furnished.pool.fetchval("SELECT count(*) FROM memory.pgqueuer")
    assert 0 < len(mine) < every
    listed = (await service.ListScopes(pb.ListScopesRequest(access=private(BOB)), CONTEXT)).scopes
    assert [one.scope for one in listed] == [scope("private"), scope("relationship", ALICE)]


async def open_as(connection: asyncpg.Connection, access: pb.Access) -> None:
    """The rights of a role's transaction, as the service opens them."""
    scopes, kinds = chosen(who(access), ())
    await connection.execute(
        "SELECT memory.open_scopes($1, $2, $3)", access.tenant, [one.id for one in scopes], kinds
    )


async def test_the_database_alone_holds_when_a_query_has_no_filter_at_all(furnished: Room) -> None:
    for role, (access, seen) in ROLES.items():
        allowed = {identity(word) for word in seen}
        async with transaction(furnished.pool) as connection:
            await open_as(connection, access)
            for table in TABLES:
                column = "id" if table == "scopes" else "scope"
                bare = f"SELECT DISTINCT {column} AS scope FROM memory.{table}"  # noqa: S608
                rows = await connection.fetch(bare)
                found = {row["scope"] for row in rows}
                assert found <= allowed, (role, table)
                if table not in ("documents", "postings", "reads", "derivations"):
                    assert found == allowed, (role, table)  # so that the check above has something to find


async def test_recall_without_its_own_filters_still_finds_nothing_of_others(building: Building) -> None:
    room = building.room
    source = await room.pool.fetchval("SELECT pg_get_functiondef('memory.recall'::regproc)")
    bare, removed = re.subn(r"[a-z]\.scope = ANY \((small|compared|opened)\)", "true", source)
    assert removed == 3
    owner = await asyncpg.connect(building.admin_dsn)
    try:
        await owner.execute(bare)
        for role, (access, seen) in ROLES.items():
            assert await READS["Recall"](room, access, []) == seen, role
    finally:
        await owner.execute(source)
        await owner.close()


async def test_the_tests_above_would_see_a_leak(building: Building) -> None:
    owner = await asyncpg.connect(building.admin_dsn)
    try:
        await owner.execute("ALTER TABLE memory.chunks DISABLE ROW LEVEL SECURITY")
        async with transaction(building.room.pool) as connection:
            await open_as(connection, ROLES["agent of bob"][0])
            assert len(await connection.fetch("SELECT DISTINCT scope FROM memory.chunks")) == len(ROOMS)
    finally:
        await owner.execute("ALTER TABLE memory.chunks ENABLE ROW LEVEL SECURITY")
        await owner.close()


async def test_without_any_scope_named_nothing_is_seen(furnished: Room) -> None:
    async with transaction(furnished.pool) as connection:
        for table in TABLES:
            counted = f"SELECT count(*) FROM memory.{table}"  # noqa: S608
            assert await connection.fetchval(counted) == 0, table


async def test_a_row_cannot_be_written_into_a_scope_that_was_not_opened(furnished: Room) -> None:
    async def intrude() -> None:
        async with transaction(furnished.pool) as connection:
            await open_as(connection, ROLES["agent of bob"][0])
            await connection.execute(
                "INSERT INTO memory.working VALUES ($1, 's', 'n', $2, '1', now())", identity("alpha"), ALICE
            )

    with pytest.raises(IndaiError):
        await intrude()


async def test_row_security_is_forced_on_every_table_and_the_role_cannot_pass_it(furnished: Room) -> None:
    rows = await furnished.pool.fetch(
        "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = 'memory'"
        " AND relkind IN ('r', 'p') AND NOT (relrowsecurity AND relforcerowsecurity)"
    )
    unowned = {"schema_migrations", "scope_models"}  # ids of scopes at most
    assert {row["relname"] for row in rows if not row["relname"].startswith("pgqueuer")} == unowned
    role = await furnished.pool.fetchrow(
        "SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user"
    )
    assert not any(role)


async def test_a_job_says_nothing_of_what_is_remembered(furnished: Room) -> None:
    await furnished.remember(private(), "a zebra crossed the road")
    rows = await furnished.pool.fetch("SELECT payload, headers, dedupe_key FROM memory.pgqueuer")
    assert rows
    for row in rows:
        text = f"{row['payload'].decode()} {row['headers']} {row['dedupe_key']}"
        assert "zebra" not in text
        assert ALICE not in text


async def test_the_letters_embedder_reached_every_scope(furnished: Room) -> None:
    assert isinstance(furnished.embedder, Letters)
    assert {word for text in furnished.embedder.asked for word in WORD.findall(text)} == set(ROOMS)
    assert vector_text([1.0, 2.5]) == "[1.0,2.5]"


async def test_more_beside_a_recall_than_a_prompt_holds_is_refused(furnished: Room) -> None:
    asked = pb.RecallRequest(access=next(iter(ROLES.values()))[0], query=QUESTION, opinions=201)
    with pytest.raises(InvalidInput):
        await furnished.service.Recall(asked, CONTEXT)
