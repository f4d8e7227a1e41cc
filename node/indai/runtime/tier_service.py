"""`indai.v1.TierService`: configurations for the operator."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any

import yaml
from indai.protocol.errors import InvalidInput, NotFound, Reason
from indai.protocol.quoting import quoted
from indai.runtime.bindings import TENANTS, Bindings
from indai.runtime.proposals.service import Proposing
from indai.runtime.proposals.store import Proposals
from indai.runtime.tiers import Agent, Binding, Kind, Tier, parse, read_files
from indai.runtime.tierstore import Named, Row, TierStore
from indai.runtime.tooluse import check_uses
from indai.tools.values import Spec
from indai.v1 import tiers_pb2 as pb
from indai.v1 import tiers_pb2_grpc

PAGE, MAX_PAGE = 100, 500
_NO_VERSION = 2**31 - 1


class TierServicer(tiers_pb2_grpc.TierServiceServicer):
    """Stores and shows configurations. Who may, the server has asked before; `who` names them; `specs`:
    the tools of this node."""

    def __init__(
        self,
        store: TierStore,
        bindings: Bindings,
        proposals: Proposals,
        who: Callable[[Any], str],
        specs: Callable[[], Sequence[Spec]],
    ) -> None:
        self._store, self._bindings, self._who, self._specs = store, bindings, who, specs
        self._proposing = Proposing(proposals, store, bindings, self._check_bindings)

    async def ApplyTiers(self, request: pb.ApplyTiersRequest, context: Any) -> pb.ApplyTiersResponse:
        """Check all, then store all."""
        if len(request.note) > 200:
            raise InvalidInput(Reason.INVALID_ARGUMENT, "A note has at most 200 characters.")
        given = [Named(*each) for each in read_files(request.yaml, "the file")]
        tenants = [each for each in given if each.kind is Kind.TENANT]
        rest = [each for each in given if each.kind is not Kind.TENANT]
        await self._check_tenants(request.tenant, tenants, rest)
        await self._check_bindings(request.tenant, rest)
        if request.dry_run:
            return await self._foreseen(request.tenant, given)
        changed = [
            _tier(row.slug, row) for row in await self._store.put(TENANTS, tenants, "operator", request.note)
        ]
        self._bindings.forget(TENANTS)
        if rest:
            rows = await self._store.put(request.tenant, rest, "operator", request.note)
            self._bindings.forget(request.tenant)
            changed += [_tier(request.tenant, row) for row in rows]
        return pb.ApplyTiersResponse(changed=changed, unchanged=len(given) - len(changed))

    async def GetTier(self, request: pb.GetTierRequest, context: Any) -> pb.GetTierResponse:
        """The newest version, or the one that was asked for."""
        kind, place = _kind(request.kind), _place(request)
        if request.version:
            row = await self._store.version(place, kind, request.slug, request.version)
        else:
            row = (await self._store.newest(place, [(kind, request.slug)])).get((kind, request.slug))
        if row is None:
            raise _missing(request)
        return pb.GetTierResponse(tier=_tier(request.tenant, row))

    async def ListTiers(self, request: pb.ListTiersRequest, context: Any) -> pb.ListTiersResponse:
        """By kind and slug."""
        size, place = _size(request.page_size), request.tenant or TENANTS
        after = _read_token(request.page_token)
        rows = await self._store.listed(place, request.kind, (after[0], after[1]), size + 1)
        tiers = [_tier(request.tenant or row.slug, row, bare=True) for row in rows[:size]]
        more = _token(rows[size - 1].kind.value, rows[size - 1].slug) if len(rows) > size else ""
        return pb.ListTiersResponse(tiers=tiers, next_page_token=more)

    async def ListTierVersions(
        self, request: pb.ListTierVersionsRequest, context: Any
    ) -> pb.ListTierVersionsResponse:
        """Newest first."""
        size, below = _size(request.page_size), _NO_VERSION
        if request.page_token:
            below = int(_read_token(request.page_token)[1])
        rows = await self._store.versions(_place(request), _kind(request.kind), request.slug, below, size + 1)
        if not rows and not request.page_token:
            raise _missing(request)
        more = _token("version", str(rows[size - 1].version)) if len(rows) > size else ""
        return pb.ListTierVersionsResponse(
            versions=[_tier(request.tenant, row) for row in rows[:size]], next_page_token=more
        )

    async def RestoreTier(self, request: pb.RestoreTierRequest, context: Any) -> pb.RestoreTierResponse:
        """An older configuration as a new version."""
        kind, place = _kind(request.kind), _place(request)
        old = await self._store.version(place, kind, request.slug, request.version)
        if old is None:
            raise _missing(request)
        named = Named(kind, request.slug, parse(kind, old.config, f"{kind.value} {request.slug}"))
        await self._check_bindings(request.tenant, [named])
        rows = await self._store.put(place, [named], "operator", f"restored version {request.version}")
        self._bindings.forget(place)
        row = (
            rows[0] if rows else (await self._store.newest(place, [(kind, request.slug)]))[kind, request.slug]
        )
        return pb.RestoreTierResponse(tier=_tier(request.tenant, row))

    async def PreviewPrompt(self, request: pb.PreviewPromptRequest, context: Any) -> pb.PreviewPromptResponse:
        """What every turn of a binding begins with."""
        found = await self._bindings.of(request.tenant, request.binding)
        budgets = found.agent.budgets
        allotted = {"HUMAN": budgets.human, "TEAM": budgets.team, "AGENT": budgets.agent}
        parts = [
            pb.PreviewPromptResponse.Part(
                tier=block.tier, text=block.text, tokens=block.tokens, allotted=allotted[block.tier]
            )
            for block in found.static
        ]
        return pb.PreviewPromptResponse(
            parts=parts, tools=found.tools, guardrails=[rule.id for _, rule in found.rules]
        )

    async def ProposePersona(
        self, request: pb.ProposePersonaRequest, context: Any
    ) -> pb.ProposePersonaResponse:
        """Drafted for somebody who decides."""
        return await self._proposing.propose(request, self._who(context))

    async def GetPersonaProposal(
        self, request: pb.GetPersonaProposalRequest, context: Any
    ) -> pb.GetPersonaProposalResponse:
        """As it is now."""
        return await self._proposing.one(request)

    async def ListPersonaProposals(
        self, request: pb.ListPersonaProposalsRequest, context: Any
    ) -> pb.ListPersonaProposalsResponse:
        """Newest first."""
        return await self._proposing.listed(request)

    async def DecidePersonaProposal(
        self, request: pb.DecidePersonaProposalRequest, context: Any
    ) -> pb.DecidePersonaProposalResponse:
        """A new version, or nothing."""
        return await self._proposing.decide(request, self._who(context))

    async def _check_tenants(self, tenant: str, tenants: Sequence[Named], rest: Sequence[Named]) -> None:
        """Whoever configures something for a tenant must have one."""
        if not rest:
            return
        if not tenant:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, "These configurations name no tenant.", hint="add --tenant SLUG"
            )
        named = {each.slug for each in tenants}
        if tenant not in named and not await self._store.newest(TENANTS, [(Kind.TENANT, tenant)]):
            raise NotFound(
                Reason.NOT_FOUND,
                f"There is no tenant {quoted(tenant)}.",
                hint="apply one first: a file with kind: tenant",
            )

    async def _check_bindings(self, tenant: str, given: Sequence[Named]) -> None:
        """Compose every binding that is touched, with what is given in the place of what is stored."""
        pending: dict[tuple[Kind, str], Tier] = {(each.kind, each.slug): each.tier for each in given}
        bindings = {slug: tier for (kind, slug), tier in pending.items() if isinstance(tier, Binding)}
        touched = {key for key in pending if key[0] in (Kind.HUMAN, Kind.TEAM, Kind.AGENT)}
        after: tuple[str, str] = ("", "")
        while touched:
            rows = await self._store.listed(tenant, Kind.BINDING.value, after, MAX_PAGE)
            for row in rows:
                stored = parse(Kind.BINDING, row.config, row.slug)
                assert isinstance(stored, Binding)  # noqa: S101 - the kind says so
                bindings.setdefault(row.slug, stored)
            if len(rows) < MAX_PAGE:
                break
            after = (rows[-1].kind.value, rows[-1].slug)
        for binding in bindings.values():
            await self._bindings.composed(tenant, binding, pending)
        for tier in pending.values():
            if isinstance(tier, Agent) and tier.uses:
                check_uses(tier, self._specs())
            if isinstance(tier, Agent) and tier.extends and (Kind.AGENT, tier.extends) not in pending:
                found = await self._store.newest(tenant, [(Kind.AGENT, tier.extends)])
                if not found:
                    raise NotFound(Reason.NOT_FOUND, f"{tenant} has no agent {tier.extends} to extend.")

    async def _foreseen(self, tenant: str, given: Sequence[Named]) -> pb.ApplyTiersResponse:
        from_tenants = await self._store.newest(TENANTS, [(e.kind, e.slug) for e in given])
        from_tenant = await self._store.newest(tenant, [(e.kind, e.slug) for e in given]) if tenant else {}
        changed = []
        for each in given:
            known = (from_tenants if each.kind is Kind.TENANT else from_tenant).get((each.kind, each.slug))
            config = each.tier.model_dump(mode="json", exclude_defaults=True)
            if known is None or known.config != config:
                row = Row(each.kind, each.slug, known.version + 1 if known else 1, config)
                changed.append(_tier(tenant or each.slug, row))
        return pb.ApplyTiersResponse(changed=changed, unchanged=len(given) - len(changed))


def _kind(text: str) -> Kind:
    try:
        return Kind(text)
    except ValueError:
        kinds = ", ".join(kind.value for kind in Kind)
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, f"{quoted(text)} is no kind of configuration.", hint=f"one of {kinds}"
        ) from None


def _place(request: Any) -> str:
    return TENANTS if request.kind == Kind.TENANT.value else request.tenant


def _missing(request: Any) -> NotFound:
    version = f" at version {request.version}" if getattr(request, "version", 0) else ""
    what = f"{request.kind} {request.slug}{version}"
    return NotFound(Reason.NOT_FOUND, f"{request.tenant or 'This node'} has no {what}.")


def _tier(tenant: str, row: Row, *, bare: bool = False) -> pb.Tier:
    made = pb.Tier(
        tenant=tenant,
        kind=row.kind.value,
        slug=row.slug,
        version=row.version,
        config_yaml=""
        if bare
        else yaml.safe_dump(row.config, sort_keys=False, allow_unicode=True, width=100),
        created_by=row.created_by,
        note=row.note,
    )
    if row.created_at is not None:
        made.create_time.FromDatetime(row.created_at)
    return made


def _size(asked: int) -> int:
    return min(asked or PAGE, MAX_PAGE)


def _token(*parts: str) -> str:
    return base64.urlsafe_b64encode("\n".join(parts).encode()).decode()


def _read_token(token: str) -> tuple[str, str]:
    if not token:
        return "", ""
    try:
        first, second = base64.urlsafe_b64decode(token).decode().split("\n")
    except (binascii.Error, ValueError):
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "This page token was not given by this node.",
            hint="begin again without one",
        ) from None
    return first, second
