"""`indai connect`: India's public services and a payment provider, for one's own agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo

import click
from indai.cli.framework import Group, command, run
from indai.cli.home import Home, as_option
from indai.cli.output import Page, emit
from indai.cli.session import owner_session
from indai.cli.words import iso, milliseconds, moment
from indai.protocol.errors import NotFound, Reason
from indai.v1 import commerce_pb2
from indai.v1 import connections_pb2 as pb

_HERE = "indai.cli.connect:"
RAZORPAY = "https://api.razorpay.com"
WAIT_S = 30.0
SECTIONS = {
    "Commands": {
        "status": _HERE + "status",
        "digilocker": _HERE + "digilocker",
        "aa": _HERE + "aa",
        "razorpay": _HERE + "razorpay",
        "consents": _HERE + "consents",
        "revoke": _HERE + "revoke",
        "disconnect": _HERE + "disconnect",
        "forget": _HERE + "forget",
    }
}
_STATES = {
    "": "not connected",
    "confirm": "waits for the code that your browser shows",
    "live": "connected",
    "reconnect": "must be connected again",
}


@click.command("connect", cls=Group, sections=SECTIONS)
def connect() -> None:
    """Connect DigiLocker, bank accounts and a payment provider.

    The node's operator sets services up in DATA/dpi.yaml. What is connected
    is yours alone, read only for the purpose that you state, and ended by you.
    """


@command("status", "indai connect status")
@as_option
def status(home: Home, acting: str) -> None:
    """Show what is set up and what is connected."""
    found = run(_status(home, acting))

    def show(page: Page) -> None:
        for each in found:
            words = _STATES.get(each.state, each.state) if each.available else "not set up on this node"
            page.item("*" if each.state == "live" else "-", f"{each.name}: {words}")
        if any(each.name == "digilocker" and each.available and each.state != "live" for each in found):
            page.next_step('indai connect digilocker --purpose "To prepare a notice"')

    emit({"connections": [_connection(each) for each in found]}, show)


async def _status(home: Home, acting: str) -> Sequence[pb.Connection]:
    async with owner_session(home, acting) as owner:
        return (await owner.connections.ListConnections(pb.ListConnectionsRequest())).connections


@command(
    "digilocker",
    'indai connect digilocker --purpose "To prepare a notice"',
    "indai connect digilocker --code 7KQ2MX4B",
)
@click.option("--purpose", metavar="TEXT", default="", help="What documents are needed for.")
@click.option("--code", metavar="CODE", default="", help="As your browser shows it afterwards.")
@as_option
def digilocker(home: Home, acting: str, purpose: str, code: str) -> None:
    """Connect your DigiLocker.

    First with --purpose: open the address that is shown, and allow it. Your
    browser then shows a code: give it with --code. Nobody else has it, so
    nobody can connect your DigiLocker to an agent of theirs.
    """
    if code:
        found = run(_confirm(home, acting, code))
        emit(
            _connection(found),
            lambda page: page.line(f"DigiLocker of {found.account} is connected.", "green"),
        )
        return
    url = run(_begin(home, acting, purpose))

    def show(page: Page) -> None:
        page.line("Open this in your browser within ten minutes:")
        page.raw(url)
        page.next_step("indai connect digilocker --code CODE")

    emit({"url": url}, show)


async def _begin(home: Home, acting: str, purpose: str) -> str:
    async with owner_session(home, acting) as owner:
        request = pb.BeginConnectionRequest(name="digilocker", purpose=purpose)
        return (await owner.connections.BeginConnection(request)).url


async def _confirm(home: Home, acting: str, code: str) -> pb.Connection:
    async with owner_session(home, acting) as owner:
        request = pb.ConfirmConnectionRequest(name="digilocker", code=code)
        return (await owner.connections.ConfirmConnection(request)).connection


@command(
    "aa",
    'indai connect aa asha@onemoney --purpose "To check a loan" --code 105 --once',
)
@click.argument("customer")
@click.option("--purpose", metavar="TEXT", required=True, help="What it is needed for.")
@click.option(
    "--code",
    type=click.Choice(["101", "102", "103", "104", "105"]),
    default="102",
    show_default=True,
    help="The purpose as ReBIT numbers it.",
)
@click.option("--type", "types", metavar="TYPE", multiple=True, help="DEPOSIT, MUTUAL_FUNDS… (repeat).")
@click.option("--months", type=click.IntRange(1, 24), default=3, show_default=True, help="How far back.")
@click.option("--days", type=click.IntRange(1, 365), default=30, show_default=True, help="How long it holds.")
@click.option("--once", is_flag=True, help="For one reading only.")
@as_option
def aa(home: Home, acting: str, customer: str, **said: Any) -> None:
    """Ask yourself for consent to read your bank accounts.

    CUSTOMER is your id at the Account Aggregator; it is not kept. You give
    consent in the aggregator's app, and can end it there or here.
    """
    found, zone = run(_ask(home, acting, customer, said))

    def show(page: Page) -> None:
        page.line("Consent is asked for: give it in your Account Aggregator's app.")
        _show_consent(page, found, zone)
        page.next_step("indai connect consents")

    emit(_consent(found), show)


async def _ask(
    home: Home, acting: str, customer: str, said: dict[str, Any]
) -> tuple[pb.ServiceConsent, ZoneInfo]:
    async with owner_session(home, acting) as owner:
        request = pb.AskBankConsentRequest(
            customer=customer,
            purpose=said["purpose"],
            purpose_code=said["code"],
            fi_types=said["types"],
            months=said["months"],
            days=said["days"],
            once=said["once"],
        )
        answer = await owner.connections.AskBankConsent(request, timeout=WAIT_S)
        return answer.consent, await owner.zone()


@command("razorpay", "indai connect razorpay --key vault:razorpay-key")
@click.option("--key", metavar="REF", required=True, help="Secret with `key id:key secret`.")
@click.option("--url", metavar="URL", default=RAZORPAY, show_default=True, help="The provider's API.")
@as_option
def razorpay(home: Home, acting: str, key: str, url: str) -> None:
    """Let Razorpay make pages on which you are paid.

    What was paid is known by its signed webhooks: name their secret with
    `indai pay account --webhook-secret`.
    """
    found = run(_razorpay(home, acting, key, url))

    def show(page: Page) -> None:
        page.line(f"Pages for {found.payee} are made at {found.provider_url}.", "green")
        if not found.webhook_secret_ref:
            page.next_step(f"indai pay account --address {found.payee} --webhook-secret vault:razorpay")

    emit({"payee": found.payee, "provider_url": found.provider_url, "webhook_path": found.webhook_path}, show)


async def _razorpay(home: Home, acting: str, key: str, url: str) -> commerce_pb2.PayAccount:
    async with owner_session(home, acting) as owner:
        account = (await owner.commerce.GetPayAccount(commerce_pb2.GetPayAccountRequest())).account
        if not account.payee:
            raise NotFound(
                Reason.NOT_FOUND,
                "You have no address to be paid at.",
                hint="indai pay account --address upi:you@bank",
            )
        account.provider_url, account.provider_key_ref = url, key
        request = commerce_pb2.SetPayAccountRequest(account=account)
        return (await owner.commerce.SetPayAccount(request)).account


@command("consents", "indai connect consents")
@as_option
def consents(home: Home, acting: str) -> None:
    """List what you have consented to, the newest first."""
    found, zone = run(_consents(home, acting))

    def show(page: Page) -> None:
        if not found:
            page.line("You have consented to nothing.")
        for each in found:
            page.item("*" if each.status == "ACTIVE" else "-", f"{each.kind}, {each.status}: {each.purpose}")
            _show_consent(page, each, zone)

    emit({"consents": [_consent(each) for each in found]}, show)


async def _consents(home: Home, acting: str) -> tuple[Sequence[pb.ServiceConsent], ZoneInfo]:
    async with owner_session(home, acting) as owner:
        answer = await owner.connections.ListServiceConsents(pb.ListServiceConsentsRequest())
        return answer.consents, await owner.zone()


@command("revoke", "indai connect revoke 5f0c2a91")
@click.argument("consent")
@as_option
def revoke(home: Home, acting: str, consent: str) -> None:
    """Read nothing more under CONSENT.

    Where it was given it stands until you end it there too.
    """
    found = run(_revoke(home, acting, consent))
    emit(_consent(found), lambda page: page.line(f"{found.kind}, {found.purpose}: {found.status}."))


async def _revoke(home: Home, acting: str, consent: str) -> pb.ServiceConsent:
    async with owner_session(home, acting) as owner:
        request = pb.RevokeServiceConsentRequest(consent_id=consent)
        return (await owner.connections.RevokeServiceConsent(request)).consent


@command("disconnect", "indai connect disconnect digilocker")
@click.argument("name", type=click.Choice(["digilocker"]))
@as_option
def disconnect(home: Home, acting: str, name: str) -> None:
    """End a connection: its token and documents are forgotten here."""
    told = run(_disconnect(home, acting, name))

    def show(page: Page) -> None:
        page.line(f"{name} is disconnected.", "green")
        if not told:
            page.line("It could not be told: end the access in its own app, too.", "yellow")

    emit({"name": name, "told": told}, show)


async def _disconnect(home: Home, acting: str, name: str) -> bool:
    async with owner_session(home, acting) as owner:
        request = pb.EndConnectionRequest(name=name)
        return (await owner.connections.EndConnection(request, timeout=WAIT_S)).told


@command("forget", "indai connect forget --yes", "indai connect forget --everybody --yes")
@click.option("--person", metavar="ID", default="", help="Somebody who talked to your agent, not you.")
@click.option("--everybody", is_flag=True, help="You, all of them, and your pages to pay on.")
@click.option("--yes", is_flag=True, help="Don't ask.")
@as_option
def forget(home: Home, acting: str, person: str, everybody: bool, yes: bool) -> None:
    """Forget what public services gave: tokens, documents and consents.

    This can't be undone. DigiLocker is told; where you gave consent to read
    bank accounts, end it in that app, too.
    """
    if not yes:
        whom = "everybody" if everybody else person or "you"
        click.confirm(f"Forget all that public services gave about {whom}?", abort=True, err=True)
    found = run(_forget(home, acting, person, everybody))

    def show(page: Page) -> None:
        page.line(f"{found.rows} rows are forgotten.", "green")
        if not found.told:
            page.line("DigiLocker could not be told: end the access in its own app, too.", "yellow")

    emit({"people": found.people, "rows": found.rows, "told": found.told}, show)


async def _forget(home: Home, acting: str, person: str, everybody: bool) -> pb.ForgetConnectionsResponse:
    async with owner_session(home, acting) as owner:
        request = pb.ForgetConnectionsRequest(person=person, everybody=everybody)
        return await owner.connections.ForgetConnections(request, timeout=WAIT_S)


def _connection(found: pb.Connection) -> dict[str, object]:
    return {
        "name": found.name,
        "available": found.available,
        "state": found.state,
        "account": found.account,
    }


def _consent(found: pb.ServiceConsent) -> dict[str, object]:
    return {
        "consent": found.consent_id,
        "kind": found.kind,
        "status": found.status,
        "purpose": found.purpose,
        "purpose_code": found.purpose_code,
        "expire_time": iso(milliseconds(found.expire_time)),
        "uses": found.uses,
    }


def _show_consent(page: Page, found: pb.ServiceConsent, zone: ZoneInfo) -> None:
    page.fields(
        [
            ("id", found.consent_id[:8]),
            ("until", moment(milliseconds(found.expire_time), zone)),
            ("used", str(found.uses)),
        ],
        2,
    )
