"""`indai persona propose|proposals|accept|reject`: changes of personality, drafted and reviewed."""

from __future__ import annotations

import uuid
from typing import IO, Any

import click
from indai.cli.framework import command, run
from indai.cli.home import Home, data_option
from indai.cli.output import Page, emit
from indai.cli.session import tier_session
from indai.cli.words import iso
from indai.v1 import tiers_pb2 as pb

_STATES = {
    pb.PERSONA_PROPOSAL_STATE_OPEN: "open",
    pb.PERSONA_PROPOSAL_STATE_ACCEPTED: "accepted",
    pb.PERSONA_PROPOSAL_STATE_REJECTED: "rejected",
}
_tenant_option = click.option("--tenant", metavar="SLUG", required=True, help="Whose persona.")
_note_option = click.option("--note", metavar="TEXT", default="", help="What to say of it; kept.")


@command(
    "propose",
    'indai persona propose sahayak - --tenant acme --reason "people find it cold"',
)
@click.argument("slug")
@click.argument("file", type=click.File(encoding="utf-8"))
@_tenant_option
@click.option("--reason", metavar="TEXT", required=True, help="Why; who decides reads it.")
@data_option
def propose(home: Home, slug: str, file: IO[str], tenant: str, reason: str) -> None:
    """Draft a change of the persona SLUG, for somebody to decide on.

    FILE (- for standard input) has the keys that are to be different, as
    YAML: identity, voice, languages, mixes, formality, never, greetings,
    deflection. What it leaves out stays; null takes a key away.
    """
    request = pb.ProposePersonaRequest(
        tenant=tenant, slug=slug, change_yaml=file.read(), reason=reason, request_id=str(uuid.uuid4())
    )
    made = run(_call(home, "ProposePersona", request)).proposal
    emit(_json(made), lambda page: _show(page, made))


@command(
    "proposals",
    "indai persona proposals --tenant acme",
    "indai persona proposals sahayak --tenant acme --decided",
)
@click.argument("slug", default="")
@_tenant_option
@click.option("--decided", is_flag=True, help="Those that were decided, too.")
@data_option
def proposals(home: Home, slug: str, tenant: str, decided: bool) -> None:
    """What is proposed for personas (or for SLUG), newest first.

    Operators propose, and so do people who say how a persona ought to
    speak: each wish is one proposal, with the number of conversations in
    which it was heard.
    """
    found = run(_listed(home, tenant, slug, decided=decided))
    emit({"proposals": [_json(each) for each in found]}, lambda page: _show_all(page, found))


@command("accept", "indai persona accept 019a0b7c8d9e7f00a1b2c3d4e5f60718 --tenant acme --version 4")
@click.argument("proposal")
@click.option("--version", type=int, required=True, metavar="N", help="Of the persona, as `proposals` shows.")
@_tenant_option
@_note_option
@data_option
def accept(home: Home, proposal: str, version: int, tenant: str, note: str) -> None:
    """Make PROPOSAL a version of its persona.

    Refused unless N is the newest version: what was looked at is what is
    accepted. At most three within a day; `indai persona restore` takes a
    change back.
    """
    request = pb.DecidePersonaProposalRequest(
        tenant=tenant, proposal_id=proposal, accept=True, base_version=version, note=note
    )
    made = run(_call(home, "DecidePersonaProposal", request)).proposal
    emit(
        _json(made),
        lambda page: page.line(f"{made.slug} is at version {made.version} now.", "green"),
    )


@command(
    "reject", 'indai persona reject 019a0b7c8d9e7f00a1b2c3d4e5f60718 --tenant acme --note "not who she is"'
)
@click.argument("proposal")
@_tenant_option
@_note_option
@data_option
def reject(home: Home, proposal: str, tenant: str, note: str) -> None:
    """Change nothing. A wish of people's is not proposed again for thirty days."""
    request = pb.DecidePersonaProposalRequest(tenant=tenant, proposal_id=proposal, accept=False, note=note)
    made = run(_call(home, "DecidePersonaProposal", request)).proposal
    emit(_json(made), lambda page: page.line(f"{made.slug} stays as it is.", "green"))


COMMANDS = (propose, proposals, accept, reject)


async def _call(home: Home, method: str, request: Any) -> Any:
    async with tier_session(home) as stub:
        return await getattr(stub, method)(request)


async def _listed(home: Home, tenant: str, slug: str, *, decided: bool) -> list[pb.PersonaProposal]:
    found: list[pb.PersonaProposal] = []
    request = pb.ListPersonaProposalsRequest(tenant=tenant, slug=slug, decided=decided, page_size=100)
    async with tier_session(home) as stub:
        while True:
            answer = await stub.ListPersonaProposals(request)
            found += answer.proposals
            request.page_token = answer.next_page_token
            if not request.page_token:
                return found


def _json(proposal: pb.PersonaProposal) -> dict[str, Any]:
    value: dict[str, Any] = {
        "proposal": proposal.proposal_id,
        "tenant": proposal.tenant,
        "persona": proposal.slug,
        "state": _STATES.get(proposal.state, "unknown"),
        "change": proposal.change_yaml,
        "reason": proposal.reason,
        "by": proposal.created_by,
        "asked": proposal.asked,
        "time": iso(proposal.create_time.ToMilliseconds()),
    }
    if proposal.state == pb.PERSONA_PROPOSAL_STATE_OPEN:
        return value | {
            "base_version": proposal.base_version,
            "diff": proposal.diff.splitlines(),
            "problem": proposal.problem,
        }
    return value | {
        "decided_by": proposal.decided_by,
        "note": proposal.note,
        "decided": iso(proposal.decide_time.ToMilliseconds()),
        "version": proposal.version,
    }


def _show_all(page: Page, found: list[pb.PersonaProposal]) -> None:
    if not found:
        page.line("Nothing is proposed.")
    for each in found:
        _show(page, each)
        page.line()


def _show(page: Page, proposal: pb.PersonaProposal) -> None:
    state = _STATES.get(proposal.state, "unknown")
    page.line(f"{proposal.proposal_id}  {proposal.slug}  {state}", "bold")
    asked = f", in {proposal.asked} conversations" if proposal.asked > 1 else ""
    page.line(f"{proposal.reason} ({proposal.created_by}{asked})")
    if proposal.state != pb.PERSONA_PROPOSAL_STATE_OPEN:
        became = f", version {proposal.version}" if proposal.version else ""
        page.line(f"by {proposal.decided_by}{became}{': ' if proposal.note else ''}{proposal.note}", "dim")
        return
    page.raw(proposal.problem or proposal.diff or "It would change nothing any more.")
    page.next_step(
        f"indai persona accept {proposal.proposal_id} --tenant {proposal.tenant}"
        f" --version {proposal.base_version}"
    )
