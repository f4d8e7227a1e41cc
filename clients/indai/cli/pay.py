"""`indai pay`: pay a peer or ask to be paid, the link to pay with, and where you are paid."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click
from indai.cli.deals import begin, show_deal
from indai.cli.errors import file_error, wrong
from indai.cli.framework import Group, command, run
from indai.cli.home import Home, as_option
from indai.cli.meet import check_outcome
from indai.cli.money import money
from indai.cli.output import Page, emit, note
from indai.cli.session import now_ms, owner_session
from indai.cli.words import iso, milliseconds, moment, thread_json
from indai.node.kinds.money import spoken
from indai.protocol.errors import NotFound, Reason
from indai.protocol.handles import Handle
from indai.v1 import commerce_pb2, intents_pb2, negotiation_pb2, owner_pb2

DAY_MS = 86_400_000
SECTIONS = {
    "Payments": {
        "to": "indai.cli.pay:to",
        "link": "indai.cli.pay:link",
        "account": "indai.cli.pay:account",
    }
}


class _PayGroup(Group):
    """A handle in place of a command's name means `to`: no handle is one word."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and not args[0].startswith("-") and args[0] not in self.list_commands(ctx):
            args = ["to", *args]
        return super().parse_args(ctx, args)


@click.command("pay", cls=_PayGroup, sections=SECTIONS)
def pay() -> None:
    """Pay a peer, or ask to be paid.

    `indai pay PEER AMOUNT --for TEXT` is short for `indai pay to …`.

    Your policy's limits count what is promised as spent. What was agreed is
    pending until the payee's provider says that the money arrived.
    """


@command(
    "to",
    'indai pay to ind.ai/bob 2000 --for "Two lamps"',
    'indai pay to ind.ai/bob "EUR 19.99" --for Lunch --request --days 3',
)
@click.argument("peer")
@click.argument("amount")
@click.option("--for", "purpose", metavar="TEXT", required=True, help="What for; the peer reads it.")
@click.option("--request", "asks", is_flag=True, help="Ask PEER to pay you.")
@click.option("--address", metavar="ADDRESS", default="", help="Pay there; else the payee names it.")
@click.option("--mandate", metavar="ID", default="", help="The payer's mandate that it falls under.")
@click.option(
    "--days", type=click.IntRange(1, 365), default=7, show_default=True, help="Days until it is due."
)
@click.option("--wait/--no-wait", default=True, show_default=True, help="Follow the thread until it rests.")
@as_option
def to(home: Home, acting: str, peer: str, amount: str, **said: Any) -> None:
    """Pay PEER the AMOUNT, or with --request ask PEER to pay it.

    AMOUNT is rupees, or names its currency: "EUR 19.99".

    Exit status 3 when nothing came of it; 0 while it is still open.
    """
    Handle.parse(peer)
    minor, currency = money(amount)
    if said["asks"] and said["address"]:
        raise wrong("A request names your own address.", "set it once with: indai pay account --address")
    thread, zone = run(_to(home, acting, peer, minor, currency, said))
    words = f"{spoken(minor, currency)} {'by' if said['asks'] else 'to'} {peer}"
    value = thread_json(thread) | {"amount_minor": minor, "currency": currency}
    emit(
        value,
        lambda page: show_deal(
            page, thread, zone, f"Agreed: {words}; not paid yet.", f"No payment of {words}."
        ),
    )
    check_outcome(thread)


async def _to(
    home: Home, acting: str, peer: str, minor: int, currency: str, said: dict[str, Any]
) -> tuple[owner_pb2.Thread, ZoneInfo]:
    async with owner_session(home, acting) as owner:
        about = {
            "amount_minor": minor,
            "currency": currency,
            "purpose": said["purpose"],
            "mandate": said["mandate"],
            "due_ms": now_ms() + said["days"] * DAY_MS,
        }
        note(f"{owner.handle} {'asks' if said['asks'] else 'pays'} {peer} {spoken(minor, currency)}")
        if said["asks"]:
            found = await owner.commerce.GetPayAccount(commerce_pb2.GetPayAccountRequest())
            if not found.account.payee:
                raise NotFound(
                    Reason.NOT_FOUND,
                    "You have no address to be paid at.",
                    hint="indai pay account --address upi:you@bank",
                )
            direction = intents_pb2.PAY_DIRECTION_REQUEST
            wish = intents_pb2.PayWish(direction=direction, payee=found.account.payee, **about)
            intent: dict[str, Any] = {"wish": negotiation_pb2.Propose(pay=wish)}
        elif said["address"]:
            intent = {"pay": intents_pb2.PayTerms(payee=said["address"], **about)}
        else:
            wish = intents_pb2.PayWish(direction=intents_pb2.PAY_DIRECTION_OFFER, **about)
            intent = {"wish": negotiation_pb2.Propose(pay=wish)}
        return await begin(owner, peer, wait=said["wait"], **intent), await owner.zone()


