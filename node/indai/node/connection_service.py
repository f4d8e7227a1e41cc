"""India's public services over RPC, for the owner that the token names: there the person is the owner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from indai.dpi.accounts import Wish
from indai.dpi.consents import Consent
from indai.dpi.desk import Desk
from indai.node import views
from indai.node.auth import caller
from indai.protocol.errors import InvalidInput, NotFound, Reason
from indai.v1 import connections_pb2 as pb
from indai.v1 import connections_pb2_grpc

DIGILOCKER = "digilocker"

Available = Callable[[str], Awaitable[dict[str, bool]]]
"""Which services an owner can use."""


class ConnectionServicer(connections_pb2_grpc.ConnectionServiceServicer):
    """ConnectionService."""

    def __init__(self, desk: Desk, available: Available) -> None:
        self._desk, self._available = desk, available

    async def ListConnections(
        self, request: pb.ListConnectionsRequest, context: Any
    ) -> pb.ListConnectionsResponse:
        """All four; the list is one page."""
        owner = caller(context).owner
        known = await self._desk.lockers.status(owner, owner)
        found = []
        for name, available in sorted((await self._available(owner)).items()):
            state = "live" if available and name != DIGILOCKER else ""
            if name == DIGILOCKER and known is not None:
                state = known.state
            account = known.account if name == DIGILOCKER and known is not None else ""
            found.append(pb.Connection(name=name, available=available, state=state, account=account))
        return pb.ListConnectionsResponse(connections=found)

    async def BeginConnection(
        self, request: pb.BeginConnectionRequest, context: Any
    ) -> pb.BeginConnectionResponse:
        """The address to open."""
        owner = caller(context).owner
        _check_name(request.name)
        return pb.BeginConnectionResponse(url=await self._desk.lockers.begin(owner, owner, request.purpose))

    async def ConfirmConnection(
        self, request: pb.ConfirmConnectionRequest, context: Any
    ) -> pb.ConfirmConnectionResponse:
        """With the browser's code."""
        owner = caller(context).owner
        _check_name(request.name)
        found = await self._desk.lockers.confirm(owner, owner, request.code)
        connection = pb.Connection(name=DIGILOCKER, available=True, state=found.state, account=found.account)
        return pb.ConfirmConnectionResponse(connection=connection)

    async def EndConnection(self, request: pb.EndConnectionRequest, context: Any) -> pb.EndConnectionResponse:
        """Forget it."""
        owner = caller(context).owner
        _check_name(request.name)
        return pb.EndConnectionResponse(told=await self._desk.lockers.disconnect(owner, owner))

    async def AskBankConsent(
        self, request: pb.AskBankConsentRequest, context: Any
    ) -> pb.AskBankConsentResponse:
        """Ask the aggregator."""
        owner = caller(context).owner
        wish = Wish(
            request.customer,
            request.purpose_code,
            request.purpose,
            tuple(request.fi_types) or ("DEPOSIT",),
            request.months,
            request.days,
            request.once,
        )
        asked = await self._desk.accounts.ask(owner, owner, wish)
        return pb.AskBankConsentResponse(consent=_view(asked))

    async def ListServiceConsents(
        self, request: pb.ListServiceConsentsRequest, context: Any
    ) -> pb.ListServiceConsentsResponse:
        """The newest hundred; the list is one page."""
        owner = caller(context).owner
        found = await self._desk.consents.of(owner, owner)
        return pb.ListServiceConsentsResponse(consents=[_view(each) for each in found])

    async def RevokeServiceConsent(
        self, request: pb.RevokeServiceConsentRequest, context: Any
    ) -> pb.RevokeServiceConsentResponse:
        """Read nothing more under it."""
        owner = caller(context).owner
        prefix = request.consent_id.strip().lower()
        listed = await self._desk.consents.of(owner, owner)
        matches = [each for each in listed if len(prefix) >= 6 and each.id.startswith(prefix)]
        if len(matches) != 1:
            raise NotFound(
                Reason.NOT_FOUND, "No one consent begins like that.", hint="indai connect consents"
            )
        return pb.RevokeServiceConsentResponse(
            consent=_view(await self._desk.accounts.revoke(owner, owner, matches[0].id))
        )

    async def ForgetConnections(
        self, request: pb.ForgetConnectionsRequest, context: Any
    ) -> pb.ForgetConnectionsResponse:
        """Everything that services gave of a person, or of everybody."""
        owner = caller(context).owner
        if request.everybody and request.person:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                "Either one person is forgotten or everybody.",
                fields={"person": "must be empty"},
            )
        person = None if request.everybody else request.person or owner
        done = await self._desk.forget(owner, person)
        return pb.ForgetConnectionsResponse(people=done.people, rows=done.rows, told=done.told)


def _check_name(name: str) -> None:
    if name != DIGILOCKER:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "Only digilocker is connected by each person.",
            hint="docs/services/dpi.md says how the others are set up",
        )


def _view(consent: Consent) -> pb.ServiceConsent:
    return pb.ServiceConsent(
        consent_id=consent.id,
        kind=consent.kind,
        status=consent.status,
        purpose=consent.purpose,
        purpose_code=consent.purpose_code,
        expire_time=views.timestamp(consent.expires_ms),
        create_time=views.timestamp(consent.created_ms),
        uses=consent.uses,
    )
