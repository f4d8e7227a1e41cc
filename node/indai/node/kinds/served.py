"""The kinds of intent that this node serves, by name; the modules behind them are put together at its start.

What is not here is answered with a signed REJECT UNSUPPORTED.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from indai.node.kinds.base import KindModule
from indai.protocol.kinds.table import KINDS

SERVED = ("meet", "share", "ask", "request", "pay", "book")
INTENTS: tuple[str, ...] = tuple(sorted({KINDS[name].intent for name in SERVED}))
"""As handles' records and HELLOs name them."""


def by_kind(modules: Iterable[KindModule]) -> Mapping[str, KindModule]:
    """Modules by the name of their kind: those of SERVED, each and no other."""
    table = {module.kind.name: module for module in modules}
    if set(table) != set(SERVED):
        raise RuntimeError(f"modules for {sorted(table)} stand where {sorted(SERVED)} are served")
    return MappingProxyType(table)
