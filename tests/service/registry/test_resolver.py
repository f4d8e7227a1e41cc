"""Verified resolution against an honest registry, and against one that lies in every way it can."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from indai.client.fraud import read_evidence
from indai.client.handlekeys import (
    new_agent_key,
    retire,
    revoke_agent_key,
    rotate_agent_key,
    set_intents,
    set_node,
)
from indai.client.heads import SplitView
from indai.client.network import NetworkPolicy
from indai.client.resolver import Resolver
from indai.protocol.errors import IndaiError, InvalidInput, NotFound, Reason
from indai.protocol.handlestate import NodeRecord
from indai.protocol.keys import SigningKey
from indai.protocol.note import format_vkey
from indai.protocol.operations import replay
from indai.protocol.sparsemap import EMPTY
from indai.v1 import registry_pb2


def key(name: str) -> SigningKey:
    return SigningKey.from_seed(name.encode().ljust(32, b"."))


ALICE = "ind.ai/alice"


def evidence_in(directory: Path) -> Path:
    (path,) = directory.glob("fraud-*.jsonl")
    return path


async def fails(resolver: Resolver, handle: str, reason: Reason, **more: Any) -> IndaiError:
    with pytest.raises(IndaiError) as caught:
        await resolver.resolve(handle, **more)
    assert caught.value.reason is reason
    return caught.value


@pytest.fixture
async def alice(rig: Any) -> Any:
    """Alice's genesis, between the handles of others."""
    await rig.submit(rig.claim("ind.ai/early"))
    operation = rig.claim(ALICE)
    await rig.submit(operation)
    await rig.submit(rig.claim("ind.ai/later"))
    return operation


async def revoked(rig: Any, alice: Any) -> Any:
    chain = replay([alice])
    operation = revoke_agent_key(chain, key("root"), chain.state.agent_keys[0].key_id, now_ms=rig.clock())
    await rig.submit(operation)
    return operation


# --- an honest registry ---


async def test_a_warm_resolve_costs_no_round_trip(rig: Any, alice: Any) -> None:
    resolver = rig.resolver()
    await resolver.tail()
    first = await resolver.resolve(ALICE)
    rig.liar.calls.clear()
    assert await resolver.resolve(ALICE) == first
    assert rig.liar.calls == []
    rig.clock.now += 59_000
    await resolver.tail()
    assert rig.liar.calls == ["GetHead"]
    later = await resolver.resolve(ALICE, max_age_ms=60_000)
    assert (later.chain, later.head.time_ms) == (first.chain, first.head.time_ms + 59_000)
    assert rig.liar.calls == ["GetHead"]


@pytest.mark.rule("REG-13")
async def test_without_a_tail_memory_serves_as_long_as_the_caller_allows(rig: Any, alice: Any) -> None:
    resolver = rig.resolver()
    await resolver.resolve(ALICE)
    rig.liar.calls.clear()
    rig.clock.now += 60_000
    await resolver.resolve(ALICE, max_age_ms=60_000)
    assert rig.liar.calls == []
    rig.clock.now += 1
    await resolver.resolve(ALICE, max_age_ms=60_000)
    assert rig.liar.calls == ["GetHandle"]


async def test_a_tail_makes_a_revocation_bite(rig: Any, alice: Any) -> None:
    resolver = rig.resolver()
    await resolver.tail()
    early = await resolver.resolve("ind.ai/early")
    before = await resolver.resolve(ALICE)
    agent = before.state.agent_keys[0].key_id
    before.chain.key_valid_at(agent, rig.clock())
    await revoked(rig, alice)
    assert (await resolver.resolve(ALICE)).chain == before.chain  # still within its age, and not tailed
    await resolver.tail()
    after = await resolver.resolve(ALICE)
    with pytest.raises(IndaiError) as caught:
        after.chain.key_valid_at(agent, rig.clock())
    assert caught.value.reason is Reason.KEY_REVOKED
    rig.liar.calls.clear()
    assert (await resolver.resolve("ind.ai/early")).chain == early.chain
    assert rig.liar.calls == []


