"""India's public services in the node: the desk with this node's vault, keys and addresses."""

from __future__ import annotations

import asyncio
import contextlib

from indai.node.secrets import Secrets
from indai.protocol.errors import NotFound


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
