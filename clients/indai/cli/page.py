"""`indai page`: which other sites may show the chat of an owner's public page."""

from __future__ import annotations

from collections.abc import Callable

import click
from indai.cli.framework import SETTINGS, command, run
from indai.cli.home import Home, as_option
from indai.cli.output import Page, emit
from indai.cli.session import owner_channel
from indai.v1 import desk_pb2 as pb
from indai.v1.desk_pb2_grpc import SteeringServiceStub

page = click.Group(
    "page", help="Your public page: which other sites may show its chat.", context_settings=SETTINGS
)


@command("sites", "indai page sites --as ind.ai/bob")
@as_option
def sites(home: Home, acting: str) -> None:
    """List the sites that may show your chat."""
    _show(run(_changed(home, acting, None)))


@command("allow-site", "indai page allow-site https://shop.example")
@click.argument("site")
@as_option
def allow_site(home: Home, acting: str, site: str) -> None:
    """Let SITE show your chat in a frame: one line of script in its pages."""
    _show(run(_changed(home, acting, lambda known: [*known, site])))


@command("forbid-site", "indai page forbid-site https://shop.example")
@click.argument("site")
@as_option
def forbid_site(home: Home, acting: str, site: str) -> None:
    """Let SITE show your chat no more."""
    _show(run(_changed(home, acting, lambda known: [each for each in known if each != site.lower()])))


for _each in (sites, allow_site, forbid_site):
    page.add_command(_each)


async def _changed(home: Home, acting: str, change: Callable[[list[str]], list[str]] | None) -> list[str]:
    """The sites as they stand afterwards."""
    token = home.owner_token(home.owner(acting))
    async with await owner_channel(home.running(), token) as channel:
        service = SteeringServiceStub(channel)
        known = list((await service.ListChatSites(pb.ListChatSitesRequest())).sites)
        if change is None:
            return known
        return list((await service.SetChatSites(pb.SetChatSitesRequest(sites=change(known)))).sites)


def _show(found: list[str]) -> None:
    emit({"sites": found}, lambda shown: _lines(shown, found))


def _lines(shown: Page, found: list[str]) -> None:
    for each in found:
        shown.line(each)
    if not found:
        shown.line("No other site may show it.")
        shown.next_step("indai page allow-site https://shop.example")
