"""The llm role: the gateway to language models, with the node's secrets and the built-in embedding model."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import asyncpg
from indai.llm.config import BUILT_IN, parse_config
from indai.llm.servicer import LlmService
from indai.llm.store import Store
from indai.llm.values import Embedder
from indai.node.secrets import Secrets
from indai.node.service import Service
from indai.v1 import llm_pb2_grpc


@contextlib.asynccontextmanager
async def llm_role(
    pool: asyncpg.Pool, clock: Callable[[], int], secrets: Secrets, config: str
) -> AsyncIterator[Service]:
    """Start the gateway with the text of its configuration (empty: the built-in one); stop it when what it
    has to store is stored."""

    async def secret(reference: str) -> str:
        return await asyncio.to_thread(secrets.get, reference)

    servicer = LlmService(parse_config(config or BUILT_IN), Store(pool), secret, clock, _embedder)
    try:
        yield Service(llm_pb2_grpc.add_LlmServiceServicer_to_server, servicer)
    finally:
        await servicer.close()


def _embedder() -> Embedder:
    """The model that the memory uses as well, so that its vectors and ours can be compared."""
    from indai.memory.embedding import LocalEmbedder  # noqa: PLC0415 - 0.4 s of imports, when first used

    return LocalEmbedder()
