"""Writing: once however often, what is obvious at once, and what is wrong refused by name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from indai.memory.queue import Task
from indai.protocol.errors import IndaiError, Reason
from indai.v1 import memory_pb2 as pb

from tests.service.memory.rooms import (
    ALICE,
    CONTEXT,
    DAY,
    HOUR,
    NOW,
    Letters,
    Room,
    fan,
    private,
    scope,
    turn,
)

SCRIPTS = "hello नमस्ते வணக்கம் নমস্কার నమస్తే ನಮಸ್ಕಾರ ഹലോ ਸਤਿ สวัสดี 你好 مرحبا 👩‍👩‍👧‍👦🪔"


async def test_adding_twice_adds_nothing_and_says_so(room: Room) -> None:
    first = await room.remember(private(), "one", "two")
    again = await room.remember(private(), "two", "three", "three")
    assert (first.stored, first.duplicates) == (2, 0)
    assert (again.stored, again.duplicates) == (1, 1)
    turns = await room.service.ListTurns(pb.ListTurnsRequest(access=private()), CONTEXT)
    assert [one.text for one in turns.turns] == ["one", "two", "three"]


async def test_the_same_turns_written_at_the_same_moment_are_stored_once(room: Room) -> None:
    texts = [f"I love dish {number}" for number in range(6)]
    answers = await asyncio.gather(*(room.remember(private(), *texts) for _ in range(4)))
    assert sum(answer.stored for answer in answers) == len(texts)
    facts = await room.facts(private(), all_states=True)
    assert sorted(fact.value_json for fact in facts) == sorted(f'"dish {n}"' for n in range(6))


async def test_an_obvious_fact_is_there_in_the_answer_and_ends_what_it_contradicts(room: Room) -> None:
    await room.remember(private(), "I love dosa")
    room.now += HOUR
    answer = await room.remember(private(), "I love idli")
    assert [(fact.key, fact.value_json) for fact in answer.facts] == [("preference.food", '"idli"')]
    (ended,) = await room.facts(private(), state=pb.FACT_STATE_ENDED)
    assert (ended.value_json, ended.valid_to_time.seconds) == ('"dosa"', (NOW + HOUR) // 1000)
    relations = await room.service.ListRelations(pb.ListRelationsRequest(access=private()), CONTEXT)
    assert [edge.object for edge in relations.relations] == ["idli"]


async def test_what_was_said_before_what_holds_now_is_kept_as_already_ended(room: Room) -> None:
    await room.remember(private(), "I love idli")
    old = turn("I love dosa")
    old.said_time.FromMilliseconds(NOW - DAY)
    await room.service.Remember(pb.RememberRequest(access=private(), turns=[old]), CONTEXT)
    assert [fact.value_json for fact in await room.facts(private())] == ['"idli"']
    (ended,) = await room.facts(private(), state=pb.FACT_STATE_ENDED)
    assert (ended.value_json, ended.valid_to_time.seconds) == ('"dosa"', NOW // 1000)


async def test_an_unsure_fact_waits_for_a_second_turn_and_not_for_the_same_again(room: Room) -> None:
    for _ in range(2):
        await room.remember(private(), "maybe blue")
        (waiting,) = await room.facts(private(), state=pb.FACT_STATE_PENDING)
        assert waiting.mentions == 1
        edges = await room.service.ListRelations(pb.ListRelationsRequest(access=private()), CONTEXT)
        assert not edges.relations
    await room.remember(private(), "maybe blue", session="another")
    edges = await room.service.ListRelations(pb.ListRelationsRequest(access=private()), CONTEXT)
    assert [edge.object for edge in edges.relations] == ["blue"]  # not before
    (holding,) = await room.facts(private())
    assert (holding.mentions, holding.state) == (2, pb.FACT_STATE_ACTIVE)


@pytest.mark.parametrize("role", [pb.SPEAKER_ROLE_SYSTEM, pb.SPEAKER_ROLE_TOOL, pb.SPEAKER_ROLE_RECALLED])
async def test_nothing_is_extracted_from_what_nobody_said(room: Room, role: Any) -> None:
    answer = await room.remember(private(), "I love dosa", *(f"I love {n}" for n in range(10)), role=role)
    await room.run_jobs()
    assert not answer.facts
    assert not await room.facts(private(), all_states=True)
    turns = await room.service.ListTurns(pb.ListTurnsRequest(access=private()), CONTEXT)
    assert {one.trust for one in turns.turns} == {pb.TRUST_OUTSIDE}


async def test_a_large_batch_leaves_its_facts_to_a_job_that_can_run_twice(
    room: Room,
) -> None:
    answer = await room.remember(private(), *(f"maybe color {n % 3} {'x' * (n // 3)}" for n in range(12)))
    assert not answer.facts
    jobs = await room.pool.fetch("SELECT payload FROM memory.pgqueuer WHERE entrypoint = 'extract'")
    assert await room.run_jobs(Task.EXTRACT) == 1
    before = await room.facts(private(), all_states=True)
    assert len(before) == 12
    await room.work.extract(_job(jobs[0]["payload"]))
    assert await room.facts(private(), all_states=True) == before


async def test_a_turn_whose_fact_has_ended_does_not_say_it_again_when_its_job_does(room: Room) -> None:
    await room.remember(private(), *(f"I love {dish}" for dish in DISHES))
    jobs = await room.pool.fetch("SELECT payload FROM memory.pgqueuer WHERE entrypoint = 'extract'")
    await room.run_jobs(Task.EXTRACT)
    before = await room.facts(private(), all_states=True)
    assert [fact.state for fact in before].count(pb.FACT_STATE_ACTIVE) == 1
    await room.work.extract(_job(jobs[0]["payload"]))
    assert await room.facts(private(), all_states=True) == before


def _job(payload: bytes) -> Any:
    from indai.memory.queue import Job

    return Job.parse("extract", payload)


async def test_a_stated_fact_holds_at_once_and_a_corrected_one_stays_readable(room: Room) -> None:
    await room.remember(private(), facts=[pb.Fact(key="home.city", value_json='"Pune"')])
    (fact,) = await room.facts(private(), key_prefix="home")
    room.now += HOUR
    answer = await room.service.CorrectFact(
        pb.CorrectFactRequest(access=private(), id=fact.id, value_json='"Goa"'), CONTEXT
    )
    assert (answer.fact.key, answer.fact.value_json, answer.fact.origin) == ("home.city", '"Goa"', "owner")
    (ended,) = await room.facts(private(), state=pb.FACT_STATE_ENDED)
    assert ended.id == fact.id
    await room.service.CorrectFact(pb.CorrectFactRequest(access=private(), id=answer.fact.id), CONTEXT)
    assert not await room.facts(private())
    with pytest.raises(IndaiError) as refused:
        await room.service.CorrectFact(pb.CorrectFactRequest(access=private(), id=fact.id), CONTEXT)
    assert refused.value.reason is Reason.NOT_FOUND


@pytest.mark.parametrize(
    "text", ["x" * 100_000, SCRIPTS, "👍", " ", "‮reversed", "'; DROP TABLE memory.chunks; --", "a\\b {} %s"]
)
async def test_any_text_is_kept_as_it_was_said_and_found_again(room: Room, text: str) -> None:
    await room.remember(private(), text, "something else altogether")
    await room.run_jobs(Task.EMBED)
    turns = await room.service.ListTurns(pb.ListTurnsRequest(access=private()), CONTEXT)
    assert turns.turns[0].text == text
    answer = await room.recall(private(), text[:1000])
    assert not answer.hits or answer.hits[0].text == text
    assert answer.hits or not any(letter.isalpha() for letter in text)


DISHES = ("dosa", "idli", "vada", "upma", "poha", "puri", "pav", "rasam", "kheer")
WRONG = Reason.INVALID_ARGUMENT
BAD: list[tuple[str, Any, Reason]] = [
    ("turns[0].text", pb.RememberRequest(turns=[turn("", source="s")]), WRONG),
    ("turns[0].text", pb.RememberRequest(turns=[turn("a\0b", source="s")]), WRONG),
    ("turns[0].text", pb.RememberRequest(turns=[turn("x" * 140_000)]), Reason.TOO_LARGE),
    ("turns[0].role", pb.RememberRequest(turns=[turn("x", role=0)]), WRONG),
    ("turns[0].source_id", pb.RememberRequest(turns=[pb.Turn(role=pb.SPEAKER_ROLE_PERSON, text="x")]), WRONG),
    ("turns", pb.RememberRequest(turns=[turn(str(n)) for n in range(1_001)]), Reason.TOO_LARGE),
    (
        "facts[0].value_json",
        pb.RememberRequest(facts=[pb.Fact(key="k", value_json="{")]),
        WRONG,
    ),
    (
        "facts[0].value_json",
        pb.RememberRequest(facts=[pb.Fact(key="k", value_json="NaN")]),
        WRONG,
    ),
    (
        "facts[0].value_json",
        pb.RememberRequest(facts=[pb.Fact(key="k", value_json='"\\u0000"')]),
        WRONG,
    ),
    ("facts[0].key", pb.RememberRequest(facts=[pb.Fact(value_json="1")]), WRONG),
    (
        "facts[0].confidence",
        pb.RememberRequest(facts=[pb.Fact(key="k", value_json="1", confidence=2)]),
        WRONG,
    ),
    ("scope.kind", pb.RememberRequest(scope=pb.Scope()), WRONG),
    ("scope.id", pb.RememberRequest(scope=scope("relationship")), WRONG),
    ("scope.id", pb.RememberRequest(scope=scope("private", "x")), WRONG),
    ("access.door", pb.RememberRequest(access=pb.Access(tenant=ALICE)), WRONG),
    ("access.tenant", pb.RememberRequest(access=pb.Access(door=pb.DOOR_PRIVATE)), WRONG),
    (
        "access.peer",
        pb.RememberRequest(access=pb.Access(tenant=ALICE, door=pb.DOOR_AGENT)),
        WRONG,
    ),
    ("access.tenant", pb.RememberRequest(access=private("a\nb")), WRONG),
]


@pytest.mark.parametrize(("field", "request_", "reason"), BAD)
async def test_what_is_wrong_is_named_and_nothing_is_stored(
    room: Room, field: str, request_: Any, reason: Reason
) -> None:
    request = pb.RememberRequest(access=private())
    request.MergeFrom(request_)
    if request_.HasField("access"):
        request.access.CopyFrom(request_.access)
    with pytest.raises(IndaiError) as refused:
        await room.service.Remember(request, CONTEXT)
    assert refused.value.reason is reason
    assert field in refused.value.fields
    assert await room.pool.fetchval("SELECT count(*) FROM memory.pgqueuer") == 0


@pytest.mark.parametrize("query", ["", "a\0b", "x" * 20_000])
async def test_a_question_that_is_none_is_refused(room: Room, query: str) -> None:
    with pytest.raises(IndaiError) as refused:
        await room.recall(private(), query)
    assert "query" in refused.value.fields


async def test_a_page_goes_on_where_the_one_before_ended_and_a_made_up_token_is_refused(room: Room) -> None:
    await room.remember(
        private(),
        *(f"turn {n}" for n in range(7)),
        facts=[pb.Fact(key=f"k{n}", value_json="1") for n in range(5)],
    )
    seen, token = [], ""
    while True:
        request = pb.ListTurnsRequest(access=private(), page_size=3, page_token=token)
        answer = await room.service.ListTurns(request, CONTEXT)
        seen += [one.text for one in answer.turns]
        token = answer.next_page_token
        if not token:
            break
    assert seen == [f"turn {n}" for n in range(7)]
    first = await room.service.ListFacts(pb.ListFactsRequest(access=private(), page_size=2), CONTEXT)
    rest = await room.facts(private(), page_token=first.next_page_token)
    assert [fact.key for fact in [*first.facts, *rest]] == [f"k{n}" for n in range(5)]
    with pytest.raises(IndaiError):
        await room.facts(private(), page_token="made up")


async def test_working_memory_expires_and_opinions_change(room: Room) -> None:
    service, who = room.service, fan("fan-1")
    entries = [
        pb.WorkingEntry(name="plan", value_json='{"step": 1}'),
        pb.WorkingEntry(name="mood", value_json='"calm"'),
    ]
    await service.SetWorkingMemory(
        pb.SetWorkingMemoryRequest(access=who, session="s", entries=entries, ttl_seconds=60), CONTEXT
    )
    get = pb.GetWorkingMemoryRequest(access=who, session="s")
    got = await service.GetWorkingMemory(get, CONTEXT)
    assert {one.name: one.value_json for one in got.entries} == {"plan": '{"step":1}', "mood": '"calm"'}
    unset = [pb.WorkingEntry(name="mood")]
    await service.SetWorkingMemory(
        pb.SetWorkingMemoryRequest(access=who, session="s", entries=unset), CONTEXT
    )
    room.now += 61_000
    assert not (
        await service.GetWorkingMemory(pb.GetWorkingMemoryRequest(access=who, session="s"), CONTEXT)
    ).entries
    for stance, changed in (("likes it", True), ("likes it", False), ("tired of it", True)):
        put = pb.PutOpinionRequest(access=who, opinion=pb.Opinion(topic="Cricket", stance=stance))
        assert (await service.PutOpinion(put, CONTEXT)).changed is changed
    held = await service.ListOpinions(pb.ListOpinionsRequest(access=who, topics=["cricket"]), CONTEXT)
    assert [one.stance for one in held.opinions] == ["tired of it"]


async def test_names_that_are_one_thing_share_their_edges(room: Room) -> None:
    service = room.service
    edges = [
        pb.Relation(subject="Asha", predicate="works_at", object="Infosys"),
        pb.Relation(subject="asha rao", predicate="lives_in", object="Pune"),
    ]
    await service.PutRelations(pb.PutRelationsRequest(access=private(), relations=edges), CONTEXT)
    alias = pb.Alias(name="asha rao", canonical="Asha")
    await service.PutRelations(pb.PutRelationsRequest(access=private(), aliases=[alias]), CONTEXT)
    for name in ("ASHA", "Asha Rao"):
        found = await service.ListRelations(pb.ListRelationsRequest(access=private(), names=[name]), CONTEXT)
        assert {(one.subject, one.object) for one in found.relations} == {
            ("Asha", "Infosys"),
            ("Asha", "Pune"),
        }
    again = await service.PutRelations(pb.PutRelationsRequest(access=private(), relations=edges), CONTEXT)
    assert again.added == 0


async def test_without_a_model_words_are_searched_and_the_answer_says_so(room: Room) -> None:
    room = Room(room.pool, embedder=None)
    await room.remember(private(), "the dentist is Dr. Rao")
    answer = await room.recall(private(), "dentist")
    assert [hit.text for hit in answer.hits] == ["the dentist is Dr. Rao"]
    assert "only words were searched" in answer.notes[0].lower()


async def test_each_hit_says_why_and_the_budget_holds(room: Room) -> None:
    await room.remember(private(), *(f"the parcel number {n} came on a Monday" for n in range(30)))
    await room.run_jobs(Task.EMBED)
    assert isinstance(room.embedder, Letters)
    request = pb.RecallRequest(access=private(), query="parcel number 7", limit=20, budget_tokens=60)
    answer = await room.service.Recall(request, CONTEXT)
    assert "number 7 " in answer.hits[0].text
    assert 0 < sum(hit.tokens for hit in answer.hits) <= 60
    assert all(hit.why and hit.score > 0 for hit in answer.hits)
    assert abs(sum(one.part for one in answer.hits[0].why) - answer.hits[0].score) < 1e-3


async def test_a_commitment_is_one_memory_that_changes_and_goes_when_it_was_erased(room: Room) -> None:
    async def told(text: str, state: str) -> int:
        one = pb.CommitmentMemory(mid=bytes(32), peer="ind.ai/bob", text=text, state=state)
        request = pb.RecordCommitmentsRequest(access=private(), commitments=[one])
        return (await room.service.RecordCommitments(request, CONTEXT)).changed

    assert [await told("lunch with bob", "committed") for _ in range(2)] == [1, 0]
    await room.run_jobs(Task.EMBED)
    assert await told("lunch with bob", "cancelled") == 1
    (hit,) = (await room.recall(private(), "lunch")).hits
    assert (hit.text, hit.kind) == ("lunch with bob (cancelled)", pb.MEMORY_KIND_COMMITMENT)
    assert [await told("", "cancelled") for _ in range(2)] == [1, 0]
    assert not (await room.recall(private(), "lunch")).hits


async def test_an_aadhaar_number_is_no_fact(room: Room) -> None:
    await room.remember(private(), "I love aadhaar 2999 2849 6545", "I love dosa")
    assert [fact.value_json for fact in await room.facts(private(), all_states=True)] == ['"dosa"']
