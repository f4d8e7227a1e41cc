"""`indai desk`: who signs in at the desks, with which code, from where, and what they did there."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import click
from indai.cli.framework import SETTINGS, command, run
from indai.cli.home import Home, as_option
from indai.cli.lending import lend
from indai.cli.localzone import local_zone
from indai.cli.output import Page, emit
from indai.cli.session import owner_channel
from indai.cli.words import iso, milliseconds, moment
from indai.v1 import desk_pb2 as pb
from indai.v1.desk_pb2_grpc import DeskServiceStub

if TYPE_CHECKING:
    from indai.v1.desk_pb2_grpc import DeskServiceAsyncStub

desk = click.Group("desk", help="Who signs in at the desks.", context_settings=SETTINGS)

scope_option = click.option(
    "--in", "scope", metavar="SCOPE", default="", help="A tenant, or * for the whole node: as the operator."
)


@command("code", "indai desk code --as ind.ai/bob", 'indai desk code --in acme --name "Asha Rao"')
@scope_option
@click.option("--name", metavar="NAME", default="", help="Who was let in there.")
@as_option
def code(home: Home, acting: str, scope: str, name: str) -> None:
    """Print a code that signs you in at the desk, once, within ten minutes.

    Without --in it is yours, as the owner of a handle that lives here. With it,
    it is for somebody whom the operator let in.
    """
    request = pb.CreateSignInCodeRequest(scope=scope, name=name)
    answer = run(_call(home, acting, scope, "CreateSignInCode", request))
    link = f"{_address(home)}/sign-in?code={answer.code}"
    expires = milliseconds(answer.expire_time)
    emit(
        {"code": answer.code, "link": link, "account": _json(answer.account), "expires": iso(expires)},
        lambda page: _show_code(page, answer, link, expires, local_zone()),
    )


def _show_code(
    page: Page, answer: pb.CreateSignInCodeResponse, link: str, expires: int, zone: ZoneInfo
) -> None:
    page.line(answer.code, "bold")
    page.fields([("for", answer.account.name), ("until", moment(expires, zone)), ("open", link)])


@command("accounts", "indai desk accounts --in acme")
@scope_option
@as_option
def accounts(home: Home, acting: str, scope: str) -> None:
    """List who is let in."""
    request = pb.ListAccountsRequest(scope=scope)
    found = run(_call(home, acting, scope, "ListAccounts", request)).accounts
    emit(
        {"accounts": [_json(one) for one in found]},
        lambda page: page.table(("ROLE", "NAME"), [(one.role, one.name) for one in found]),
    )


@command("grant", "indai desk grant operator ops@example.org --in acme")
@click.argument("role", type=click.Choice(["admin", "staff", "operator", "auditor"]))
@click.argument("name")
@scope_option
@as_option
def grant(home: Home, acting: str, role: str, name: str, scope: str) -> None:
    """Let NAME in as ROLE: of a tenant, or of the whole node.

    Whoever signs in with their organisation is found by their e-mail address.
    """
    request = pb.GrantAccountRequest(scope=scope or "*", role=role, name=name)
    made = run(_call(home, acting, scope or "*", "GrantAccount", request)).account
    emit({"account": _json(made)}, lambda page: _show_grant(page, made))


def _show_grant(page: Page, made: pb.DeskAccount) -> None:
    page.line(f"{made.name} is {made.role} there.", "green")
    page.next_step(f'indai desk code --in "{made.scope}" --name "{made.name}"')


@command("revoke", "indai desk revoke ops@example.org --in acme")
@click.argument("name")
@scope_option
@as_option
def revoke(home: Home, acting: str, name: str, scope: str) -> None:
    """Let NAME in no more, and end their sessions."""
    request = pb.RevokeAccountRequest(scope=scope or "*", name=name)
    run(_call(home, acting, scope or "*", "RevokeAccount", request))
    emit({"revoked": name}, lambda page: page.line(f"{name} is let in no more."))


@command("sessions", "indai desk sessions --as ind.ai/bob", "indai desk sessions --end 019a8f3e --in acme")
@click.option("--end", metavar="SESSION", default="", help="End this one: its id, or how that begins.")
@scope_option
@as_option
def sessions(home: Home, acting: str, end: str, scope: str) -> None:
    """List where you are signed in, or end one of these sessions."""
    found, ended = run(_sessions(home, acting, scope, end))
    emit(
        {"sessions": [_session_json(one) for one in found], "ended": ended},
        lambda page: _show_sessions(page, found, ended, local_zone()),
    )


async def _sessions(home: Home, acting: str, scope: str, end: str) -> tuple[list[pb.DeskSession], list[str]]:
    async with _service(home, acting, scope) as service:
        listed = await service.ListDeskSessions(pb.ListDeskSessionsRequest(scope=scope))
        found = list(listed.sessions)
        chosen = [one.session_id for one in found if end and one.session_id.startswith(end)]
        for session in chosen if len(chosen) == 1 else [end] if end else []:
            await service.RevokeDeskSession(pb.RevokeDeskSessionRequest(session_id=session, scope=scope))
    return [one for one in found if one.session_id not in chosen], chosen


def _show_sessions(page: Page, found: list[pb.DeskSession], ended: list[str], zone: ZoneInfo) -> None:
    for session in ended:
        page.line(f"{session} has ended.")
    if not found:
        page.line("Nobody is signed in." if not ended else "Nobody else is signed in.")
        return
    rows = [
        (one.session_id, one.account.name, one.way, one.device, moment(milliseconds(one.seen_time), zone))
        for one in found
    ]
    page.table(("SESSION", "WHO", "BY", "DEVICE", "LAST USED"), rows)


@command("acts", "indai desk acts --as ind.ai/bob", "indai desk acts --in acme --limit 200")
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True, help="How many.")
@scope_option
@as_option
def acts(home: Home, acting: str, limit: int, scope: str) -> None:
    """Show what was done at the desks, the newest first."""
    request = pb.ListActsRequest(scope=scope, page_size=limit)
    found = run(_call(home, acting, scope, "ListActs", request)).acts
    zone = local_zone()
    rows = [
        (moment(milliseconds(one.time), zone), one.actor, one.act, one.target, one.outcome) for one in found
    ]
    emit(
        {
            "acts": [
                {
                    "time": iso(milliseconds(one.time)),
                    "actor": one.actor,
                    "act": one.act,
                    "target": one.target,
                    "outcome": one.outcome,
                }
                for one in found
            ]
        },
        lambda page: page.table(("WHEN", "WHO", "WHAT", "ON", "OUTCOME"), rows),
    )


for _each in (code, accounts, grant, revoke, sessions, acts, lend):
    desk.add_command(_each)


@contextlib.asynccontextmanager
async def _service(home: Home, acting: str, scope: str) -> AsyncIterator[DeskServiceAsyncStub]:
    """As the operator where a scope is named, else as an owner."""
    token = home.operator_token() if scope else home.owner_token(home.owner(acting))
    async with await owner_channel(home.running(), token) as channel:
        yield DeskServiceStub(channel)


async def _call(home: Home, acting: str, scope: str, method: str, request: Any) -> Any:
    async with _service(home, acting, scope) as service:
        return await getattr(service, method)(request)


def _address(home: Home) -> str:
    return home.running().roles.get("desk", "/desk")


def _json(account: pb.DeskAccount) -> dict[str, str]:
    return {"scope": account.scope, "role": account.role, "name": account.name}


def _session_json(one: pb.DeskSession) -> dict[str, Any]:
    return {
        "session": one.session_id,
        "account": _json(one.account),
        "way": one.way,
        "device": one.device,
        "created": iso(milliseconds(one.create_time)),
        "seen": iso(milliseconds(one.seen_time)),
        "expires": iso(milliseconds(one.expire_time)),
    }
