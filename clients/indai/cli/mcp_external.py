"""`indai mcp tools` and `call`: tools of other MCP servers, by the owner's allow-list."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
from indai.cli.errors import CheckFailed, wrong
from indai.cli.framework import command, run
from indai.cli.home import Home, data_option
from indai.cli.output import Page, emit, wants_json
from indai.mcp.external import FILE, ExternalServer, ExternalTool, Output, call_tool, list_tools, load


def _servers(home: Home, wanted: str = "") -> dict[str, ExternalServer]:
    path = Path(home.path, FILE)
    found = load(path)
    if wanted and wanted not in found:
        raise wrong(f"{path} allows no server {wanted!r}.", "see docs/mcp.md for how to allow one")
    return {wanted: found[wanted]} if wanted else found


@command("tools", "indai mcp tools", "indai mcp tools --server weather")
@click.option("--server", metavar="NAME", default="", help="Only this server.")
@data_option
def tools(home: Home, server: str) -> None:
    """List the tools of other MCP servers that your allow-list names.

    The list is mcp-servers.yaml in the data directory.
    """
    servers = _servers(home, server)

    async def work() -> list[ExternalTool]:
        return [tool for name, one in servers.items() for tool in await list_tools(name, one)]

    found = run(work())
    emit({"tools": [tool.model_dump() for tool in found]}, lambda page: _show(page, found, home))


def _show(page: Page, found: list[ExternalTool], home: Home) -> None:
    if not found:
        page.line(f"No tool is allowed: write {Path(home.path, FILE)} (docs/mcp.md).")
        return
    for tool in found:
        page.line(f"{tool.server} {tool.name}  {'reads' if tool.read_only else 'asks you'}", "bold")
        page.line(tool.description.text, indent=2)
    page.next_step(f"indai mcp call {found[0].server} {found[0].name} '{{}}'")


@command("call", """indai mcp call weather forecast '{"city": "Pune"}'""")
@click.argument("server")
@click.argument("tool")
@click.argument("arguments", metavar="JSON", default="{}")
@click.option("--yes", is_flag=True, help="Approve this call beforehand.")
@data_option
def call(home: Home, server: str, tool: str, arguments: str, yes: bool) -> None:
    """Call an allowed TOOL of SERVER. What it answers is shown as data.

    You are asked first unless the tool says that it only reads. Status 1: the
    tool itself reports an error.
    """
    try:
        given = json.loads(arguments)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise wrong("The arguments are no JSON object.", """write them like '{"city": "Pune"}'""")

    async def approve(found: ExternalTool, values: dict[str, Any]) -> bool:
        if yes:
            return True
        if wants_json() or not sys.stdin.isatty():
            raise wrong(f"{found.name} of {found.server} needs your approval.", "look at it, then use --yes")
        click.echo(f"{found.server} {found.name}\n{json.dumps(values, indent=2)}", err=True)
        return click.confirm("Call it with these arguments?", err=True)

    said = run(call_tool(server, _servers(home, server)[server], tool, given, approve))
    value = {"content": said.content.model_dump(), "error": said.is_error, "truncated": said.truncated}
    emit(value, lambda page: _show_output(page, said))
    if said.is_error:
        raise CheckFailed(1)


def _show_output(page: Page, said: Output) -> None:
    page.line(f"{said.content.by} says:", "red" if said.is_error else "dim")
    page.line(said.content.text, indent=2)
    if said.truncated:
        page.line("The rest was cut: it is longer than its server may say.", "yellow")
