"""The auditor's page in a real browser: what our code proves, code that shares nothing with it proves too,
and what was altered is named."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio
from indai.client.audit import Severity, audit
from indai.client.audit.findings import Findings
from indai.client.audit.registry import replay_registry
from indai.client.exports import CheckpointLine
from indai.client.fraud import Evidence
from indai.client.handlekeys import claim
from indai.client.receiptfile import ReceiptFile
from indai.protocol.envelope import parse_envelope
from indai.protocol.handlestate import AgentKey
from indai.protocol.keys import SigningKey
from indai.protocol.tlogpolicy import TlogPolicy, parse_policy
from indai.v1 import negotiation_pb2, owner_pb2, registry_pb2
from playwright.async_api import Browser, ViewportSize, expect

from tests.service.node.world import now_ms
from tests.service.web.conftest import HOUR_MS, Desks
from tests.unit.audit.event_lies import moved, two_events_under_one_number
from tests.unit.audit.lies import (
    head_by_a_key_that_was_given_up,
    honest,
    ledger_with_a_key_nobody_published,
    operation_by_a_stranger,
    receipt_and_refusal,
    rotated,
    two_receipts,
)
from tests.unit.audit.test_proofs import forked, forked_over_a_change_of_keys
from tests.unit.audit.worlds import BOB, NODE_A, NOW, World, reseal
from tests.web import mirrors
from tests.web.conftest import DESKTOP, PHONE, Screen, screen
from tests.web.forgeries import claimed, forge, told

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Files:
    """What a party takes away from a node."""

    folder: Path
    receipt: Path
    export: Path
    mirror: Path
    policy: Path

    def altered(self, source: Path, old: str, new: str) -> Path:
        """A copy with one thing in it changed."""
        text = source.read_text()
        assert text.count(old) >= 1
        path = self.folder / f"altered-{source.name}"
        path.write_text(text.replace(old, new, 1))
        return path


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def files(desks: Desks, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Files]:
    folder = tmp_path_factory.mktemp("auditor")
    now = now_ms()
    thread = await desks.alice.meet(
        "ind.ai/bob", title="Design review", from_ms=now + HOUR_MS, until_ms=now + 200 * HOUR_MS
    )
    assert thread.state == owner_pb2.THREAD_STATE_COMMITTED
    stub = desks.bob.stub
    # A later head, so that the receipt's path has hashes in it.
    mine = (await stub.ListThreads(owner_pb2.ListThreadsRequest())).threads[0]
    answer = await stub.GetReceipt(owner_pb2.GetReceiptRequest(thread_id=mine.thread_id))
    made = ReceiptFile(answer.leaf, answer.tlog_proof, answer.cose, answer.opening, answer.envelope)
    receipt, export = folder / "lunch.receipt.json", folder / "bob.jsonl"
    receipt.write_bytes(made.encode())
    with export.open("wb") as file:
        async for part in stub.ExportOwner(owner_pb2.ExportOwnerRequest()):
            file.write(part.lines)
    mirror = await desks.world.mirror(folder / "registry.jsonl")
    yield Files(folder, receipt, export, mirror, desks.world.network)


async def _judged(window: Screen, *paths: Path) -> None:
    """Choose files, and wait until they are judged."""
    page = window.page
    await expect(page.locator("[data-audit][data-ready]")).to_have_count(1)
    before = int(await page.locator("[data-audit]").get_attribute("data-done") or 0)
    await page.locator("input[type=file]").set_input_files([str(path) for path in paths])
    await expect(page.locator(f'[data-audit][data-done="{before + 1}"]')).to_have_count(1)


async def _verdicts(window: Screen) -> list[str | None]:
    cards = window.page.locator("article[data-verdict]")
    return [await cards.nth(at).get_attribute("data-verdict") for at in range(await cards.count())]


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=("phone", "desktop"))
async def test_a_receipt_and_an_export_are_proved_step_by_step(
    chromium: Browser, desks: Desks, files: Files, size: ViewportSize
) -> None:
    async with screen(chromium, desks, size) as window:
        await window.open("/audit")
        await window.check()
        await expect(window.page.locator("[data-audit][data-ready]")).to_have_count(1)
        await window.context.set_offline(True)  # from here on there is the file alone
        requests: list[str] = []
        window.page.on("request", lambda request: requests.append(request.method))
        await _judged(window, files.receipt, files.mirror, files.policy)
        assert await _verdicts(window) == ["good", "good"]
        steps = window.page.locator("article:first-of-type .steps > li")
        for words in (
            "Signed by ind.ai/alice",
            "Signed by ind.ai/bob",
            "The ledger's tree holds this leaf",
            "The log has signed this head",
            "The second receipt (COSE, RFC 9942) says the same",
        ):
            await expect(steps.filter(has_text=words)).to_have_class("good")
        await expect(
            window.page.locator("article:first-of-type pre").filter(has_text="Design review")
        ).to_have_count(1)
        assert requests == []  # nothing leaves the browser
        await window.check()
        await window.picture("auditor")
        await window.page.emulate_media(color_scheme="dark")
        await window.check()
        await window.picture("auditor-dark")
        await _judged(window, files.export, files.mirror, files.policy)
        found = await _verdicts(window)
        assert len(found) >= 3
        assert set(found) == {"good"}


async def test_without_the_registry_it_says_what_cannot_betold(
    chromium: Browser, desks: Desks, files: Files
) -> None:
    async with screen(chromium, desks, PHONE) as window:
        await window.open("/audit")
        await _judged(window, files.receipt)
        assert await _verdicts(window) == ["warn"]
        await expect(window.page.get_by_text("add the registry's mirror").first).to_be_visible()


async def test_whatever_is_altered_is_named(chromium: Browser, desks: Desks, files: Files) -> None:
    """The negative control of each step."""
    receipt = json.loads(files.receipt.read_text())

    def bent(name: str, at: int) -> str:
        """The same value with one character in it changed."""
        value: str = receipt[name]
        return value[:at] + ("A" if value[at] != "A" else "B") + value[at + 1 :]

    lies = {
        ("envelope", 300): "The content is what this leaf stands for",
        ("opening", 5): "The content is what this leaf stands for",
        ("leaf", 20): "The ledger's tree holds this leaf",
        ("cose", -20): "The second receipt (COSE, RFC 9942) says the same",
        ("cose", 0): "The second receipt (COSE, RFC 9942) says the same",
        ("tlog_proof", 0): "The ledger's tree holds this leaf",
    }
    async with screen(chromium, desks, PHONE) as window:
        await window.open("/audit")
        for (name, at), step in lies.items():
            at = at % len(receipt[name])
            path = files.altered(files.receipt, receipt[name], bent(name, at))
            await _judged(window, path, files.mirror, files.policy)
            assert (await _verdicts(window))[0] == "bad", name
            await expect(window.page.locator(".steps > li.bad").filter(has_text=step)).to_have_count(1)
        whole, fails = b64decode(receipt["tlog_proof"]), window.page.locator(".steps > li.bad")
        shorter = whole.split(b"\n")
        del shorter[3]  # the path's first hash
        forged = whole[:-20] + (b"A" if whole[-20:-19] != b"A" else b"B") + whole[-19:]
        for other, step in (
            (b"\n".join(shorter), "The ledger's tree holds this leaf"),
            (forged, "The log has signed this head"),
        ):
            text = b64encode(other).decode()
            await _judged(window, files.altered(files.receipt, receipt["tlog_proof"], text), files.mirror)
            await expect(fails.filter(has_text=step)).to_have_count(1)
        whose = files.folder / "nobody.jsonl"
        whose.write_text(files.mirror.read_text().replace('"entry":"', '"entry":"A', 1))
        await _judged(window, files.receipt, whose)
        assert "bad" in await _verdicts(window)
        export = files.export.read_text().splitlines()
        opened = next(json.loads(line) for line in export if line.startswith('{"type":"open-leaf"'))
        wrong = files.altered(files.export, opened["leaf"], opened["leaf"].replace("A", "B", 1))
        await _judged(window, wrong, files.mirror)
        assert "bad" in await _verdicts(window)
        stranger = files.folder / "stranger.policy"
        stranger.write_text(
            "log ind.ai/registry+4abbacda+AVYcdvSyEozeilTfliOiMD8xT2qgiOMc+IbVIkoar+PQ\nquorum none\n"
        )
        await _judged(window, files.receipt, files.mirror, stranger)
        assert (await _verdicts(window))[-1] == "bad"
        for name, content in (
            ("x.json", "{"),
            ("y.jsonl", '{"type":"header"\n'),
            ("z.bin", "<script>alert(1)</script>"),
        ):
            (files.folder / name).write_text(content)
            await _judged(window, files.folder / name)
            assert await _verdicts(window) == ["bad"]


async def test_witnesses_are_counted_one_by_one_in_the_visitor_s_language(
    chromium: Browser, desks: Desks, files: Files
) -> None:
    async with screen(chromium, desks, PHONE, locale="hi-IN") as window:
        await window.open("/audit")
        await window.check()
        await _judged(window, files.receipt, *mirrors.witnessed(files.mirror, 2, 2))
        assert await _verdicts(window) == ["good", "good"]
        assert await window.page.get_by_text("Signed by").count() == 0
        await expect(window.page.get_by_text("ind.ai/alice का हस्ताक्षर")).to_be_visible()
        await window.page.locator("article").last.locator("summary").first.click()
        for name in "ab":
            step = window.page.locator(".steps > li").filter(has_text=f"गवाह {name}.example ने")
            await expect(step).to_have_class("good")
        await expect(window.page.get_by_text("3 में से 2 गवाहों ने")).to_be_visible()
        await window.check()
        await window.picture("auditor-hindi")
        await _judged(window, files.receipt, *mirrors.witnessed(files.mirror, 2, 3))
        assert await _verdicts(window) == ["good", "bad"]
        lacking = window.page.locator(".steps > li.bad")
        await expect(lacking).to_contain_text("पर्याप्त गवाहों ने इसे देखा है")


async def test_a_mirror_is_replayed_operation_by_operation_and_each_lie_in_it_is_named(
    chromium: Browser, desks: Desks, tmp_path: Path
) -> None:
    """What the page finds, the offline audit finds too, and both find nothing in an honest mirror."""

    def audited(mirror: Path, trust: TlogPolicy) -> set[str]:
        findings = Findings()
        replay_registry(mirror, trust, findings, lambda *_: None)
        return {one.check for one in findings.found if one.severity is Severity.INVALID}

    async with screen(chromium, desks, PHONE) as window:
        await window.open("/audit")
        honest = mirrors.whole()
        paths = mirrors.told(tmp_path, honest, "honest")
        await _judged(window, *paths)
        assert await _verdicts(window) == ["good"]
        assert audited(paths[0], honest.trust) == set()
        await expect(window.page.locator(".steps > li").filter(has_text="operations (11)")).to_have_class(
            "good"
        )
        await expect(window.page.get_by_text("announced under both keys")).to_have_count(1)
        for at, (words, lie) in enumerate(mirrors.LIES):
            mirror = mirrors.begun()
            lie(mirror)
            paths = mirrors.told(tmp_path, mirror, f"lie-{at}")
            await _judged(window, *paths)
            assert await _verdicts(window) == ["bad"], words
            await expect(window.page.locator(".steps > li.bad").filter(has_text=words)).to_have_count(1)
            assert ("registry-map" if words == mirrors.ROOTS else "registry-chain") in audited(
                paths[0], mirror.trust
            )


ORDER = "Its heads keep to the order of its keys"
IDENTITY = "It is the ledger that the record of"


async def test_an_export_is_held_against_the_keys_that_the_registry_names_and_their_order(
    chromium: Browser, desks: Desks, tmp_path: Path
) -> None:
    """As `indai audit` says of the same files."""
    cases: tuple[tuple[Callable[[], World], str, str], ...] = (
        (rotated, "good", ""),
        (partial(rotated, announced=False), "good", ""),
        (head_by_a_key_that_was_given_up, "bad", ORDER),
        (lambda: claimed(head_by_a_key_that_was_given_up()), "bad", ORDER),
        (ledger_with_a_key_nobody_published, "bad", IDENTITY),
    )
    async with screen(chromium, desks, PHONE) as window:
        await window.open("/audit")
        for at, (make, verdict, fails) in enumerate(cases):
            world, folder = make(), tmp_path / str(at)
            folder.mkdir()
            (export,), mirror = world.write(folder, ("a",)), folder / "registry.jsonl"
            trust = folder / "network.policy"
            trust.write_text(world.trust.format())
            await _judged(window, export, mirror, trust)
            assert (await _verdicts(window))[0] == verdict, fails
            first = window.page.locator("article").first.locator(".steps > li")
            for words in (ORDER, IDENTITY):
                held = "bad" if words == fails else "good"
                await expect(first.filter(has_text=words)).to_have_class(held)
            alone = await window.page.get_by_text("has not announced the one after it").count()
            assert alone == (at == 1)
            severity = {one.severity for one in audit([export], mirror, world.trust).findings}
            assert (Severity.INVALID in severity) is bool(fails)
        identity = window.page.locator(".steps > li").filter(has_text=IDENTITY)
        await _judged(window, export)
        await expect(identity).to_have_class("warn")
        world = rotated()
        (export,) = world.write(tmp_path, ("a",))
        whole = export.read_bytes()
        lines = whole.replace(b'"node":"ind.ai/node-a"', b'"node":"ind.ai/node-b"', 1)
        reseal(export, lines.splitlines(keepends=True))
        assert export.read_bytes() != whole
        await _judged(window, export, tmp_path / "registry.jsonl", trust)
        await expect(identity).to_have_class("bad")  # another's ledger under a name of one's own


async def test_who_contradicted_themselves_is_proved_in_the_browser_from_the_proof_alone(
    chromium: Browser, desks: Desks, tmp_path: Path
) -> None:
    """Each file of evidence that the offline audit writes is believed here, and the exports show it by
    themselves."""
    cases: tuple[tuple[Callable[[], World], str, str], ...] = (
        (partial(forked, longer=False), NODE_A, "One size, and two roots"),
        (partial(forked, longer=True), NODE_A, "begins with another root"),
        (forked_over_a_change_of_keys, NODE_A, "Each key has announced the next"),
        (
            partial(forked_over_a_change_of_keys, announced=False, size=2),
            NODE_A,
            "each signed by its rotation key",
        ),
        (receipt_and_refusal, BOB, "has signed a REJECT"),
        (two_receipts, BOB, "has signed a RECEIPT"),
        (two_events_under_one_number, BOB, "has signed a CANCEL"),
    )
    async with screen(chromium, desks, PHONE) as window:
        await window.open("/audit")
        proved = window.page.locator('article[data-verdict="fraud"]')
        for at, (make, whom, words) in enumerate(cases):
            exports, known, report = told(tmp_path / str(at), make())
            proof = known[0].parent / report.proofs[0].name
            await _judged(window, proof, *known)
            await expect(proved).to_have_count(1)
            await expect(proved.locator("li").last).to_contain_text(f"Proved: {whom}")
            await expect(proved).to_contain_text(words)
            await _judged(window, proof)  # whose keys these are is open without the registry
            assert await _verdicts(window) == ["warn"]
            await _judged(window, *exports, *known)  # the exports show it without the file, and first of all
            assert [each == "fraud" for each in await _verdicts(window)].index(True) == 0
            await expect(proved).to_have_count(1)
            await expect(proved.locator("li").last).to_contain_text(f"Proved: {whom}")
        await window.check()
        await window.picture("auditor-fraud")


async def test_forged_evidence_proves_nothing_and_the_step_that_fails_is_named(
    chromium: Browser, desks: Desks, tmp_path: Path
) -> None:
    made = forge(tmp_path)
    heads, known = made.heads, made.known
    async with screen(chromium, desks, PHONE) as window:
        await window.open("/audit")
        for at, (content, files, step) in enumerate(made.cases):
            path = tmp_path / f"forged-{at}"
            path.write_bytes(content)
            await _judged(window, path, *files)
            assert (await _verdicts(window))[0] == "bad", step
            await expect(window.page.locator(".steps > li.bad").filter(has_text=step)).not_to_have_count(0)
            await expect(window.page.get_by_text("Proved:")).to_have_count(0)
            trust = parse_policy(files[1].read_bytes())
            assert Severity.FRAUD not in {one.severity for one in audit([path], files[0], trust).findings}
        # Heads of a peer's ledger that it has not signed accuse nobody.
        strange = honest()
        (fork,) = forked(longer=False).b.heard
        strange.b.heard = [replace(made.liar, leaves=[b"one"] * 3).note(3), fork[:-9] + "AAAAAAA=\n"]
        exports, files, _ = told(tmp_path / "strange", strange)
        await _judged(window, *exports, *files)
        assert "fraud" not in await _verdicts(window)
        # Whose keys these are, only the right registry tells, and one that holds.
        proof = tmp_path / "proof"
        proof.write_bytes(heads.encode())
        await _judged(window, proof, known[0])
        assert (await _verdicts(window))[0] == "warn"
        _, broken, _ = told(tmp_path / "broken", operation_by_a_stranger())
        await _judged(window, proof, *broken)
        assert (await _verdicts(window))[0] == "bad"
        await expect(window.page.get_by_text("The registry's mirror does not hold")).to_have_count(1)
        # A registry is accused under the key that network.policy names.
        registry = honest().registry
        fake = replace(registry, signed=[b"another"] * len(registry.entries))
        one, other = [
            line.note.encode()
            for each in (registry, fake)
            for line in each.records()
            if isinstance(line, CheckpointLine)
        ]
        accused = Evidence.of(registry.signer().verifier, one, other)
        proof.write_bytes(accused.encode())
        others = tmp_path / "others.policy"
        others.write_text(f"log {made.liar.signer().verifier.vkey}\nquorum none\n")
        for believed, verdict in ((known[1], "fraud"), (others, "bad")):
            await _judged(window, proof, believed)
            assert await _verdicts(window) == [verdict]
        # A pair that is no proof is settled by the export of its log, to either side.
        path = tmp_path / "pair"
        path.write_bytes(made.pair.encode())
        await _judged(window, path, *known)
        assert (await _verdicts(window))[0] == "warn"
        await _judged(window, path, tmp_path / "heads" / "a.jsonl", *known)
        await expect(window.page.locator('article[data-verdict="fraud"]').first).to_contain_text("Proved:")


async def test_two_commitments_in_the_place_of_one_are_named(
    chromium: Browser, desks: Desks, tmp_path: Path
) -> None:
    step = "Nobody has put two commitments in the place of one"
    async with screen(chromium, desks, PHONE) as window:
        await window.open("/audit")
        for at, (times, verdict) in enumerate(
            (((0, 0), "bad"), ((NOW, NOW), "bad"), ((0, NOW), "bad"), ((NOW, 0), "good"))
        ):
            exports, known, report = told(tmp_path / str(at), moved(*times)())
            found = "succession" in {one.check for one in report.findings}
            await _judged(window, exports[0], *known)
            await expect(
                window.page.locator("article").first.locator(".steps > li").filter(has_text=step)
            ).to_have_class(verdict)
            assert found is (verdict == "bad")


async def test_a_key_is_judged_by_its_owners_history_whoever_lists_it_too(
    chromium: Browser, desks: Desks, files: Files
) -> None:
    """Anybody may put another's public key into a record: it says nothing about what the other signed."""
    party = negotiation_pb2.Commitment.FromString(
        parse_envelope(b64decode(json.loads(files.receipt.read_text())["envelope"])).payload
    ).parties[0]
    chain = (await desks.world.resolver().resolve(party.handle)).chain
    theirs = chain.agent_key(party.key_id)
    assert theirs is not None
    now, rotation = now_ms(), SigningKey.generate()
    later = AgentKey(theirs.public_key, now + HOUR_MS)
    operation = claim("ind.ai/mallory", desks.world.policy.origin, [rotation], now_ms=now, agent_keys=[later])
    submit = registry_pb2.SubmitOperationRequest(operation=operation.raw)
    await desks.world.stub().SubmitOperation(submit)
    mirror = await desks.world.mirror(files.folder / "mallory.jsonl")
    assert theirs.public_key in b64decode(mirror.read_text().splitlines()[-2].split('"')[-2])
    async with screen(chromium, desks, PHONE) as window:
        await window.open("/audit")
        await _judged(window, files.receipt, mirror, files.policy)
        assert await _verdicts(window) == ["good", "good"]


