"""The RPCs of proposals: from the wire to rows and back, with what each would do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from indai.protocol.errors import IndaiError, InvalidInput, Reason
from indai.runtime.bindings import Bindings
from indai.runtime.conversations.values import read_id
from indai.runtime.proposals.store import Proposals
from indai.runtime.proposals.values import Proposal, as_yaml, changed, difference, read_change
from indai.runtime.proposals.wishes import change_now
from indai.runtime.tiers import Kind, dump
from indai.runtime.tierstore import Named, Row, TierStore
from indai.v1 import tiers_pb2 as pb

PAGE, MAX_PAGE = 50, 100
MAX_LINE: Final = 200
_STATES: Final = {
    "open": pb.PERSONA_PROPOSAL_STATE_OPEN,
    "accepted": pb.PERSONA_PROPOSAL_STATE_ACCEPTED,
    "rejected": pb.PERSONA_PROPOSAL_STATE_REJECTED,
}

Check = Callable[[str, Sequence[Named]], Awaitable[None]]
"""Composes every binding of a tenant that these touch; raises what is wrong with one."""


class Proposing:
    """See the module. `by` is who calls, as the audit log names them."""

    def __init__(self, store: Proposals, tiers: TierStore, bindings: Bindings, check: Check) -> None:
        self._store, self._tiers, self._bindings, self._check = store, tiers, bindings, check

    async def propose(self, request: pb.ProposePersonaRequest, by: str) -> pb.ProposePersonaResponse:
        """Stored once it is known that it would do something, and that every binding could answer with it."""
        change, reason = read_change(request.change_yaml), _line(request.reason, "A reason")
        if not reason:
            raise InvalidInput(Reason.INVALID_ARGUMENT, "A proposal has a reason.", hint="say why, in a line")
        if len(request.request_id) > 64:
            raise InvalidInput(Reason.INVALID_ARGUMENT, "A request id has at most 64 characters.")
        # Said again it is the same, also when the persona is so by now.
        known = await self._store.known(request.tenant, request.slug, change, reason, request.request_id)
        if known is not None:
            return pb.ProposePersonaResponse(proposal=await self._shown(known))
        row = (await self._tiers.newest(request.tenant, [(Kind.HUMAN, request.slug)])).get(
            (Kind.HUMAN, request.slug)
        )
        if row is not None:  # the store says what is missing
            after = changed(row.config, change, request.slug)
            if dump(after) == row.config:
                raise InvalidInput(Reason.INVALID_ARGUMENT, f"The persona {request.slug} is so already.")
            await self._check(request.tenant, [Named(Kind.HUMAN, request.slug, after)])
        made = await self._store.draft(request.tenant, request.slug, change, reason, by, request.request_id)
        return pb.ProposePersonaResponse(proposal=await self._shown(made))

    async def one(self, request: pb.GetPersonaProposalRequest) -> pb.GetPersonaProposalResponse:
        """Raises NotFound."""
        found = await self._store.one(request.tenant, read_id(request.proposal_id, "proposal"))
        return pb.GetPersonaProposalResponse(proposal=await self._shown(found))

    async def listed(self, request: pb.ListPersonaProposalsRequest) -> pb.ListPersonaProposalsResponse:
        """Newest first."""
        size = min(request.page_size or PAGE, MAX_PAGE)
        before = read_id(request.page_token, "page") if request.page_token else None
        found = await self._store.listed(
            request.tenant, request.slug, before, size + 1, decided=request.decided
        )
        return pb.ListPersonaProposalsResponse(
            proposals=await self._all_shown(request.tenant, found[:size]),
            next_page_token=found[size - 1].id.hex if len(found) > size else "",
        )

    async def decide(
        self, request: pb.DecidePersonaProposalRequest, by: str
    ) -> pb.DecidePersonaProposalResponse:
        """Accepted, what it makes is composed first: nothing becomes a version that could not answer."""
        proposal, note = read_id(request.proposal_id, "proposal"), _line(request.note, "A note")
        if not request.accept:
            rejected = await self._store.reject(request.tenant, proposal, by, note)
            return pb.DecidePersonaProposalResponse(proposal=await self._shown(rejected))
        found = await self._store.one(request.tenant, proposal)
        if found.state == "open":
            await self._check(request.tenant, [await self._named(found)])
        accepted, rows = await self._store.accept(request.tenant, proposal, by, note, request.base_version)
        if rows:
            self._bindings.forget(request.tenant)
        return pb.DecidePersonaProposalResponse(proposal=await self._shown(accepted))

    async def _named(self, proposal: Proposal) -> Named:
        key = (Kind.HUMAN, proposal.human)
        row = (await self._tiers.newest(proposal.tenant, [key]))[key]
        return Named(*key, changed(row.config, change_now(proposal, row.config), proposal.human))

    async def _shown(self, proposal: Proposal) -> pb.PersonaProposal:
        (made,) = await self._all_shown(proposal.tenant, [proposal])
        return made

    async def _all_shown(self, tenant: str, found: Sequence[Proposal]) -> list[pb.PersonaProposal]:
        wanted = sorted({each.human for each in found if each.state == "open"})
        rows = await self._tiers.newest(tenant, [(Kind.HUMAN, human) for human in wanted]) if wanted else {}
        return [_wire(each, rows.get((Kind.HUMAN, each.human))) for each in found]


def _wire(proposal: Proposal, row: Row | None) -> pb.PersonaProposal:
    made = pb.PersonaProposal(
        proposal_id=proposal.id.hex,
        tenant=proposal.tenant,
        slug=proposal.human,
        state=_STATES[proposal.state],
        change_yaml=as_yaml(proposal.change),
        reason=proposal.reason,
        created_by=proposal.created_by,
        asked=proposal.asked,
        decided_by=proposal.decided_by,
        note=proposal.note,
        version=proposal.version or 0,
    )
    made.create_time.FromDatetime(proposal.created_at)
    if proposal.decided_at is not None:
        made.decide_time.FromDatetime(proposal.decided_at)
    if proposal.state == "open" and row is not None:
        _foresee(proposal, row, made)
    return made


def _foresee(proposal: Proposal, row: Row, made: pb.PersonaProposal) -> None:
    made.base_version = row.version
    try:
        after = changed(row.config, change_now(proposal, row.config), proposal.human)
    except IndaiError as error:  # the persona has changed in a way that this doesn't fit any more
        made.problem = str(error)
        return
    made.diff = difference(row.config, after, proposal.human, row.version)


def _line(text: str, what: str) -> str:
    """One line of a person's. Raises InvalidInput for a longer one."""
    line = " ".join(text.replace("\0", " ").split())
    if len(line) > MAX_LINE:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"{what} has at most {MAX_LINE} characters.")
    return line
