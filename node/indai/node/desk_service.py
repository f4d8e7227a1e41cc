"""`DeskService`: who may sit at the desks, where they are signed in, what they did, what changes meanwhile.

Who calls decides the scope: an owner their handle, a tenant's people their tenant, the node's operator any
tenant and the whole node. Nobody but the owner signs in as an owner.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from indai.node.agents import Agents
from indai.node.auth import Caller, caller
from indai.node.engine import EVERY_THREAD, Engine
from indai.node.store import Store
from indai.node.views import timestamp
from indai.protocol.errors import InvalidInput, Reason, Refused
from indai.v1 import desk_pb2 as pb
from indai.v1 import desk_pb2_grpc
from indai.web.accounts import EVERYWHERE, Account, Accounts, check_scope
from indai.web.audit import AuditLog
from indai.web.sessions import Session, Sessions

MAX_PAGE: Final = 500
WATCH_S: Final = 60.0
GOVERNORS: Final = ("admin",)
READERS: Final = ("admin", "operator", "auditor")


class DeskServicer(desk_pb2_grpc.DeskServiceServicer):
    """See the module."""

    def __init__(
        self,
        accounts: Accounts,
        sessions: Sessions,
        audit: AuditLog,
        agents: Agents,
        engine: Engine,
        store: Store,
        clock: Callable[[], int],
    ) -> None:
        self._accounts, self._sessions, self._audit = accounts, sessions, audit
        self._agents, self._engine, self._store, self._clock = agents, engine, store, clock

    async def CreateSignInCode(
        self, request: pb.CreateSignInCodeRequest, context: Any
    ) -> pb.CreateSignInCodeResponse:
        """For an owner themselves, or for somebody who was let in."""
        who = caller(context)
        if who.owner:
            self._agents.get(who.owner)
            account = await self._accounts.of_owner(who.owner)
        else:
            scope = _governed(who, request.scope)
            account = await self._accounts.find(scope, request.name)
        code, expires = await self._sessions.code(account)
        await self._note(who, account.scope, "CreateSignInCode", account.name)
        return pb.CreateSignInCodeResponse(
            code=code, expire_time=timestamp(expires), account=_account(account)
        )

    async def GrantAccount(self, request: pb.GrantAccountRequest, context: Any) -> pb.GrantAccountResponse:
        """Let somebody in."""
        who = caller(context)
        scope = _governed(who, request.scope)
        account = await self._accounts.grant(scope, request.role, request.name.strip())
        await self._note(who, scope, "GrantAccount", f"{account.role} {account.name}")
        return pb.GrantAccountResponse(account=_account(account))

    async def RevokeAccount(self, request: pb.RevokeAccountRequest, context: Any) -> pb.RevokeAccountResponse:
        """Let somebody in no more."""
        who = caller(context)
        scope = _governed(who, request.scope)
        account = await self._accounts.revoke(scope, request.name)
        await self._note(who, scope, "RevokeAccount", f"{account.role} {account.name}")
        return pb.RevokeAccountResponse()

    async def ListAccounts(self, request: pb.ListAccountsRequest, context: Any) -> pb.ListAccountsResponse:
        """Who is let in."""
        scope = _read(caller(context), request.scope)
        return pb.ListAccountsResponse(accounts=map(_account, await self._accounts.listed(scope)))

    async def ListDeskSessions(
        self, request: pb.ListDeskSessionsRequest, context: Any
    ) -> pb.ListDeskSessionsResponse:
        """One's own, or those of a scope."""
        who = caller(context)
        scope, account = _sessions_of(who, request.scope)
        current = who.session.id if who.session else ""
        found = await self._sessions.listed(scope, account)
        return pb.ListDeskSessionsResponse(sessions=[_session(one, current) for one in found])

    async def RevokeDeskSession(
        self, request: pb.RevokeDeskSessionRequest, context: Any
    ) -> pb.RevokeDeskSessionResponse:
        """End one of one's own, or one of a scope that the caller governs."""
        who = caller(context)
        if request.scope:
            scope, account = _governed(who, request.scope), ""
        else:
            scope, account = _sessions_of(who, "")
        await self._sessions.revoke(scope, request.session_id, account)
        await self._note(who, scope, "RevokeDeskSession", request.session_id)
        return pb.RevokeDeskSessionResponse()

    async def ListActs(self, request: pb.ListActsRequest, context: Any) -> pb.ListActsResponse:
        """What was done at the desks of a scope."""
        scope = _read(caller(context), request.scope)
        token = request.page_token
        if token and not (token.isascii() and token.isdigit() and len(token) < 19):
            raise InvalidInput(Reason.INVALID_ARGUMENT, "The page token is not one of ours.")
        size = min(request.page_size or 50, MAX_PAGE)
        acts, more = await self._audit.page(scope, int(token or 0), size)
        return pb.ListActsResponse(
            acts=[
                pb.DeskAct(
                    time=timestamp(one.at_ms),
                    actor=one.actor,
                    act=one.act,
                    target=one.target,
                    outcome=one.outcome,
                )
                for one in acts
            ],
            next_page_token=str(more) if more else "",
        )

    async def WatchDesk(
        self, request: pb.WatchDeskRequest, context: Any
    ) -> AsyncIterator[pb.WatchDeskResponse]:
        """What waits now, and after each change; a minute at most goes by without a word."""
        owner = caller(context).owner
        if not owner:
            raise Refused(
                Reason.PERMISSION_DENIED, "Only an owner watches an owner's desk.", hint="sign in as one"
            )
        with self._engine.changes(owner, EVERY_THREAD) as changed:
            while True:
                changed.clear()
                yield pb.WatchDeskResponse(waiting=await self._waiting(owner))
                try:
                    async with asyncio.timeout(WATCH_S):
                        await changed.wait()
                except TimeoutError:
                    continue

    async def _waiting(self, owner: str) -> int:
        async with self._store.scope(owner) as connection:
            found: int = await connection.fetchval(
                "SELECT count(*) FROM (SELECT FROM node.approvals"
                " WHERE owner = $1 AND state = 'pending' AND expires_ms > $2 LIMIT $3) AS waiting",
                owner,
                self._clock(),
                MAX_PAGE,
            )
        return found

    async def _note(self, who: Caller, scope: str, act: str, target: str) -> None:
        if who.session is not None:
            await self._audit.record(who.session, act, target)
        # An operator's act in a tenant stands in that tenant's log too.
        if who.session is None or who.session.scope != scope:
            actor = f"{who.session.role} {who.session.name}" if who.session else "token"
            await self._audit.note(scope, actor, act, target)


