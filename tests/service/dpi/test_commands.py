"""`indai connect` against a running node, whose callback and links are at its own HTTP port."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import os
import time
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import pytest
import pytest_asyncio
from indai.cli.home import Home, Run
from indai.node.keystore import open_keystore
from indai.node.secrets import Secrets
from indai.node.tools_role import Tools, ToolsPlan, open_tools
from indai.storage.pool import transaction
from indai.tools.toolbox import NodeToolbox
from indai.tools.values import Caller, Outcome, Status, unheard

from tests.service.dpi.aggregatorserver import API_KEY, OUR_PEM, AggregatorServer, aggregator_config
from tests.service.dpi.conftest import digilocker_config, serving
from tests.service.dpi.lockerserver import SECRET, LockerServer
from tests.service.dpi.test_digilocker import shown
from tests.service.node.provider import KEY, running_provider
from tests.service.node.world import Node, world
from tests.unit.cli.runs import run

pytestmark = pytest.mark.asyncio(loop_scope="module")
POLICY = "version: 1\ntimezone: Asia/Kolkata\nrules: []\n"
ASHA = "ind.ai/asha"


@dataclass
class Place:
    """A node whose operator has set up DigiLocker and an Account Aggregator, and asha on it."""

    node: Node
    locker: LockerServer
    bank: AggregatorServer
    toolbox: NodeToolbox
    pool: asyncpg.Pool

    async def call(self, name: str, **arguments: Any) -> Outcome:
        """A tool of the node's own toolbox, as the owner's agent calls it."""
        return await self.toolbox.call(self.caller(), [name], name, arguments, unheard)

    def caller(self) -> Caller:
        """Asha in a conversation of its own, which has heard nothing yet."""
        session, turn = uuid.uuid4().hex, uuid.uuid4().hex
        return Caller("personal", "own", ASHA, session, ASHA, "private", "web", verified=True, turn=turn)

    async def does(self, *words: str, exit_code: int = 0) -> Any:
        """The object that a command prints; it has an event loop of its own, and so a thread."""
        at = ("--as", ASHA, "--data", str(self.node.data), "--json")
        result = await asyncio.to_thread(run, *words, *at)
        assert result.exit_code == exit_code, (result.stdout, result.stderr)
        printed = result.stdout if exit_code == 0 else result.stderr + result.stdout
        return json.loads(next(line for line in printed.splitlines() if line.startswith("{")))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    base: Path = tmp_path_factory.mktemp("dpi")
    async with contextlib.AsyncExitStack() as stack:
        locker, bank = LockerServer(), AggregatorServer()
        locker.url = await stack.enter_async_context(serving(locker.routes()))
        bank.url = await stack.enter_async_context(serving(bank.routes()))
        (base / "node-d").mkdir()
        config = digilocker_config(locker.url) + aggregator_config(bank.url).removeprefix("version: 1\n")
        (base / "node-d" / "dpi.yaml").write_text(config)
        registry = await stack.enter_async_context(world(base))
        opened: list[tuple[NodeToolbox, asyncpg.Pool]] = []
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr("indai.node.node_role.open_tools", _watching(opened))
        node = await stack.enter_async_context(registry.node("node-d"))
        secrets = Secrets(node.data, open_keystore(node.data, {}), {})
        for name, value in {"locker": SECRET, "aa-key": API_KEY, "aa-sign": OUR_PEM}.items():
            secrets.set(name, value)
        owner = await node.agent(ASHA, POLICY)
        home = Home(node.data)
        home.run_file.write_text(
            json.dumps(Run(os.getpid(), node.info.node, dict(node.info.addresses)).to_json())
        )
        token = home.token_file(ASHA)
        token.parent.mkdir(exist_ok=True)
        token.write_text(owner.token)
        token.chmod(0o600)
        yield Place(node, locker, bank, *opened[0])


def _watching(opened: list[tuple[NodeToolbox, asyncpg.Pool]]) -> Callable[[ToolsPlan], Tools]:
    """Opens the node's toolbox as ever, and shows it to the test."""

    def open_and_keep(plan: ToolsPlan) -> Tools:
        tools = open_tools(plan)
        opened.append((tools.toolbox, plan.pool))
        return tools

    return open_and_keep


