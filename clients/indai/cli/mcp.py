"""`indai mcp`: the node as tools of the owner's own assistant."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import sys
from collections.abc import AsyncIterator
from importlib.metadata import PackageNotFoundError, version

import click
from indai.cli.framework import Group, command, run
from indai.cli.home import Home, as_option
from indai.cli.mcp_rules import LocalRules
from indai.cli.output import emit, note
from indai.cli.session import now_ms, owner_channel, registry_session
from indai.client.addresses import parse_address
from indai.mcp.http import PATH, Listen, application, serve_http
from indai.mcp.knowing import scope_of
from indai.mcp.server import make_server
from indai.mcp.session import Session
from indai.v1.asking_pb2_grpc import AskingServiceStub
from indai.v1.calendar_pb2_grpc import CalendarServiceStub
from indai.v1.memory_pb2_grpc import MemoryServiceStub
from indai.v1.owner_pb2_grpc import OwnerServiceStub
from indai.v1.sharing_pb2_grpc import SharingServiceStub

_HERE = "indai.cli.mcp:"
_EXTERNAL = "indai.cli.mcp_external:"
SECTIONS = {
    "Your node, for your assistant": {"serve": _HERE + "serve", "config": _HERE + "config"},
    "Other servers, for you": {"tools": _EXTERNAL + "tools", "call": _EXTERNAL + "call"},
}
_start = click.option(
    "--may-start", is_flag=True, help="New requests need no yes of yours at the host (your rules decide)."
)
_memory = click.option(
    "--memory",
    "scopes",
    metavar="SCOPE",
    multiple=True,
    help="All of your memory it may read: private, public, relationship:HANDLE (repeat).",
)


@click.command("mcp", cls=Group, sections=SECTIONS)
def mcp() -> None:
    """Let your assistant drive your node over MCP; use other servers.

    What binds you is asked of you at the assistant's host, never of the model.
    """


@command(
    "serve",
    "indai mcp serve --as ind.ai/alice",
    "indai mcp serve --as ind.ai/alice --http 127.0.0.1:7409 --memory public",
)
@click.option("--http", "address", metavar="HOST:PORT", default="", help="Streamable HTTP instead of stdio.")
@click.option("--tls-cert", "certificate", metavar="FILE", default="", help="Certificate, beyond loopback.")
@click.option("--tls-key", "key", metavar="FILE", default="", help="Its private key.")
@click.option("--name", metavar="NAME", default="", help="What clients call this host, beyond loopback.")
@_start
@_memory
@as_option
def serve(
    home: Home,
    acting: str,
    address: str,
    certificate: str,
    key: str,
    name: str,
    may_start: bool,
    scopes: tuple[str, ...],
) -> None:
    """Serve MCP on stdin and stdout, or over HTTP with your token.

    A host starts this itself; `indai mcp config` prints what to tell it.
    """
    listen = Listen(address, certificate, key, name) if address else None
    run(_serve(home, acting, listen, may_start, scopes))


async def _serve(
    home: Home, acting: str, listen: Listen | None, may_start: bool, scopes: tuple[str, ...]
) -> None:
    async with mcp_session(home, acting, may_start=may_start, scopes=scopes) as session:
        if listen is None:
            await make_server(session, _version()).run_stdio_async()
            return
        token = home.owner_token(session.handle)
        app = application(session, listen, token, _version())
        where = parse_address(listen.address)
        family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
        with socket.create_server((where.host, where.port), family=family) as listener:
            port = listener.getsockname()[1]
            note(f"MCP for {session.handle} at {listen.scheme}://{listen.name or where.host}:{port}{PATH}")
            await serve_http(app, listen, listener)


def _version() -> str:
    try:
        return version("indai-node")
    except PackageNotFoundError:
        return "0.0.0"


@contextlib.asynccontextmanager
async def mcp_session(
    home: Home, acting: str, *, may_start: bool = False, scopes: tuple[str, ...] = ()
) -> AsyncIterator[Session]:
    """All that the tools of one owner work with."""
    for scope in scopes:
        scope_of(scope)
    handle = home.owner(acting)
    async with (
        await owner_channel(home.running(), home.owner_token(handle)) as channel,
        registry_session(home) as registry,
    ):
        yield Session(
            handle=handle,
            owner=OwnerServiceStub(channel),
            calendars=CalendarServiceStub(channel),
            memory=MemoryServiceStub(channel),
            asking=AskingServiceStub(channel),
            sharing=SharingServiceStub(channel),
            registry=registry.stub,
            resolver=registry.resolver,
            network=registry.network,
            rules=LocalRules(now_ms),
            clock=now_ms,
            may_start=may_start,
            scopes=scopes,
        )


@command("config", "indai mcp config --as ind.ai/alice", "indai mcp config --http 127.0.0.1:7409")
@click.option("--http", "address", metavar="HOST:PORT", default="", help="For the server on HTTP.")
@_start
@_memory
@as_option
def config(home: Home, acting: str, address: str, may_start: bool, scopes: tuple[str, ...]) -> None:
    """Print the entry that MCP hosts take in their list of servers.

    The one for HTTP names a variable instead of your token: put the token there.
    """
    handle = home.owner(acting)
    entry: dict[str, object]
    if address:
        headers = {"Authorization": "Bearer ${INDAI_TOKEN}"}
        entry = {"type": "http", "url": f"http://{parse_address(address)}{PATH}", "headers": headers}
    else:
        arguments = ["mcp", "serve", "--as", handle, "--data", str(home.path)]
        arguments += ["--may-start"] if may_start else []
        arguments += [word for scope in scopes for word in ("--memory", scope)]
        program = shutil.which("indai")
        entry = (
            {"command": program, "args": arguments}
            if program
            else {"command": sys.executable, "args": ["-m", "indai.cli.main", *arguments]}
        )
    value = {"mcpServers": {f"indai-{handle.replace('/', '-')}": entry}}
    emit(value, lambda page: page.raw(json.dumps(value, indent=2)))