@command("link", "indai pay link 0193f2ab4c", "indai pay link 0193f2ab4c --out bill.svg")
@click.argument("thread")
@click.option("--out", metavar="FILE", default="", help="Write the QR code as a .png or .svg file.")
@as_option
def link(home: Home, acting: str, thread: str, out: str) -> None:
    """Show how the payment agreed in THREAD is made: link and QR code.

    The link carries the commitment's own reference, so that the payee's
    provider can say which payment arrived.
    """
    if out and Path(out).suffix not in (".png", ".svg"):
        raise wrong(f"{out} is no .png or .svg file.", "name it like bill.svg")
    found, zone = run(_link(home, acting, thread))
    target = found.upi_link or found.page_url
    if out and not target:
        raise NotFound(Reason.NOT_FOUND, "There is nothing to make a QR code of: no UPI link, no page.")
    if out:
        _write(target, Path(out))
    value = {
        "payee": found.payee,
        "amount_minor": found.amount_minor,
        "currency": found.currency,
        "reference": found.reference,
        "upi_link": found.upi_link,
        "page_url": found.page_url,
        "arrived_minor": found.arrived_minor,
        "purpose": found.purpose,
        "due_time": iso(milliseconds(found.due_time)),
        "file": out,
    }
    emit(value, lambda page: _show_link(page, found, zone, out))


async def _link(home: Home, acting: str, thread: str) -> tuple[commerce_pb2.GetPayLinkResponse, ZoneInfo]:
    async with owner_session(home, acting) as owner:
        request = commerce_pb2.GetPayLinkRequest(thread_id=thread)
        return await owner.commerce.GetPayLink(request), await owner.zone()


def _show_link(page: Page, found: commerce_pb2.GetPayLinkResponse, zone: ZoneInfo, out: str) -> None:
    target = found.upi_link or found.page_url
    if target and not out:
        for row in _blocks(target):
            page.line(row)
    arrived = spoken(found.arrived_minor, found.currency) if found.arrived_minor else ""
    page.fields(
        [
            ("pay", spoken(found.amount_minor, found.currency)),
            ("to", found.payee),
            ("for", found.purpose),
            ("reference", found.reference),
            ("due", moment(milliseconds(found.due_time), zone)),
            ("arrived", arrived),
            ("page", found.page_url),
            ("file", out),
        ]
    )
    if found.upi_link:
        page.line(found.upi_link)


def _blocks(text: str) -> list[str]:
    """A QR code in characters, two rows of it in one line."""
    import segno  # noqa: PLC0415 -- other commands start sooner without it

    rows = [list(row) for row in segno.make(text, error="l", micro=False).matrix_iter(border=2)]
    rows += [[0] * len(rows[0])] * (len(rows) % 2)
    glyphs = {(0, 0): "█", (0, 1): "▀", (1, 0): "▄", (1, 1): " "}
    pairs = zip(rows[::2], rows[1::2], strict=True)
    return ["".join(glyphs[bool(a), bool(b)] for a, b in zip(*pair, strict=True)) for pair in pairs]


def _write(text: str, path: Path) -> None:
    import segno  # noqa: PLC0415 -- as above

    try:
        segno.make(text, error="m", micro=False).save(str(path), scale=6)
    except OSError as error:
        raise file_error(error) from None


@command(
    "account",
    "indai pay account",
    'indai pay account --address upi:shop@okbank --name "Asha\'s Lamps"',
    "indai pay account --address upi:shop@okbank --webhook-secret vault:razorpay",
)
@click.option("--address", metavar="ADDRESS", default="", help="Where you are paid, like upi:shop@okbank.")
@click.option("--name", metavar="NAME", default="", help="The name that goes with it, for payers.")
@click.option("--webhook-secret", metavar="REF", default="", help="Secret of the provider's webhooks.")
@click.option("--provider", metavar="URL", default="", help="The provider's API, for payment links.")
@click.option("--provider-key", metavar="REF", default="", help="Secret with `key id:key secret` for it.")
@as_option
def account(home: Home, acting: str, address: str, **said: str) -> None:
    """Show, or with --address set, where you are paid.

    Secrets are references: store one with `indai secret set razorpay`, and
    name it vault:razorpay. The provider's signed webhooks go to the path
    shown, at the node's http port.
    """
    if any(said.values()) and not address:
        raise wrong("An account is set as a whole, and needs its address.", "add --address upi:you@bank")
    wanted = commerce_pb2.PayAccount(
        payee=address,
        name=said["name"],
        webhook_secret_ref=said["webhook_secret"],
        provider_url=said["provider"],
        provider_key_ref=said["provider_key"],
    )
    found = run(_account(home, acting, wanted))
    names = ("payee", "name", "webhook_secret_ref", "webhook_path", "provider_url", "provider_key_ref")
    value = {name: getattr(found, name) for name in names}
    emit(value, lambda page: _show_account(page, found))


async def _account(home: Home, acting: str, wanted: commerce_pb2.PayAccount) -> commerce_pb2.PayAccount:
    async with owner_session(home, acting) as owner:
        if wanted.payee:
            request = commerce_pb2.SetPayAccountRequest(account=wanted)
            return (await owner.commerce.SetPayAccount(request)).account
        return (await owner.commerce.GetPayAccount(commerce_pb2.GetPayAccountRequest())).account


def _show_account(page: Page, found: commerce_pb2.PayAccount) -> None:
    if not found.payee:
        page.line("You have no address to be paid at.", "yellow")
        page.next_step("indai pay account --address upi:you@bank")
        return
    page.line(f"You are paid at {found.payee}.")
    page.fields(
        [
            ("name", found.name),
            (
                "webhook",
                f"http port, {found.webhook_path}" if found.webhook_secret_ref else "none: nothing posts",
            ),
            ("provider", found.provider_url),
        ]
    )
    if not found.webhook_secret_ref:
        page.next_step("indai secret set razorpay")
