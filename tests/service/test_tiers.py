"""Configurations over a real database: versions, tenants apart, routing, a cache that others clear."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
from indai.node.inprocess import local_channel
from indai.node.tier_role import tier_service
from indai.protocol.errors import InvalidInput, NotFound
from indai.runtime.bindings import TENANTS, Bindings
from indai.runtime.sevenfiles.example import example
from indai.runtime.sevenfiles.mapping import tiers_of
from indai.runtime.sevenfiles.reading import seven_files
from indai.runtime.tiers import catalogue
from indai.runtime.tierstore import TierStore
from indai.storage.hearing import Listener
from indai.storage.pool import transaction
from indai.tools.intents.remembering import SearchKnowledge
from indai.tools.records import RecordStore, record_tools
from indai.v1 import memory_pb2_grpc, tiers_pb2_grpc
from indai.v1 import tiers_pb2 as pb

from tests.conftest import Database
from tests.service.runtime.cell import now_ms, operator

NO_MEMORY = memory_pb2_grpc.MemoryServiceStub(local_channel([]))
ACME = "kind: tenant\nslug: acme\nname: Acme\n"
AGENT = "kind: agent\nslug: a\nname: {name}\n"
WHOLE = f"""{ACME}---
kind: human
slug: h
name: Ann
identity: A helper.
voice: {{tone: warm}}
languages: [en]
---
kind: team
slug: t
name: T
department: D
role: R
---
{AGENT.format(name="One")}---
kind: binding
slug: b
human: h
team: t
agent: a
door: public
channels: [web]
routing_keys: ["+911234567890"]
"""


@asynccontextmanager
async def serving(database: Database) -> AsyncIterator[tuple[tiers_pb2_grpc.TierServiceAsyncStub, Bindings]]:
    store = TierStore(database.pool)
    async with Bindings(database.pool, store) as bindings:
        tools = (*record_tools(RecordStore(database.pool, now_ms)), SearchKnowledge(NO_MEMORY))
        specs = [tool.spec for tool in tools]
        channel = local_channel(
            [tier_service(database.pool, store, bindings, now_ms, operator, lambda: specs)]
        )
        yield tiers_pb2_grpc.TierServiceStub(channel), bindings


async def test_what_is_applied_is_shown_and_the_same_again_changes_nothing(database: Database) -> None:
    async with serving(database) as (stub, _):
        first = await stub.ApplyTiers(pb.ApplyTiersRequest(tenant="acme", yaml=WHOLE, note="begin"))
        assert [(each.kind, each.version) for each in first.changed] == [
            ("tenant", 1),
            ("human", 1),
            ("team", 1),
            ("agent", 1),
            ("binding", 1),
        ]
        again = await stub.ApplyTiers(pb.ApplyTiersRequest(tenant="acme", yaml=WHOLE))
        assert (len(again.changed), again.unchanged) == (0, 5)
        tier = (await stub.GetTier(pb.GetTierRequest(tenant="acme", kind="human", slug="h"))).tier
        assert "identity: A helper." in tier.config_yaml
        listed = await stub.ListTiers(pb.ListTiersRequest(tenant="acme"))
        assert [each.slug for each in listed.tiers] == ["a", "b", "h", "t"]
        assert [each.slug for each in (await stub.ListTiers(pb.ListTiersRequest())).tiers] == ["acme"]


async def test_every_version_can_be_read_and_restored(database: Database) -> None:
    async with serving(database) as (stub, bindings):
        await stub.ApplyTiers(pb.ApplyTiersRequest(tenant="acme", yaml=WHOLE))
        two = pb.ApplyTiersRequest(tenant="acme", yaml=AGENT.format(name="Two"), note="why not")
        assert (await stub.ApplyTiers(two)).changed[0].version == 2
        old = pb.GetTierRequest(tenant="acme", kind="agent", slug="a", version=1)
        assert "One" in (await stub.GetTier(old)).tier.config_yaml
        restored = pb.RestoreTierRequest(tenant="acme", kind="agent", slug="a", version=1)
        assert (await stub.RestoreTier(restored)).tier.version == 3
        request = pb.ListTierVersionsRequest(tenant="acme", kind="agent", slug="a", page_size=2)
        page = await stub.ListTierVersions(request)
        assert [(each.version, each.note) for each in page.versions] == [
            (3, "restored version 1"),
            (2, "why not"),
        ]
        request.page_token = page.next_page_token
        assert [each.version for each in (await stub.ListTierVersions(request)).versions] == [1]
        assert (await bindings.of("acme", "b")).agent.name == "One"


async def test_a_change_is_heard_by_every_process(database: Database) -> None:
    async with serving(database) as (one, here), serving(database) as (_, there):
        await one.ApplyTiers(pb.ApplyTiersRequest(tenant="acme", yaml=WHOLE))
        assert (await there.of("acme", "b")).agent.name == "One"
        assert await there.of("acme", "b") is await there.of("acme", "b")
        await one.ApplyTiers(pb.ApplyTiersRequest(tenant="acme", yaml=AGENT.format(name="Two")))
        async with asyncio.timeout(60):
            while (await there.of("acme", "b")).agent.name != "Two":
                await asyncio.sleep(0.01)
        assert (await here.of("acme", "b")).agent.name == "Two"
        # Who applies it has it at once, whatever is heard when.
        deaf, here.hearing._listeners = here.hearing._listeners, []
        await one.ApplyTiers(pb.ApplyTiersRequest(tenant="acme", yaml=AGENT.format(name="Three")))
        assert (await here.of("acme", "b")).agent.name == "Three"
        here.hearing._listeners = deaf


async def test_a_number_leads_to_one_binding(database: Database) -> None:
    async with serving(database) as (stub, bindings):
        await stub.ApplyTiers(pb.ApplyTiersRequest(tenant="acme", yaml=WHOLE))
        found = await bindings.at("+911234567890", "someone")
        assert found is not None
        assert found[:2] == ("acme", "b")
        assert await bindings.at("+910000000000", "someone") is None
        other = WHOLE.replace("acme", "other").replace("Acme", "Other")
        with pytest.raises(InvalidInput, match="routing key"):
            await stub.ApplyTiers(pb.ApplyTiersRequest(tenant="other", yaml=other))


async def test_nothing_is_stored_that_could_not_answer(database: Database) -> None:
    async with serving(database) as (stub, _):
        with pytest.raises(NotFound, match="no tenant"):
            await stub.ApplyTiers(pb.ApplyTiersRequest(tenant="ghost", yaml=AGENT.format(name="One")))
        without_human = WHOLE.replace("slug: h\n", "slug: g\n")
        with pytest.raises(NotFound, match="no persona h"):
            await stub.ApplyTiers(pb.ApplyTiersRequest(tenant="acme", yaml=without_human))
        assert not (await stub.ListTiers(pb.ListTiersRequest())).tiers
        await stub.ApplyTiers(pb.ApplyTiersRequest(tenant="acme", yaml=WHOLE))
        long = WHOLE.replace("A helper.", "x" * 3_990)
        with pytest.raises(InvalidInput, match="HUMAN part"):
            await stub.ApplyTiers(pb.ApplyTiersRequest(tenant="acme", yaml=long))
        dry = pb.ApplyTiersRequest(tenant="acme", yaml=AGENT.format(name="Two"), dry_run=True)
        assert (await stub.ApplyTiers(dry)).changed[0].version == 2
        assert (
            await stub.GetTier(pb.GetTierRequest(tenant="acme", kind="agent", slug="a"))
        ).tier.version == 1


async def test_one_tenants_rows_are_not_seen_in_anothers_name(database: Database) -> None:
    async with serving(database) as (stub, _):
        await stub.ApplyTiers(pb.ApplyTiersRequest(tenant="acme", yaml=WHOLE))
        with pytest.raises(NotFound):
            await stub.GetTier(pb.GetTierRequest(tenant="other", kind="human", slug="h"))
    for owners, seen in ((("acme",), 4), ((TENANTS,), 1), (("other",), 0), ((), 0)):
        async with transaction(database.pool, owners) as connection:
            assert await connection.fetchval("SELECT count(*) FROM runtime.tiers") == seen
            assert await connection.fetchval("SELECT count(*) FROM runtime.tier_config_versions") == seen
    async with transaction(database.pool, ("acme",)) as connection:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute("UPDATE runtime.tier_config_versions SET note = 'never'")


async def test_the_catalogue_can_be_applied_and_previewed(database: Database) -> None:
    async with serving(database) as (stub, _):
        whole = f"{ACME}---\n{catalogue()}"
        changed = (await stub.ApplyTiers(pb.ApplyTiersRequest(tenant="acme", yaml=whole))).changed
        assert len([each for each in changed if each.kind == "binding"]) == 15
        request = pb.PreviewPromptRequest(tenant="acme", binding="kichcha-fan")
        preview = await stub.PreviewPrompt(request)
        assert [part.tier for part in preview.parts] == ["HUMAN", "TEAM", "AGENT"]
        assert all(0 < part.tokens <= part.allotted for part in preview.parts)
        assert "persona-lock" in preview.guardrails


async def test_a_concierge_of_seven_files_is_applied_shown_and_compared(database: Database) -> None:
    text = tiers_of(seven_files(example()), "desk")
    async with serving(database) as (stub, _):
        await stub.ApplyTiers(pb.ApplyTiersRequest(tenant="acme", yaml=ACME))
        with pytest.raises(NotFound, match="base"):  # what it extends comes first
            await stub.ApplyTiers(pb.ApplyTiersRequest(tenant="acme", yaml=text))
        await stub.ApplyTiers(pb.ApplyTiersRequest(tenant="acme", yaml=catalogue()))
        changed = (await stub.ApplyTiers(pb.ApplyTiersRequest(tenant="acme", yaml=text))).changed
        assert [(each.kind, each.slug, each.version) for each in changed] == [
            (kind, "desk", 1) for kind in ("human", "team", "agent", "binding")
        ]
        preview = await stub.PreviewPrompt(pb.PreviewPromptRequest(tenant="acme", binding="desk"))
        assert list(preview.tools) == ["lead-capture", "schedule-demo", "search-kb"]
        assert "no-internals" in preview.guardrails
        other = text.replace("- email\n", "- income\n", 1)
        assert other != text
        with pytest.raises(InvalidInput, match="lead-capture takes no income"):
            await stub.ApplyTiers(pb.ApplyTiersRequest(tenant="acme", yaml=other))
        ghost = text.replace("schedule-demo", "schedule-dance")
        with pytest.raises(InvalidInput, match="no tool schedule-dance"):
            await stub.ApplyTiers(pb.ApplyTiersRequest(tenant="acme", yaml=ghost))
        again = await stub.ApplyTiers(pb.ApplyTiersRequest(tenant="acme", yaml=text))
        assert again.unchanged == 4
        tier = (await stub.GetTier(pb.GetTierRequest(tenant="acme", kind="agent", slug="desk"))).tier
        assert "When a visitor tells who they are" in " ".join(tier.config_yaml.split())


async def test_who_hears_nothing_keeps_nothing_until_it_listens_again(database: Database) -> None:
    async with serving(database) as (stub, _), serving(database) as (_, there):
        await stub.ApplyTiers(pb.ApplyTiersRequest(tenant="acme", yaml=WHOLE))
        assert (await there.of("acme", "b")).agent.name == "One"
        deaf, again = asyncio.Event(), asyncio.Event()
        await there.hearing.add(Listener("nothing", lambda _: None, deaf.set, again.set))
        async with database.pool.acquire() as connection:
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND query LIKE 'LISTEN%'"
            )
        await asyncio.wait_for(deaf.wait(), 30)
        yaml = AGENT.format(name="Two")
        await stub.ApplyTiers(pb.ApplyTiersRequest(tenant="acme", yaml=yaml))
        assert (await there.of("acme", "b")).agent.name == "Two"
        await asyncio.wait_for(again.wait(), 30)
        async with asyncio.timeout(60):  # kept again, once the news of that change is past
            while await there.of("acme", "b") is not await there.of("acme", "b"):
                await asyncio.sleep(0.01)
