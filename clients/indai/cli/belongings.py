"""`indai profile` and `indai document`: what an owner has to share and to answer with."""

from __future__ import annotations

import mimetypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from indai.cli.framework import Group, command, run
from indai.cli.home import Home, as_option
from indai.cli.output import Page, emit
from indai.cli.session import owner_session
from indai.cli.words import iso, milliseconds
from indai.v1 import sharing_pb2 as pb

TAG_HELP = "A tag that rules can name (tag/NAME); may be repeated."


@click.command(
    "profile",
    cls=Group,
    sections={
        "Profile": {
            "set": "indai.cli.belongings:set_field",
            "show": "indai.cli.belongings:show",
            "remove": "indai.cli.belongings:remove_field",
        }
    },
)
def profile() -> None:
    """Your profile: fields that your agent shares by your rules."""


@click.command(
    "document",
    cls=Group,
    sections={
        "Documents": {
            "add": "indai.cli.belongings:add",
            "list": "indai.cli.belongings:list_documents",
            "remove": "indai.cli.belongings:remove_document",
        }
    },
)
def document() -> None:
    """Your documents: files that your agent shares by your rules."""


@command("set", "indai profile set email bob@example.org", "indai profile set phone 98200 --tag press")
@click.argument("name")
@click.argument("value")
@click.option("--tag", "tags", metavar="NAME", multiple=True, help=TAG_HELP)
@as_option
def set_field(home: Home, acting: str, name: str, value: str, tags: Sequence[str]) -> None:
    """Set the profile field NAME to VALUE.

    Nobody sees it until a rule shares it: visibility, or allow: share.
    """
    field = run(_set(home, acting, pb.SetProfileFieldRequest(name=name, value=value, tags=tags)))
    emit(_json(field), lambda page: _set_field(page, field))


async def _set(home: Home, acting: str, request: pb.SetProfileFieldRequest) -> pb.Belonging:
    async with owner_session(home, acting) as owner:
        return (await owner.sharing.SetProfileField(request)).field


def _set_field(page: Page, field: pb.Belonging) -> None:
    page.line(f"profile/{field.name} is set.", "green")
    page.next_step("indai policy show")


@command("show", "indai profile show --as ind.ai/bob")
@as_option
def show(home: Home, acting: str) -> None:
    """Show your profile with all its values."""
    fields = run(_fields(home, acting))
    rows = [(field.name, field.value, " ".join(field.tags)) for field in fields]
    emit(
        {"fields": [_json(field) for field in fields]}, lambda page: _listed(page, rows, "indai profile set")
    )


async def _fields(home: Home, acting: str) -> list[pb.Belonging]:
    async with owner_session(home, acting) as owner:
        return list((await owner.sharing.ListProfileFields(pb.ListProfileFieldsRequest())).fields)


@command("remove", "indai profile remove phone")
@click.argument("name")
@as_option
def remove_field(home: Home, acting: str, name: str) -> None:
    """Remove the profile field NAME.

    What was shared of it stays under its consent: see indai consents list.
    """
    run(_remove(home, acting, name, is_field=True))
    emit({"removed": f"profile/{name}"}, lambda page: page.line(f"profile/{name} is gone.", "green"))


async def _remove(home: Home, acting: str, name: str, *, is_field: bool) -> None:
    async with owner_session(home, acting) as owner:
        if is_field:
            await owner.sharing.RemoveProfileField(pb.RemoveProfileFieldRequest(name=name))
        else:
            await owner.sharing.RemoveSharedDocument(pb.RemoveSharedDocumentRequest(name=name))


@command("add", "indai document add cv.pdf", "indai document add hours.txt --name hours --tag published")
@click.argument("path")
@click.option("--name", metavar="ID", default="", help="What rules call it; default: the file's name.")
@click.option("--title", metavar="TEXT", default="", help="For people; default: the file's name.")
@click.option("--type", "media_type", metavar="TYPE", default="", help="Media type; default: by the name.")
@click.option("--tag", "tags", metavar="NAME", multiple=True, help=TAG_HELP)
@as_option
def add(
    home: Home, acting: str, path: str, name: str, title: str, media_type: str, tags: Sequence[str]
) -> None:
    """Add the file PATH, of at most 1 MiB; one of the same id gives way.

    Questions are answered from texts (text/...) that the asker may have.
    """
    file = Path(path)
    request = pb.PutSharedDocumentRequest(
        name=name or file.name,
        title=title or file.name,
        media_type=media_type or mimetypes.guess_type(file.name)[0] or "application/octet-stream",
        content=file.read_bytes(),
        tags=tags,
    )
    added = run(_add(home, acting, request))
    emit(_json(added), lambda page: page.line(f"document/{added.name} is there.", "green"))


async def _add(home: Home, acting: str, request: pb.PutSharedDocumentRequest) -> pb.Belonging:
    async with owner_session(home, acting) as owner:
        return (await owner.sharing.PutSharedDocument(request)).document


@command("list", "indai document list")
@as_option
def list_documents(home: Home, acting: str) -> None:
    """List your documents."""
    documents = run(_documents(home, acting))
    rows = [(one.name, f"{one.size_bytes} B {one.media_type}", " ".join(one.tags)) for one in documents]
    emit(
        {"documents": [_json(one) for one in documents]},
        lambda page: _listed(page, rows, "indai document add"),
    )


async def _documents(home: Home, acting: str) -> list[pb.Belonging]:
    async with owner_session(home, acting) as owner:
        return list((await owner.sharing.ListSharedDocuments(pb.ListSharedDocumentsRequest())).documents)


@command("remove", "indai document remove cv.pdf")
@click.argument("name")
@as_option
def remove_document(home: Home, acting: str, name: str) -> None:
    """Remove the document NAME.

    What was shared of it stays under its consent: see indai consents list.
    """
    run(_remove(home, acting, name, is_field=False))
    emit({"removed": f"document/{name}"}, lambda page: page.line(f"document/{name} is gone.", "green"))


def _listed(page: Page, rows: list[tuple[str, str, str]], add_one: str) -> None:
    if rows:
        page.table(("name", "value", "tags"), rows)
        return
    page.line("There is nothing yet.")
    page.next_step(f"{add_one} --help")


def _json(thing: pb.Belonging) -> dict[str, Any]:
    return {
        "name": thing.name,
        "title": thing.title,
        "media_type": thing.media_type,
        "size_bytes": thing.size_bytes,
        "tags": list(thing.tags),
        "value": thing.value,
        "updated": iso(milliseconds(thing.update_time)),
    }
