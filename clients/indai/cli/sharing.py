"""`indai share`, `ask-for`, `consents`, `disclosures`: what goes to whom, under which consent."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click
from indai.cli.exchange import consent_of, rest, show_thread
from indai.cli.framework import Group, command, run
from indai.cli.home import Home, as_option
from indai.cli.output import Page, emit, note
from indai.cli.session import Owner, owner_session
from indai.cli.words import iso, milliseconds, moment, thread_json
from indai.protocol.handles import Handle
from indai.protocol.kinds.share import Consent
from indai.v1 import owner_pb2
from indai.v1 import sharing_pb2 as pb

_STATUS = {
    pb.CONSENT_STATUS_ACTIVE: "active",
    pb.CONSENT_STATUS_REVOKED: "revoked",
    pb.CONSENT_STATUS_EXPIRED: "expired",
}


@command("share", 'indai share ind.ai/bob email --purpose "For the letter" --for 30d')
@click.argument("peer")
@click.argument("what")
@click.option("--document", is_flag=True, help="WHAT is a document's id; default: a profile field.")
@click.option("--purpose", metavar="TEXT", required=True, help="What they may use it for.")
@click.option("--code", metavar="CODE", default="101", show_default=True, help="Code of the purpose.")
@click.option("--for", "span", metavar="SPAN", default="30d", show_default=True, help="12h, 30d, 6m, 1y.")
@click.option("--keep", metavar="SPAN", default="", help="How long a copy is kept; default: as --for.")
@click.option("--often", metavar="N/SPAN", default="", help="Reads, as 2/day; default: once.")
@click.option("--view", is_flag=True, help="They may look at it, and keep no copy.")
@as_option
def share(
    home: Home,
    acting: str,
    peer: str,
    what: str,
    document: bool,
    purpose: str,
    code: str,
    span: str,
    keep: str,
    often: str,
    view: bool,
) -> None:
    """Offer PEER a profile field or a document, under a consent."""
    Handle.parse(peer)
    consent = consent_of(purpose, code, span, often, view=view, life=keep)
    request = pb.OfferShareRequest(request_id=str(uuid.uuid4()), peer=peer, consent=consent.to_pb())
    if document:
        request.document = what
    else:
        request.field = what
    thread, zone = run(_offer(home, acting, request))
    emit(
        thread_json(thread),
        lambda page: show_thread(page, thread, zone, f"{peer} accepted the consent and may read it."),
    )


async def _offer(home: Home, acting: str, request: pb.OfferShareRequest) -> tuple[owner_pb2.Thread, ZoneInfo]:
    async with owner_session(home, acting) as owner:
        thread = (await owner.sharing.OfferShare(request)).thread
        return await rest(owner, thread), await owner.zone()


@command("ask-for", 'indai ask-for ind.ai/bob email --purpose "To send the papers" --for 30d')
@click.argument("peer")
@click.argument("what")
@click.option("--document", is_flag=True, help="WHAT is a document's id; default: a profile field.")
@click.option("--purpose", metavar="TEXT", required=True, help="What you want it for.")
@click.option("--code", metavar="CODE", default="101", show_default=True, help="Code of the purpose.")
@click.option("--for", "span", metavar="SPAN", default="30d", show_default=True, help="12h, 30d, 6m, 1y.")
@click.option("--keep", metavar="SPAN", default="", help="How long a copy is kept; default: as --for.")
@click.option("--often", metavar="N/SPAN", default="", help="Reads, as 2/day; default: once.")
@click.option("--view", is_flag=True, help="Only look at it, and keep no copy.")
@click.option("--out", metavar="FILE", default="", help="Write what came to this file.")
@as_option
def ask_for(
    home: Home,
    acting: str,
    peer: str,
    what: str,
    document: bool,
    purpose: str,
    code: str,
    span: str,
    keep: str,
    often: str,
    view: bool,
    out: str,
) -> None:
    """Ask PEER for a profile field or a document, and read it once agreed.

    Their rules, or their owner, decide; the purpose and the time are signed
    by both sides, and reads outside them are refused.
    """
    Handle.parse(peer)
    consent = consent_of(purpose, code, span, often, view=view, life=keep)
    thread, zone, read = run(_ask_for(home, acting, peer, what, consent, document=document))
    emit(
        thread_json(thread) | _content(read, out),
        lambda page: _show_read(page, thread, zone, read, out),
    )


async def _ask_for(
    home: Home, acting: str, peer: str, what: str, consent: Consent, *, document: bool
) -> tuple[owner_pb2.Thread, ZoneInfo, pb.ReadSharedResponse | None]:
    async with owner_session(home, acting) as owner:
        request = pb.AskForShareRequest(request_id=str(uuid.uuid4()), peer=peer, consent=consent.to_pb())
        if document:
            request.document = what
        else:
            request.field = what
        note(f"{owner.handle} asks {peer} for {what}")
        thread = await rest(owner, (await owner.sharing.AskForShare(request)).thread)
        agreed = thread.state == owner_pb2.THREAD_STATE_COMMITTED
        read = await _read(owner, thread.thread_id) if agreed else None
        return thread, await owner.zone(), read


async def _read(owner: Owner, thread_id: str) -> pb.ReadSharedResponse:
    return await owner.sharing.ReadShared(pb.ReadSharedRequest(thread_id=thread_id))


def _content(read: pb.ReadSharedResponse | None, out: str) -> dict[str, Any]:
    """What came, for JSON; written to `out` where that is given."""
    if read is None:
        return {"content": None}
    if out:
        Path(out).write_bytes(read.content)
    text = read.content.decode("utf-8", "replace") if read.media_type.startswith("text/") else None
    return {
        "media_type": read.media_type,
        "size_bytes": len(read.content),
        "content": text,
        "file": out or None,
    }


def _show_read(
    page: Page, thread: owner_pb2.Thread, zone: ZoneInfo, read: pb.ReadSharedResponse | None, out: str
) -> None:
    show_thread(page, thread, zone, f"{thread.peer} shares it.")
    if read is None:
        return
    if out:
        page.line(f"{len(read.content)} bytes of {read.media_type} are in {out}.")
    elif read.media_type.startswith("text/"):
        page.line(read.content.decode("utf-8", "replace"))
    else:
        page.line(f"{len(read.content)} bytes of {read.media_type}.")
        page.next_step(f"indai consents read {thread.thread_id[:12]} --out FILE")


@click.command(
    "consents",
    cls=Group,
    sections={
        "Consents": {
            "list": "indai.cli.sharing:list_consents",
            "read": "indai.cli.sharing:read",
            "revoke": "indai.cli.sharing:revoke",
        }
    },
)
def consents() -> None:
    """Consents that you gave and received."""


@command("list", "indai consents list --as ind.ai/bob")
@as_option
def list_consents(home: Home, acting: str) -> None:
    """List consents: what, with whom, for what, until when, and the reads."""
    found, zone = run(_consents(home, acting))
    emit({"consents": [_artefact(one) for one in found]}, lambda page: _show_consents(page, found, zone))


async def _consents(home: Home, acting: str) -> tuple[list[pb.ConsentArtefact], ZoneInfo]:
    async with owner_session(home, acting) as owner:
        found: list[pb.ConsentArtefact] = []
        request = pb.ListConsentsRequest(page_size=200)
        while True:
            answer = await owner.sharing.ListConsents(request)
            found += answer.consents
            if not answer.next_page_token:
                return found, await owner.zone()
            request.page_token = answer.next_page_token


def _show_consents(page: Page, found: list[pb.ConsentArtefact], zone: ZoneInfo) -> None:
    if not found:
        page.line("There are no consents.")
        return
    for one in found:
        way = "given to" if one.given else "from"
        page.line(f"{one.item} {way} {one.peer}: {_STATUS.get(one.status, 'unknown')}", "bold")
        reads = f"{one.reads} reads" if one.given else ""
        page.fields(
            [
                ("for", f"{one.consent.purpose_text} ({one.consent.purpose_code})"),
                ("until", moment(one.consent.to_ms, zone)),
                ("read", reads),
                ("thread", one.thread_id[:12]),
            ],
            indent=2,
        )
    page.next_step(f"indai consents revoke {found[0].thread_id[:12]}")


def _artefact(one: pb.ConsentArtefact) -> dict[str, Any]:
    """In the words of the Account Aggregators' consent artefact."""
    consent = Consent.from_pb(one.consent)
    frequency = None
    if consent.frequency_unit is not None:
        frequency = {"unit": consent.frequency_unit.value, "value": consent.frequency_value}
    return {
        "consentId": one.consent_id,
        "thread": one.thread_id,
        "peer": one.peer,
        "given": one.given,
        "item": one.item,
        "status": _STATUS.get(one.status, "unknown").upper(),
        "createTimestamp": iso(milliseconds(one.create_time)),
        "consentStart": iso(consent.from_ms),
        "consentExpiry": iso(consent.to_ms),
        "consentMode": consent.mode.value,
        "fetchType": consent.fetch.value,
        "Purpose": {"code": consent.purpose_code, "text": consent.purpose_text},
        "DataLife": {"unit": consent.data_life_unit.value, "value": consent.data_life_value},
        "Frequency": frequency,
        "reads": one.reads,
    }