async def test_digilocker_is_connected_and_disconnected_by_command(place: Place) -> None:
    before = (await place.does("connect", "status"))["connections"]
    assert {each["name"]: (each["available"], each["state"]) for each in before} == {
        "aa": (True, "live"),
        "abdm": (False, ""),
        "digilocker": (True, ""),
        "razorpay": (False, ""),
    }
    url = (await place.does("connect", "digilocker", "--purpose", "To prepare a notice"))["url"]
    back = place.locker.consent(url)
    port = place.node.info.addresses["http"].rpartition(":")[2]
    assert back.startswith(f"http://localhost:{port}/dpi/digilocker/callback?")
    async with aiohttp.ClientSession() as browser, browser.get(back) as answer:
        assert (answer.status, answer.headers["Cache-Control"]) == (200, "no-store")
        code = shown(await answer.text())
    wrong = await place.does("connect", "digilocker", "--code", "22222222", exit_code=4)
    assert wrong["error"]["reason"] == "PERMISSION_DENIED"
    done = await place.does("connect", "digilocker", "--code", code.lower())
    assert (done["state"], done["account"]) == ("live", "Asha")
    (consent,) = (await place.does("connect", "consents"))["consents"]
    assert (consent["kind"], consent["status"], consent["purpose"]) == (
        "digilocker",
        "ACTIVE",
        "To prepare a notice",
    )
    assert await place.does("connect", "disconnect", "digilocker") == {"name": "digilocker", "told": True}
    assert place.locker.refresh == set()


