"""The tools themselves: each is what the desk does, for whoever calls. `tools_of` makes all of them.

At the private door the person is the owner. At the distribution door it is whoever talks there, and only if
their channel has proved who they are: documents and accounts are theirs, not the owner's. A price at any door
but the owner's own comes out of the stock, never out of a model's arguments.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from indai.dpi import specs
from indai.dpi.accounts import Wish
from indai.dpi.consents import Consent
from indai.dpi.desk import Desk
from indai.dpi.paylinks import PaymentLink, PaymentLinks, Share, read_shares
from indai.dpi.statements import Statement
from indai.protocol.errors import InvalidInput, Reason, Refused
from indai.tools.identity import refuse_aadhaar
from indai.tools.values import Act, Caller, Progress, Spec, Tool

Arguments = Mapping[str, Any]
Result = dict[str, Any]
Price = Callable[[str, str, int], tuple[int, str, str]]
"""(owner, item, quantity) -> amount in minor units, currency, what it is. Raises NotFound, InvalidInput."""
Money = Callable[[int, str], str]


@dataclass(frozen=True, slots=True)
class DeskTool:
    """One of the desk's acts."""

    spec: Spec
    work: Callable[[Caller, Arguments], Awaitable[Result]]

    async def run(self, caller: Caller, arguments: Arguments, progress: Progress) -> Result:
        """See `Tool`."""
        refuse_aadhaar(arguments, "The request")
        _check_caller(caller, self.spec)
        return await self.work(caller, arguments)


@dataclass(frozen=True, slots=True)
class SplitTool:
    """Splitting shows the owner exact amounts before it is done."""

    links: PaymentLinks
    money: Money
    spec: Spec = specs.SPLIT_PAYMENT

    async def prepare(self, caller: Caller, arguments: Arguments) -> Act:
        """See `Prepares`."""
        _check_caller(caller, self.spec)
        shares, keep = read_shares(arguments["shares"]), arguments["keep"]
        link = await self.links.get(caller.owner, arguments["reference"])
        parts = await self.links.parts(caller.owner, link.reference, shares, keep)
        lines = [
            f"  {part.account or 'you'}: {self.money(part.amount_minor, link.currency)}" for part in parts
        ]
        paid = self.money(link.paid_minor, link.currency)
        return Act(arguments, "\n".join([f"Split {paid}, paid for {link.purpose!r}:", *lines]))

    async def run(self, caller: Caller, arguments: Arguments, progress: Progress) -> Result:
        """See `Tool`."""
        _check_caller(caller, self.spec)
        shares, keep = read_shares(arguments["shares"]), arguments["keep"]
        link = await self.links.get(caller.owner, arguments["reference"])
        *parts, own = await self.links.split(caller.owner, link.reference, shares, keep)
        return {
            "reference": link.reference,
            "currency": link.currency,
            "parts": [_part(part) for part in parts],
            "kept": own.amount_minor,
        }


def tools_of(desk: Desk, price: Price, money: Money) -> tuple[Tool, ...]:
    """Every tool; those of services that are not set up refuse, saying so."""
    work = _Work(desk, price)
    return (
        DeskTool(specs.DIGILOCKER_CONNECT, work.connect),
        DeskTool(specs.DIGILOCKER_LIST, work.documents),
        DeskTool(specs.DIGILOCKER_PULL, work.pull),
        DeskTool(specs.AA_CONSENT, work.consent),
        DeskTool(specs.AA_FETCH, work.fetch),
        DeskTool(specs.ABDM_LOOKUP, work.look_up),
        DeskTool(
            specs.payment_link("create-payment-link", "Make a page on which a customer pays."), work.link
        ),
        DeskTool(specs.payment_link("payment-link", "Make a page on which a fee is paid."), work.link),
        DeskTool(specs.PAYMENT_STATUS, work.paid),
        SplitTool(desk.links, money),
    )


