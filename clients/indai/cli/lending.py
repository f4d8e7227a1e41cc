"""`indai desk lend`: let an organisation's people work for one's handle."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import click
from indai.cli.framework import command, run
from indai.cli.home import Home, as_option
from indai.cli.localzone import local_zone
from indai.cli.output import Page, emit
from indai.cli.session import owner_channel
from indai.cli.words import iso, milliseconds, moment
from indai.v1 import tenant_pb2 as pb
from indai.v1.tenant_pb2_grpc import LendingServiceStub


@command("lend", "indai desk lend riverton --as ind.ai/office", "indai desk lend riverton --end")
@click.argument("tenant", required=False, default="")
@click.option("--end", is_flag=True, help="They work for it no more.")
@as_option
def lend(home: Home, acting: str, tenant: str, end: bool) -> None:
    """Let the people of TENANT work for your handle.

    They see and resolve the requests that are filed with it, and the public
    conversations that their own bindings answer. What you say to your own agent
    stays yours. Without TENANT, list whom it is lent to.
    """
    if end and not tenant:
        raise click.UsageError("Say whose work ends: TENANT.")
    found = run(_lend(home, acting, tenant, end))
    zone = local_zone()
    emit(
        {"lendings": [{"tenant": one.tenant, "since": iso(milliseconds(one.create_time))} for one in found]},
        lambda page: _show(page, found, zone),
    )


async def _lend(home: Home, acting: str, tenant: str, end: bool) -> list[pb.Lending]:
    token = home.owner_token(home.owner(acting))
    async with await owner_channel(home.running(), token) as channel:
        service = LendingServiceStub(channel)
        if tenant:
            await service.LendHandle(pb.LendHandleRequest(tenant=tenant, lend=not end))
        return list((await service.ListLendings(pb.ListLendingsRequest())).lendings)


def _show(page: Page, found: list[pb.Lending], zone: ZoneInfo) -> None:
    if not found:
        page.line("Your handle is lent to nobody.")
        return
    rows = [(one.tenant, moment(milliseconds(one.create_time), zone)) for one in found]
    page.table(("TENANT", "SINCE"), rows)
