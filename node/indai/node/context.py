"""What every batch needs of its node."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from indai.client.resolver import Resolver
from indai.ledger.vault import Vault
from indai.node.agents import Agents
from indai.node.budget import Budget
from indai.node.clock import DatabaseClock
from indai.node.echoes import Echoes
from indai.node.host import Host
from indai.node.kinds.acquaintance import Acquaintances
from indai.node.kinds.base import KindModule
from indai.node.query_desk import QueryDesk
from indai.node.store import Store
from indai.protocol import header


@dataclass(frozen=True, slots=True)
class Context:
    """What every batch needs of the node."""

    agents: Agents
    resolver: Resolver
    host: Host
    kinds: Mapping[str, KindModule]
    clock: DatabaseClock
    ledger: str
    store: Store
    vault: Vault
    acquaintances: Acquaintances
    queries: QueryDesk
    budget: Budget = field(default_factory=Budget)
    echoes: Echoes = field(default_factory=Echoes)

    def new_id(self) -> bytes:
        """A fresh UUIDv7."""
        return header.new_id(self.clock(), os.urandom(header.RANDOM_BYTES))

    async def ledger_size(self) -> int:
        """The ledger's size as the database has it."""
        return await self.store.ledger_size()
