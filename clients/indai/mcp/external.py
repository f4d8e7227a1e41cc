"""Tools of other MCP servers, by the owner's allow-list; what they say is data.

The list is a YAML file, `mcp-servers.yaml`:

    version: 1
    servers:
      weather:
        command: [weather-mcp, --metric]   # a process, which sees only the environment named here …
        environment: [WEATHER_KEY]
        tools: [forecast]                  # no other tool of it is shown or called
      library:
        url: https://library.example/mcp   # … or streamable HTTP: https, or this machine
        token_environment: LIBRARY_TOKEN
        tools: [search]
        timeout_s: 20
        max_result_bytes: 65536

A tool that does not say that it only reads is called only with the owner's yes to its exact arguments.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

import httpx2
import yaml
from indai.mcp.values import Quoted, Value, quoted
from indai.protocol.errors import InvalidInput, NotFound, Reason, Refused, Unavailable
from indai.protocol.quoting import quoted as shown
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, Implementation, TextContent, Tool
from pydantic import Field, ValidationError, model_validator

FILE = "mcp-servers.yaml"
MAX_FILE = 64 * 1024
MAX_ARGUMENTS = 64 * 1024
_MAX_LISTED = 1_000
_WHO = Implementation(name="indai", version="1")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")

T = TypeVar("T")
Approve = Callable[["ExternalTool", dict[str, Any]], Awaitable[bool]]


class ExternalServer(Value):
    """One allowed server, and which of its tools."""

    command: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    url: str = ""
    token_environment: str = ""
    tools: tuple[str, ...] = Field(min_length=1, max_length=64)
    timeout_s: float = Field(default=20.0, gt=0, le=300)
    max_result_bytes: int = Field(default=65_536, ge=256, le=1_048_576)

    @model_validator(mode="after")
    def _reachable(self) -> ExternalServer:
        if bool(self.command) == bool(self.url):
            raise ValueError("give either command or url")
        where = urlsplit(self.url)
        if self.url and where.scheme != "https" and where.hostname not in _LOOPBACK:
            raise ValueError("beyond this machine the url must be https")
        return self


class AllowList(Value):
    """The file."""

    version: Literal[1]
    servers: dict[str, ExternalServer] = Field(max_length=32)


class ExternalTool(Value):
    """A tool as its server describes it; the description is the server's word."""

    server: str
    name: str
    description: Quoted
    input_schema: dict[str, Any]
    read_only: bool = Field(description="What the server says of it.")


@dataclass(frozen=True, slots=True)
class Output:
    """What a tool answered. `truncated`: there was more than its server may say."""

    content: Quoted
    is_error: bool
    truncated: bool


def load(path: Path) -> dict[str, ExternalServer]:
    """The allowed servers by name; none without a file. Raises InvalidInput."""
    if not path.exists():
        return {}
    if path.stat().st_size > MAX_FILE:
        raise InvalidInput(Reason.TOO_LARGE, f"{path} is larger than 64 KiB.", hint="allow fewer servers")
    try:
        return AllowList.model_validate(yaml.safe_load(path.read_text("utf-8"))).servers
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        problem = f"{where or 'it'}: {first['msg']}"
    except (yaml.YAMLError, UnicodeDecodeError):
        problem = "it is no YAML"
    raise InvalidInput(Reason.INVALID_ARGUMENT, f"{path} cannot be used: {problem}.", hint="see docs/mcp.md")


async def list_tools(name: str, server: ExternalServer) -> list[ExternalTool]:
    """The allowed tools that the server has. Raises Unavailable."""
    return await _within(name, server, lambda client: _allowed(name, server, client))


