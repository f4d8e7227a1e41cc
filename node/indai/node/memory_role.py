"""The memory role: the service, its embedding model, and the worker of its background jobs."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

import asyncpg
from indai.memory.embedding import LocalEmbedder
from indai.memory.llm_extraction import LlmExtractor
from indai.memory.llm_summary import LlmSummariser
from indai.memory.queue import make_worker
from indai.memory.servicer import MemoryService
from indai.memory.work import Work
from indai.node.service import Service
from indai.v1 import memory_pb2_grpc

if TYPE_CHECKING:
    from indai.v1.llm_pb2_grpc import LlmServiceAsyncStub


@contextlib.asynccontextmanager
async def memory_role(
    pool: asyncpg.Pool, clock: Callable[[], int], gateway: LlmServiceAsyncStub | None
) -> AsyncIterator[Service]:
    """Start the memory role; stop it after the jobs that run. `gateway`: to models, which extract
    and summarise."""
    with contextlib.closing(LocalEmbedder()) as embedder:
        extractor = LlmExtractor(gateway, clock) if gateway is not None else None
        summariser = LlmSummariser(gateway, clock) if gateway is not None else None
        work = Work(pool, extractor, embedder, clock, summariser)
        await work.resume()
        worker = make_worker(pool, work.handlers)
        worker.start()
        try:
            servicer = MemoryService(pool, clock, embedder, extractor=extractor)
            yield Service(memory_pb2_grpc.add_MemoryServiceServicer_to_server, servicer)
        finally:
            await worker.close()
