"""`indai agent import|example`: a concierge that was written as seven files."""

from __future__ import annotations

from pathlib import Path

import click
from indai.cli.errors import wrong
from indai.cli.framework import command, run
from indai.cli.home import Home, data_option
from indai.cli.output import Page, emit
from indai.cli.session import tier_session
from indai.runtime.sevenfiles.example import example as shipped
from indai.runtime.sevenfiles.mapping import tiers_of
from indai.runtime.sevenfiles.reading import MAX_FILE, SevenFiles, seven_files
from indai.v1 import tiers_pb2 as pb


@command(
    "import", "indai agent import concierge/ --tenant acme --dry-run", "indai agent import concierge/ --yaml"
)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--tenant", metavar="SLUG", default="", help="Whose.")
@click.option("--slug", metavar="NAME", default="", help="What it is called; else as the directory.")
@click.option("--note", metavar="TEXT", default="", help="Why; kept with the version.")
@click.option("--dry-run", is_flag=True, help="Check only.")
@click.option("--yaml", "as_yaml", is_flag=True, help="Print what `apply` would take.")
@click.option("--flat", is_flag=True, help="Print the one prompt that the files were.")
@data_option
def import_(
    home: Home, directory: Path, tenant: str, slug: str, note: str, dry_run: bool, as_yaml: bool, flat: bool
) -> None:
    """Make a persona, a team, an agent and a binding of seven files.

    DIRECTORY has agents.md, identity.md, soul.md, tools.md, memory.md,
    user.md and heartbeat.md, and nothing else. What isn't understood is an
    error and never left out.
    """
    files = read(directory)
    if flat:
        emit({"flat": files.flat()}, lambda page: page.raw(files.flat()))
        return
    text = tiers_of(files, slug or directory.resolve().name)
    if as_yaml:
        emit({"yaml": text}, lambda page: page.raw(text.rstrip()))
        return
    request = pb.ApplyTiersRequest(tenant=tenant, yaml=text, note=note, dry_run=dry_run)
    answer = run(_apply(home, request))
    changed = [{"kind": each.kind, "slug": each.slug, "version": each.version} for each in answer.changed]
    emit(
        {"changed": changed, "unchanged": answer.unchanged},
        lambda page: _show(page, answer, dry_run=dry_run),
    )


@command("example", "indai agent example concierge/")
@click.argument("directory", type=click.Path(path_type=Path))
def example(directory: Path) -> None:
    """Write a concierge's seven files into DIRECTORY, which is made."""
    if directory.exists():
        raise wrong(f"{directory} is there already.", "name a new directory")
    directory.mkdir(parents=True)
    for name, text in shipped().items():
        (directory / name).write_text(text, "utf-8")
    names = sorted(shipped())
    emit({"directory": str(directory), "files": names}, lambda page: page.line(", ".join(names), "green"))


COMMANDS = (import_, example)


def read(directory: Path) -> SevenFiles:
    """The files of a directory. Raises InvalidInput."""
    if not directory.is_dir():
        raise wrong(f"{directory} is no directory.", "see one: indai agent example concierge/")
    given = {}
    for path in sorted(directory.iterdir()):
        if not path.is_file():
            raise wrong(f"{path.name} is no file.", "the directory has the seven files and nothing else")
        if path.stat().st_size > 4 * MAX_FILE:
            raise wrong(f"{path.name} is too long.")
        try:
            given[path.name] = path.read_text("utf-8")
        except UnicodeDecodeError:
            raise wrong(f"{path.name} is no UTF-8.") from None
    return seven_files(given)


async def _apply(home: Home, request: pb.ApplyTiersRequest) -> pb.ApplyTiersResponse:
    async with tier_session(home) as stub:
        return await stub.ApplyTiers(request)


def _show(page: Page, answer: pb.ApplyTiersResponse, *, dry_run: bool) -> None:
    would = "would be" if dry_run else "is"
    for each in answer.changed:
        page.line(f"{each.kind} {each.slug} {would} at version {each.version}", "green")
    if answer.unchanged:
        page.line(f"{answer.unchanged} as before", "dim")
