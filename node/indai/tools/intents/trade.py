"""Paying and booking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from indai.protocol.errors import InvalidInput, NotFound, Reason
from indai.tools.desk import Desk, Desks, request_id, settle
from indai.tools.files import Keep
from indai.tools.intents.common import (
    ACTS,
    MINUTES,
    TIME,
    TIMEOUT_S,
    WHEN,
    WITH,
    arguments,
    shown,
    with_more,
    zone_of,
)
from indai.tools.intents.handing import with_invitation, with_link
from indai.tools.normalise import Money, local_time, one_line
from indai.tools.people import People
from indai.tools.values import Act, Caller, Effect, Progress, Spec
from indai.tools.when import read_when
from indai.v1 import commerce_pb2, intents_pb2, negotiation_pb2, owner_pb2

DAY_MS: Final = 86_400_000
DUE_DAYS: Final = 7
MAX_RUPEES: Final = 10_000_000_000
_DIRECTION: Final = {True: intents_pb2.PAY_DIRECTION_REQUEST, False: intents_pb2.PAY_DIRECTION_OFFER}
_RUPEES: Final = {
    "type": "number",
    "exclusiveMinimum": 0,
    "maximum": MAX_RUPEES,
    "description": "The amount in rupees.",
    "x-label": "Rupees",
}
_PAID: Final = with_more(
    amount_minor={"type": "integer", "x-format": "money_minor", "x-label": "amount", "x-importance": 3},
    pay_link={"type": "string", "x-label": "link to pay", "x-importance": 3},
)


@dataclass(frozen=True, slots=True)
class Pay:
    """Promises a peer a payment, or asks to be paid; the money moves by the link that comes of it."""

    desks: Desks
    people: People
    money: Money
    keep: Keep

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        return Spec(
            "pay",
            "Agree on a payment to somebody, or ask somebody to pay. Gives the link to pay by.",
            arguments(
                ("with", "rupees"),
                **{"with": WITH},
                rupees=_RUPEES,
                purpose={"type": "string", "maxLength": 200, "x-label": "For"},
                ask_to_be_paid={"type": "boolean", "description": "True when they are to pay the owner."},
                every={
                    "type": "string",
                    "maxLength": 40,
                    "description": "How often, if they said so; they are told that a payment is made once.",
                    "x-label": "Every",
                },
            ),
            _PAID,
            Effect.ACT,
            ACTS,
            timeout_s=TIMEOUT_S,
            files=True,
        )

    async def prepare(self, caller: Caller, arguments: Mapping[str, Any]) -> Act:
        """See `Prepares`. Raises InvalidInput (`PAID_ONCE`) for what is to be paid again and again: one
        payment would be something else than was asked for."""
        if one_line(arguments.get("every") or "", 40):
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                "A payment is made once, and none by itself every so often: leave that out for one payment"
                " now, or permit what they ask for with a mandate.",
                hint="indai mandate add --help",
                metadata={"code": "PAID_ONCE"},
            )
        peer = await self.people.one(caller, self.desks(caller.owner), arguments["with"])
        asks = bool(arguments.get("ask_to_be_paid"))
        payee = caller.owner if asks else peer
        made: dict[str, Any] = {
            "with": peer,
            "amount_minor": _minor(arguments["rupees"]),
            "currency": "INR",
            "purpose": one_line(arguments.get("purpose") or f"Payment to {payee}", 200),
            "asks": asks,
        }
        amount = self.money(made["amount_minor"], "INR")
        head = f"Ask {peer} to pay {amount}" if asks else f"Pay {peer} {amount}"
        return Act(made, f"{head}\n  for: {made['purpose']}\n  within {DUE_DAYS} days")

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`."""
        desk, peer = self.desks(caller.owner), arguments["with"]
        asks = bool(arguments["asks"])
        wish = intents_pb2.PayWish(
            direction=_DIRECTION[asks],
            payee=await _address(desk) if asks else "",
            amount_minor=arguments["amount_minor"],
            currency=arguments["currency"],
            purpose=arguments["purpose"],
            due_ms=caller.now_ms + DUE_DAYS * DAY_MS,
        )
        await progress(f"agreeing on {self.money(arguments['amount_minor'], 'INR')} with {peer}")
        request = owner_pb2.StartIntentRequest(
            request_id=request_id(caller, "pay", peer, arguments["amount_minor"], arguments["purpose"]),
            peer=peer,
            wish=negotiation_pb2.Propose(pay=wish),
        )
        thread = await settle(desk, (await desk.owner.StartIntent(request)).thread, progress)
        result = await shown(caller, desk, thread) | {"amount_minor": arguments["amount_minor"]}
        result.pop("when", None)
        return result if asks else await with_link(desk, self.keep, result)