def _governed(who: Caller, scope: str) -> str:
    """A scope whose people the caller may let in; raises Refused."""
    if who.operator:
        return check_scope(scope or EVERYWHERE)
    if who.session and who.session.role in GOVERNORS and scope in ("", who.session.scope):
        return who.session.scope
    raise _not_yours()


def _read(who: Caller, scope: str) -> str:
    """A scope whose accounts and acts the caller may read; raises Refused."""
    if who.operator:
        return check_scope(scope or EVERYWHERE)
    own = who.owner or (who.session.scope if who.session and who.session.role in READERS else "")
    if own and scope in ("", own):
        return own
    raise _not_yours()


def _sessions_of(who: Caller, scope: str) -> tuple[str, str]:
    """Scope and account whose sessions are meant: one's own when no scope is named."""
    if scope:
        return _governed(who, scope), ""
    if who.session:
        return who.session.scope, who.session.account
    return who.owner or EVERYWHERE, ""


def _not_yours() -> Refused:
    return Refused(
        Reason.PERMISSION_DENIED,
        "That is for the operator, or an admin of the tenant.",
        hint="ask one of them",
    )


def _account(account: Account) -> pb.DeskAccount:
    return pb.DeskAccount(
        scope=account.scope,
        role=account.role,
        name=account.name,
        create_time=timestamp(account.created_ms),
    )


def _session(one: Session, current: str) -> pb.DeskSession:
    return pb.DeskSession(
        session_id=one.id,
        account=pb.DeskAccount(scope=one.scope, role=one.role, name=one.name),
        way=one.way,
        device=one.device,
        create_time=timestamp(one.created_ms),
        seen_time=timestamp(one.seen_ms),
        expire_time=timestamp(one.expires_ms),
        current=one.id == current,
    )
