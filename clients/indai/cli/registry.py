"""`indai registry export`: a mirror of the registry's log, for an audit."""

from __future__ import annotations

from pathlib import Path

import click
from indai.cli.exporting import Exported, save
from indai.cli.framework import Group, command, run
from indai.cli.home import Home, data_option
from indai.cli.ledger import export_json, show_export
from indai.cli.output import emit
from indai.cli.session import now_ms, registry_session
from indai.client.mirror import mirror


@click.command("registry", cls=Group, sections={"Commands": {"export": "indai.cli.registry:export"}})
def registry() -> None:
    """Mirror the registry's public log."""


@command("export", "indai registry export -o registry.jsonl")
@click.option("-o", "--output", metavar="FILE", default="", help="Where to; default: exports/ in the data.")
@click.option(
    "--registry", "address", metavar="HOST:PORT", default="", help="The registry, if the node names none."
)
@data_option
def export(home: Home, address: str, output: str) -> None:
    """Write every operation on every handle, in order, with a signed head."""
    made = run(export_registry(home, address, output))
    emit(export_json(made), lambda page: show_export(page, made))


async def export_registry(home: Home, address: str, output: str) -> Exported:
    """Mirror the registry of `home` into a file."""
    path = Path(output) if output else home.exports / "registry.jsonl"
    async with registry_session(home, address) as where:
        return await save(mirror(where.stub, where.network, now_ms()), path)
