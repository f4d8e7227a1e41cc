"""`indai audit`: judge exports offline."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click
from indai.cli.errors import CheckFailed, wrong
from indai.cli.framework import command
from indai.cli.output import Page, emit, wants_json
from indai.client.audit import Report, audit
from indai.client.audit.page import html_page
from indai.client.audit.parts import worthwhile
from indai.client.exports import REGISTRY, Header, read_export
from indai.client.network import NetworkPolicy
from indai.protocol.errors import IndaiError

_STYLES = {"good": "green", "bad": "red", "warn": "yellow", "": ""}
_EVERY_S = 0.5


@command(
    "audit",
    "indai audit node-a.jsonl node-b.jsonl --registry registry.jsonl",
    "indai audit alice.jsonl --registry registry.jsonl --network network.policy --json",
    "indai audit node-a.jsonl --registry registry.jsonl --html report.html",
)
@click.argument("exports", nargs=-1, required=True, metavar="EXPORT...")
@click.option(
    "--registry", metavar="FILE", default="", help="A mirror of the registry; needed to judge keys."
)
@click.option("--network", metavar="FILE", default="", help="Whose registry it must be (network.policy).")
@click.option("--html", metavar="FILE", default="", help="Write the report as a page to read and print, too.")
@click.option("--proofs", metavar="DIR", default="", help="Write proofs of fraud here, too, each a file.")
def audit_command(exports: tuple[str, ...], registry: str, network: str, html: str, proofs: str) -> None:
    """Verify exported ledgers offline.

    They are held against each other and against the registry's log, whose
    export may stand among the EXPORTs. Status 0: all is well; 1: a rule is
    broken; 2: a file is damaged; 3: something could not be judged.
    """
    ledgers, mirror = _sorted(exports, registry)
    trust = NetworkPolicy.load(Path(network)).policy if network else None
    progress = _Progress()
    report = audit(ledgers, mirror, trust, progress, worthwhile(ledgers))
    progress.end()
    if html:
        _write_page(Path(html), html_page(report, [path.name for path in ledgers]))
    if proofs:
        _write_proofs(Path(proofs), report)
    emit(report.to_json(), lambda page: show_report(page, report))
    if report.exit_status:
        raise CheckFailed(report.exit_status)


def show_report(page: Page, report: Report) -> None:
    """The verdict table and the summary."""
    for style, text in report.lines():
        page.line(text.lstrip(), _STYLES[style], indent=len(text) - len(text.lstrip()))


def _write_page(path: Path, page: str) -> None:
    try:
        path.write_text(page, "utf-8")
    except OSError as error:
        raise wrong(f"The report cannot be written to {path}: {error.strerror}.", "check --html") from None


def _write_proofs(folder: Path, report: Report) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for proof in report.proofs:
            (folder / proof.name).write_bytes(proof.content)
    except OSError as error:
        raise wrong(f"Proofs cannot be written to {folder}: {error.strerror}.", "check --proofs") from None


def _sorted(exports: tuple[str, ...], registry: str) -> tuple[list[Path], Path | None]:
    """(ledgers, the registry's mirror, which may stand among them)."""
    for name in (*exports, registry):
        if name and not Path(name).is_file():
            raise wrong(f"There is no export {name}.", "make one with: indai ledger export")
    paths = [Path(name) for name in exports]
    mirror = Path(registry) if registry else next((path for path in paths if _is_registry(path)), None)
    return [path for path in paths if path != mirror], mirror


def _is_registry(path: Path) -> bool:
    try:
        for _, record in read_export(path):
            return isinstance(record, Header) and record.of == REGISTRY
    except IndaiError:
        return False  # whatever is wrong with the file, the audit tells
    return False


class _Progress:
    """One line on a terminal that says how far a long audit is."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty() and not wants_json()
        self._last = time.monotonic()

    def __call__(self, file: str, done: int) -> None:
        if self._shown and time.monotonic() - self._last > _EVERY_S:
            self._last = time.monotonic()
            words = f"reading {file}: {done:,} lines" if file else f"judging: {done:,} commitments"
            click.echo(f"\r\x1b[K{words}", nl=False, err=True)

    def end(self) -> None:
        if self._shown:
            click.echo("\r\x1b[K", nl=False, err=True)