def _minor(rupees: float) -> int:
    """Paise, exactly. Raises InvalidInput for less than a paisa, or a part of one."""
    paise = Decimal(str(rupees)) * 100
    if paise != paise.to_integral_value() or paise < 1:
        raise InvalidInput(Reason.INVALID_ARGUMENT, "An amount has at most two digits after the point.")
    return int(paise)


async def _address(desk: Desk) -> str:
    found = await desk.commerce.GetPayAccount(commerce_pb2.GetPayAccountRequest())
    if not found.account.payee:
        raise NotFound(
            Reason.NOT_FOUND,
            "You have no address to be paid at yet.",
            hint="indai pay account --address upi:you@bank",
            metadata={"code": "NO_PAY_ADDRESS"},
        )
    return found.account.payee


@dataclass(frozen=True, slots=True)
class Book:
    """Books something of a peer's stock, for good or for a time."""

    desks: Desks
    people: People
    money: Money
    keep: Keep

    @property
    def spec(self) -> Spec:
        """See `Tool`."""
        return Spec(
            "book",
            "Book or order something at a shop, cafe or clinic: an article, or a table or room for a time.",
            arguments(
                ("with", "item"),
                **{"with": WITH, "when": WHEN, "time": TIME, "duration_minutes": MINUTES},
                item={
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 128,
                    "pattern": "^[ -~]+$",
                    "description": "SKU or name, as the other side calls it.",
                    "x-label": "Item",
                },
                quantity={"type": "integer", "minimum": 1, "maximum": 10_000, "x-label": "How many"},
                max_rupees={**_RUPEES, "description": "The most to be paid for all of it."},
            ),
            with_more(),
            Effect.ACT,
            ACTS,
            timeout_s=TIMEOUT_S,
            files=True,
        )

    async def prepare(self, caller: Caller, arguments: Mapping[str, Any]) -> Act:
        """See `Prepares`."""
        peer = await self.people.one(caller, self.desks(caller.owner), arguments["with"])
        minutes = int(arguments.get("duration_minutes", 60))
        made: dict[str, Any] = {
            "with": peer,
            "item": arguments["item"],
            "quantity": int(arguments.get("quantity", 1)),
            "max_minor": _minor(arguments["max_rupees"]) if "max_rupees" in arguments else 0,
            "minutes": 0,
            "windows": [],
            "words": "",
        }
        terms = [f"Book at {peer}: {made['quantity']} of {made['item']}"]
        if arguments.get("when") or arguments.get("time"):
            zone = zone_of(caller)
            when = read_when(
                arguments.get("when", ""), arguments.get("time", ""), minutes, caller.now_ms, zone
            )
            made |= {
                "minutes": minutes,
                "windows": [[each.start_ms, each.end_ms] for each in when.windows],
                "words": when.words,
            }
            terms.append(f"  {minutes} minutes {when.words}, from {local_time(when.whole.start_ms, zone)}")
        limit = (
            f"at most {made['max_minor'] / 100:.2f} rupees" if made["max_minor"] else "at the price they name"
        )
        return Act(made, "\n".join([*terms, f"  {limit}"]))

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        """See `Tool`."""
        desk, peer = self.desks(caller.owner), arguments["with"]
        await progress(f"booking {arguments['item']} at {peer}")
        wish = intents_pb2.BookWish(
            item=arguments["item"],
            title=arguments["item"],
            quantity=arguments["quantity"],
            windows=[intents_pb2.Window(start_ms=start, end_ms=end) for start, end in arguments["windows"]],
            duration_minutes=arguments["minutes"],
            max_price_minor=arguments["max_minor"],
            currency="INR" if arguments["max_minor"] else "",
        )
        named = (arguments[name] for name in ("item", "quantity", "words", "minutes"))
        request = owner_pb2.StartIntentRequest(
            request_id=request_id(caller, "book", peer, *named),
            peer=peer,
            wish=negotiation_pb2.Propose(book=wish),
        )
        thread = await settle(desk, (await desk.owner.StartIntent(request)).thread, progress)
        return await with_invitation(desk, self.keep, await shown(caller, desk, thread))
