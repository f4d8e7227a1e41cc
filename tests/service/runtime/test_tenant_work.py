"""A tenant's jobs that were given up: seen, tried again, and nobody else's."""

from __future__ import annotations

import time

import pytest
from indai.node import auth
from indai.node.inprocess import local_channel
from indai.node.tenancy.access import Post
from indai.node.tenancy.work import Work
from indai.protocol.errors import NotFound
from indai.storage.pool import transaction
from indai.tools.jobs import Jobs
from indai.tools.values import Caller, Outcome
from indai.v1.channels_pb2_grpc import ChannelServiceStub

from tests.conftest import Database


def post(tenant: str) -> Post:
    return Post(tenant, (tenant,), auth.Caller(operator=True), "operator")


def clock() -> int:
    return time.time_ns() // 1_000_000


async def nobody(_: Caller, __: Outcome) -> None:
    """Nobody is told."""


async def test_a_job_that_was_given_up_is_tried_again_by_its_own_tenant_alone(database: Database) -> None:
    jobs = Jobs(database.pool, clock, nobody)
    caller = Caller("acme", "shop", "", "s", "p", "distribution", "web")
    async with transaction(database.pool, ["tenant:acme"]) as connection:
        dead = await jobs.put(connection, caller, "run", "create-payment-link", {})
        waits = await jobs.put(connection, caller, "run", "look-up", {})
        await connection.execute(
            "UPDATE tools.jobs SET state = 'dead', attempts = 5, error = 'UNAVAILABLE' WHERE id = $1", dead
        )
    work = Work(database.pool, clock, None, ChannelServiceStub(local_channel([])))
    listed = await work.listed(post("acme"))
    assert [(one.job_id, one.state, one.reason) for one in listed] == [
        (str(dead), "dead", "UNAVAILABLE"),
        (str(waits), "waiting", ""),
    ]
    assert await work.listed(post("riverton")) == []
    for tenant, job in (("riverton", dead), ("acme", waits)):
        with pytest.raises(NotFound):
            await work.replay(post(tenant), "tool", str(job))
    for source, name in (("memory", "1"), ("elsewhere", str(dead))):
        with pytest.raises(NotFound):
            await work.replay(post("acme"), source, name)
    await work.replay(post("acme"), "tool", str(dead))
    assert {one.state for one in await work.listed(post("acme"))} == {"waiting"}
