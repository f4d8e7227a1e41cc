"""Puts `pay` and `book` together: what is kept for them, the modules of the kinds, and what serves them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import aiohttp
import asyncpg
from aiohttp import web
from indai.dpi.paylinks import PaymentLinks
from indai.dpi.razorpay import Provider
from indai.node import auth
from indai.node.agents import Agents
from indai.node.commerce_service import CommerceServicer
from indai.node.engine import Engine
from indai.node.kinds.acquaintance import Acquaintances
from indai.node.kinds.base import KindModule
from indai.node.kinds.book import Bookings
from indai.node.kinds.pay import Payments as PayKind
from indai.node.mandates import Mandates
from indai.node.pay_accounts import PayAccounts
from indai.node.pay_pages import PayPages
from indai.node.payments import Payments
from indai.node.policies import Policies
from indai.node.secrets import Secrets
from indai.node.service import Service
from indai.node.stock import Shelf
from indai.node.store import Store
from indai.v1 import commerce_pb2_grpc

if TYPE_CHECKING:
    from contextlib import AsyncExitStack


@dataclass(frozen=True, slots=True)
class Commerce:
    """What owners have stored about paying and selling."""

    shelf: Shelf
    mandates: Mandates
    accounts: PayAccounts

    @classmethod
    async def load(cls, pool: asyncpg.Pool, agents: Agents) -> Self:
        """Read it for all agents."""
        found = cls(Shelf(pool), Mandates(pool), PayAccounts(pool))
        for kept in (found.shelf, found.mandates, found.accounts):
            await kept.load(agents)
        return found

    def kinds(self, policies: Policies, known: Acquaintances) -> list[KindModule]:
        """The modules of `pay` and `book`."""
        return [PayKind(policies, known, self.mandates, self.accounts), Bookings(policies, known, self.shelf)]

    async def serve(
        self,
        stack: AsyncExitStack,
        store: Store,
        agents: Agents,
        engine: Engine,
        secrets: Secrets,
        clock: Callable[[], int],
        links: PaymentLinks | None = None,
    ) -> tuple[Service, Sequence[web.RouteDef]]:
        """The owners' service, and the routes at which providers call; the pages' worker runs until the end
        of `stack`."""
        payments = Payments(store, engine, self.accounts, secrets, clock, links)
        session = await stack.enter_async_context(aiohttp.ClientSession())
        pages = PayPages(store, self.accounts, secrets, Provider(session), engine.changed)
        pages.start()
        stack.push_async_callback(pages.close)
        servicer = CommerceServicer(
            store, agents, engine, self.shelf, self.mandates, self.accounts, payments, clock
        )
        add = commerce_pb2_grpc.add_CommerceServiceServicer_to_server
        return Service(add, servicer, auth.owners(agents.owner_of_token)), payments.routes()
