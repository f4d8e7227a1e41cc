"""Changes of personality over a real database: drafted, learned, looked at, decided on, kept as versions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import uuid4

import asyncpg
import pytest
from indai.protocol.errors import IndaiError, InvalidInput, NotFound, Reason
from indai.runtime.proposals.learning import learn
from indai.runtime.proposals.store import ACCEPTED_A_DAY, MAX_OPEN
from indai.storage.pool import transaction
from indai.v1 import tiers_pb2 as pb

from tests.conftest import Database
from tests.service.runtime.cell import cell, now_ms, phone
from tests.service.test_tiers import WHOLE, serving

if TYPE_CHECKING:
    from indai.v1.tiers_pb2_grpc import TierServiceAsyncStub

OPEN, ACCEPTED = pb.PERSONA_PROPOSAL_STATE_OPEN, pb.PERSONA_PROPOSAL_STATE_ACCEPTED


async def proposed(stub: TierServiceAsyncStub, change: str, **more: str) -> pb.PersonaProposal:
    request = pb.ProposePersonaRequest(
        **{"tenant": "acme", "slug": "h", "change_yaml": change, "reason": "people find it cold", **more}
    )
    return (await stub.ProposePersona(request)).proposal


async def waiting(stub: TierServiceAsyncStub, tenant: str = "acme") -> list[pb.PersonaProposal]:
    found = await stub.ListPersonaProposals(pb.ListPersonaProposalsRequest(tenant=tenant))
    return list(found.proposals)


async def decided(
    stub: TierServiceAsyncStub, each: pb.PersonaProposal, *, accept: bool, base: int = 0, note: str = ""
) -> pb.PersonaProposal:
    request = pb.DecidePersonaProposalRequest(
        tenant=each.tenant,
        proposal_id=each.proposal_id,
        accept=accept,
        base_version=base or each.base_version,
        note=note,
    )
    return (await stub.DecidePersonaProposal(request)).proposal


async def acts(database: Database, tenant: str = "acme") -> list[tuple[str, str]]:
    async with transaction(database.pool, (tenant,)) as connection:
        rows = await connection.fetch("SELECT actor, act FROM web.audit_log ORDER BY id")
    return [(row["actor"], row["act"]) for row in rows]


async def aged(database: Database, hours: int) -> None:
    """Everything was so many hours earlier."""
    connection = await asyncpg.connect(database.admin_dsn)
    await connection.execute("SELECT set_config('indai.owners', 'acme', false)")
    done = await connection.execute(
        "UPDATE runtime.persona_proposals SET created_at = created_at - $1 * interval '1 hour',"
        " decided_at = decided_at - $1 * interval '1 hour'",
        hours,
    )
    await connection.close()
    assert done != "UPDATE 0"


async def test_a_change_of_persona_is_drafted_looked_at_and_only_then_a_version(database: Database) -> None:
    async with serving(database) as (stub, bindings):
        await stub.ApplyTiers(pb.ApplyTiersRequest(tenant="acme", yaml=WHOLE))
        made = await proposed(stub, "formality: formal\nvoice: {phrases: [of course]}", request_id="one")
        assert (
            await proposed(stub, "formality: formal\nvoice: {phrases: [of course]}", request_id="one") == made
        )
        with pytest.raises(IndaiError, match="another proposal"):
            await proposed(stub, "formality: casual", request_id="one")
        assert (await bindings.of("acme", "b")).human.formality == "friendly"
        (found,) = await waiting(stub)
        assert (found.state, found.base_version, found.created_by) == (OPEN, 1, "operator")
        assert "+formality: formal" in found.diff
        accepted = await decided(stub, found, accept=True, note="agreed")
        assert (accepted.state, accepted.version, accepted.note) == (ACCEPTED, 2, "agreed")
        # Said again it is the same; the contrary comes too late.
        assert (await decided(stub, found, accept=True)).version == 2
        again = await proposed(stub, "formality: formal\nvoice: {phrases: [of course]}", request_id="one")
        assert (again.proposal_id, again.version) == (found.proposal_id, 2)
        with pytest.raises(IndaiError, match="accepted already"):
            await decided(stub, found, accept=False)
        human = (await bindings.of("acme", "b")).human
        assert (human.formality, human.voice.phrases, human.voice.tone) == ("formal", ("of course",), "warm")
        versions = pb.ListTierVersionsRequest(tenant="acme", kind="human", slug="h")
        newest = (await stub.ListTierVersions(versions)).versions[0]
        assert newest.note == f"proposal {found.proposal_id[:8]}: people find it cold"
        # Taken back like any version.
        restore = pb.RestoreTierRequest(tenant="acme", kind="human", slug="h", version=1)
        assert (await stub.RestoreTier(restore)).tier.version == 3
        assert not await waiting(stub)
    assert await acts(database) == [("token", "ProposePersona"), ("token", "AcceptPersonaProposal")]


async def test_what_was_not_looked_at_is_not_accepted(database: Database) -> None:
    async with serving(database) as (stub, bindings):
        await stub.ApplyTiers(pb.ApplyTiersRequest(tenant="acme", yaml=WHOLE))
        made = await proposed(stub, "languages: [en, hi]\nmixes: [en, hi]")
        await stub.ApplyTiers(
            pb.ApplyTiersRequest(tenant="acme", yaml=WHOLE.replace("A helper.", "A friend."))
        )
        with pytest.raises(IndaiError, match="at version 2, and you looked at 1"):
            await decided(stub, made, accept=True)
        assert (await bindings.of("acme", "b")).human.languages == ("en",)
        (again,) = await waiting(stub)
        await decided(stub, again, accept=True)
        human = (await bindings.of("acme", "b")).human
        assert (human.identity, human.languages) == ("A friend.", ("en", "hi"))


NO_CHANGES = {
    "guardrails: []": 'can\'t change "guardrails"',
    "name: Bob": 'can\'t change "name"',
    "voice: {tone: warm, shouts: true}": "unknown key",
    "languages: []": "languages",
    "voice: null": "voice",
    "identity: A helper.": "so already",
    "[1]": "names what is to be different",
    "a: [": "no YAML",
    f"identity: {'x' * 3_990}": "HUMAN part",
    "formality: formal\nvoice: &a {tone: *a}": "by alias",
    "formality: formal\nvoice: {2026-01-01: null}": "only texts",
    "languages: !!set {en, hi}": "only texts",
    'identity: "A\\0B"': "only texts",
    "identity: 2026-02-30": "no YAML",
}


async def test_a_proposal_changes_a_personality_and_nothing_else(database: Database) -> None:
    async with serving(database) as (stub, _):
        await stub.ApplyTiers(pb.ApplyTiersRequest(tenant="acme", yaml=WHOLE))
        for change, wrong in NO_CHANGES.items():
            with pytest.raises(InvalidInput, match=wrong):
                await proposed(stub, change)
        assert not await waiting(stub)


async def test_personas_change_slowly_and_proposals_can_be_read(database: Database) -> None:
    async with serving(database) as (stub, _):
        await stub.ApplyTiers(pb.ApplyTiersRequest(tenant="acme", yaml=WHOLE))
        for count in range(MAX_OPEN):
            await proposed(stub, f"never: [say {count}]")
        with pytest.raises(IndaiError, match=f"{MAX_OPEN} open proposals") as many:
            await proposed(stub, "never: [more]")
        assert many.value.reason is Reason.RATE_LIMITED
        # Who talks to it is answered all the same.
        assert await learn(database.pool, now_ms, "acme", "h", uuid4(), SHORTER) == ""
        for _ in range(ACCEPTED_A_DAY):
            await decided(stub, (await waiting(stub))[0], accept=True)
        with pytest.raises(IndaiError, match="within a day") as often:
            await decided(stub, (await waiting(stub))[0], accept=True)
        assert often.value.reason is Reason.RATE_LIMITED
        await decided(stub, (await waiting(stub))[0], accept=False)
        page = pb.ListPersonaProposalsRequest(tenant="acme", decided=True, page_size=15)
        first = await stub.ListPersonaProposals(page)
        page.page_token = first.next_page_token
        second = await stub.ListPersonaProposals(page)
        assert (len(first.proposals), len(second.proposals), second.next_page_token) == (15, 5, "")
        await aged(database, 25)
        await decided(stub, (await waiting(stub))[0], accept=True)
        await proposed(stub, "never: [more]")


async def test_one_tenants_proposals_are_no_others(database: Database) -> None:
    async with serving(database) as (stub, _):
        await stub.ApplyTiers(pb.ApplyTiersRequest(tenant="acme", yaml=WHOLE))
        made = await proposed(stub, "formality: formal")
        other = WHOLE.replace("acme", "other").replace('routing_keys: ["+911234567890"]', "")
        await stub.ApplyTiers(pb.ApplyTiersRequest(tenant="other", yaml=other))
        assert not await waiting(stub, "other")
        made.tenant = "other"
        with pytest.raises(NotFound, match="no such proposal"):
            await decided(stub, made, accept=True)
        with pytest.raises(NotFound, match="no persona"):
            await proposed(stub, "formality: formal", slug="ghost")
    for owners, seen in ((("acme",), 1), (("other",), 0), ((), 0)):
        async with transaction(database.pool, owners) as connection:
            assert await connection.fetchval("SELECT count(*) FROM runtime.persona_proposals") == seen
    async with transaction(database.pool, ("acme",)) as connection:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute("UPDATE runtime.persona_proposals SET change = '{}'")


SHORTER = "please keep your answers short"


async def test_what_people_say_of_how_a_persona_speaks_is_counted_and_changes_nothing(
    database: Database,
) -> None:
    whole = WHOLE.replace("public", "distribution").replace("[web]", "[whatsapp]")
    async with cell(database.pool) as here:
        await here.apply("acme", whole)
        for number, text in (
            ("1", SHORTER),
            ("1", SHORTER),
            ("2", "aapke jawaab bahut lambe hain, chhota jawaab do"),
        ):
            heard = await here.say(phone(f"+91980000000{number}", text, account="+911234567890"))
            assert heard.finished.reply.text
        (found,) = await waiting(here.tiers)
        assert (found.asked, found.created_by, found.slug) == (2, "people", "h")
        assert found.reason == "People ask for shorter answers."
        assert "long answers" in found.diff
        shown = pb.GetTierRequest(tenant="acme", kind="human", slug="h")
        assert (await here.tiers.GetTier(shown)).tier.version == 1
        await decided(here.tiers, found, accept=True)
        assert "long answers" in (await here.tiers.GetTier(shown)).tier.config_yaml
        # It is so now: who says it again is heard, and nothing is proposed.
        await here.say(phone("+919800000003", SHORTER, account="+911234567890"))
        assert not await waiting(here.tiers)


async def test_a_wish_that_was_refused_is_not_proposed_again_at_once(database: Database) -> None:
    async with serving(database) as (stub, _):
        await stub.ApplyTiers(pb.ApplyTiersRequest(tenant="acme", yaml=WHOLE))
        session = uuid4()

        async def heard() -> str:
            return await learn(database.pool, now_ms, "acme", "h", session, "you are too formal")

        assert await heard() == "casual"
        await decided(stub, (await waiting(stub))[0], accept=False)
        assert await heard() == ""
        await aged(database, 31 * 24)
        assert await heard() == "casual"
        assert [json.loads(each) for each in await _changes(database)] == [{"formality": "casual"}] * 2


async def _changes(database: Database) -> list[str]:
    async with transaction(database.pool, ("acme",)) as connection:
        rows = await connection.fetch("SELECT change FROM runtime.persona_proposals")
    return [row["change"] for row in rows]
