"""Who may claim what: policies, limits, look-alikes, and domains that must confirm a branded handle."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import dns.flags
import dns.message
import dns.rdatatype
import dns.rrset
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from indai.client.handlekeys import claim, issue_voucher, recover, set_intents, transfer
from indai.protocol.errors import IndaiError, Reason, Unavailable
from indai.protocol.keys import SigningKey
from indai.protocol.operations import replay, subject_id
from indai.registry.claims import ClaimDesk, InvitedClaims, VerifiedClaims, Vouchers
from indai.registry.domains import RECHECK_MS, DomainProver, Domains
from indai.registry.limits import HANDLE_OPERATIONS, HOUR_MS, Rate, TokenBuckets
from indai.v1.registry_pb2 import SubmitOperationRequest

ORIGIN = "ind.ai/registry"
BRAND = "ranveer.example"


def key(name: str) -> SigningKey:
    return SigningKey.from_seed(name.encode().ljust(32, b"."))


async def refused(
    desk: ClaimDesk, operation: Any, reason: Reason, rule: str = "", **shown: Any
) -> IndaiError:
    with pytest.raises(IndaiError) as caught:
        await desk.submit(SubmitOperationRequest(operation=operation.raw, **shown), "")
    assert (caught.value.reason, caught.value.metadata.get("rule", "")) == (reason, rule)
    return caught.value


async def taken(desk: ClaimDesk, operation: Any, **shown: Any) -> list[str]:
    _, _, warnings = await desk.submit(SubmitOperationRequest(operation=operation.raw, **shown), "")
    return warnings


@pytest.mark.rule("REG-40")
async def test_an_invite_is_good_for_one_handle(rig: Any, database: Any) -> None:
    invites = InvitedClaims(database.pool, ORIGIN)
    await invites.add(["an invite code", "another invite"])
    await invites.add(["an invite code"])
    desk = ClaimDesk(rig.registry, invites, exempt=["ind.ai/home"])
    alice, bob = rig.claim("ind.ai/alice"), rig.claim("ind.ai/bob")
    await refused(desk, alice, Reason.PERMISSION_DENIED, "REG-40")
    await refused(desk, alice, Reason.PERMISSION_DENIED, "REG-40", invite="a guess of mine")
    await taken(desk, alice, invite="an invite code")
    await taken(desk, alice, invite="an invite code")  # an answer that was lost: the same again
    await refused(desk, bob, Reason.PERMISSION_DENIED, "REG-40", invite="an invite code")
    # A claim that fails does not use the code up.
    await refused(desk, rig.claim("ind.ai/alice"), Reason.HANDLE_TAKEN, invite="another invite")
    await taken(desk, bob, invite="another invite")
    # A sub-handle, a transferred handle and the operator's own need none; nor does anything but a CREATE.
    await taken(desk, rig.claim("ind.ai/alice/work"))
    await taken(desk, rig.claim("ind.ai/home"))
    chain = replay([alice])
    end = transfer(chain, key("root"), key("heir").public_key, now_ms=rig.clock())
    await taken(desk, end)
    heir = claim("ind.ai/alice", ORIGIN, [key("heir")], now_ms=rig.clock(), predecessor=replay([alice, end]))
    await taken(desk, heir)
    with pytest.raises(IndaiError):
        await invites.add(["short"])


@pytest.mark.rule("REG-40")
async def test_a_voucher_is_for_one_handle_and_key(rig: Any) -> None:
    issuer = key("issuer")
    desk = ClaimDesk(rig.registry, VerifiedClaims(Vouchers([issuer.public_key], ORIGIN, rig.clock)))
    alice, root = rig.claim("ind.ai/alice"), key("root").key_id

    def voucher(by: SigningKey = issuer, *words: str) -> bytes:
        named = words or (ORIGIN, "ind.ai/alice", root)
        return issue_voucher(by, *named, now_ms=rig.clock(), valid_ms=1_000).raw

    good = voucher()
    for shown in (
        b"",
        voucher(key("stranger")),
        voucher(issuer, ORIGIN, "ind.ai/bob", root),
        voucher(issuer, ORIGIN, "ind.ai/alice", key("other").key_id),
        voucher(issuer, "other.example/registry", "ind.ai/alice", root),
        alice.raw,
    ):
        await refused(desk, alice, Reason.PERMISSION_DENIED, "REG-40", voucher=shown)
    forged = good[:-80] + bytes([good[-80] ^ 1]) + good[-79:]
    with pytest.raises(IndaiError):
        await taken(desk, alice, voucher=forged)
    rig.clock.now += 1_000
    await refused(desk, alice, Reason.PERMISSION_DENIED, "REG-40", voucher=good)
    rig.clock.now -= 1
    await taken(desk, alice, voucher=good)


async def test_callers_elsewhere_are_limited_and_told_when_to_come_again(rig: Any) -> None:
    desk = ClaimDesk(rig.registry, callers=TokenBuckets(Rate(2, 30_000), rig.clock))
    for name in ("alice", "bob"):
        request = SubmitOperationRequest(operation=rig.claim(f"ind.ai/{name}").raw)
        await desk.submit(request, "192.0.2.7")
    request = SubmitOperationRequest(operation=rig.claim("ind.ai/carol").raw)
    with pytest.raises(Unavailable) as caught:
        await desk.submit(request, "192.0.2.7")
    assert caught.value.reason is Reason.RATE_LIMITED
    assert caught.value.metadata["retry_after_ms"] == "30000"
    await desk.submit(request, "192.0.2.8")


async def test_a_handle_that_changes_too_often_waits_and_a_recovery_never(rig: Any) -> None:
    genesis = rig.claim("ind.ai/alice")
    operations = [genesis]
    for number in range(HANDLE_OPERATIONS):
        chain = replay(operations)
        operations.append(set_intents(chain, key("spare"), [f"intent{number}"], now_ms=rig.clock()))
    for operation in operations[:HANDLE_OPERATIONS]:
        await rig.registry.submit(operation.raw)
    with pytest.raises(IndaiError) as caught:
        await rig.submit(operations[-1])
    assert caught.value.reason is Reason.RATE_LIMITED
    rig.clock.now += HOUR_MS - 1
    with pytest.raises(IndaiError):
        await rig.submit(operations[-1])
    undone = recover(replay(operations[:-1]), key("root"), 0, now_ms=rig.clock())
    await rig.submit(undone)


async def test_a_name_that_looks_like_another_is_given_with_a_warning(rig: Any) -> None:
    answer = await rig.submit(rig.claim("ind.ai/alice"))
    assert list(answer.warnings) == []
    answer = await rig.submit(rig.claim("ind.ai/a1ice"))
    assert list(answer.warnings) == ["ind.ai/a1ice looks like ind.ai/alice, which is somebody else's."]
    assert list((await rig.submit(rig.claim("ind.ai/robert"))).warnings) == []
    assert list((await rig.submit(rig.claim("ind.ai/alice/work"))).warnings) == []


@pytest.mark.rule("HND-02")
async def test_confusable_and_over_long_names_are_no_handles(rig: Any) -> None:
    good = rig.claim("ind.ai/alice")
    for name in ("al\u0456ce", "ALICE", "a" * 31, "al--ce", "xn--lice"):
        raw = good.raw.replace(b"alice", name.encode())
        with pytest.raises(IndaiError):
            await rig.registry.submit(raw)


class Zone(asyncio.DatagramProtocol):
    """A DNS server with one zone in memory."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, address: Any) -> None:
        query = dns.message.from_wire(data)
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.RA
        name, kind = query.question[0].name, query.question[0].rdtype
        if kind == dns.rdatatype.TXT and str(name) == f"_ind-handle.{BRAND}." and self.texts:
            quoted = [f'"{text}"' for text in self.texts]
            answer.answer.append(dns.rrset.from_text(name, 60, "IN", "TXT", *quoted))
        if kind == dns.rdatatype.A and str(name) == f"{BRAND}.":
            answer.answer.append(dns.rrset.from_text(name, 60, "IN", "A", "127.0.0.1"))
        self.transport.sendto(answer.to_wire(), address)


