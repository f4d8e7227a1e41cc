"""Follows the registry: handles that change, and evidence that it tells two histories."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import structlog
from indai.client.fraud import Evidence
from indai.client.heads import SplitView
from indai.client.resolver import Resolver
from indai.node.ledger_key import LedgerKey
from indai.node.monitor import Monitor
from indai.protocol.errors import IndaiError, Reason

TAIL_S: Final = 10.0  # how often the registry's log is read for changed handles

log = structlog.get_logger(__name__)


def alarm(monitor: Monitor) -> Callable[[Evidence, Path], Awaitable[None]]:
    """Tells every owner of evidence against the registry."""

    async def found(evidence: Evidence, path: Path) -> None:
        proved = "has signed two histories" if evidence.is_proof else "does not prove that it is one history"
        await monitor.cry(f"The registry {evidence.log.name} {proved}: {path}.", Reason.SPLIT_VIEW.name)

    return found


async def tail(resolver: Resolver, monitor: Monitor, key: LedgerKey) -> None:
    """Read the registry's log for changed handles, for ever; owners hear of a second history, and the ledger
    takes the key that the node's record names."""
    while True:
        try:
            await resolver.tail()
            await key.look()
            await monitor.check()
        except SplitView as error:
            await _cry(monitor, error)
        except IndaiError as error:
            log.warning("registry not followed", reason=error.reason.name, error=error.message)
        await asyncio.sleep(TAIL_S)


async def _cry(monitor: Monitor, error: SplitView) -> None:
    try:
        await monitor.cry(str(error), error.reason.name)
    except IndaiError as failed:
        log.error("alarm not written", reason=failed.reason.name, error=failed.message)
