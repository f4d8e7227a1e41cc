"""The roles of this program: what each needs, the schemas of its tables, and which settings make no sense.

role      needs                      serves
registry  database                   RegistryService
policy    database                   PolicyService
ledger    database                   LedgerService
llm       database                   LlmService
memory    database                   MemoryService
node      registry, policy, ledger,  PeerService (other nodes), OwnerService, OperatorService and, with an
          database (the ledger's)    llm or a memory role, LlmService and MemoryService for owners; for
                                     their other tools, the HTTP form of LlmService
witness   nothing                    add-checkpoint, over HTTP
edge      database (the node's)       A2A, over gRPC and HTTP; the desks, where people see their agents
"""

from __future__ import annotations

from indai.a2a.store import SCHEMA as A2A
from indai.client.addresses import parse_address
from indai.edge.accounts import SCHEMA as EDGE
from indai.ledger.entries import SCHEMA as LEDGER
from indai.node.settings import Settings
from indai.node.store import SCHEMA as NODE
from indai.protocol.errors import InvalidInput, Reason
from indai.protocol.handles import Handle
from indai.registry.store import SCHEMA as REGISTRY
from indai.runtime.tierstore import SCHEMA as RUNTIME
from indai.storage.migrations import Schema
from indai.tlog.append import SCHEMA as TLOG
from indai.tools.store import SCHEMA as TOOLS
from indai.web.accounts import SCHEMA as WEB

DPI = Schema("dpi", "indai.dpi")
LLM = Schema("llm", "indai.llm")
MEMORY = Schema("memory", "indai.memory")
POLICY = Schema("policy", "indai.policy")
SCHEMAS: dict[str, tuple[Schema, ...]] = {
    "registry": (TLOG, REGISTRY),
    "policy": (POLICY,),
    "ledger": (TLOG, LEDGER),
    "llm": (LLM,),
    "memory": (MEMORY,),
    "node": (TLOG, LEDGER, NODE, RUNTIME, TOOLS, DPI, WEB),
    "witness": (),
    "edge": (A2A, WEB, EDGE),
}
NEEDS = {
    "registry": (),
    "policy": (),
    "ledger": (),
    "llm": (),
    "memory": (),
    "node": ("registry", "policy", "ledger"),
    "witness": (),
    "edge": (),
}
ORDER = (TLOG, REGISTRY, POLICY, LEDGER, LLM, MEMORY, NODE, RUNTIME, TOOLS, DPI, WEB, A2A, EDGE)
"""Schemas as they are migrated: the log comes first, since what builds on it calls its functions."""


def check(settings: Settings) -> None:
    """Raises InvalidInput for a role without what it needs, and for addresses that nobody could reach."""
    Handle.parse(settings.node_handle)
    for role in settings.roles:
        for needed in NEEDS[role]:
            if needed not in settings.roles and needed not in settings.neighbours:
                raise InvalidInput(
                    Reason.INVALID_ARGUMENT,
                    f"The role {role} needs the role {needed}.",
                    hint=f"add --role {needed}, or say where it is: --{needed} HOST:PORT",
                )
    if "registry" not in settings.roles and "node" in settings.roles and settings.network is None:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "A node of somebody else's registry needs that network's policy file.",
            hint="copy network.policy from the registry's data directory and give it with --network",
        )
    if "edge" in settings.roles and "node" not in settings.roles and not settings.conformance:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "The edge role serves the agents of a node in the same process.",
            hint="add --role node, or --conformance for the conformance agent alone",
        )
    if "witness" in settings.roles and settings.network is None:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "A witness needs a policy file that names the logs to watch.",
            hint="copy network.policy from the registry's data directory and give it with --network",
        )
    bind = settings.bind("peer")
    if "node" in settings.roles and parse_address(bind).host in ("0.0.0.0", "::") and not settings.advertise:  # noqa: S104
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"{bind} is where this node listens, and no address at which others can reach it.",
            hint="say under which address the others know this machine: --advertise HOST:PORT",
        )
