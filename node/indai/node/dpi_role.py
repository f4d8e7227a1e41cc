"""India's public services in the node: the desk with this node's vault, keys, prices and addresses, its
tools for the toolbox, and its service for owners. Configured by `dpi.yaml` in the data directory; without it,
payment links alone work.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from indai.dpi.config import Config, parse_config
from indai.dpi.desk import Desk, Surroundings
from indai.dpi.paylinks import Merchant
from indai.dpi.tools import tools_of
from indai.node import auth
from indai.node.connection_service import ConnectionServicer
from indai.node.keystore import KeyStore
from indai.node.kinds.money import spoken
from indai.node.pay_accounts import PayAccounts
from indai.node.secrets import Secrets
from indai.node.service import Service
from indai.node.stock import Shelf
from indai.protocol.errors import InvalidInput, NotFound, Reason, Refused
from indai.tools.values import Caller, Tool
from indai.v1 import connections_pb2_grpc

if TYPE_CHECKING:
    import asyncpg
    from aiohttp import web
    from indai.node.agents import Agents
    from indai.node.commerce import Commerce
    from indai.node.node_role import NodePlan

FILE: Final = "dpi.yaml"


@dataclass(frozen=True, slots=True)
class DpiPlan:
    """What the public services are built from. `public_url` is asked when it is needed: ports are known by
    then. `private` lets services be on this machine."""

    pool: asyncpg.Pool
    data: Path
    keystore: KeyStore
    secrets: Secrets
    agents: Agents
    accounts: PayAccounts
    shelf: Shelf
    clock: Callable[[], int]
    public_url: Callable[[], str]
    private: bool

    @classmethod
    def of(
        cls, node: NodePlan, secrets: Secrets, agents: Agents, commerce: Commerce, clock: Callable[[], int]
    ) -> Self:
        """As a node has it."""
        return cls(
            node.pool,
            node.data,
            node.keystore,
            secrets,
            agents,
            commerce.accounts,
            commerce.shelf,
            clock,
            node.public_url,
            node.private_peers,
        )


@dataclass(frozen=True, slots=True)
class DpiRole:
    """Running public services."""

    desk: Desk
    tools: Sequence[Tool]
    routes: Sequence[web.RouteDef]
    plan: DpiPlan

    async def connected(self, caller: Caller, name: str) -> bool:
        """Whether an integration that a tool needs is there for its caller. One that was lost counts: its
        own refusal says to connect again."""
        if name == "digilocker":
            known = await self.desk.lockers.status(caller.owner, caller.person)
            return known is not None and known.state != "confirm"
        return (await self.available(caller.owner)).get("aa" if name == "account-aggregator" else name, False)

    async def available(self, owner: str) -> dict[str, bool]:
        """Which services are set up, by name; razorpay by the owner, the others by the operator."""
        config = self.desk.config
        return {
            "aa": config.account_aggregator is not None,
            "abdm": config.abdm is not None,
            "digilocker": config.digilocker is not None,
            "razorpay": bool(self.plan.accounts.get(owner).provider_url),
        }

    def service(self) -> Service:
        """For owners."""
        add = connections_pb2_grpc.add_ConnectionServiceServicer_to_server
        admitted = auth.owners(self.plan.agents.owner_of_token)
        return Service(add, ConnectionServicer(self.desk, self.available), admitted)


@contextlib.asynccontextmanager
async def dpi_role(plan: DpiPlan) -> AsyncIterator[DpiRole]:
    """Start them. Raises InvalidInput for a file that can't be used."""
    around = Surroundings(
        plan.pool,
        SealedVault(plan.secrets),
        plan.keystore.seal,
        plan.keystore.unseal,
        plan.keystore.derive,
        plan.clock,
        plan.public_url,
        lambda: list(plan.agents),
        _merchants(plan),
        plan.private,
    )
    async with Desk(_config(plan.data / FILE), around) as desk:
        yield DpiRole(desk, tools_of(desk, _prices(plan.shelf), spoken), desk.routes(), plan)


class SealedVault:
    """`indai.node.secrets` off the event loop, as the desk wants it."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    async def get(self, reference: str) -> str:
        """The value behind `vault:NAME`. Raises NotFound."""
        return await asyncio.to_thread(self._secrets.get, reference)

    async def set(self, name: str, value: str) -> str:
        """Seal it under a name; the reference."""
        await asyncio.to_thread(self._secrets.set, name, value)
        return f"vault:{name}"

    async def remove(self, reference: str) -> None:
        """Forget it, if it is there."""
        with contextlib.suppress(NotFound):
            await asyncio.to_thread(self._secrets.remove, reference.removeprefix("vault:"))


def _config(path: Path) -> Config:
    try:
        return parse_config(path.read_text("utf-8") if path.exists() else "")
    except (OSError, UnicodeDecodeError):
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"The file {path} cannot be read.") from None


def _merchants(plan: DpiPlan) -> Callable[[str], Awaitable[Merchant]]:
    async def merchant(owner: str) -> Merchant:
        account = plan.accounts.get(owner)
        if not account.provider_url:
            raise Refused(
                Reason.UNSUPPORTED, "No payment provider is set up.", hint="indai connect razorpay --help"
            )
        key = await asyncio.to_thread(plan.secrets.get, account.provider_key_ref)
        return Merchant(account.provider_url, key)

    return merchant


def _prices(shelf: Shelf) -> Callable[[str, str, int], tuple[int, str, str]]:
    """Prices of goods in the stock; what is booked for a time is paid as it was agreed."""

    def price(owner: str, item: str, quantity: int) -> tuple[int, str, str]:
        found = shelf.of(owner).get(item)
        if found is None:
            raise NotFound(Reason.NOT_FOUND, "That item is not in the stock.")
        if found.per_minutes or not found.price_minor:
            raise Refused(Reason.UNSUPPORTED, "That item has no price of its own.", hint="book it instead")
        if not 1 <= quantity <= found.units:
            raise Refused(Reason.POLICY_DENIED, f"There are {found.units} of that item.")
        return found.price(quantity, 0), found.currency, found.title

    return price