async def test_an_absence_in_memory_ends_with_the_claim(rig: Any, alice: Any) -> None:
    resolver = rig.resolver()
    await resolver.tail()
    await fails(resolver, "ind.ai/carol", Reason.NOT_FOUND)
    rig.liar.calls.clear()
    await fails(resolver, "ind.ai/carol", Reason.NOT_FOUND)
    assert rig.liar.calls == []
    await rig.submit(rig.claim("ind.ai/carol"))
    await resolver.tail()
    assert (await resolver.resolve("ind.ai/carol")).handle == "ind.ai/carol"


async def test_those_who_ask_at_once_share_one_call(rig: Any, alice: Any) -> None:
    resolver = rig.resolver()
    impatient = asyncio.create_task(resolver.resolve(ALICE))
    others = [asyncio.create_task(resolver.resolve(ALICE)) for _ in range(5)]
    await asyncio.sleep(0)
    impatient.cancel()
    found = await asyncio.gather(*others)
    assert len({id(one.chain) for one in found}) == 1
    assert rig.liar.calls.count("GetHandle") == 1


async def test_resolving_while_the_log_grows_always_proves_the_newest_head(rig: Any, alice: Any) -> None:
    resolver = rig.resolver()
    await resolver.tail()
    claims = [rig.claim(f"ind.ai/user-{number}") for number in range(30)]

    async def submit() -> None:
        for operation in claims:
            await rig.submit(operation)

    async def look() -> None:
        for number in range(30):
            await resolver.resolve_many([ALICE, f"ind.ai/user-{number}", f"ind.ai/nobody-{number}"])
            await resolver.tail()

    await asyncio.gather(submit(), look())
    await resolver.tail()
    found = await resolver.resolve_many(f"ind.ai/user-{number}" for number in range(30))
    assert [one.chain for one in found.values() if not isinstance(one, IndaiError)] == [
        replay([claimed]) for claimed in claims
    ]


async def test_many_are_resolved_each_with_its_own_answer(rig: Any, alice: Any) -> None:
    found = await rig.resolver().resolve_many([ALICE, "ind.ai/nobody", "no handle", ALICE])
    assert [type(one).__name__ for one in found.values()] == ["Resolved", "NotFound", "InvalidInput"]