@dataclass(frozen=True, slots=True)
class _Work:
    desk: Desk
    price: Price

    async def connect(self, caller: Caller, arguments: Arguments) -> Result:
        if code := arguments.get("code", ""):
            found = await self.desk.lockers.confirm(caller.owner, caller.person, code)
            return {"summary": "DigiLocker is connected.", "account": found.account}
        purpose = _needed(arguments, "purpose")
        url = await self.desk.lockers.begin(caller.owner, caller.person, purpose)
        return {"summary": "Open the address, allow it, and say the code that is shown then.", "url": url}

    async def documents(self, caller: Caller, arguments: Arguments) -> Result:
        found = await self.desk.lockers.issued(caller.owner, caller.person)
        return {
            "documents": [
                {
                    "reference": each.uri,
                    "name": each.name,
                    "issuer": each.issuer,
                    "date": each.date,
                    "only_reference": each.is_aadhaar,
                }
                for each in found
            ]
        }

    async def pull(self, caller: Caller, arguments: Arguments) -> Result:
        found, link, until = await self.desk.lockers.pull(caller.owner, caller.person, arguments["reference"])
        return {
            "reference": found.reference,
            "mime": found.mime,
            "size": found.size,
            "link": link,
            "until": until,
        }

    async def consent(self, caller: Caller, arguments: Arguments) -> Result:
        if known := arguments.get("consent", ""):
            return _consent(await self.desk.accounts.status(caller.owner, caller.person, known))
        wish = Wish(
            _needed(arguments, "customer"),
            _needed(arguments, "purpose_code"),
            _needed(arguments, "purpose"),
            tuple(arguments.get("fi_types", ("DEPOSIT",))),
            arguments.get("months", 3),
            arguments.get("days", 30),
            arguments.get("once", True),
        )
        asked = _consent(await self.desk.accounts.ask(caller.owner, caller.person, wish, _turn(caller)))
        return asked | {"summary": "Consent is asked for: please give it in your Account Aggregator's app."}

    async def fetch(self, caller: Caller, arguments: Arguments) -> Result:
        zone = ZoneInfo(caller.time_zone)
        begin, end = (_day(arguments.get(name, ""), zone) for name in ("from_day", "to_day"))
        found = await self.desk.accounts.fetch(caller.owner, caller.person, arguments["consent"], begin, end)
        return {"accounts": [_account(each) for each in found]}

    async def look_up(self, caller: Caller, arguments: Arguments) -> Result:
        if code := arguments.get("code", ""):
            consent = _needed(arguments, "consent")
            found = await self.desk.health.look_up(caller.owner, caller.person, consent, code)
            names = ("name", "address", "number", "gender", "born")
            return {"consent": consent, "patient": {name: getattr(found, name) for name in names}}
        address, purpose = _needed(arguments, "address"), _needed(arguments, "purpose")
        asked = await self.desk.health.ask(caller.owner, caller.person, address, purpose, _turn(caller))
        words = "A code was sent to the patient's phone; it is needed to go on."
        return {"summary": words, "consent": asked.id, "until": asked.expires_ms}

    async def link(self, caller: Caller, arguments: Arguments) -> Result:
        item, quantity = arguments.get("item", ""), arguments.get("quantity", 1)
        if item:
            amount, currency, title = self.price(caller.owner, item, quantity)
            purpose = f"{quantity} x {title}"
        elif caller.door == "private":
            amount, currency = int(_needed(arguments, "amount")), arguments.get("currency", "INR")
            purpose = _needed(arguments, "purpose")
        else:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, "Here a payment is for an item of the stock, at its price."
            )
        days = arguments.get("days", 7)
        return _link(
            await self.desk.links.create(caller.owner, _turn(caller), amount, currency, purpose[:200], days)
        )

    async def paid(self, caller: Caller, arguments: Arguments) -> Result:
        return _link(await self.desk.links.get(caller.owner, arguments["reference"]))


def _check_caller(caller: Caller, spec: Spec) -> None:
    """The toolbox has looked at door and owner; this holds also where a tool is called by itself."""
    if not caller.owner or caller.door not in spec.doors:
        raise Refused(Reason.PERMISSION_DENIED, f"{spec.name} may not be used here.")
    personal = spec.doors != specs.EVERY_DOOR
    if personal and not (caller.person and caller.verified):
        raise Refused(Reason.PERMISSION_DENIED, "Please prove first who you are.")


def _turn(caller: Caller) -> str:
    """What is the same when a call is repeated, and else never."""
    return f"{caller.session}/{caller.turn}" if caller.turn else uuid.uuid4().hex


def _needed(arguments: Arguments, name: str) -> str:
    value = arguments.get(name)
    if value in (None, ""):
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"{name} is missing.", fields={name: "missing"})
    return str(value)


def _consent(consent: Consent) -> Result:
    return {
        "consent": consent.id,
        "status": consent.status,
        "purpose": consent.purpose,
        "expires": consent.expires_ms,
        "readings": consent.uses,
    }


def _account(found: Statement) -> Result:
    entries = [
        {"day": each.day, "kind": each.kind, "amount": each.amount_minor, "words": each.words}
        for each in found.entries
    ]
    shown = {"bank": found.provider, "number": found.number, "kind": found.kind, "currency": found.currency}
    balance = {} if found.balance_minor is None else {"balance": found.balance_minor}
    return {**shown, **balance, "transactions": entries}


def _link(link: PaymentLink) -> Result:
    return {
        "reference": link.reference,
        "url": link.url,
        "amount": link.amount_minor,
        "currency": link.currency,
        "purpose": link.purpose,
        "paid": link.paid_minor,
        "status": link.status,
        "until": link.expires_ms,
    }


def _part(share: Share) -> Result:
    return {"account": share.account, "amount": share.amount_minor}


def _day(text: str, zone: ZoneInfo) -> int:
    """The start of a local day, ms; 0 for none."""
    if not text:
        return 0
    try:
        at = datetime.combine(date.fromisoformat(text), time(), zone)
    except ValueError:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"{text[:20]!r} is no day.", hint="2026-11-22") from None
    return round(at.timestamp() * 1000)
