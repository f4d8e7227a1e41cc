"""`indai memory forget`, `export`, `import`, `document`, `scopes`, `jobs`: the owner's rights, and upkeep."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from indai.cli.errors import wrong
from indai.cli.framework import Group, command, run
from indai.cli.home import Home, as_option
from indai.cli.memory import access_to, memory_session, scope_name, scope_of, scope_option, show_hits
from indai.cli.output import Page, emit
from indai.cli.words import stamp
from indai.v1 import memory_pb2 as pb

_CHUNK = 512 * 1024
_PAGE = 1_000
_HERE = "indai.cli.memory_more:"


@command(
    "forget",
    "indai memory forget --key preference.food",
    "indai memory forget --person ind.ai/bob",
    "indai memory forget --scope relationship:ind.ai/bob --dry-run",
)
@click.option("--key", default="", help="Facts with this key or below it, and what said them.")
@click.option("--person", default="", help="What is about this person, or said by them, anywhere.")
@click.option("--session", default="", help="This conversation.")
@click.option(
    "--since", metavar="TIME", default="", help="What was said from then on (2026-11-22T10:00+05:30)."
)
@click.option("--until", metavar="TIME", default="", help="What was said before then.")
@click.option("--id", "identifier", metavar="ID", default="", help="This memory: a hit's or a fact's id.")
@click.option("--dry-run", is_flag=True, help="Only count.")
@scope_option
@as_option
def forget(
    home: Home,
    acting: str,
    key: str,
    person: str,
    session: str,
    since: str,
    until: str,
    identifier: str,
    dry_run: bool,
    scope: str,
) -> None:
    """Remove what matches, with everything derived from it, and look again.

    Everything that is given must match; --scope alone empties that scope.
    """
    where = scope_of(scope)
    request = pb.ForgetRequest(
        access=access_to(where),
        scope=where,
        key=key,
        person=person,
        session=session,
        id=identifier,
        dry_run=dry_run,
        start_time=_time(since),
        end_time=_time(until),
    )
    answer = run(_forget(home, acting, request))
    found = {"removed": dict(answer.removed), "remaining": answer.remaining, "dry_run": dry_run}
    emit(found, lambda page: _show_forgotten(page, answer, dry_run))


async def _forget(home: Home, acting: str, request: pb.ForgetRequest) -> pb.ForgetResponse:
    async with memory_session(home, acting) as stub:
        return await stub.Forget(request)


def _time(text: str) -> Any:
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise wrong(f"{text!r} is no time.", "write it like 2026-11-22T10:00+05:30") from None
    return stamp(round(at.timestamp() * 1000))


def _show_forgotten(page: Page, answer: pb.ForgetResponse, dry_run: bool) -> None:
    if not answer.removed:
        page.line("Nothing matches.")
        return
    page.line("This would go:" if dry_run else "Gone:", "" if dry_run else "green")
    page.fields([(name, str(count)) for name, count in sorted(answer.removed.items())], indent=2)
    if not dry_run:
        page.line(f"A second look found {answer.remaining or 'nothing'}.")


@command("export", "indai memory export -o memory.jsonl", "indai memory export --scope public")
@click.option("-o", "--output", metavar="FILE", default="memory.jsonl", show_default=True, help="Where to.")
@scope_option
@as_option
def export(home: Home, acting: str, output: str, scope: str) -> None:
    """Write what is remembered, in an open format: JSON lines."""
    where = scope_of(scope)
    request = pb.ExportRequest(access=access_to(where), scopes=[where] if where else [])
    path = Path(output)
    lines = run(_export(home, acting, request, path))
    found = {"file": str(path), "lines": lines}
    emit(found, lambda page: page.line(f"{path}: {lines} lines.", "green"))


async def _export(home: Home, acting: str, request: pb.ExportRequest, path: Path) -> int:
    draft = path.with_name(f".{path.name}.part")
    lines = 0
    try:
        with draft.open("wb") as file:
            async with memory_session(home, acting) as stub:
                async for part in stub.Export(request):
                    file.write(part.lines)
                    lines += part.lines.count(b"\n")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return lines


@command("import", "indai memory import memory.jsonl")
@click.argument("file", type=click.Path(path_type=Path))
@scope_option
@as_option
def take_in(home: Home, acting: str, file: Path, scope: str) -> None:
    """Take an export in; what is known already stays as it is.

    --scope only chooses the door: team:NAME for an administrator's export.
    """
    added, known = run(_import(home, acting, file, access_to(scope_of(scope))))
    words = ", ".join(f"{count} {name}" for name, count in sorted(added.items())) or "nothing new"
    emit({"added": dict(added), "known": known}, lambda page: page.line(f"Added: {words}. Known: {known}."))


async def _import(home: Home, acting: str, file: Path, access: pb.Access) -> tuple[Counter[str], int]:
    added: Counter[str] = Counter()
    known = 0
    lines = (await asyncio.to_thread(_read, file)).splitlines(keepends=True)
    async with memory_session(home, acting) as stub:
        while lines:
            part: list[bytes] = []
            size = 0
            while lines and (not part or size + len(lines[0]) <= _CHUNK):
                size += len(lines[0])
                part.append(lines.pop(0))
            answer = await stub.Import(pb.ImportRequest(access=access, lines=b"".join(part)))
            added.update(dict(answer.added))
            known += answer.known
    return added, known


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise wrong(f"{file} cannot be read: {error.strerror}.", "name a file that is there") from None


@command("scopes", "indai memory scopes", "indai memory scopes --admin")
@click.option("--admin", is_flag=True, help="Of teams and personas.")
@as_option
def scopes(home: Home, acting: str, admin: bool) -> None:
    """List the scopes of your memory, with their sizes."""
    door = pb.DOOR_ADMIN if admin else pb.DOOR_PRIVATE
    found = run(_scopes(home, acting, pb.ListScopesRequest(access=pb.Access(door=door), page_size=_PAGE)))
    rows = [(scope_name(one.scope), str(one.chunks)) for one in found]
    value = [{"scope": scope_name(one.scope), "chunks": one.chunks, "large": one.large} for one in found]
    emit({"scopes": value}, lambda page: page.table(("scope", "memories"), rows))


async def _scopes(home: Home, acting: str, request: pb.ListScopesRequest) -> list[pb.ScopeState]:
    async with memory_session(home, acting) as stub:
        found: list[pb.ScopeState] = []
        while True:
            answer = await stub.ListScopes(request)
            found += answer.scopes
            if not answer.next_page_token:
                return found
            request.page_token = answer.next_page_token


@command("jobs", "indai memory jobs", "indai memory jobs --failed --retry")
@click.option("--failed", is_flag=True, help="Only those that failed for good.")
@click.option("--retry", is_flag=True, help="Put the failed ones back first.")
@as_option
def jobs(home: Home, acting: str, failed: bool, retry: bool) -> None:
    """List background work on your memory: what waits, and what failed."""
    found, requeued = run(_jobs(home, acting, failed=failed, retry=retry))
    rows = [(str(job.id), job.task, job.state, job.reason) for job in found]
    value = [
        {"id": job.id, "task": job.task, "state": job.state, "attempts": job.attempts, "reason": job.reason}
        for job in found
    ]
    emit(
        {"jobs": value, "requeued": requeued},
        lambda page: page.table(("id", "task", "state", "reason"), rows, {"failed": "red"}),
    )


async def _jobs(home: Home, acting: str, *, failed: bool, retry: bool) -> tuple[list[pb.Job], int]:
    async with memory_session(home, acting) as stub:
        access = access_to(None)
        requeued = (await stub.RetryJobs(pb.RetryJobsRequest(access=access))).requeued if retry else 0
        answer = await stub.ListJobs(pb.ListJobsRequest(access=access, failed_only=failed, page_size=_PAGE))
        return list(answer.jobs), requeued


@click.command(
    "document",
    cls=Group,
    sections={
        "Commands": {
            "put": _HERE + "document_put",
            "list": _HERE + "document_list",
            "search": _HERE + "document_search",
            "delete": _HERE + "document_delete",
        }
    },
)
def document() -> None:
    """Knowledge of a team or a persona: documents, cut and searched."""


_team = click.option("--scope", metavar="KIND:ID", required=True, help="team:NAME or human:NAME.")


def _knowledge(text: str) -> tuple[pb.Access, pb.Scope]:
    where = scope_of(text)
    if where is None:
        raise wrong("A document belongs to a team or a persona.", "name it: --scope team:sales")
    return pb.Access(door=pb.DOOR_ADMIN), where


@command("put", "indai memory document put faq.md --scope team:sales")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", default="", help="Its name (the file's).")
@click.option("--title", default="", help="Its title (the name).")
@_team
@as_option
def document_put(home: Home, acting: str, file: Path, name: str, title: str, scope: str) -> None:
    """Store FILE, a text, as a document; the same text changes nothing."""
    access, where = _knowledge(scope)
    called = name or file.stem
    try:
        text = _read(file).decode()
    except UnicodeDecodeError:
        raise wrong(f"{file} is no text in UTF-8.", "give a text or Markdown file") from None
    put = pb.Document(name=called, title=title or called, text=text, scope=where)
    answer = run(_put(home, acting, pb.PutDocumentRequest(access=access, document=put)))
    parts = answer.document.chunks
    words = f"{called}: {parts} parts" + ("." if answer.changed else ", as before.")
    value = {"name": called, "chunks": parts, "version": answer.document.version, "changed": answer.changed}
    emit(value, lambda page: page.line(words, "green"))


async def _put(home: Home, acting: str, request: pb.PutDocumentRequest) -> pb.PutDocumentResponse:
    async with memory_session(home, acting) as stub:
        return await stub.PutDocument(request)


@command("list", "indai memory document list --scope team:sales")
@_team
@as_option
def document_list(home: Home, acting: str, scope: str) -> None:
    """List documents."""
    access, where = _knowledge(scope)
    found = run(_documents(home, acting, pb.ListDocumentsRequest(access=access, scopes=[where])))
    rows = [(one.name, str(one.version), f"{one.embedded}/{one.chunks}", one.title) for one in found]
    value = [
        {"name": one.name, "version": one.version, "chunks": one.chunks, "embedded": one.embedded}
        for one in found
    ]
    emit({"documents": value}, lambda page: page.table(("name", "version", "embedded", "title"), rows))


async def _documents(home: Home, acting: str, request: pb.ListDocumentsRequest) -> list[pb.Document]:
    async with memory_session(home, acting) as stub:
        return list((await stub.ListDocuments(request)).documents)


@command("search", 'indai memory document search "returns" --scope team:sales')
@click.argument("question")
@_team
@as_option
def document_search(home: Home, acting: str, question: str, scope: str) -> None:
    """Search documents."""
    access, where = _knowledge(scope)
    request = pb.SearchDocumentsRequest(access=access, scopes=[where], query=question)
    answer = run(_search(home, acting, request))
    value = {
        "hits": [{"text": hit.text, "score": hit.score, "source_id": hit.source_id} for hit in answer.hits],
        "notes": list(answer.notes),
    }
    emit(value, lambda page: show_hits(page, answer.hits, list(answer.notes)))


async def _search(home: Home, acting: str, request: pb.SearchDocumentsRequest) -> pb.SearchDocumentsResponse:
    async with memory_session(home, acting) as stub:
        return await stub.SearchDocuments(request)


@command("delete", "indai memory document delete faq --scope team:sales")
@click.argument("name")
@_team
@as_option
def document_delete(home: Home, acting: str, name: str, scope: str) -> None:
    """Remove a document with its parts and their vectors."""
    access, where = _knowledge(scope)
    request = pb.DeleteDocumentRequest(access=access, scope=where, name=name)
    gone = run(_delete(home, acting, request)).chunks
    emit({"name": name, "chunks": gone}, lambda page: page.line(f"{name} is gone, with {gone} parts."))


async def _delete(home: Home, acting: str, request: pb.DeleteDocumentRequest) -> pb.DeleteDocumentResponse:
    async with memory_session(home, acting) as stub:
        return await stub.DeleteDocument(request)
