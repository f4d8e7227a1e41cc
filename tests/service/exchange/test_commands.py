"""The commands of sharing, asking and requests, against running nodes."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest_asyncio
from indai.cli.home import Home, Run

from tests.service.exchange.neighbours import Friend, Neighbours
from tests.service.node.world import Node
from tests.unit.cli.runs import run


@pytest_asyncio.fixture(loop_scope="session")
async def homes(near: Neighbours) -> Neighbours:
    """What `indai up` and `handle claim` would have left in the data directories."""
    friends = ((near.a, near.alice), (near.b, near.bob), (near.b, near.office))
    for node, one in friends:
        home = Home(node.data)
        process = Run(os.getpid(), node.info.node, dict(node.info.addresses))
        home.run_file.write_text(json.dumps(process.to_json()))
        token = home.token_file(one.handle)
        token.parent.mkdir(exist_ok=True)
        token.write_text(one.owner.token)
        token.chmod(0o600)
    return near


async def does(node: Node, one: Friend, *words: str) -> Any:
    """The object that a command prints; it has an event loop of its own, and so a thread."""
    at = ("--as", one.handle, "--data", str(node.data), "--json")
    result = await asyncio.to_thread(run, *words, *at)
    assert result.exit_code == 0, (result.stdout, result.stderr)
    # Meanwhile the nodes, in this process too, log to the same stream.
    return json.loads(next(line for line in result.stdout.splitlines() if line.startswith("{")))


async def test_a_document_is_added_asked_for_read_and_revoked(homes: Neighbours, tmp_path: Path) -> None:
    paper, copy = tmp_path / "cv.txt", tmp_path / "copy.txt"
    paper.write_text("Bob has built bridges.")
    await does(homes.b, homes.bob, "document", "add", str(paper), "--tag", "friends")
    listed = await does(homes.b, homes.bob, "document", "list")
    assert "cv.txt" in [one["name"] for one in listed["documents"]]
    wanted = ("ask-for", "ind.ai/bob", "cv.txt", "--document", "--purpose", "To hire", "--out", str(copy))
    got = await does(homes.a, homes.alice, *wanted)
    assert got["state"] == "COMMITTED", got
    assert (got["state"], copy.read_text()) == ("COMMITTED", "Bob has built bridges.")
    (given,) = [
        one
        for one in (await does(homes.b, homes.bob, "consents", "list"))["consents"]
        if one["item"] == "document/cv.txt"
    ]
    assert (given["status"], given["given"], given["reads"]) == ("ACTIVE", True, 1)
    assert given["Purpose"] == {"code": "101", "text": "To hire"}
    told = (await does(homes.b, homes.bob, "disclosures", "ind.ai/alice"))["disclosures"]
    assert {"document/cv.txt"} <= {one["item"] for one in told}
    await does(homes.b, homes.bob, "consents", "revoke", got["thread"][:14])
    await does(homes.b, homes.bob, "document", "remove", "cv.txt")
    after = (await does(homes.b, homes.bob, "consents", "list"))["consents"]
    assert [one["status"] for one in after if one["item"] == "document/cv.txt"] == ["REVOKED"]


async def test_a_field_is_set_offered_and_shown(homes: Neighbours) -> None:
    await does(homes.b, homes.bob, "profile", "set", "email", "bob@example.org")
    shown = await does(homes.b, homes.bob, "profile", "show")
    assert {"email": "bob@example.org"}.items() <= {
        one["name"]: one["value"] for one in shown["fields"]
    }.items()
    offered = await does(homes.b, homes.bob, "share", "ind.ai/alice", "email", "--purpose", "To write")
    assert offered["state"] == "COMMITTED", (offered, await does(homes.b, homes.bob, "journal"))
    got = await does(homes.a, homes.alice, "consents", "read", offered["thread"][:14])
    assert got["content"] == "bob@example.org"


async def test_a_question_and_a_request_by_command(homes: Neighbours, tmp_path: Path) -> None:
    hours = tmp_path / "hours.txt"
    hours.write_text("The counter is open from ten to four.")
    await does(homes.b, homes.office, "document", "add", str(hours), "--name", "hours", "--tag", "published")
    answer = await does(homes.a, homes.alice, "ask", "ind.ai/office", "When is the counter open?")
    assert answer["answer"] == "The counter is open from ten to four."
    file = tmp_path / "departments.yaml"
    file.write_text("- { name: roads, within: 7d, categories: [potholes] }\n")
    await does(homes.b, homes.office, "office", "departments", "--set", str(file))
    filed = await does(homes.a, homes.alice, "request", "ind.ai/office", "A hole", "--category", "potholes")
    assert filed["state"] == "COMMITTED"
    short = filed["thread"][:14]
    await does(homes.b, homes.office, "requests", "stage", short, "Measured.")
    assert (await does(homes.a, homes.alice, "requests", "status", short))["stage"] == "Measured."
    done = await does(homes.b, homes.office, "requests", "resolve", short, "--outcome", "Filled.")
    assert (done["state"], done["outcome"]) == ("FULFILLED", "Filled.")