@command("read", "indai consents read 01a2015a4d69 --out cv.pdf")
@click.argument("thread")
@click.option("--out", metavar="FILE", default="", help="Write it to this file.")
@as_option
def read(home: Home, acting: str, thread: str, out: str) -> None:
    """Read what was shared with you in THREAD, as its consent allows."""
    got = run(_read_again(home, acting, thread))
    value = {"thread": thread} | _content(got, out)
    shown = value["content"] if value["content"] is not None else f"{len(got.content)} bytes"
    emit(value, lambda page: page.line(f"It is in {out}." if out else str(shown)))


async def _read_again(home: Home, acting: str, thread: str) -> pb.ReadSharedResponse:
    async with owner_session(home, acting) as owner:
        return await _read(owner, thread)


@command("revoke", "indai consents revoke 01a2015a4d69")
@click.argument("thread")
@as_option
def revoke(home: Home, acting: str, thread: str) -> None:
    """Revoke the consent of THREAD: what you gave is read no more.

    Both sides record it. What was read before has been read: the consent says
    how long a copy may be kept.
    """
    gone = run(_revoke(home, acting, thread))
    emit(thread_json(gone), lambda page: page.line(f"{gone.peer} reads it no more.", "green"))


async def _revoke(home: Home, acting: str, thread: str) -> owner_pb2.Thread:
    async with owner_session(home, acting) as owner:
        request = owner_pb2.CancelCommitmentRequest(thread_id=thread, reason="REVOKED")
        return (await owner.stub.CancelCommitment(request)).thread


@command("disclosures", "indai disclosures", "indai disclosures ind.ai/bob")
@click.argument("peer", default="")
@as_option
def disclosures(home: Home, acting: str, peer: str) -> None:
    """List what was disclosed to whom, and how often."""
    found, zone = run(_disclosures(home, acting, peer))
    value = [
        {
            "peer": one.peer,
            "item": one.item,
            "times": one.times,
            "first": iso(milliseconds(one.first_time)),
            "last": iso(milliseconds(one.last_time)),
        }
        for one in found
    ]
    rows = [(one.peer, one.item, str(one.times), moment(milliseconds(one.last_time), zone)) for one in found]
    emit({"disclosures": value}, lambda page: _show_disclosures(page, rows))


def _show_disclosures(page: Page, rows: list[tuple[str, str, str, str]]) -> None:
    if rows:
        page.table(("to", "what", "times", "last"), rows)
    else:
        page.line("Nothing was disclosed.")


async def _disclosures(home: Home, acting: str, peer: str) -> tuple[list[pb.Disclosure], ZoneInfo]:
    async with owner_session(home, acting) as owner:
        answer = await owner.sharing.ListDisclosures(pb.ListDisclosuresRequest(peer=peer))
        return list(answer.disclosures), await owner.zone()
