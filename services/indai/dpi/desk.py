"""All public services of a node, put together from one configuration: what the tools and the RPCs ask."""

from __future__ import annotations

import html
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Self

import aiohttp
import asyncpg
from aiohttp import web
from indai.dpi.abha import HealthIds
from indai.dpi.accounts import BankAccounts
from indai.dpi.aggregator import Aggregator
from indai.dpi.config import Config
from indai.dpi.consents import Consents
from indai.dpi.digilocker import DigiLocker
from indai.dpi.documents import Documents, Seal
from indai.dpi.forgetting import Forgotten, forget
from indai.dpi.health import HealthDesk
from indai.dpi.jws import Signer, Verifier
from indai.dpi.lockers import CALLBACK, Lockers
from indai.dpi.paylinks import Merchant, PaymentLinks
from indai.dpi.razorpay import Provider
from indai.dpi.remote import TIMEOUT_S, Remote, Vault, open_session
from indai.protocol.errors import IndaiError, Reason, Refused


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the node gives: its database, keys, clock, and where it is. `owners` lists the handles that live
    here; `merchant` finds where one is paid (raises Refused); `private` lets services be on this machine, for
    a node that is on loopback itself."""

    pool: asyncpg.Pool
    vault: Vault
    seal: Seal
    unseal: Seal
    derive: Callable[[str], bytes]
    clock: Callable[[], int]
    public_url: Callable[[], str]
    owners: Callable[[], list[str]]
    merchant: Callable[[str], Awaitable[Merchant]]
    private: bool = False


class Desk:
    """The services that are configured; an async context manager."""

    def __init__(self, config: Config, around: Surroundings) -> None:
        self.config, self._around = config, around
        self._session: aiohttp.ClientSession | None = None
        self._signing: tuple[str, Signer] | None = None
        keys = config.account_aggregator.keys if config.account_aggregator else {}
        self._verifier = Verifier(keys)
        self.consents = Consents(around.pool, around.clock, around.derive("dpi-consents"))
        self.documents = Documents(
            around.pool,
            around.seal,
            around.unseal,
            around.derive("dpi-links"),
            around.clock,
            link_minutes=config.documents.link_minutes,
            keep_days=config.documents.keep_days,
        )
        self.lockers = Lockers(
            around.pool,
            self._digilocker,
            around.vault,
            self.consents,
            self.documents,
            around.derive("dpi-states"),
            around.public_url,
            around.clock,
        )

        self.accounts = BankAccounts(
            self._aggregator, self.consents, around.owners, around.clock, self._aggregator_ids
        )

        self.health = HealthDesk(self._health_ids, self.consents, around.seal, around.unseal, around.clock)
        self.links = PaymentLinks(around.pool, self._provider, around.merchant, around.clock)
        self._abdm: tuple[str, HealthIds] | None = None

    async def forget(self, owner: str, person: str | None) -> Forgotten:
        """See `indai.dpi.forgetting`."""
        return await forget(self._around.pool, self.lockers, owner, person)

    async def __aenter__(self) -> Self:
        self._session = open_session(private=self._around.private)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    def routes(self) -> list[web.RouteDef]:
        """Where browsers, links and services come to."""
        routes = [web.get(CALLBACK, self._came_back), *self.documents.routes()]
        return routes + (self.accounts.routes() if self.config.account_aggregator else [])

    def remote(self, name: str, base: str) -> Remote:
        """A service at its address."""
        assert self._session is not None  # noqa: S101 - it is open
        return Remote(self._session, name, base, private=self._around.private, timeout_s=TIMEOUT_S)

    def _provider(self) -> Provider:
        assert self._session is not None  # noqa: S101 - it is open
        return Provider(self._session)

    async def _digilocker(self) -> DigiLocker:
        wanted = self.config.digilocker
        if wanted is None:
            raise not_configured("DigiLocker", "digilocker")
        secret = await self._around.vault.get(wanted.client_secret)
        return DigiLocker(self.remote("DigiLocker", wanted.base_url), wanted.client_id, secret)

    async def _aggregator(self) -> Aggregator:
        wanted = self.config.account_aggregator
        if wanted is None:
            raise not_configured("The Account Aggregator", "account_aggregator")
        key = await self._around.vault.get(wanted.api_key)
        pem = await self._around.vault.get(wanted.signing_key)
        return Aggregator(
            self.remote("The Account Aggregator", wanted.base_url),
            key,
            self._signer(pem, wanted.signing_kid),
            self._verifier,
            self._around.clock,
        )

    async def _health_ids(self) -> HealthIds:
        wanted = self.config.abdm
        if wanted is None:
            raise not_configured("The health service", "abdm")
        secret = await self._around.vault.get(wanted.client_secret)
        if self._abdm is None or self._abdm[0] != secret:  # it holds a session, so it is kept
            gateway = self.remote("The health gateway", wanted.gateway_url)
            abha = self.remote("The health service", wanted.abha_url)
            client = HealthIds(gateway, abha, wanted.client_id, secret, wanted.cm, self._around.clock)
            self._abdm = secret, client
        return self._abdm[1]

    def _signer(self, pem: str, kid: str) -> Signer:
        """Reading an RSA key takes long enough to do it once for each."""
        if self._signing is None or self._signing[0] != pem:
            self._signing = pem, Signer(pem, kid)
        return self._signing[1]

    def _aggregator_ids(self) -> tuple[str, str]:
        """The aggregator's name and ours."""
        wanted = self.config.account_aggregator
        return (wanted.id, wanted.fiu) if wanted else ("", "")

    async def _came_back(self, request: web.Request) -> web.Response:
        """A person's browser, from DigiLocker: shows the code that only they may know."""
        given = {name: request.query.get(name, "")[:2000] for name in ("state", "code", "error")}
        try:
            code = await self.lockers.callback(**given)
        except IndaiError as error:
            return _page(error.reason.status.http, f"{error.message} {error.hint}".strip())
        return _page(200, "Almost done. Tell your agent this code, and nobody else:", code)


def not_configured(name: str, section: str) -> Refused:
    """A service that this node's operator has not set up."""
    return Refused(
        Reason.UNSUPPORTED,
        f"{name} is not set up on this node.",
        hint=f"the operator writes the section {section} into dpi.yaml: docs/services/dpi.md",
    )


def _page(status: int, words: str, code: str = "") -> web.Response:
    shown = f"<p style='font:2em monospace'>{html.escape(code)}</p>" if code else ""
    return web.Response(
        status=status,
        text=f"<!doctype html><meta charset=utf-8><title>ind.ai</title><p>{html.escape(words)}</p>{shown}",
        content_type="text/html",
        headers={
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
        },
    )
