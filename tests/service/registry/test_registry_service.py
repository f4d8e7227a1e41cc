"""The registry over a real Postgres: what it takes, what it refuses, and that it takes no answer back."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from indai.client.handlekeys import add_agent_key, new_agent_key, retire, set_intents
from indai.protocol.envelope import Envelope, parse_envelope
from indai.protocol.errors import IndaiError, InvalidInput, NotFound, Reason, Unavailable
from indai.protocol.keys import SigningKey
from indai.protocol.operations import MAX_SKEW_MS, Chain, apply_operation, replay
from indai.protocol.registryleaf import parse_registry_leaf
from indai.protocol.sparsemap import SparseMap, map_key, map_value
from indai.storage.pool import transaction
from indai.tlog import append as tlog_append
from indai.v1 import registry_pb2

from .conftest import Clock


def key(name: str) -> SigningKey:
    return SigningKey.from_seed(name.encode().ljust(32, b"."))


def chain_of(*operations: Envelope) -> Chain:
    return replay(operations)


async def refused(rig: Any, operation: Envelope, reason: Reason) -> IndaiError:
    with pytest.raises(IndaiError) as caught:
        await rig.submit(operation)
    assert caught.value.reason is reason
    return caught.value


async def test_a_claimed_handle_resolves(rig: Any) -> None:
    answer = await rig.submit(operation := rig.claim("ind.ai/alice", intents=["meet"]))
    assert answer.index == 0
    assert list(answer.lookup.chain) == [operation.raw]
    found = await rig.resolver().resolve("IND.ai/Alice")
    assert found.chain == chain_of(operation)
    assert found.state.intents == ("meet",)


async def test_a_handle_nobody_claimed_is_proved_absent(rig: Any) -> None:
    for other in ("ind.ai/alice", "ind.ai/bob"):  # the first time the log is empty
        with pytest.raises(NotFound):
            await rig.resolver().resolve("ind.ai/nobody")
        await rig.submit(rig.claim(other))


async def test_a_repeated_operation_gets_its_index_again(rig: Any) -> None:
    first = rig.claim("ind.ai/alice")
    assert (await rig.submit(first)).index == 0
    assert (await rig.submit(rig.claim("ind.ai/bob"))).index == 1
    rig.clock.now += 10 * MAX_SKEW_MS
    assert (await rig.submit(first)).index == 0
    same = rig.claim("ind.ai/carol")
    answers = await asyncio.gather(*(rig.submit(same) for _ in range(5)))
    assert {answer.index for answer in answers} == {2}


async def test_a_taken_handle_stays_taken(rig: Any) -> None:
    first = rig.claim("ind.ai/alice")
    await rig.submit(first)
    await refused(rig, rig.claim("ind.ai/alice"), Reason.HANDLE_TAKEN)
    await rig.submit(retire(chain_of(first), key("root"), now_ms=rig.clock()))
    await refused(rig, rig.claim("ind.ai/alice"), Reason.HANDLE_TAKEN)
    assert (await rig.resolver().resolve("ind.ai/alice")).chain.ended_at_ms


@pytest.mark.rule("REG-15")
async def test_what_does_not_belong_here_is_refused(rig: Any) -> None:
    for handle in ("example.org/alice", "alice.example", "ind.ai"):
        await refused(rig, rig.claim(handle), Reason.INVALID_OPERATION)
    operation = rig.claim("ind.ai/alice")
    assert operation.raw.count(b"ind.ai/registry") == 1
    elsewhere = operation.raw.replace(b"ind.ai/registry", b"ind.ai/registrx")
    await refused(rig, parse_envelope(elsewhere), Reason.INVALID_OPERATION)
    await refused(rig, rig.claim("ind.ai/admin"), Reason.INVALID_HANDLE)
    rig.clock.now += MAX_SKEW_MS + 1
    ahead = rig.claim("ind.ai/alice")
    rig.clock.now -= MAX_SKEW_MS + 1
    await refused(rig, ahead, Reason.FROM_FUTURE)
    rig.clock.now += 1
    await rig.submit(ahead)


async def test_an_operation_on_nothing_and_one_out_of_order_are_refused(rig: Any) -> None:
    first = rig.claim("ind.ai/alice")
    update = set_intents(chain_of(first), key("root"), ["ask"], now_ms=rig.clock())
    await refused(rig, update, Reason.NOT_FOUND)
    await rig.submit(first)
    await rig.submit(update)
    rival = set_intents(chain_of(first), key("spare"), ["pay"], now_ms=rig.clock())
    await refused(rig, rival, Reason.INVALID_OPERATION)
    stranger = first.raw.replace(first.signatures[0].sig, b"\x01" * 64)
    await refused(rig, parse_envelope(stranger.replace(b"alice", b"mabel")), Reason.BAD_SIGNATURE)


@pytest.mark.rule("REG-16")
async def test_a_sub_handle_is_claimed_with_its_parents_key(rig: Any) -> None:
    await refused(rig, rig.claim("ind.ai/alice/work"), Reason.PERMISSION_DENIED)
    await rig.submit(rig.claim("ind.ai/alice"))
    foreign = rig.claim("ind.ai/alice/work", rotation_keys=[key("stranger")])
    await refused(rig, foreign, Reason.PERMISSION_DENIED)
    await rig.submit(rig.claim("ind.ai/alice/work"))
    assert (await rig.resolver().resolve("ind.ai/alice/work")).handle == "ind.ai/alice/work"


async def test_many_at_once_land_and_every_leaf_carries_the_map_after_it(rig: Any) -> None:
    claims = [rig.claim(f"ind.ai/user-{number}") for number in range(60)]
    chain, updates = chain_of(claims[0]), []
    for number in range(5):
        extra = new_agent_key(key(f"extra{number}").public_key, rig.clock())
        updates.append(add_agent_key(chain, key("root"), extra, now_ms=rig.clock()))
        chain = apply_operation(chain, updates[-1])
    # The updates are queued in order behind their CREATE: several operations of one handle in one batch.
    answers = await asyncio.gather(*(rig.registry.submit(one.raw) for one in [*claims, *updates]))
    assert sorted(index for _, index in answers) == list(range(65))
    resolved = await rig.resolver().resolve_many(f"ind.ai/user-{number}" for number in range(60))
    assert resolved["ind.ai/user-0"].chain == chain
    assert all(not isinstance(one, IndaiError) for one in resolved.values())
    await check_mirror(rig, 65)


async def check_mirror(rig: Any, size: int) -> None:
    """Anybody can replay the log: its operations make the chains, and each leaf's root is the map's."""
    entries: list[bytes] = []
    while len(entries) < size:
        page = await rig.stub.ListEntries(registry_pb2.ListEntriesRequest(start=len(entries), page_size=20))
        entries += page.entries
        assert page.next_start == len(entries)
    chains: dict[str, Chain] = {}
    tree = SparseMap(lambda path: None)
    for leaf in map(parse_registry_leaf, entries):
        operation = parse_envelope(leaf.body)
        handle = registry_pb2.Operation.FromString(operation.payload).handle
        chain = chains[handle] = apply_operation(chains.get(handle), operation, leaf.time_ms)
        value = map_value(handle, chain.digest)
        assert tree.put(map_key(handle), value) == leaf.map_root


async def test_one_bad_operation_does_not_disturb_its_batch(rig: Any) -> None:
    good = [rig.claim(f"ind.ai/user-{number}") for number in range(10)]
    bad = [rig.claim("ind.ai/user-3"), rig.claim("ind.ai/user-4")]
    mixed = [*good[:6], *bad, *good[6:]]
    answers = await asyncio.gather(*(rig.registry.submit(one.raw) for one in mixed), return_exceptions=True)
    assert [isinstance(answer, IndaiError) for answer in answers] == [one in bad for one in mixed]
    await check_mirror(rig, 10)


async def test_a_failed_transaction_leaves_nothing_behind(rig: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.submit(rig.claim("ind.ai/alice"))
    real, broken = tlog_append.append, True

    async def append(*args: Any, **kwargs: Any) -> Any:
        if broken:
            raise IndaiError(Reason.INTERNAL, "The append fails.")
        return await real(*args, **kwargs)

    monkeypatch.setattr("indai.registry.service.append", append)
    bob = rig.claim("ind.ai/bob")
    await refused(rig, bob, Reason.INTERNAL)
    with pytest.raises(NotFound):
        await rig.resolver().resolve("ind.ai/bob")
    broken = False
    assert (await rig.submit(bob)).index == 1
    assert (await rig.resolver().resolve("ind.ai/bob")).chain == chain_of(bob)
    await check_mirror(rig, 2)


@pytest.mark.parametrize("committed", [True, False])
async def test_a_connection_lost_at_commit_is_looked_up(
    rig: Any, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    await rig.submit(rig.claim("ind.ai/alice"))
    lost = Unavailable(Reason.DATABASE_UNAVAILABLE, "The connection was lost.")
    left = 1

    @asynccontextmanager
    async def losing(*args: Any) -> AsyncIterator[Any]:
        nonlocal left
        async with transaction(*args) as connection:
            yield connection
            left -= 1
            if left == 0 and not committed:
                raise lost
        if left == 0:
            raise lost

    monkeypatch.setattr("indai.tlog.sequencer.transaction", losing)
    bob = rig.claim("ind.ai/bob")
    if committed:
        assert (await rig.submit(bob)).index == 1
    else:
        await refused(rig, bob, Reason.DATABASE_UNAVAILABLE)
    monkeypatch.undo()
    carol = rig.claim("ind.ai/carol")
    assert (await rig.submit(carol)).index == 1 + committed
    assert (await rig.submit(bob)).index == 2 - committed
    await check_mirror(rig, 3)
    found = await rig.resolver().resolve_many(["ind.ai/alice", "ind.ai/bob", "ind.ai/carol"])
    assert not [one for one in found.values() if isinstance(one, IndaiError)]


async def test_a_killed_registry_keeps_every_answer_it_gave(
    database: Any, start_registry: Any, tmp_path: Path
) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    program = Path(__file__).with_name("claiming_program.py")
    running = await asyncio.create_subprocess_exec(
        sys.executable, str(program), database.dsn, str(tmp_path / "log"), stdout=-1, env=environment
    )
    assert running.stdout is not None
    answered = [json.loads(await running.stdout.readline()) for _ in range(40)]
    running.kill()
    await running.wait()
    clock = Clock(answered[-1]["time_ms"])
    rig = await start_registry(database.pool, "log", clock)
    resolver = rig.resolver()
    for answer in answered:
        found = await resolver.resolve(answer["handle"])
        assert found.chain.last_mid.hex() == answer["mid"]
    size = resolver.head.size
    assert size >= len(answered)
    assert (await rig.submit(rig.claim("ind.ai/afterwards"))).index == size
    await check_mirror(rig, size + 1)


async def test_a_restarted_registry_goes_on_where_it_was(database: Any, start_registry: Any) -> None:
    first = await start_registry(database.pool)
    operations = [first.claim(f"ind.ai/user-{number}") for number in range(20)]
    await asyncio.gather(*map(first.submit, operations))
    head = await first.resolver().tail()
    again = await start_registry(database.pool)
    resolver = again.resolver()
    for number, operation in enumerate(operations):
        assert (await resolver.resolve(f"ind.ai/user-{number}")).chain == chain_of(operation)
    assert resolver.head is not None
    assert resolver.head.checkpoint == head.checkpoint
    assert (await again.submit(operations[7])).index == (await again.submit(operations[7])).index
    assert (await again.submit(again.claim("ind.ai/late"))).index == 20


async def test_of_two_registries_on_one_log_the_older_is_fenced(database: Any, start_registry: Any) -> None:
    first = await start_registry(database.pool)
    second = await start_registry(database.pool)
    await refused(first, first.claim("ind.ai/alice"), Reason.LOG_FENCED)
    await second.submit(second.claim("ind.ai/alice"))


async def test_a_registry_on_an_older_database_refuses_to_start(
    database: Any, make_database: Any, start_registry: Any
) -> None:
    rig = await start_registry(database.pool)
    await rig.submit(rig.claim("ind.ai/alice"))
    restored = await make_database()
    with pytest.raises(IndaiError) as caught:
        await start_registry(restored.pool)
    assert caught.value.reason is Reason.LOG_ROLLED_BACK
    await start_registry(restored.pool, "another-directory")  # what stops it is the head outside the database


async def test_a_damaged_map_is_noticed_at_the_start(database: Any, start_registry: Any) -> None:
    rig = await start_registry(database.pool)
    await rig.submit(rig.claim("ind.ai/alice"))
    await start_registry(database.pool)
    async with database.pool.acquire() as connection:
        await connection.execute("UPDATE registry.tile SET slots = $1 WHERE path = ''", bytes(16))
    with pytest.raises(IndaiError, match="map"):
        await start_registry(database.pool)


async def test_an_idle_registry_signs_its_head_again(rig: Any) -> None:
    await rig.submit(rig.claim("ind.ai/alice"))
    resolver = rig.resolver()
    before = await resolver.tail()
    rig.clock.now += 60_000
    after = await resolver.tail()
    assert (after.checkpoint, after.time_ms) == (before.checkpoint, before.time_ms + 60_000)


async def test_a_registry_that_cannot_sign_serves_its_old_head(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.submit(rig.claim("ind.ai/alice"))
    await rig.resolver().resolve("ind.ai/alice")
    attempts = 0

    async def failing() -> bytes:
        nonlocal attempts
        attempts += 1
        raise Unavailable(Reason.DATABASE_UNAVAILABLE, "The database cannot be reached.")

    monkeypatch.setattr("indai.tlog.signer.LogSigner.publish", lambda self: failing())
    rig.clock.now += 60_000
    for _ in range(3):
        await rig.resolver().resolve("ind.ai/alice", max_age_ms=60_000)
    with pytest.raises(Unavailable, match="60 s old"):
        await rig.resolver().resolve("ind.ai/alice", max_age_ms=59_000)
    assert attempts == 1
    monkeypatch.undo()
    rig.clock.now += 2_000
    await rig.resolver().resolve("ind.ai/alice", max_age_ms=0)


async def test_stored_operations_cannot_be_changed(rig: Any, database: Any) -> None:
    await rig.submit(rig.claim("ind.ai/alice"))
    owner = await asyncpg.connect(database.admin_dsn)
    try:
        for statement in ("UPDATE registry.operation SET place = 5", "DELETE FROM registry.operation"):
            with pytest.raises(asyncpg.PostgresError, match="only grows"):
                await owner.execute(statement)
    finally:
        await owner.close()
    async with database.pool.acquire() as connection:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute("DELETE FROM registry.operation")


async def test_more_than_can_wait_is_turned_away(
    database: Any, start_registry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indai.registry.service.MAX_WAITING", 2)
    rig = await start_registry(database.pool)
    claims = [rig.claim(f"ind.ai/user-{number}") for number in range(4)]
    answers = await asyncio.gather(*(rig.registry.submit(one.raw) for one in claims), return_exceptions=True)
    assert [isinstance(answer, Unavailable) for answer in answers] == [False, False, True, True]
    assert (await rig.submit(claims[3])).index == 2


async def test_the_log_is_read_in_pages_up_to_its_end(rig: Any) -> None:
    await asyncio.gather(*(rig.submit(rig.claim(f"ind.ai/user-{number}")) for number in range(3)))

    async def page(start: int, size: int) -> tuple[int, int]:
        request = registry_pb2.ListEntriesRequest(start=start, page_size=size)
        answer = await rig.stub.ListEntries(request)
        return len(answer.entries), answer.next_start

    assert [await page(0, 2), await page(2, 2), await page(3, 0)] == [(2, 2), (1, 3), (0, 3)]
    with pytest.raises(InvalidInput):
        await page(4, 1)
