"""Asking, sharing, filing and remembering as tools, between real nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from indai.node.kinds.money import spoken
from indai.node.outgoing import keeper
from indai.runtime.conversations.forgetting import Forgetting
from indai.tools.intents.table import intents, remembering
from indai.tools.values import Status
from indai.v1 import asking_pb2

from tests.databases import pooled
from tests.service.exchange.neighbours import Neighbours
from tests.service.exchange.test_requests import DEPARTMENTS
from tests.service.tooling import Talk, desk_of, people, talk


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def alice(near: Neighbours, shared_database: tuple[str, str]) -> AsyncIterator[Talk]:
    async with pooled(shared_database[0], 2) as pool:
        desk = desk_of(near.world, near.a, near.alice.owner)
        yield talk(
            pool, near.alice.owner, intents(lambda _: desk, people(near.world), spoken, keeper(near.a.data))
        )


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bob(near: Neighbours, shared_database: tuple[str, str]) -> AsyncIterator[Talk]:
    async with pooled(shared_database[0], 2) as pool:
        everywhere = Forgetting(pool, near.bob.memory, lambda: 0)
        yield talk(pool, near.bob.owner, remembering(near.bob.memory, everywhere.tool))


async def test_a_detail_is_asked_for_agreed_and_read(alice: Talk, near: Neighbours) -> None:
    await near.bob.has(email="bob@example.org")
    outcome = await alice.say("What is bob's email?")
    assert outcome.result["state"] == "agreed", outcome
    assert outcome.result["content"] == "bob@example.org"
    (field,) = [each for each in outcome.fields if each.label == "they said"]
    assert (field.untrusted, field.text) == (True, "“bob@example.org”")


async def test_what_the_other_side_does_not_share_is_refused_in_words(alice: Talk) -> None:
    outcome = await alice.call("ask-for", {"with": "bob", "field": "diary-key"})
    assert outcome.status is Status.FAILED or outcome.result["state"] in ("refused", "waiting")
    assert "content" not in outcome.result
    assert (await alice.call("ask-for", {"with": "bob"})).code == "MISSING"


async def test_a_question_is_answered_by_the_other_agent(alice: Talk, near: Neighbours) -> None:
    await near.bob.document("shop", "The bakery opens at seven. It is closed on Mondays.", "published")
    outcome = await alice.call("ask", {"with": "bob", "question": "When does your bakery open?"})
    assert outcome.result["answer"] == "The bakery opens at seven."
    assert any(each.untrusted and "seven" in each.text for each in outcome.fields)


async def test_a_request_is_filed_with_an_office(alice: Talk, near: Neighbours) -> None:
    await near.office.asking.SetDepartments(asking_pb2.SetDepartmentsRequest(departments=DEPARTMENTS))
    text = "The street light before 12 MG Road is broken."
    outcome = await alice.call(
        "request", {"with": "ind.ai/office", "text": text, "category": "street-lights"}
    )
    assert outcome.result["state"] == "agreed", outcome
    assert outcome.result["reference"]
    assert outcome.result["due_ms"] > 0


async def test_the_owners_own_things_are_read(alice: Talk) -> None:
    agenda = await alice.call("my-agenda", {"when": "this week"})
    assert agenda.status is Status.DONE, agenda
    free = await alice.call("free-time", {"when": "next week", "duration_minutes": 60})
    assert free.result["count"] >= 1
    threads = await alice.call("threads", {"with": "bob"})
    assert {each["with"] for each in threads.result["threads"]} == {"ind.ai/bob"}
    found = await alice.call("find-people", {"name": "bob"})
    assert "ind.ai/bob" in [each["handle"] for each in found.result["people"]]


async def test_what_is_remembered_is_recalled_and_forgotten_only_with_the_owners_word(bob: Talk) -> None:
    kept = await bob.call("remember", {"text": "My locker at the pool is number 44."})
    assert kept.status is Status.DONE
    found = await bob.call("recall", {"query": "Which locker at the pool is mine?"})
    assert "My locker at the pool is number 44." in found.result["remembered"]
    asked = await bob.call("forget", {"about": "locker at the pool"})
    assert asked.status is Status.NEEDS_APPROVAL
    assert asked.approval is not None
    assert "locker at the pool is number 44" in asked.approval.terms
    assert (await bob.box.answer(bob.caller(), asked.approval.code, approve=True)).result["removed"] >= 1
    gone = await bob.call("recall", {"query": "Which locker at the pool is mine?"}, bob.caller())
    assert "My locker at the pool is number 44." not in gone.result["remembered"]


async def test_documents_are_searched(bob: Talk, near: Neighbours) -> None:
    outcome = await bob.call("search-kb", {"query": "bakery"})
    assert outcome.status is Status.DONE
