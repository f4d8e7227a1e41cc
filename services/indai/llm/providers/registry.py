"""The clients of the configured providers, each made when it is first used.

A key is a reference; what it refers to is read when the client is made. After a refused key the client is
dropped, so that a corrected key is used without a restart.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from typing import Final, cast

from indai.llm.config import Config, ProviderConfig
from indai.llm.local.provider import LocalProvider, MakeEmbedder
from indai.llm.values import Fault, Provider, ProviderFault
from indai.protocol.errors import IndaiError

Secret = Callable[[str], Awaitable[str]]
"""Gives the secret behind a `vault:` reference, or raises IndaiError."""

Maker = Callable[[str, str, str], Provider]
"""Takes name, address and key."""

# Loaded only when one is configured, and then at the start: an SDK takes a second.
_CLIENTS: Final = {
    "anthropic": "indai.llm.providers.anthropic:AnthropicProvider",
    "gemini": "indai.llm.providers.gemini:GeminiProvider",
    "sarvam": "indai.llm.providers.openai:SarvamProvider",
    "openai": "indai.llm.providers.openai:OpenAiProvider",
}


class Providers:
    """Clients by configured name."""

    def __init__(self, config: Config, secret: Secret, embedder: MakeEmbedder | None = None) -> None:
        self._config = config
        self._secret = secret
        self._makers: dict[str, Maker] = {
            each.kind: _maker(each.kind) for each in config.providers.values() if each.kind in _CLIENTS
        }
        self._makers["local"] = lambda name, *_: LocalProvider(name, embedder)
        self._clients: dict[str, Provider] = {}
        self._making = asyncio.Lock()

    async def get(self, name: str) -> Provider:
        """The client of the provider `name`. Raises ProviderFault(AUTH) when its key can't be had."""
        if (found := self._clients.get(name)) is not None:
            return found
        async with self._making:
            if name not in self._clients:
                self._clients[name] = await self._make(name, self._config.providers[name])
            return self._clients[name]

    async def forget(self, name: str) -> None:
        """Make the client anew when it is used next."""
        if (client := self._clients.pop(name, None)) is not None:
            await client.close()

    async def close(self) -> None:
        """Close all clients."""
        for name in list(self._clients):
            await self.forget(name)

    async def _make(self, name: str, config: ProviderConfig) -> Provider:
        key = ""
        if config.key is not None:
            try:
                key = await self._secret(config.key)
            except IndaiError as error:
                raise ProviderFault(
                    Fault.AUTH, f"The key of {name} ({config.key}) can't be read: {error.message}"
                ) from None
        return self._makers[config.kind](name, config.address, key)


def _maker(kind: str) -> Maker:
    module, _, attribute = _CLIENTS[kind].partition(":")
    return cast("Maker", getattr(importlib.import_module(module), attribute))
