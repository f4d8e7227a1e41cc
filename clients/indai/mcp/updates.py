"""Subscriptions to threads: `subscriptions/listen` of MCP 2026-07-28 for `indai://thread/{thread}`.

As long as a host listens for a thread, the node's own stream of that thread is watched, and each change
becomes an update of the resource; so nothing is polled, and nothing runs when nobody listens.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

import anyio
from indai.mcp.session import Session
from indai.protocol.errors import IndaiError
from indai.v1 import owner_pb2
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ResourceUpdated
from mcp.shared.exceptions import MCPError

MAX_WATCHED = 32  # threads one subscription watches
_THREAD = re.compile(r"indai://thread/([0-9a-f]{32})")


class Updates:
    """Middleware of the server that feeds `bus` while somebody listens."""

    def __init__(self, session: Session) -> None:
        self.bus = InMemorySubscriptionBus()
        self._session = session

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """See `mcp.server.context.ServerMiddleware`."""
        if ctx.method != "subscriptions/listen":
            return await call_next(ctx)
        result: HandlerResult = None
        refused: MCPError | None = None
        async with anyio.create_task_group() as watching:
            for thread in _threads(ctx.params)[:MAX_WATCHED]:
                watching.start_soon(self._watch, thread)
            try:
                result = await call_next(ctx)
            except MCPError as error:
                refused = error  # raised below: the group would wrap it
            watching.cancel_scope.cancel()
        if refused is not None:
            raise refused
        return result

    async def _watch(self, thread: str) -> None:
        updates: Any = self._session.owner.WatchThread(owner_pb2.WatchThreadRequest(thread_id=thread))
        try:
            async with aclosing(updates):
                async for _ in updates:
                    await self.bus.publish(ResourceUpdated(uri=f"indai://thread/{thread}"))
        except IndaiError:
            return  # an unknown thread, or a node that ends: as for any unknown resource, no update comes


def _threads(params: Mapping[str, Any] | None) -> list[str]:
    wanted = (params or {}).get("notifications")
    uris = wanted.get("resourceSubscriptions") if isinstance(wanted, Mapping) else None
    named = [_THREAD.fullmatch(uri) for uri in uris if isinstance(uri, str)] if isinstance(uris, list) else []
    return list(dict.fromkeys(match[1] for match in named if match))
