"""What a process of this program is told at start, and what it tells when it is ready."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from indai.client.addresses import parse_address
from indai.edge.forwarded import Network

ROLES = ("registry", "policy", "ledger", "llm", "memory", "node")
"""What runs when nothing else is asked for."""
CELL_TOKEN = "INDAI_CELL_TOKEN"  # noqa: S105 - the variable's name
ALL_ROLES = (*ROLES, "witness", "edge")


@dataclass(frozen=True, slots=True)
class Settings:
    """One process: its roles, where its data lies, where it listens, where its neighbours are.

    A role that is not in `roles` and is needed by one that is must have its address here. `listen` and
    `neighbours` map a role to `host:port`; the node's two ports are `peer` and `owner`, and the public logs
    and the witness are on `http`. `network` is the network's policy file; a witness knows the logs in it.
    `witnesses` is the registry's own: a tlog-policy with witnesses, their URLs and their quorum. `guard` is
    where a witness keeps its last heads a second time. Who may
    claim there: who has one of the `invites` (a file, one code a line), or a voucher of one of the `issuers`
    (public keys), or everybody; domains of their own only if `branded`. `llm_config` is the gateway's file.
    `proxies` stand before the http port, and are believed when they say who calls. `ledger_year` names the
    node's ledger; 0 for the newest that it has.
    """

    data: Path
    roles: frozenset[str] = frozenset(ROLES)
    authority: str = "ind.ai"
    handle: str = ""
    listen: dict[str, str] = field(default_factory=dict)
    neighbours: dict[str, str] = field(default_factory=dict)
    network: Path | None = None
    witnesses: Path | None = None
    guard: Path | None = None
    invites: Path | None = None
    issuers: tuple[bytes, ...] = ()
    branded: bool = False
    advertise: str = ""
    private_peers: bool = False
    tls: str = "auto"
    tls_certificate: tuple[Path, Path] | None = None
    reflection: bool = False
    conformance: bool = False
    public_url: str = ""
    proxies: tuple[Network, ...] = ()
    llm_config: Path | None = None
    ledger_year: int = 0

    @property
    def node_handle(self) -> str:
        """The handle of this node."""
        return self.handle or f"{self.authority}/home"

    @property
    def may_reach_private_peers(self) -> bool:
        """Whether records may name private addresses: when told so, or when this node is itself only on
        loopback."""
        return self.private_peers or parse_address(self.advertise or self.bind("peer")).is_loopback

    def bind(self, port: str) -> str:
        """Where `port` (a role, or `peer`, `owner`) listens."""
        return self.listen.get(port, "127.0.0.1:0")


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A process that is ready: `addresses` by role, and `peer` and `owner` of the node.

    `fenced` is set when another process has taken over the node's ledger: this one can do nothing any more.
    """

    node: str
    addresses: dict[str, str]
    fenced: asyncio.Event = field(default_factory=asyncio.Event)
