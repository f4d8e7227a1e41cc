"""`indai registry export` and `mirror`: the registry's log in a file, for an audit, and replayed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click
from indai.cli.audit import show_report
from indai.cli.errors import CheckFailed
from indai.cli.exporting import Exported, save
from indai.cli.framework import Group, command, run
from indai.cli.home import Home, data_option
from indai.cli.ledger import export_json, show_export
from indai.cli.output import Page, emit
from indai.cli.session import now_ms, registry_session
from indai.client.audit import Report, audit
from indai.client.mirror import mirror
from indai.client.network import NetworkPolicy

COMMANDS = {
    "search": "indai.cli.discovery:search",
    "export": "indai.cli.registry:export",
    "mirror": "indai.cli.registry:mirror_command",
    "rotate-log-key": "indai.cli.log_key:rotate_log_key",
}


@click.command("registry", cls=Group, sections={"Commands": COMMANDS})
def registry() -> None:
    """Search the registry, mirror its public log, replace its key."""


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


@command("mirror", "indai registry mirror", "indai registry mirror registry.jsonl")
@click.argument("file", default="", metavar="[FILE]")
@click.option(
    "--registry", "address", metavar="HOST:PORT", default="", help="The registry, if the node names none."
)
@data_option
def mirror_command(home: Home, address: str, file: str) -> None:
    """Bring a mirror up to date, and replay the whole of it.

    A new one is made where there is none. The registry must prove that it only
    added to what the mirror has; then every operation, the map and every head
    are checked. Status 1: something is wrong.
    """
    path = Path(file) if file else home.exports / "registry.jsonl"
    policy, made = run(_carry_on(home, address, path))
    report = audit([], path, policy.policy)
    emit(
        export_json(made) | {"findings": report.to_json()["findings"]},
        lambda page: _show_mirror(page, made, report),
    )
    if report.exit_status:
        raise CheckFailed(report.exit_status)


def _show_mirror(page: Page, made: Exported, report: Report) -> None:
    show_export(page, made)
    if report.findings:
        show_report(page, report)
    else:
        page.line("Every operation, the map and every head were replayed and are right.", "green")


async def _carry_on(home: Home, address: str, path: Path) -> tuple[NetworkPolicy, Exported]:
    async with registry_session(home, address) as where:
        known = path if await asyncio.to_thread(path.exists) else None
        return where.network, await save(mirror(where.stub, where.network, now_ms(), known), path)


async def export_registry(home: Home, address: str, output: str) -> Exported:
    """Mirror the registry of `home` into a file."""
    path = Path(output) if output else home.exports / "registry.jsonl"
    async with registry_session(home, address) as where:
        return await save(mirror(where.stub, where.network, now_ms()), path)
