"""A node's watch over its own handles: operations are journalled, what the owner must know is an alarm."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from indai.client.handlekeys import new_agent_key, retire, rotate_agent_key, set_node
from indai.node.monitor import Monitor
from indai.node.store import Store
from indai.protocol.errors import Reason, Unavailable
from indai.protocol.keys import SigningKey
from indai.protocol.operations import replay
from indai.storage.pool import transaction

from .conftest import key

ALICE, NODE = "ind.ai/alice", "ind.ai/node-a"


class Agents(dict[str, SimpleNamespace]):
    """Who lives on the node, and the keys it holds."""

    def hold(self, owner: str, *keys: SigningKey) -> None:
        self.setdefault(owner, SimpleNamespace(keys={})).keys |= {one.key_id: one for one in keys}

    async def bind(self, owner: str, subject: str) -> None:
        self[owner].subject = subject


@dataclass
class Watch:
    rig: Any
    pool: Any
    agents: Any
    chain: list[Any]

    async def monitor(self) -> Monitor:
        resolver = self.rig.resolver()
        monitor = Monitor(self.pool, Store(self.pool, "unused"), resolver, self.agents, NODE, self.rig.clock)
        await monitor.load()
        return monitor

    async def submit(self, operation: Any) -> None:
        self.rig.clock.now += 1_000
        await self.rig.submit(operation)
        self.chain.append(operation)

    async def journal(self) -> list[tuple[str, str]]:
        async with transaction(self.pool, [ALICE]) as connection:
            rows = await connection.fetch("SELECT event, reason FROM node.journal ORDER BY id")
        return [(row["event"], row["reason"]) for row in rows]


@pytest.fixture
async def watch(rig: Any, database: Any) -> Watch:
    agents = Agents()
    agents.hold(ALICE, key("agent-" + ALICE[-8:]))
    claim = rig.claim(ALICE)
    await rig.submit(claim)
    return Watch(rig, database.pool, agents, [claim])


def rotated(watch: Watch, to: SigningKey) -> Any:
    chain = replay(watch.chain)
    fresh = new_agent_key(to.public_key, watch.rig.clock())
    return rotate_agent_key(
        chain, key("root"), chain.state.agent_keys[0].key_id, fresh, now_ms=watch.rig.clock()
    )


async def test_what_the_owner_did_through_this_node_is_journalled_once(watch: Watch) -> None:
    monitor = await watch.monitor()
    await monitor.check()
    await monitor.check()
    assert await watch.journal() == [("handle-operation", "CREATE")]
    watch.agents.hold(ALICE, key("second"))
    await watch.submit(rotated(watch, key("second")))
    monitor = await watch.monitor()  # after a restart
    await monitor.check()
    await monitor.check()
    assert [event for event, _ in await watch.journal()] == ["handle-operation"] * 2


@pytest.mark.parametrize("what", ["key", "home", "end"])
async def test_an_operation_that_the_node_did_not_make_is_an_alarm(watch: Watch, what: str) -> None:
    await (await watch.monitor()).check()
    chain = replay(watch.chain)
    now = watch.rig.clock()
    operations: dict[str, Any] = {
        "key": rotated(watch, key("thief")),
        "home": set_node(chain, key("root"), "ind.ai/elsewhere", now_ms=now),
        "end": retire(chain, key("root"), now_ms=now),
    }
    await watch.submit(operations[what])
    monitor = await watch.monitor()
    await monitor.check()
    await monitor.check()
    assert (await watch.journal())[2:] == [("alarm", "HANDLE_CHANGED")]


async def test_only_what_the_log_has_touched_is_looked_up_again(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver = watch.rig.resolver()
    monitor = Monitor(watch.pool, Store(watch.pool, "unused"), resolver, watch.agents, NODE, watch.rig.clock)
    await monitor.load()
    asked: list[list[str]] = []
    real = resolver.resolve_many

    async def noted(handles: Any) -> Any:
        asked.append(sorted(handles))
        return await real(handles)

    monkeypatch.setattr(resolver, "resolve_many", noted)
    monkeypatch.setattr("indai.node.monitor.PER_CHECK", 2)
    others = [f"ind.ai/other-{number}" for number in range(3)]
    for other in others:
        watch.agents.hold(other, key(other[-5:]))

    async def look() -> list[str]:
        await resolver.tail()
        await monitor.check()
        return asked.pop()

    assert [await look(), await look(), await look()] == [[ALICE, others[0]], others[1:], []]
    watch.agents.hold(ALICE, key("second"))
    await watch.submit(rotated(watch, key("second")))
    assert await look() == [ALICE]
    watch.agents.hold("ind.ai/newcomer", key("newcomer"))
    assert [await look(), await look()] == [["ind.ai/newcomer"], []]
    assert [event for event, _ in await watch.journal()] == ["handle-operation"] * 2


async def test_who_was_looked_at_before_their_claim_is_known_right_after_it(watch: Watch) -> None:
    """An agent is made before its handle is claimed, and is written to before the next tail."""
    carol = "ind.ai/carol"
    resolver = watch.rig.resolver()
    monitor = Monitor(watch.pool, Store(watch.pool, "unused"), resolver, watch.agents, NODE, watch.rig.clock)
    await monitor.load()
    await resolver.tail()
    watch.agents.hold(carol)
    await monitor.check()
    await watch.rig.submit(watch.rig.claim(carol))
    assert (await resolver.resolve(carol)).handle == carol


async def test_what_could_not_be_noted_is_noted_at_the_next_look(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitor = await watch.monitor()

    async def down(*_: Any) -> int:
        raise Unavailable(Reason.DATABASE_UNAVAILABLE, "The database is away.")

    with monkeypatch.context() as away:
        away.setattr(Store, "apply", down)
        with pytest.raises(Unavailable):
            await monitor.check()
    assert await watch.journal() == []
    await monitor.check()
    assert await watch.journal() == [("handle-operation", "CREATE")]


async def test_an_alarm_about_the_registry_reaches_every_owner_once(watch: Watch) -> None:
    monitor = await watch.monitor()
    await monitor.cry("The registry has signed two histories.", "SPLIT_VIEW")
    await monitor.cry("The registry has signed two histories.", "SPLIT_VIEW")
    assert await watch.journal() == [("alarm", "SPLIT_VIEW")]
