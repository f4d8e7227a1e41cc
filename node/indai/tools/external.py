"""Tools of other MCP servers, by the operator's allow-list, among the agent's own.

`mcp-servers.yaml` beside the node's data names servers and which of their tools (see `indai.mcp.external`). A
tool is called `mcp-SERVER-TOOL`, or as `tools.yaml` names it under `aliases`. What a server says of itself
and what it answers is data; a tool that does not say that it only reads waits for the owner's yes to its
exact arguments.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog
from indai.client.tasks import end_tasks
from indai.mcp.external import ExternalServer, ExternalTool, call_tool, list_tools
from indai.protocol.errors import IndaiError, Reason, Unavailable
from indai.tools.normalise import one_line
from indai.tools.schemas import check_spec, too_large
from indai.tools.values import Caller, Effect, Progress, Spec, Tool, Touch

AGAIN_S: Final = 60.0
MAX_SCHEMA: Final = 16 * 1024
_RESULT: Final = {
    "type": "object",
    "properties": {
        "content": {"type": "string", "x-untrusted": True, "x-importance": 3, "x-label": "it says"},
        "truncated": {"type": "boolean", "x-importance": 1},
    },
    "required": ["content"],
}
# A pattern of theirs could keep our event loop busy for ever; the rest is only checked.
_LEFT_OUT: Final = ("pattern", "patternProperties", "format", "$id", "$schema", "$anchor", "$dynamicAnchor")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class McpTool:
    """One allowed tool, as its server described it when it was listed."""

    name: str
    server_name: str
    server: ExternalServer
    found: ExternalTool

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        said = one_line(self.found.description.text, 300)
        return Spec(
            self.name,
            f"{self.found.name} of the server {self.server_name}, which says of it: “{said}”",
            _closed(self.found.input_schema),
            _RESULT,
            Effect.READ if self.found.read_only else Effect.IRREVERSIBLE,
            frozenset({Touch.UNTRUSTED, Touch.OUTSIDE}),
            timeout_s=self.server.timeout_s + 1,
        )

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`. Nothing is called that has changed since it was listed."""
        await progress(f"asking {self.server_name}")

        async def unchanged(now: ExternalTool, _: dict[str, Any]) -> bool:
            return now == self.found

        output = await call_tool(self.server_name, self.server, self.found.name, dict(arguments), unchanged)
        if output.is_error:
            raise Unavailable(Reason.PROVIDER_FAILED, f"{self.server_name} could not do that.")
        return {"content": output.content.text, "truncated": output.truncated}


class ExternalTools:
    """Lists what allowed servers have, until each has answered once, and adds it to the toolbox."""

    def __init__(
        self,
        servers: Mapping[str, ExternalServer],
        aliases: Mapping[str, tuple[str, str]],
        add: Callable[[Tool], None],
    ) -> None:
        self._waiting = dict(servers)
        self._aliases = {place: name for name, place in aliases.items()}
        self._add = add
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; a server that is away is asked again."""
        if self._waiting:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop asking."""
        await end_tasks(self._task)

    async def _run(self) -> None:
        while self._waiting:
            await self.refresh()
            if self._waiting:
                await asyncio.sleep(AGAIN_S)

    async def refresh(self) -> None:
        """Ask each server that has not answered yet."""
        for name, server in list(self._waiting.items()):
            try:
                found = await list_tools(name, server)
            except IndaiError as error:
                log.warning("tools of a server not listed", server=name, reason=error.reason.name)
                continue
            del self._waiting[name]
            for each in found:
                self._take(name, server, each)

    def _take(self, name: str, server: ExternalServer, found: ExternalTool) -> None:
        called = self._aliases.get((name, found.name)) or slug(f"mcp-{name}-{found.name}")
        tool = McpTool(called, name, server, found)
        try:
            if too_large(found.input_schema, MAX_SCHEMA):
                raise Unavailable(Reason.TOO_LARGE, "Its schema is too large.")
            check_spec(tool.spec)
            self._add(tool)
        except IndaiError as error:
            log.warning("tool of a server not taken", server=name, reason=error.reason.name)


def slug(text: str) -> str:
    """A name as ours are: `mcp-web-search`."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60].strip("-")


def _closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Their schema of arguments, closed, without what is not only checked."""
    kept = _kept(schema)
    made = kept if isinstance(kept, dict) else {}
    return {**made, "type": "object", "additionalProperties": False}


def _kept(value: Any, *, names: bool = False) -> Any:
    """A schema without what is left out; `names`: the keys are names of properties, and all stay."""
    if isinstance(value, Mapping):
        return {
            key: _kept(each, names=not names and key in ("properties", "$defs"))
            for key, each in value.items()
            if names or not (key in _LEFT_OUT or str(key).startswith("x-"))
        }
    return [_kept(each) for each in value] if isinstance(value, list) else value