async def test_bank_consent_is_asked_for_given_and_revoked_by_command(place: Place) -> None:
    asked = await place.does("connect", "aa", "asha@testaa", "--purpose", "To check a loan", "--once")
    assert asked["status"] == "PENDING"
    (handle,) = place.bank.consents
    place.bank.approve(handle)
    hook = f"http://{place.node.info.addresses['http']}/dpi/aa/Consent/Notification"

    told = place.bank.notification("ACTIVE", handle, now=time.time_ns() // 1_000_000)
    assert await place.bank.tell(hook, told) == 200
    listed = (await place.does("connect", "consents"))["consents"]
    assert {each["consent"]: each["status"] for each in listed}[asked["consent"]] == "ACTIVE"
    ended = await place.does("connect", "revoke", asked["consent"][:8])
    assert (ended["status"], ended["kind"]) == ("REVOKED", "aa")
    both = await place.does("connect", "forget", "--person", "p", "--everybody", "--yes", exit_code=2)
    assert both["error"]["reason"] == "INVALID_ARGUMENT"
    gone = await place.does("connect", "forget", "--yes")
    assert (gone["people"], gone["told"], gone["rows"] > 0) == (1, True, True)
    assert (await place.does("connect", "consents"))["consents"] == []


async def test_the_node_s_own_toolbox_connects_lists_and_pulls_and_keeps_no_link(place: Place) -> None:
    offered = {spec.name for spec in place.toolbox.specs()}
    assert {"digilocker-pull", "aa-fetch", "abdm-lookup", "create-payment-link", "split-payment"} <= offered
    assert (await place.call("digilocker-list")).code == "NEEDS_INTEGRATION"
    assert (
        await place.call("abdm-lookup", address="a.b@abdm", purpose="A visit")
    ).code == "NEEDS_INTEGRATION"
    begun = await place.call("digilocker-connect", purpose="To prepare a notice")
    async with (
        aiohttp.ClientSession() as browser,
        browser.get(place.locker.consent(begun.result["url"])) as answer,
    ):
        code = shown(await answer.text())
    assert (await place.call("digilocker-connect", code=code)).status is Status.DONE
    (listed, *_) = (await place.call("digilocker-list")).result["documents"]
    pulled = await place.call("digilocker-pull", reference=listed["reference"])
    link = pulled.result["link"]
    async with aiohttp.ClientSession() as browser, browser.get(link) as answer:
        assert (answer.status, await answer.read()) == (200, b"%PDF-1.7 marks of Asha")
    place.locker.access, place.locker.refresh = set(), set()
    lost = await place.call("digilocker-pull", reference=listed["reference"])
    assert (lost.code, "connect it again" in lost.words) == ("UNAUTHENTICATED", True)
    async with transaction(place.pool, [ASHA]) as connection:
        rows = await connection.fetch("SELECT t::text FROM tools.tool_calls t")
    kept = "\n".join(row[0] for row in rows)
    assert "digilocker-pull" in kept
    for secret in (link.rpartition("/")[2], code, begun.result["url"].partition("state=")[2][:30]):
        assert secret not in kept


async def test_razorpay_needs_an_address_and_then_makes_pages(place: Place) -> None:
    refused = await place.does("connect", "razorpay", "--key", "vault:razorpay-key", exit_code=3)
    assert refused["error"]["reason"] == "NOT_FOUND"
    await place.does("pay", "account", "--address", "upi:asha@okbank")
    found = await place.does("connect", "razorpay", "--key", "vault:razorpay-key")
    assert (found["payee"], found["provider_url"]) == ("upi:asha@okbank", "https://api.razorpay.com")
    listed = (await place.does("connect", "status"))["connections"]
    assert {each["name"]: each["available"] for each in listed}["razorpay"]


async def test_profile_and_documents_take_no_aadhaar_number(place: Place, tmp_path: Path) -> None:
    paper = tmp_path / "form.txt"
    paper.write_text("Name: Asha. Aadhaar no: 2999 2849 6545.")
    for words in (("profile", "set", "aadhaar-number", "299928496545"), ("document", "add", str(paper))):
        refused = await place.does(*words, exit_code=3)
        assert refused["error"]["reason"] == "POLICY_DENIED"
        assert "6545" not in str(refused)
    paper.write_text("Name: Asha. Order no: 2999 2849 6545.")
    await place.does("document", "add", str(paper))


async def test_a_link_of_a_conversation_is_paid_by_the_provider_s_signed_word_and_split(place: Place) -> None:
    kept = Secrets(place.node.data, open_keystore(place.node.data, {}), {})
    kept.set("razorpay-key", KEY)
    kept.set("hook", "webhook-secret")
    async with running_provider() as provider:
        where = ("--address", "upi:asha@okbank", "--webhook-secret", "vault:hook")
        hook = (await place.does("pay", "account", *where))["webhook_path"]
        await place.does("connect", "razorpay", "--key", "vault:razorpay-key", "--url", provider.url)
        made = await place.call("payment-link", amount=100_001, purpose="A notice")
        assert (made.status, made.result["status"]) == (Status.DONE, "open")
        (link,) = provider.links.values()
        assert (link["amount"], link["reference_id"]) == (100_001, made.result["reference"])
        body = provider.word(link["id"], "payment_link.paid", id="pay_C3")
        for secret, status, stands in (("wrong", 401, "open"), ("webhook-secret", 200, "paid")):
            signature = hmac.new(secret.encode(), body, "sha256").hexdigest()
            url = f"http://{place.node.info.addresses['http']}{hook}"
            headers = {"X-Razorpay-Signature": signature}
            async with (
                aiohttp.ClientSession() as caller,
                caller.post(url, data=body, headers=headers) as answer,
            ):
                assert answer.status == status
            # Each call is in a session of its own: within one, the answer would come from the cache.
            seen = await place.call("payment-status", reference=made.result["reference"])
            assert seen.result["status"] == stands
        shares = [{"account": "acc_Weaver001", "weight": 1}]
        asked = await place.call("split-payment", reference=made.result["reference"], shares=shares, keep=1)
        assert asked.status is Status.NEEDS_APPROVAL
        assert asked.approval is not None
        assert "acc_Weaver001: ₹500.01\n  you: ₹500.00" in asked.approval.terms
        assert provider.made == {}
        done = await place.toolbox.answer(place.caller(), asked.approval.code, approve=True)
        assert (done.status, done.result["kept"]) == (Status.DONE, 50_000)
        assert [each["amount"] for each in provider.made["pay_C3"]] == [50_001]
