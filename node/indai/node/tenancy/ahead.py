"""Counts what tenants' desks show before somebody looks: when the node starts, and from time to time.

A page counts what is new since the last count, and reads what is not counted as it lies: it is right without
this, and the first one after a long time would be slow.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog
from indai.node.auth import Caller
from indai.node.tenancy.access import Access
from indai.node.tenancy.figures import Figures
from indai.node.tenancy.usage import Usage
from indai.protocol.errors import IndaiError

REST_S: Final = 600.0

log = structlog.get_logger(__name__)


class Ahead:
    """See the module."""

    def __init__(self, access: Access, figures: Figures, usage: Usage) -> None:
        self._access, self._figures, self._usage = access, figures, usage

    async def run(self) -> None:
        """For ever; who started it cancels it."""
        while True:
            try:
                await self.count()
            except IndaiError as error:
                log.warning("the desks' numbers were not counted ahead", reason=error.reason.name)
            except Exception:
                log.exception("the desks' numbers were not counted ahead")
            await asyncio.sleep(REST_S)

    async def count(self) -> None:
        """Each tenant once, one after another. What fails for one keeps no other waiting."""
        for tenant in await self._access.everywhere():
            try:
                post = await self._access.standing(tenant, Caller(operator=True))
                await self._figures.count(post)
                await self._usage.count(tenant)
            except IndaiError as error:
                log.warning("not counted ahead", tenant=tenant, reason=error.reason.name)
