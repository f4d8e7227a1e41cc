"""Signing in with an organisation, against a provider that also lies."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import ClientSession, CookieJar
from indai.node.secrets import Secrets
from indai.protocol.errors import IndaiError
from indai.v1 import desk_pb2
from indai.web.oidc import read_issuer
from joserfc.jwk import ECKey

from tests.databases import Databases
from tests.service.node.world import Node, world
from tests.service.web.conftest import Browser, Page, desk_of
from tests.service.web.issuer import CLIENT, SECRET, Provider, provider


@dataclass
class Place:
    node: Node
    provider: Provider

    async def come_back(self, browser: Browser, query: str = "") -> Page:
        """Begin here, consent there, and come back."""
        await browser.get("/desk/sign-in")
        page = await browser.post("/desk/oidc/begin")
        found = re.search(r'href="(http[^"]+/authorize[^"]+)"', page.text)
        assert found, page.text
        back = self.provider.consent(unescape(found[1]))
        return await browser.get(f"/desk/oidc/return?{query or back}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory, databases: Databases) -> AsyncIterator[Place]:
    base: Path = tmp_path_factory.mktemp("oidc")
    async with provider() as issuer, world(base, databases) as registry:
        data = base / "node-a"
        data.mkdir(mode=0o700)
        lines = f"issuer: {issuer.url}\nclient_id: {CLIENT}\nclient_secret: vault:env/OIDC_TEST_SECRET\n"
        (data / "oidc.yaml").write_text(lines)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OIDC_TEST_SECRET", SECRET)
            async with registry.node("node-a", "127.0.0.1:0", "edge") as node:
                for name in ("asha@example.org", "twice@example.org", "moved@example.org"):
                    await desk_of(node).GrantAccount(
                        desk_pb2.GrantAccountRequest(scope="acme", role="operator", name=name)
                    )
                await desk_of(node).GrantAccount(
                    desk_pb2.GrantAccountRequest(scope="globex", role="staff", name="twice@example.org")
                )
                yield Place(node, issuer)


@pytest_asyncio.fixture(loop_scope="module")
async def browser(place: Place) -> AsyncIterator[Browser]:
    place.provider.claims.clear()
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as http:
        yield Browser(place.node.info.addresses["desk"].removesuffix("/desk"), http)


def _signed_in(browser: Browser) -> bool:
    return any(cookie.key == "indai-desk" and cookie.value for cookie in browser.http.cookie_jar)


async def test_somebody_who_was_let_in_signs_in_with_their_organisation(
    place: Place, browser: Browser
) -> None:
    await place.come_back(browser)
    assert _signed_in(browser)
    (session,) = (
        await desk_of(place.node).ListDeskSessions(desk_pb2.ListDeskSessionsRequest(scope="acme"))
    ).sessions
    assert (session.account.name, session.way) == ("asha@example.org", "oidc")


@pytest.mark.parametrize(
    "claims",
    [
        {"email": "nobody@example.org"},
        {"email": "twice@example.org"},
        {"email_verified": False},
        {"email_verified": "true"},
        {"aud": "another program"},
        {"aud": [CLIENT, "another"]},
        {"iss": "https://other.example"},
        {"nonce": "another"},
        {"exp": 1_700_000_000},
        {"sub": ""},
        {"sub": 7},
    ],
    ids=str,
)
async def test_what_does_not_hold_signs_nobody_in(
    place: Place, browser: Browser, claims: dict[str, Any]
) -> None:
    place.provider.claims.update(claims)
    assert (await place.come_back(browser)).status == 401
    assert not _signed_in(browser)


async def test_an_address_that_is_given_to_somebody_else_there_lets_them_in_only_when_it_is_granted_anew(
    place: Place, browser: Browser
) -> None:
    claims = place.provider.claims
    claims.update({"email": "moved@example.org", "sub": "the first"})
    assert (await place.come_back(browser)).status == 200
    await browser.get("/desk/let-in")
    await browser.post("/desk/sign-out")
    claims["sub"] = "the second"
    page = await place.come_back(browser)
    assert page.status == 401
    assert "Somebody else of your organisation" in page.text
    assert not _signed_in(browser)
    desk = desk_of(place.node)
    await desk.RevokeAccount(desk_pb2.RevokeAccountRequest(scope="acme", name="moved@example.org"))
    await desk.GrantAccount(
        desk_pb2.GrantAccountRequest(scope="acme", role="operator", name="moved@example.org")
    )
    assert (await place.come_back(browser)).status == 200
    assert _signed_in(browser)


async def test_another_key_than_the_issuers_proves_nothing(place: Place, browser: Browser) -> None:
    place.provider.signer = ECKey.generate_key("P-256", {"kid": "one"})
    try:
        assert (await place.come_back(browser)).status == 401
    finally:
        place.provider.signer = None
    assert not _signed_in(browser)


async def test_who_did_not_begin_here_is_not_signed_in(place: Place, browser: Browser) -> None:
    assert (await browser.get("/desk/oidc/return?code=x&state=y")).status == 401
    assert (await place.come_back(browser, "code=code-0&state=another")).status == 401
    assert (await place.come_back(browser, "error=access_denied")).status == 401
    assert not _signed_in(browser)


@pytest.mark.parametrize(
    "text", ["", "issuer: http://login.example.org\nclient_id: x\n", "- a", "issuer: [", "client_id: x"]
)
def test_a_file_that_says_too_little_or_is_not_safe_is_refused(text: str) -> None:
    with pytest.raises(IndaiError):
        read_issuer(text, Secrets.get)  # type: ignore[arg-type]