async def test_a_handle_is_known_as_soon_as_it_is_claimed_to_whoever_asked_before(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver, read, claimed = rig.resolver(), asyncio.Event(), asyncio.Event()
    real = rig.stub.GetHandle

    async def slowly(request: Any) -> Any:
        answer = await real(request)
        read.set()
        await claimed.wait()
        return answer

    monkeypatch.setattr(rig.stub, "GetHandle", slowly)
    early = asyncio.create_task(resolver.resolve("ind.ai/carol"))
    await read.wait()
    await rig.submit(rig.claim("ind.ai/carol"))
    late = asyncio.create_task(resolver.resolve("ind.ai/carol"))  # while the first answer is on its way
    await asyncio.sleep(0)
    claimed.set()
    with pytest.raises(NotFound):
        await early
    assert (await late).handle == "ind.ai/carol"
    resolver.expect({"ind.ai/dora"}.__contains__)
    with pytest.raises(NotFound):
        await resolver.resolve("ind.ai/dora")
    await rig.submit(rig.claim("ind.ai/dora"))
    assert (await resolver.resolve("ind.ai/dora")).handle == "ind.ai/dora"


async def test_a_person_leads_to_their_node(rig: Any, alice: Any) -> None:
    origin = "ind.ai/node-one/ledger/2026"
    record = NodeRecord("127.0.0.1:7400", b"s" * 32, origin, format_vkey(origin, b"k" * 32))
    resolver = rig.resolver()
    with pytest.raises(NotFound):
        await resolver.node_of(await resolver.resolve(ALICE))
    await rig.submit(set_node(replay([alice]), key("root"), "ind.ai/node-one", now_ms=rig.clock()))
    await resolver.tail()
    with pytest.raises(NotFound):
        await resolver.node_of(await resolver.resolve(ALICE))
    await rig.submit(node := rig.claim("ind.ai/node-one", node_record=record))
    await resolver.tail()
    found = await resolver.node_of(await resolver.resolve(ALICE))
    assert found.state.node_record == record
    assert await resolver.node_of(found) is found
    await rig.submit(retire(replay([node]), key("root"), now_ms=rig.clock()))
    await resolver.tail()
    with pytest.raises(NotFound):
        await resolver.node_of(await resolver.resolve(ALICE))


async def test_a_rotated_key_replaces_the_old_one(rig: Any, alice: Any) -> None:
    chain = replay([alice])
    old = chain.state.agent_keys[0].key_id
    new = new_agent_key(key("new-agent").public_key, rig.clock(), scopes=["meet"])
    await rig.submit(rotate_agent_key(chain, key("spare"), old, new, now_ms=rig.clock()))
    found = await rig.resolver().resolve(ALICE)
    found.chain.key_valid_at(new.key_id, rig.clock(), "meet")
    with pytest.raises(IndaiError):
        found.chain.key_valid_at(old, rig.clock(), "meet")


# --- a registry that lies ---


async def old_answer(rig: Any, handle: str) -> registry_pb2.GetHandleResponse:
    answer: registry_pb2.GetHandleResponse = await rig.stub.GetHandle(
        registry_pb2.GetHandleRequest(handle=handle)
    )
    return answer


@pytest.mark.rule("REG-14")
async def test_an_old_state_under_the_newest_head_is_caught(rig: Any, alice: Any) -> None:
    await revoked(rig, alice)

    def twist(method: str, request: Any, answer: Any) -> Any:
        del answer.chain[1:], answer.times_ms[1:]
        return answer

    rig.liar.twist = twist
    await fails(rig.resolver(), ALICE, Reason.BAD_PROOF)
    rig.liar.twist = lambda method, request, answer: answer
    await rig.resolver().resolve(ALICE)


@pytest.mark.rule("REG-14")
async def test_denying_a_live_handle_is_caught(rig: Any, alice: Any) -> None:
    def twist(method: str, request: Any, answer: Any) -> Any:
        answer.ClearField("chain")
        return answer

    rig.liar.twist = twist
    await fails(rig.resolver(), ALICE, Reason.BAD_PROOF)
    absent = await rig.registry.look_up("ind.ai/absent")

    def with_a_foreign_proof(method: str, request: Any, answer: Any) -> Any:
        answer.ClearField("chain")
        answer.map_proof.CopyFrom(
            registry_pb2.MapProof(bitmap=absent.proof.bitmap, siblings=absent.proof.siblings)
        )
        return answer

    rig.liar.twist = with_a_foreign_proof
    await fails(rig.resolver(), ALICE, Reason.BAD_PROOF)
    await fails(rig.resolver(), "ind.ai/absent", Reason.NOT_FOUND)


@pytest.mark.rule("REG-14")
async def test_operations_dropped_reordered_or_of_another_handle_are_caught(rig: Any, alice: Any) -> None:
    chain = replay([alice])
    for word in ("ask", "pay"):
        update = set_intents(chain, key("root"), [word], now_ms=rig.clock())
        chain = replay([*(alice,), update]) if len(chain.history) == 1 else chain
        if word == "ask":
            await rig.submit(update)
    last = set_intents(chain, key("root"), ["pay"], now_ms=rig.clock())
    await rig.submit(last)
    bob = rig.claim("ind.ai/bob")
    await rig.submit(bob)

    def reordered(raws: list[bytes]) -> list[bytes]:
        return [raws[0], raws[2], raws[1]]

    for change, reason in (
        (lambda raws: raws[1:], Reason.INVALID_OPERATION),
        (lambda raws: [raws[0], raws[2]], Reason.INVALID_OPERATION),
        (reordered, Reason.INVALID_OPERATION),
        (lambda raws: raws[:2], Reason.BAD_PROOF),
        (lambda raws: [bob.raw], Reason.BAD_PROOF),
        (lambda raws: [*raws[:2], raws[2][:-70] + bytes(1) + raws[2][-69:]], None),
    ):

        def twist(method: str, request: Any, answer: Any, change: Any = change) -> Any:
            raws = change(list(answer.chain))
            del answer.chain[:]
            answer.chain.extend(raws)
            del answer.times_ms[len(raws) :]
            return answer

        rig.liar.twist = twist
        with pytest.raises(IndaiError) as caught:
            await rig.resolver().resolve(ALICE)
        assert reason is None or caught.value.reason is reason
    rig.liar.twist = lambda method, request, answer: answer
    assert (await rig.resolver().resolve(ALICE)).state.intents == ("pay",)


@pytest.mark.rule("REG-14")
async def test_a_map_root_that_no_leaf_carries_is_caught(rig: Any, alice: Any) -> None:
    early = await old_answer(rig, "ind.ai/early")

    def forged_leaf(method: str, request: Any, answer: Any) -> Any:
        leaf = answer.last_leaf
        answer.last_leaf = leaf[:10] + EMPTY[0] + leaf[42:]
        answer.ClearField("chain")
        answer.map_proof.CopyFrom(registry_pb2.MapProof(bitmap=bytes(32)))
        return answer

    rig.liar.twist = forged_leaf
    await fails(rig.resolver(), ALICE, Reason.BAD_PROOF)

    def not_the_last(method: str, request: Any, answer: Any) -> Any:
        answer.last_leaf_proof[:] = list(answer.last_leaf_proof)[:-1]
        return answer

    rig.liar.twist = not_the_last
    await fails(rig.resolver(), ALICE, Reason.BAD_PROOF)
    assert early.last_leaf


@pytest.mark.rule("REG-12")
async def test_an_older_head_than_the_one_known_is_not_taken(rig: Any, alice: Any) -> None:
    replayed = await old_answer(rig, ALICE)
    resolver = rig.resolver()
    await revoked(rig, alice)
    await resolver.tail()
    rig.liar.twist = lambda method, request, answer: replayed
    await fails(resolver, ALICE, Reason.STALE_HEAD)


@pytest.mark.rule("REG-13")
async def test_a_whole_old_answer_is_stale_to_a_client_that_knows_nothing(rig: Any, alice: Any) -> None:
    replayed = await old_answer(rig, ALICE)
    await revoked(rig, alice)
    rig.clock.now += 60_000
    rig.liar.twist = lambda method, request, answer: replayed
    await rig.resolver().resolve(ALICE, max_age_ms=61_000)
    await fails(rig.resolver(), ALICE, Reason.STALE_HEAD, max_age_ms=59_000)


@pytest.mark.rule("REG-13")
async def test_a_head_from_the_future_is_refused(rig: Any, alice: Any) -> None:
    rig.clock.now += 200_000
    await rig.resolver().tail()
    rig.clock.now -= 120_000
    await rig.resolver().resolve(ALICE)
    rig.clock.now -= 1_000
    await fails(rig.resolver(), ALICE, Reason.BAD_CHECKPOINT)


@pytest.mark.rule("REG-12")
async def test_a_head_that_is_not_the_logs_is_refused(rig: Any, alice: Any) -> None:
    other = NetworkPolicy.parse(rig.policy.format())
    assert other == rig.policy
    forged = (await old_answer(rig, ALICE)).checkpoint.replace(b"\n3\n", b"\n4\n")
    assert forged != (await old_answer(rig, ALICE)).checkpoint

    def twist(method: str, request: Any, answer: Any) -> Any:
        answer.checkpoint = forged
        return answer

    rig.liar.twist = twist
    await fails(rig.resolver(), ALICE, Reason.BAD_SIGNATURE)


@pytest.mark.rule("REG-12")
@pytest.mark.parametrize("ahead", [0, 1, 3])
async def test_two_histories_under_a_stolen_key_are_proof_of_fraud(
    rig: Any, alice: Any, make_database: Any, start_registry: Any, tmp_path: Path, ahead: int
) -> None:
    """The fork has as many leaves as the honest log (both notes together are the proof), or more."""
    fork = await start_registry((await make_database()).pool, "fork")
    for number in range(3 + ahead):
        await fork.submit(fork.claim(f"ind.ai/mallory-{number}"))
    state = tmp_path / "head.json"
    resolver = rig.resolver(state)
    honest = await resolver.tail()
    lies = {
        "GetHandle": await fork.stub.GetHandle(registry_pb2.GetHandleRequest(handle=ALICE, known_size=3)),
        "GetHead": await fork.stub.GetHead(registry_pb2.GetHeadRequest(known_size=3)),
    }
    rig.liar.twist = lambda method, request, answer: lies[method]
    error = await fails(resolver, ALICE, Reason.SPLIT_VIEW)
    assert isinstance(error, SplitView)
    assert error.notes == (honest.note, lies["GetHead"].checkpoint)
    evidence = read_evidence(evidence_in(tmp_path))
    assert [head.size for head in evidence.heads()] == [3, 3 + ahead]
    assert evidence.is_proof
    assert [evidence.smaller, evidence.larger] == list(error.notes)
    with pytest.raises(SplitView):
        await resolver.tail()
    assert resolver.head == honest
    # A client without a past cannot know; one that kept its head in a file does.
    await fails(rig.resolver(), ALICE, Reason.NOT_FOUND)
    await fails(rig.resolver(state), ALICE, Reason.SPLIT_VIEW)


@pytest.mark.rule("REG-12")
async def test_a_smaller_log_signed_later_is_a_rollback(
    rig: Any, alice: Any, make_database: Any, start_registry: Any
) -> None:
    resolver = rig.resolver()
    await resolver.tail()
    rig.clock.now += 30_000
    shorter = await start_registry((await make_database()).pool, "restored")
    await shorter.submit(shorter.claim("ind.ai/early"))
    answer = await old_answer(shorter, ALICE)
    rig.liar.twist = lambda method, request, real: answer
    await fails(resolver, ALICE, Reason.LOG_ROLLED_BACK)


@pytest.mark.rule("REG-14")
@pytest.mark.parametrize("change", ["drop", "replace", "reorder", "nothing"])
async def test_a_tail_that_leaves_an_operation_out_is_caught(rig: Any, alice: Any, change: str) -> None:
    """Or a revoked key would stay good in every memory."""
    resolver = rig.resolver()
    await resolver.tail()
    await resolver.resolve(ALICE)
    for number in range(4):
        await rig.submit(rig.claim(f"ind.ai/user-{number}"))
    await revoked(rig, alice)

    def twist(method: str, request: Any, answer: Any) -> Any:
        if method == "ListEntries":
            entries = list(answer.entries)
            if change == "drop":
                entries.pop()
            elif change == "replace":
                entries[-1] = entries[0]
            elif change == "reorder":
                entries[-2:] = entries[-1], entries[-2]
            answer.entries[:] = entries
        return answer

    rig.liar.twist = twist
    if change == "nothing":
        await resolver.tail()
        assert (await resolver.resolve(ALICE)).state.agent_keys[0].revoked_at_ms
        return
    with pytest.raises(IndaiError) as caught:
        await resolver.tail()
    assert caught.value.reason is Reason.BAD_PROOF
    rig.clock.now += 60_001  # what is in memory ages, whatever the registry leaves out
    rig.liar.calls.clear()
    await resolver.resolve(ALICE, max_age_ms=60_000)
    assert rig.liar.calls == ["GetHandle"]


async def test_the_kept_head_is_of_one_network_only(rig: Any, alice: Any, tmp_path: Path) -> None:
    state = tmp_path / "head.json"
    await rig.resolver(state).tail()
    again = rig.resolver(state)
    assert again.head is not None
    assert again.head.size == 3
    other = NetworkPolicy.of_registry(
        type(rig.policy.log)(rig.policy.origin, 1, key("other-log").public_key),
        rig.policy.policy.witnesses["clock"],
    )
    with pytest.raises(InvalidInput, match="another network"):
        Resolver(rig.stub, other, rig.clock, state)
    state.write_text("{")
    with pytest.raises(InvalidInput):
        rig.resolver(state)
