"""An MCP host for tests: the published SDK's client, with a person before it who answers forms as told."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from indai.cli.home import Home
from mcp.client import Client
from mcp.client.session import ClientRequestContext
from mcp.client.stdio import StdioServerParameters
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, TextContent

from tests.service.node.world import Node, Owner

SHOWN_CODE = re.compile(r"type the code: (\w+)")


@dataclass
class Person:
    """Who sits before the host. `says`: `yes` (types the code), `no`, `away`, or a wrong code to type."""

    says: str = "yes"
    seen: list[str] = field(default_factory=list)

    async def answer(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        self.seen.append(params.message)
        if self.says in ("no", "away"):
            return ElicitResult(action="decline" if self.says == "no" else "cancel")
        shown = SHOWN_CODE.search(params.message)
        assert shown is not None
        return ElicitResult(action="accept", content={"code": shown[1] if self.says == "yes" else self.says})


def client(server: Any, person: Person | None = None, mode: str = "auto") -> Client:
    """A host on `server`; without a person it has no forms."""
    return Client(server, elicitation_callback=person.answer if person else None, mode=mode)


def home_of(node: Node, owner: Owner, path: Path) -> Home:
    """A data directory in which the commands find the node and the owner's token."""
    home = Home(path)
    home.write(home.token_file(owner.handle), owner.token)
    roles = {"owner": node.info.addresses["owner"]}
    run = {"pid": os.getpid(), "node": node.info.node, "roles": roles}
    home.write(home.run_file, json.dumps(run | {"neighbours": {"registry": node.world.registry}}))
    shutil.copy(node.world.network, home.network_file)
    return home


def process(home: Home, handle: str, *more: str) -> StdioServerParameters:
    """`indai mcp serve` as a host starts it."""
    arguments = ["-m", "indai.cli.main", "mcp", "serve", "--as", handle, "--data", str(home.path), *more]
    paths = os.pathsep.join(os.path.abspath(p) for p in ("proto", "services", "node", "registry", "clients"))
    return StdioServerParameters(
        command=sys.executable, args=arguments, env={**os.environ, "PYTHONPATH": paths}
    )


def text_of(result: CallToolResult) -> str:
    """What the model reads."""
    return "".join(one.text for one in result.content if isinstance(one, TextContent))


def value_of(result: CallToolResult) -> dict[str, Any]:
    """What was answered; fails with the tool's own words."""
    assert not result.is_error, text_of(result)
    value: dict[str, Any] = result.structured_content or {}
    return value