async def call_tool(
    name: str, server: ExternalServer, tool: str, arguments: dict[str, Any], approve: Approve
) -> Output:
    """Call an allowed tool; `approve` is asked unless it says that it only reads. Raises NotFound, Refused,
    InvalidInput, Unavailable; what the tool itself calls an error is an output.
    """
    if tool not in server.tools:
        raise NotFound(
            Reason.NOT_FOUND, f"{shown(tool)} of {name} is not allowed.", hint=f"add it to tools in {FILE}"
        )
    if len(json.dumps(arguments)) > MAX_ARGUMENTS:
        raise InvalidInput(Reason.TOO_LARGE, f"The arguments of {tool} are too large.", hint="send less")
    found, result = await _within(name, server, lambda client: _call(name, server, client, tool, arguments))
    if found is None:
        raise NotFound(
            Reason.NOT_FOUND, f"{name} has no tool {shown(tool)}.", hint=f"see indai mcp tools {name}"
        )
    if result is None:
        if not await approve(found, arguments):
            raise Refused(
                Reason.POLICY_DENIED, f"You did not approve {tool} of {name}.", hint="nothing was called"
            )
        _, result = await _within(
            name, server, lambda client: _call(name, server, client, tool, arguments, found)
        )
    if result is None:
        raise Refused(
            Reason.POLICY_DENIED, f"{name} has changed {tool} since you approved it.", hint="look at it again"
        )
    return _output(f"{name}/{tool}", server, result)


async def _call(
    name: str,
    server: ExternalServer,
    client: Client,
    tool: str,
    arguments: dict[str, Any],
    approved: ExternalTool | None = None,
) -> tuple[ExternalTool | None, CallToolResult | None]:
    """(the tool, its answer); no answer when it is still to be approved, just as it stands."""
    found = next((one for one in await _allowed(name, server, client) if one.name == tool), None)
    if found is None or not (found.read_only or found == approved):
        return found, None
    return found, await client.call_tool(tool, arguments)


async def _allowed(name: str, server: ExternalServer, client: Client) -> list[ExternalTool]:
    found, page = list[Tool](), await client.list_tools()
    while len(found) < _MAX_LISTED:
        found += page.tools
        if not page.next_cursor:
            break
        page = await client.list_tools(cursor=page.next_cursor)
    return [
        ExternalTool(
            server=name,
            name=tool.name,
            description=quoted(tool.description or "", name),
            input_schema=tool.input_schema,
            read_only=bool(tool.annotations and tool.annotations.read_only_hint),
        )
        for tool in found
        if tool.name in server.tools
    ]


def _output(by: str, server: ExternalServer, result: CallToolResult) -> Output:
    texts = [one.text if isinstance(one, TextContent) else f"({one.type})" for one in result.content]
    whole = "\n".join(texts).encode("utf-8", "replace")
    cut = whole[: server.max_result_bytes].decode("utf-8", "ignore")
    return Output(
        quoted(cut, by, server.max_result_bytes), bool(result.is_error), len(whole) > server.max_result_bytes
    )


async def _within(name: str, server: ExternalServer, work: Callable[[Client], Awaitable[T]]) -> T:
    """One connection, in the server's time. `work` raises nothing of ours: task groups would wrap it."""
    try:
        async with asyncio.timeout(server.timeout_s), AsyncExitStack() as stack:
            target = await _target(server, stack)
            client = Client(target, client_info=_WHO)
            return await work(await stack.enter_async_context(client))
    except TimeoutError:
        words = f"{name} did not answer in {server.timeout_s:g} seconds."
        raise Unavailable(Reason.DEADLINE_EXCEEDED, words, hint=f"raise timeout_s in {FILE}") from None
    except (OSError, ValueError, RuntimeError, httpx2.HTTPError, MCPError, ExceptionGroup):
        hint = "start it by hand to see why" if server.command else "check its url and token"
        raise Unavailable(Reason.UNREACHABLE, f"The MCP server {name} does not work.", hint=hint) from None


async def _target(server: ExternalServer, stack: AsyncExitStack) -> Any:
    if server.command:
        given = {key: os.environ[key] for key in server.environment if key in os.environ}
        command, *arguments = server.command
        return StdioServerParameters(command=command, args=arguments, env=given)
    token = os.environ.get(server.token_environment, "") if server.token_environment else ""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    calls = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=server.timeout_s))
    return streamable_http_client(server.url, http_client=calls)
