"""`indai tool`, and the inbox with the questions of tools, against a running node."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import pytest_asyncio
from indai.cli.home import Home, Run
from indai.client.channels import plain_channel
from indai.node.tools_role import Tools, ToolsPlan, open_tools
from indai.protocol.errors import IndaiError, Reason
from indai.tools.values import Caller, Status, unheard
from indai.v1 import tools_pb2
from indai.v1.tools_pb2_grpc import RecordServiceStub

from tests.databases import Databases
from tests.service.node.conftest import ALICES, BOBS
from tests.service.node.world import Owner, now_ms, world
from tests.unit.cli.runs import run


@dataclass
class Place:
    """A node with alice and bob, its tools, and the command line."""

    home: Home
    owner: Owner
    tools: Tools
    address: str

    async def does(self, *arguments: str, exit_code: int = 0) -> dict[str, Any]:
        given = (*arguments, "--json", "--data", str(self.home.path), "--as", self.owner.handle)
        result = await asyncio.to_thread(run, *given)
        assert result.exit_code == exit_code, result.output
        shown: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
        return shown

    def caller(self) -> Caller:
        handle = self.owner.handle
        made = Caller("personal", "b", handle, "s", handle, "private", "web", True, now_ms=now_ms(), turn="t")
        return replace(made, approvals=frozenset({"meet"}))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory, databases: Databases) -> AsyncIterator[Place]:
    opened: list[Tools] = []

    def watching(plan: ToolsPlan) -> Tools:
        opened.append(open_tools(plan))
        return opened[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("indai.node.node_role.open_tools", watching)
        base = tmp_path_factory.mktemp("tools")
        async with world(base, databases) as registry, registry.node("node-a") as node:
            alice = await node.agent("ind.ai/alice", ALICES)
            await node.agent("ind.ai/bob", BOBS)
            home = Home(node.data)
            started = Run(os.getpid(), node.info.node, dict(node.info.addresses))
            home.run_file.write_text(json.dumps(started.to_json()))
            token = home.token_file(alice.handle)
            token.parent.mkdir(exist_ok=True)
            token.write_text(alice.token)
            token.chmod(0o600)
            yield Place(home, alice, opened[0], node.info.addresses["owner"])


async def test_tools_are_listed_shown_and_called(place: Place) -> None:
    names = [each["name"] for each in (await place.does("tool", "list"))["tools"]]
    assert {"meet", "move-meeting", "ask-for", "pay", "my-agenda"} <= set(names)
    assert "meet" not in [
        each["name"] for each in (await place.does("tool", "list", "--door", "public"))["tools"]
    ]
    assert (await place.does("tool", "show", "meet"))["arguments"]["required"] == ["with"]
    missing = await place.does("tool", "show", "steal", exit_code=3)
    assert missing["error"]["reason"] == "NOT_FOUND"
    met = await place.does("tool", "call", "meet", '{"with": "bob", "when": "next week"}')
    assert (met["status"], met["result"]["state"]) == ("done", "agreed")
    wrong = await place.does("tool", "call", "meet", '{"who": "bob"}', exit_code=3)
    assert wrong["code"] == "BAD_ARGUMENTS"
    done = (await place.does("tool", "calls"))["calls"]
    assert [(each["tool"], each["status"]) for each in done] == [("meet", "done")]
    none = await place.does("tool", "call", "meet", "[1]", exit_code=2)
    assert none["error"]["reason"] == "INVALID_ARGUMENT"


async def test_a_tools_question_is_shown_approved_and_declined_by_command(place: Place) -> None:
    for number, (verb, status) in enumerate((("approve", "done"), ("decline", "done"))):
        arguments = {"with": "bob", "when": "next week", "title": f"Plan {number}"}
        asked = await place.tools.toolbox.call(place.caller(), ("meet",), "meet", arguments, unheard)
        assert asked.status is Status.NEEDS_APPROVAL
        (shown,) = (await place.does("inbox"))["tools"]
        assert (shown["tool"], shown["person"], shown["door"]) == ("meet", "ind.ai/alice", "private")
        assert "Ask ind.ai/bob for 30 minutes" in shown["terms"]
        outcome = await place.does(verb, shown["code"])
        assert outcome["status"] == status
        assert outcome["result"].get("state", "") == ("agreed" if verb == "approve" else "")
        again = await place.does(verb, shown["code"], exit_code=3)
        assert again["error"]["reason"] == "NOT_FOUND"
    assert (await place.does("inbox"))["tools"] == []


async def test_jobs_are_listed_and_only_a_dead_one_is_tried_again(place: Place) -> None:
    asked = {"with": "bob", "duration_minutes": 60, "when": "next week"}
    waiting = await place.does("tool", "call", "meet", json.dumps(asked))
    assert waiting["status"] == "running"
    found = (await place.does("tool", "jobs"))["jobs"]
    job = next(each for each in found if each["job"] == waiting["job"])
    assert (job["kind"], job["tool"], job["state"]) == ("follow", "meet", "waiting")
    refused = await place.does("tool", "retry", job["job"], exit_code=3)
    assert refused["error"]["reason"] == "NOT_FOUND"


async def test_records_are_seen_by_their_holder_and_moved_to_a_status_of_their_kind(place: Place) -> None:
    draft = {"title": "Notes", "text": "Call the printer."}
    kept = await place.does("tool", "call", "draft-doc", json.dumps(draft))
    (record,) = (await place.does("tool", "records", "--kind", "document"))["records"]
    assert (record["record"], record["data"], record["status"]) == (kept["result"]["record"], draft, "draft")
    moved = await place.does("tool", "status", record["record"], "reviewed")
    assert moved["status"] == "reviewed"
    wrong = await place.does("tool", "status", record["record"], "lost", exit_code=2)
    assert wrong["error"]["hint"] == "one of: draft, reviewed, sent"
    # The operator sees a tenant's, and no owner's; an owner no tenant's.
    assert (await place.does("tool", "records", "--tenant", "acme"))["records"] == []
    theirs = await place.does("tool", "status", record["record"], "sent", "--tenant", "acme", exit_code=3)
    assert theirs["error"]["reason"] == "NOT_FOUND"
    stub = RecordServiceStub(plain_channel(place.address, token=place.owner.token))
    with pytest.raises(IndaiError) as refused:
        await stub.ListRecords(tools_pb2.ListRecordsRequest(tenant="acme"))
    assert refused.value.reason is Reason.PERMISSION_DENIED
