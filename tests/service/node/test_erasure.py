"""An owner erases what a meeting said: gone from every table and export, while tree and receipts stand."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from indai.client.audit import Verdict, audit
from indai.client.channels import plain_channel
from indai.node.engine import Engine
from indai.protocol.errors import IndaiError, Reason, Refused
from indai.v1 import (
    conversation_pb2,
    conversation_pb2_grpc,
    goals_pb2,
    goals_pb2_grpc,
    leaving_pb2,
    leaving_pb2_grpc,
    memory_pb2,
    memory_pb2_grpc,
    owner_pb2,
)
from indai.v1.owner_pb2_grpc import OperatorServiceStub

from tests.service.node.conftest import ALICES, Pair
from tests.service.node.database import connect
from tests.service.node.lives import is_cancelled, until
from tests.service.node.world import Node, Owner, now_ms

HOUR, DAY = 3_600_000, 86_400_000
COMMITTED = owner_pb2.THREAD_STATE_COMMITTED
SECRET = "Secret of the two"
LEAVER, SECRET_NAME, HIDDEN = "ind.ai/leaver", "known-to-leaver", "Only the leaver knows"
_CHANNEL = (
    "WITH named AS (INSERT INTO edge.names VALUES ('line', 'acme')), made AS (INSERT INTO edge.channels"
    " (tenant, name, provider, account, settings) VALUES ('acme', 'line', 'p', 'a', '{}') RETURNING *)"
    " INSERT INTO edge.outbox (tenant, channel, peer, source, part, address, payload, expires_at)"
    " SELECT tenant, name, decode(repeat('00', 16), 'hex'), 's', part, $1 || rest, '{}', now()"
    " FROM made, (VALUES (1, ''), (2, '-too')) AS said (part, rest)"
)
_ACT = "INSERT INTO web.audit_log (scope, at_ms, actor, act, target, outcome) VALUES "
OF_OTHERS = (
    "INSERT INTO llm.calls SELECT gen_random_uuid(), gen_random_uuid(), 1, 'personal', 'b', $1, 's',"
    " 'default', 'p', 'm', '', now(), 1, 1, 0, 0, 5, 'INR', 1, 1, 'stop', '', '{}'",
    "INSERT INTO llm.owner_costs SELECT 'personal', $1, 'UTC', current_date, 'b', 'INR', 1, 0, 1, 1, 0, 0, 5",
    "INSERT INTO llm.limits VALUES ('personal', 'owner', $1, 'day', 100)",
    _ACT + f"($1, 1, 'owner {HIDDEN}', 'share', '{SECRET_NAME}', 'done')",
    _ACT + "('acme', 1, 'operator', 'pause', $1, 'done')",
    _ACT + "('acme', 1, 'operator', 'pause', $1 || '-too', 'done')",
    _CHANNEL,
)
"""What a role of models and desks would have written of the one who leaves, and of others beside them."""


async def everything(node: Node) -> str:
    """Every row of every table of the node, as the superuser reads it."""
    return "\n".join((await by_table(node)).values())


async def by_table(node: Node) -> dict[str, str]:
    """The rows of each table."""
    async with superuser(node) as connection:
        tables = await connection.fetch(
            "SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables"
            " WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        )
        return {
            table["name"]: str(await connection.fetch(f"SELECT t::text AS text FROM {table['name']} t"))  # noqa: S608
            for table in tables
        }


@contextlib.asynccontextmanager
async def superuser(node: Node) -> AsyncIterator[asyncpg.Connection]:
    """Sees every row."""
    connection = await connect(node)
    try:
        yield connection
    finally:
        await connection.close()


async def export(node: Node, path: Path) -> Path:
    token = (node.data / "operator.token").read_text().strip()
    operator = OperatorServiceStub(plain_channel(node.info.addresses["owner"], token=token))
    with path.open("wb") as file:
        async for part in operator.ExportNode(owner_pb2.ExportNodeRequest()):
            file.write(part.lines)
    return path


async def agreed(pair: Pair, title: str) -> owner_pb2.Thread:
    thread = await pair.alice.meet(
        "ind.ai/bob", minutes=20, title=title, from_ms=now_ms() + HOUR, until_ms=now_ms() + 20 * DAY
    )
    assert thread.state == COMMITTED
    await pair.bob.rest(thread.thread_id)
    return thread


async def erase(owner: Owner, thread_id: str) -> owner_pb2.EraseContentResponse:
    return await owner.stub.EraseContent(owner_pb2.EraseContentRequest(thread_id=thread_id))


async def erase_delivered(owner: Owner, thread_id: str) -> None:
    """As soon as the other side has the last message: until then it is refused."""
    async with asyncio.timeout(60):
        while True:
            try:
                await erase(owner, thread_id)
            except Refused:
                await asyncio.sleep(0.05)
            else:
                return


async def test_what_was_erased_is_in_no_table_and_the_audit_says_unopened(pair: Pair, tmp_path: Path) -> None:
    await agreed(pair, "Stays")
    thread = await agreed(pair, SECRET)
    async with superuser(pair.a) as connection:  # some kinds say in the journal what it was about
        said = "UPDATE node.journal SET words = $1 WHERE owner = 'ind.ai/alice' AND thread = $2"
        assert await connection.execute(said, SECRET, bytes.fromhex(thread.thread_id)) != "UPDATE 0"
    before = await everything(pair.a)
    for form in (SECRET, SECRET.encode().hex()):
        assert form in before  # in the thread, and inside the stored messages

    erased = await erase(pair.alice, thread.thread_id)
    assert (erased.thread.erased, erased.erased_entries) == (True, 3)
    after = await everything(pair.a)
    for form in (SECRET, SECRET.encode().hex()):
        assert form not in after
    assert (await erase(pair.alice, thread.thread_id)).erased_entries == 0

    paths = [await export(node, tmp_path / f"{name}.jsonl") for name, node in (("a", pair.a), ("b", pair.b))]
    assert SECRET.encode() not in paths[0].read_bytes()
    registry = await pair.world.mirror(tmp_path / "registry.jsonl")
    trust = pair.world.policy.policy
    report = audit(paths[:1], registry, trust)
    assert {one.check for one in report.findings} == {"unopened"}
    assert report.verdicts["UNOPENED"] == 1
    # With the other side's export the deal itself is there; what alice erased stays open.
    both = audit(paths, registry, trust)
    (verdict,) = [one for one in both.commitments if one.mid == thread.commitment_mid]
    assert verdict.verdict is Verdict.UNOPENED
    assert report.exit_status == both.exit_status == 3


async def test_an_erased_cancellation_is_not_counted_as_a_commitment(pair: Pair, tmp_path: Path) -> None:
    thread = await agreed(pair, SECRET)
    await pair.bob.stub.CancelCommitment(owner_pb2.CancelCommitmentRequest(thread_id=thread.thread_id))
    for owner in (pair.alice, pair.bob):
        await until(owner, thread.thread_id, is_cancelled)
    registry = await pair.world.mirror(tmp_path / "registry.jsonl")
    counted = []
    for name in ("before", "after"):
        path = await export(pair.a, tmp_path / f"{name}.jsonl")
        counted.append(audit([path], registry, pair.world.policy.policy).verdicts["UNOPENED"])
        if name == "before":
            await erase_delivered(pair.alice, thread.thread_id)
    assert counted[1] == counted[0] + 1


async def test_a_ledger_with_erased_contents_is_sound(pair: Pair) -> None:
    await erase(pair.alice, (await agreed(pair, SECRET)).thread_id)
    token = (pair.a.data / "operator.token").read_text().strip()
    operator = OperatorServiceStub(plain_channel(pair.a.info.addresses["owner"], token=token))
    request = owner_pb2.OperatorServiceCheckLedgerRequest()
    checks = [response.check async for response in operator.CheckLedger(request)]
    last = checks[-1]
    assert last.finished
    assert list(last.findings) == []
    assert last.erased
    assert last.leaves == last.opened + last.erased


async def test_the_owner_still_sees_that_there_was_something(pair: Pair) -> None:
    thread = await agreed(pair, SECRET)
    await erase(pair.alice, thread.thread_id)
    seen = await pair.alice.stub.GetThread(owner_pb2.GetThreadRequest(thread_id=thread.thread_id))
    assert (seen.thread.peer, seen.thread.title, seen.thread.erased) == ("ind.ai/bob", "", True)
    assert seen.thread.ours == thread.ours
    assert [(one.move, one.words, one.envelope) for one in seen.messages] == [
        (move, "erased", b"") for move in ("PROPOSE", "OFFER", "ACCEPT", "RECEIPT")
    ]
    others = await pair.bob.stub.GetThread(owner_pb2.GetThreadRequest(thread_id=thread.thread_id))
    assert others.thread.title == SECRET


async def test_what_has_ended_and_was_erased_takes_nothing_more(pair: Pair) -> None:
    thread = await agreed(pair, SECRET)
    await erase(pair.alice, thread.thread_id)
    with pytest.raises(IndaiError) as refused:
        await pair.alice.stub.WithdrawThread(owner_pb2.WithdrawThreadRequest(thread_id=thread.thread_id))
    assert refused.value.reason is Reason.THREAD_CLOSED


async def test_what_still_goes_on_is_not_erased(pair: Pair) -> None:
    waiting = await pair.alice.meet(
        "ind.ai/bob", minutes=50, title="Asks", from_ms=now_ms() + HOUR, until_ms=now_ms() + 20 * DAY
    )
    assert waiting.state == owner_pb2.THREAD_STATE_ON_HOLD
    with pytest.raises(IndaiError) as refused:
        await erase(pair.alice, waiting.thread_id)
    assert refused.value.reason is Reason.THREAD_OPEN
    seen = await pair.alice.stub.GetThread(owner_pb2.GetThreadRequest(thread_id=waiting.thread_id))
    assert seen.thread.title == "Asks"


async def test_nobody_erases_what_is_not_theirs(pair: Pair) -> None:
    thread = await agreed(pair, SECRET)
    carol = await pair.a.agent("ind.ai/caroline", "version: 1\ntimezone: UTC\nrules: []\n")
    with pytest.raises(IndaiError) as refused:
        await erase(carol, thread.thread_id)
    assert refused.value.reason is Reason.NOT_FOUND
    async with superuser(pair.a) as connection, connection.transaction():
        await connection.execute("SET LOCAL indai.owners = 'ind.ai/carol'")
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="only the owner is forgotten"):
            await connection.execute("SELECT node.forget_owner('ind.ai/alice', 1, true)")


async def furnished(node: Node, handle: str) -> Owner:
    """An owner with something in most places: rules, a deal, talks of their own and of a visitor, a goal."""
    left = await node.agent(
        handle, ALICES.replace("ind.ai/bob", f"ind.ai/mate, ind.ai/ghost, ind.ai/{SECRET_NAME}")
    )
    channel = plain_channel(node.info.addresses["owner"], token=left.token)
    goals = goals_pb2_grpc.GoalServiceStub(channel)
    goal = goals_pb2.Goal(kind=goals_pb2.GOAL_KIND_REMIND, words=HIDDEN, every_hours=24)
    await goals.CreateGoal(goals_pb2.CreateGoalRequest(request_id=str(uuid.uuid4()), goal=goal))
    await says(node, left, f"please remember that {HIDDEN} it is")
    return left


async def says(node: Node, owner: Owner, text: str, handle: str = "") -> None:
    """To an agent, their own without `handle`; until it has answered."""
    channel = plain_channel(node.info.addresses["owner"], token=owner.token)
    talks = conversation_pb2_grpc.ConversationServiceStub(channel)
    said = conversation_pb2.InboundMessage(text=text, handle=handle)
    async for _ in talks.SendMessage(conversation_pb2.SendMessageRequest(message=said)):
        pass


def leaving(node: Node, token: str = "") -> leaving_pb2_grpc.LeavingServiceAsyncStub:
    """The operator's, or an owner's."""
    token = token or (node.data / "operator.token").read_text().strip()
    return leaving_pb2_grpc.LeavingServiceStub(plain_channel(node.info.addresses["owner"], token=token))


async def test_an_owner_who_leaves_takes_everything_along_and_the_ledger_stays_sound(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[set[bytes], bool]] = []

    def forget(engine: Engine, owner: str) -> None:
        """What the engine has of them once the tables are empty, and whether it keeps what came just then."""
        memory: Any = engine
        had = {thread for whose, thread in memory._threads if whose == owner}
        memory._threads[owner, b"late"] = memory._reserved[owner] = None
        really(engine, owner)
        asked.append((had, (owner, b"late") in memory._threads or owner in memory._reserved))

    really = Engine.forget
    monkeypatch.setattr(Engine, "forget", forget)
    left = await furnished(pair.a, LEAVER)
    for agent in ("", LEAVER):  # who talks to others too stays a person here
        await says(pair.a, pair.alice, "hello", agent)
    mate = await pair.b.agent("ind.ai/mate", ALICES.replace("ind.ai/bob", LEAVER))
    thread = await left.meet(
        "ind.ai/mate", minutes=20, title=HIDDEN, from_ms=now_ms() + HOUR, until_ms=now_ms() + 20 * DAY
    )
    assert thread.state == COMMITTED
    await mate.rest(thread.thread_id)
    await pair.world.stranger("ind.ai/ghost")  # whose node never answers
    await left.start("ind.ai/ghost", title=HIDDEN, from_ms=now_ms() + HOUR, until_ms=now_ms() + 9 * DAY)
    quiet = leaving_pb2.ForgetOwnerRequest(handle=LEAVER, confirm=LEAVER)
    whole = leaving_pb2.ForgetOwnerRequest(handle=LEAVER, confirm=LEAVER, at_once=True)
    for stub, request, reason in (
        (leaving(pair.a, pair.alice.token), whole, Reason.PERMISSION_DENIED),
        (leaving(pair.a, left.token), leaving_pb2.ForgetOwnerRequest(handle=LEAVER), Reason.INVALID_ARGUMENT),
        (leaving(pair.a, left.token), quiet, Reason.THREAD_OPEN),
    ):
        with pytest.raises(IndaiError) as refused:
            await stub.ForgetOwner(request)
        assert refused.value.reason is reason
    counted = await leaving(pair.a, left.token).ForgetOwner(
        leaving_pb2.ForgetOwnerRequest(handle=LEAVER, dry_run=True)
    )
    for table in ("runtime.messages", "runtime.goals", "node.agents", "ledger.contents", "policy.version"):
        assert counted.removed[table] > 0
    async with superuser(pair.a) as connection:
        for statement in OF_OTHERS:
            await connection.execute(statement, LEAVER)
    before = await everything(pair.a)
    assert HIDDEN in before

    done = await leaving(pair.a, left.token).ForgetOwner(whole, timeout=60)
    assert done.removed["runtime.identities"] == 1
    assert done.remaining == 0
    # The engine let go of what had ended before the tables did: else it would go on with what is gone.
    assert asked
    assert bytes.fromhex(thread.thread_id) not in asked[0][0]
    assert not any(kept for _, kept in asked)
    after = await by_table(pair.a)
    for form in (HIDDEN, HIDDEN.encode().hex(), SECRET_NAME):
        assert form in before
        assert form not in "\n".join(after.values())
    assert "ind.ai/alice" in after["runtime.identities"]
    # Books and acts still add up, and name nobody; those of a handle that only begins alike are untouched.
    assert after["llm.calls"].count(",gone-") >= 1
    assert 'owner,share,"",done' in after["web.audit_log"]
    assert f"operator,pause,{LEAVER}-too,done" in after["web.audit_log"]
    assert after["llm.owner_costs"] == after["llm.limits"] == "[]"
    kept = {"tlog.entry", "ledger.erasures", "node.threads", "node.messages", "node.leavings"}
    assert after["edge.outbox"].count(f"{LEAVER}-too") == 1
    for table in ("web.audit_log", "edge.outbox"):
        after[table] = after[table].replace(f"{LEAVER}-too", "")
    assert {name for name, rows in after.items() if LEAVER in rows} <= kept
    with pytest.raises(IndaiError) as unknown:
        await left.stub.ListThreads(owner_pb2.ListThreadsRequest())
    assert unknown.value.reason is Reason.UNAUTHENTICATED
    others = await mate.stub.GetThread(owner_pb2.GetThreadRequest(thread_id=thread.thread_id))
    assert others.thread.title == HIDDEN  # what the other side agreed to is theirs
    assert (await pair.alice.stub.GetActivePolicy(owner_pb2.GetActivePolicyRequest())).rules

    (row,) = (await leaving(pair.a).ListLeavings(leaving_pb2.ListLeavingsRequest())).leavings
    assert (row.handle, row.by_operator, row.HasField("finish_time")) == (LEAVER, False, True)
    assert row.removed["runtime.messages"] == counted.removed["runtime.messages"]
    sound = owner_pb2.OperatorServiceCheckLedgerRequest()
    checks = [response.check async for response in pair.a.operator().CheckLedger(sound)]
    assert (checks[-1].finished, list(checks[-1].findings)) == (True, [])


async def test_a_node_that_died_while_it_forgot_carries_on(pair: Pair) -> None:
    async with pair.world.node("node-c", "127.0.0.1:0", "memory") as node:
        left = await furnished(node, "ind.ai/quitter")
        channel = plain_channel(node.info.addresses["owner"], token=left.token)
        said = memory_pb2.Turn(
            source_id="t",
            role=memory_pb2.SPEAKER_ROLE_PERSON,
            session="s",
            speaker="ind.ai/quitter",
            text=f"I love {HIDDEN}",
        )
        await memory_pb2_grpc.MemoryServiceStub(channel).Remember(memory_pb2.RememberRequest(turns=[said]))
        assert HIDDEN in await everything(node)
        async with superuser(node) as connection:  # as a node that is killed leaves it
            await connection.execute(
                "INSERT INTO node.leavings (owner, asked_ms, asked_by, at_once)"
                " VALUES ('ind.ai/quitter', 1, 'owner', true)"
            )
    calendar = node.data / "calendars" / "ind.ai_quitter.ics"
    calendar.unlink(missing_ok=True)
    calendar.mkdir(parents=True)  # no file that could be removed
    async with pair.world.node("node-c", "127.0.0.1:0", "memory") as node:
        whole = leaving_pb2.ForgetOwnerRequest(handle="ind.ai/quitter", confirm="ind.ai/quitter")
        with pytest.raises(IndaiError, match="calendar") as stuck:
            await leaving(node).ForgetOwner(whole, timeout=60)
        assert stuck.value.reason is Reason.UNREACHABLE
        assert HIDDEN in await everything(node)
        calendar.rmdir()
        await leaving(node).ForgetOwner(whole, timeout=60)  # waits for what the start has begun, or does it
        (row,) = (await leaving(node).ListLeavings(leaving_pb2.ListLeavingsRequest())).leavings
        assert row.HasField("finish_time")
        assert row.removed["memory.scopes"] == 1
        assert HIDDEN not in await everything(node)
        assert (await node.operator().GetNode(owner_pb2.GetNodeRequest())).agents == []