class Site:
    """The domain: its zone, and its page over HTTPS under a CA of its own."""

    def __init__(self, zone: Zone, folder: Path) -> None:
        self.zone = zone
        self.ca = folder / "ca.pem"
        self.page = ""
        self.status = 200
        self.dns_port = zone.transport.get_extra_info("sockname")[1]
        self.https_port = 0

    def prover(self, **more: Any) -> DomainProver:
        more = {"https_port": self.https_port, "ca": self.ca, "private": True, **more}
        return DomainProver([("127.0.0.1", self.dns_port)], **more)

    async def serve(self, request: web.Request) -> web.Response:
        headers = {"Location": "https://elsewhere.example/"} if self.status == 302 else {}
        return web.Response(text=self.page, status=self.status, headers=headers)


def certificate(folder: Path) -> ssl.SSLContext:
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, BRAND)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(7)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(BRAND)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(private, hashes.SHA256())
    )
    (folder / "ca.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "ca.pem", folder / "key.pem")
    return context


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        loop = asyncio.get_running_loop()
        transport, zone = await loop.create_datagram_endpoint(Zone, local_addr=("127.0.0.1", 0))
        stack.callback(transport.close)
        made = Site(zone, tmp_path)
        application = web.Application()
        application.add_routes([web.get("/.well-known/ind-handle", made.serve)])
        runner = web.AppRunner(application)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        listening = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=certificate(tmp_path))
        await listening.start()
        made.https_port = runner.addresses[0][1]
        yield made