async def test_the_public_logs_are_shown_with_their_heads(chromium: Browser, desks: Desks) -> None:
    async with screen(chromium, desks, PHONE) as window:
        await window.open("/log")
        await window.check()
        await expect(window.page.get_by_role("heading", level=2).first).to_contain_text(
            "ind.ai/node-b/ledger/"
        )
        await window.picture("logs")
        await window.page.get_by_text("The newest tiles").first.click()
        await expect(window.page.get_by_text("Its own clock").first).to_be_visible()
        for link in await window.page.locator("section a").all():
            answer = await window.page.request.get(window.base + str(await link.get_attribute("href")))
            assert answer.ok


async def test_a_log_s_entries_are_looked_through_page_by_page(
    chromium: Browser, desks: Desks, files: Files
) -> None:
    ledger = json.loads(files.export.read_text().splitlines()[0])["log"]
    async with screen(chromium, desks, PHONE) as window:
        await window.open("/log")
        await window.page.get_by_role("link", name="Look through the entries").first.click()
        await expect(window.page.get_by_text("A commitment, or an event of one").first).to_be_visible()
        await window.check()
        await window.picture("log-entries")
        assert await window.page.get_by_text("Design review").count() == 0  # the leaf is blinded
        for tile in await window.page.locator("main a[href*='/tile/']").all():
            answer = await window.page.request.get(window.base + str(await tile.get_attribute("href")))
            assert answer.ok
        for query, status in (
            ("log=ind.ai/nobody", 404),
            (f"log={ledger}&from=<b>", 400),
            (f"log={ledger}&from=-1", 400),
            (f"log={ledger}&from=99999999999", 200),
        ):
            answer = await window.page.request.get(f"{window.base}/log/entries?{query}")
            assert answer.status == status, query
