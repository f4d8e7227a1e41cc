"""The registry's claim desk as its operator has set it up: who may claim, how fast, and if domains may."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import asyncpg
from indai.node.settings import Settings
from indai.protocol.errors import InvalidInput, Reason
from indai.registry.claims import (
    ClaimDesk,
    ClaimPolicy,
    InvitedClaims,
    OpenClaims,
    VerifiedClaims,
    Vouchers,
)
from indai.registry.domains import DomainProver, Domains
from indai.registry.limits import Rate, TokenBuckets
from indai.registry.service import Registry

CALLER_RATE = Rate(burst=120, every_ms=1_000)


async def claim_desk(
    settings: Settings,
    registry: Registry,
    pool: asyncpg.Pool,
    clock: Callable[[], int],
    stack: AsyncExitStack,
) -> ClaimDesk:
    """The desk of `registry`; what it runs ends with `stack`. Raises InvalidInput for an unusable file."""
    domains = None
    if settings.branded:
        watching = Domains.open(pool, registry.origin, DomainProver(), clock)
        domains = await stack.enter_async_context(watching)
    return ClaimDesk(
        registry,
        await _policy(settings, registry, pool, clock),
        callers=TokenBuckets(CALLER_RATE, clock),
        domains=domains,
        exempt=[settings.node_handle],
    )


async def _policy(
    settings: Settings, registry: Registry, pool: asyncpg.Pool, clock: Callable[[], int]
) -> ClaimPolicy:
    if settings.issuers:
        return VerifiedClaims(Vouchers(settings.issuers, registry.origin, clock))
    if settings.invites is None:
        return OpenClaims()
    invites = InvitedClaims(pool, registry.origin)
    await invites.add(_codes(settings.invites))
    return invites


def _codes(path: Path) -> list[str]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"The invite codes in {path} cannot be read.") from error
    return [line.strip() for line in lines if line.strip()]