@pytest.mark.rule("REG-41")
async def test_a_branded_handle_needs_its_domains_word(rig: Any, database: Any, site: Site) -> None:
    brand = rig.claim(BRAND)
    named = f"ind-subject={subject_id(brand)}"
    async with Domains.open(database.pool, ORIGIN, site.prover(), rig.clock) as domains:
        desk = ClaimDesk(rig.registry, domains=domains)
        error = await refused(desk, brand, Reason.PERMISSION_DENIED, "REG-41")
        assert named in error.hint
        site.zone.texts = ["v=spf1 -all", "ind-subject=ind:" + "a" * 32]
        await refused(desk, brand, Reason.PERMISSION_DENIED, "REG-41")
        site.zone.texts.append(named)
        await taken(desk, brand)
        assert (await rig.resolver().resolve(BRAND)).chain.subject_id == subject_id(brand)
        # The registry's own domain, and what lies below it, is nobody's.
        for own in ("ind.ai", "mail.ind.ai"):
            await refused(desk, rig.claim(own), Reason.INVALID_OPERATION, "REG-15")
    # Where domains are not asked, none is a handle.
    await refused(ClaimDesk(rig.registry), rig.claim("other.example"), Reason.INVALID_OPERATION, "REG-15")


@pytest.mark.rule("REG-41")
async def test_a_page_over_https_proves_a_domain_and_nothing_less_does(site: Site) -> None:
    subject = "ind:" + "b" * 32
    site.page = f"# me\nind-subject={subject}\n"
    assert await site.prover().confirms(BRAND, subject)
    assert not await site.prover().confirms(BRAND, "ind:" + "c" * 32)
    # Not from an address inside a network, under another CA, or by way of somewhere else.
    assert not await site.prover(private=False).confirms(BRAND, subject)
    assert not await site.prover(ca=None).confirms(BRAND, subject)
    assert not await site.prover().confirms("other.example", subject)
    for status in (302, 404, 500):
        site.status = status
        assert not await site.prover().confirms(BRAND, subject)


@pytest.mark.rule("REG-41")
async def test_a_domains_new_owner_cannot_take_a_chain_that_lives_but_has_it_flagged(
    rig: Any, database: Any, site: Site
) -> None:
    brand, newcomer = rig.claim(BRAND), rig.claim(BRAND, rotation_keys=[key("newcomer")])
    site.zone.texts = [f"ind-subject={subject_id(brand)}"]
    async with Domains.open(database.pool, ORIGIN, site.prover(), rig.clock) as domains:
        desk = ClaimDesk(rig.registry, domains=domains)
        rig.liar.honest._desk = desk
        await taken(desk, brand)
        site.zone.texts = [f"ind-subject={subject_id(newcomer)}"]  # the domain was sold
        with pytest.raises(IndaiError) as caught:
            await taken(desk, newcomer)
        assert caught.value.reason is Reason.HANDLE_TAKEN
        rig.clock.now += RECHECK_MS
        await domains.recheck()
        found = await rig.resolver().resolve(BRAND)
        assert found.subject_id == subject_id(brand)
        assert found.domain_failing_since_ms == rig.clock()


@pytest.mark.rule("REG-41")
async def test_a_domain_that_stops_confirming_is_flagged_until_it_does_again(
    rig: Any, database: Any, site: Site
) -> None:
    brand = rig.claim(BRAND)
    named = f"ind-subject={subject_id(brand)}"
    site.zone.texts = [named]
    claimed_at = rig.clock()
    async with Domains.open(database.pool, ORIGIN, site.prover(), rig.clock) as domains:
        desk = ClaimDesk(rig.registry, domains=domains)
        rig.liar.honest._desk = desk
        await taken(desk, brand)
        assert await domains.recheck() == 0
        assert (await rig.resolver().resolve(BRAND)).domain_failing_since_ms == 0
        site.zone.texts = []
        rig.clock.now += RECHECK_MS
        assert await domains.recheck() == 1
        failing = (await rig.resolver().resolve(BRAND)).domain_failing_since_ms
        assert failing == claimed_at + RECHECK_MS
        rig.clock.now += RECHECK_MS
        await domains.recheck()
        status = domains.status(BRAND)
        assert status is not None
        assert (status.confirmed_at_ms, status.failing_since_ms) == (claimed_at, failing)
    async with Domains.open(database.pool, ORIGIN, site.prover(), rig.clock) as again:
        assert again.status(BRAND) == status
        site.zone.texts = [named]
        rig.clock.now += RECHECK_MS
        await again.recheck()
        recovered = again.status(BRAND)
        assert recovered is not None
        assert recovered.failing_since_ms == 0
    assert again.status("ind.ai/alice") is None
