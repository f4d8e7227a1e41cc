"""What the tools of public services and payments are: words for a model, schemas, doors.

Properties marked `x-unkept` are seen by who asked and stand in no row; `x-health` tags what is about health.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from indai.dpi.accounts import FI_TYPES, PURPOSES
from indai.tools.values import Effect, Spec, Touch

KNOWN: Final = frozenset({"private", "distribution"})
EVERY_DOOR: Final = frozenset({"private", "distribution", "public"})
_TEXT: Final = {"type": "string", "maxLength": 400}
_PURPOSE: Final = {
    "type": "string",
    "minLength": 3,
    "maxLength": 200,
    "description": "What it is needed for, in the person's words",
}


def _object(required: tuple[str, ...] = (), **properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _said(about: Mapping[str, Any] = _TEXT, **marks: Any) -> dict[str, Any]:
    return {**about, **{f"x-{name}": value for name, value in marks.items()}}


_MONEY: Final = {"type": "integer", "x-format": "money_minor"}
_TIME: Final = {"type": "integer", "x-format": "local_time"}
_HEALTH: Final = _said(untrusted=True, unkept=True, health=True)
_SUMMARY: Final = {"type": "string", "x-importance": 3}

DIGILOCKER_CONNECT: Final = Spec(
    "digilocker-connect",
    "Connect the person's DigiLocker: without a code, gives the address that they open; with the code that "
    "their browser then shows, finishes.",
    _object(purpose=_PURPOSE, code={"type": "string", "maxLength": 20, "x-secret": True}),
    _object(
        summary=_SUMMARY,
        url=_said({"type": "string"}, label="open this", importance=3, unkept=True),
        account=_said(label="account", untrusted=True),
    ),
    Effect.ACT,
    frozenset({Touch.PRIVATE}),
    KNOWN,
)
DIGILOCKER_LIST: Final = Spec(
    "digilocker-list",
    "List the documents in the person's DigiLocker, each with the reference that digilocker-pull takes.",
    _object(),
    _object(
        documents={
            "type": "array",
            "items": _object(
                reference=_said(importance=3),
                name=_said(untrusted=True, importance=3),
                issuer=_said(untrusted=True),
                date=_said(untrusted=True),
                only_reference={"type": "boolean", "x-label": "never pulled"},
            ),
        }
    ),
    Effect.READ,
    frozenset({Touch.PRIVATE, Touch.UNTRUSTED}),
    KNOWN,
    needs="digilocker",
)
DIGILOCKER_PULL: Final = Spec(
    "digilocker-pull",
    "Fetch one document out of the person's DigiLocker by its reference; gives a link to it that soon ends.",
    _object(("reference",), reference={"type": "string", "maxLength": 200}),
    _object(
        reference=_said(),
        mime=_said(label="type"),
        size={"type": "integer", "x-label": "bytes"},
        link=_said({"type": "string"}, importance=3, unkept=True),
        until={**_TIME, "x-label": "link ends"},
    ),
    Effect.ACT,
    frozenset({Touch.PRIVATE}),
    KNOWN,
    needs="digilocker",
    timeout_s=20.0,
)
AA_CONSENT: Final = Spec(
    "aa-consent",
    "Ask the person for consent to read their bank accounts over their Account Aggregator; or, with the id "
    "of a consent, say how it stands. Purpose codes: "
    + "; ".join(f"{code} {words}" for code, (words, _) in PURPOSES.items()),
    _object(
        consent={"type": "string", "maxLength": 40, "description": "Of one that was asked for"},
        customer={"type": "string", "maxLength": 100, "x-unkept": True, "description": "Like name@aa"},
        purpose=_PURPOSE,
        purpose_code={"type": "string", "enum": list(PURPOSES)},
        fi_types={
            "type": "array",
            "items": {"type": "string", "enum": list(FI_TYPES)},
            "minItems": 1,
            "uniqueItems": True,
        },
        months={"type": "integer", "minimum": 1, "maximum": 24, "description": "How far back"},
        days={"type": "integer", "minimum": 1, "maximum": 365, "description": "How long it holds"},
        once={"type": "boolean", "description": "For one reading only"},
    ),
    _object(
        summary=_SUMMARY,
        consent=_said(importance=3),
        status=_said(importance=3),
        purpose=_said(),
        expires={**_TIME, "x-label": "holds until"},
        readings={"type": "integer"},
    ),
    Effect.ACT,
    frozenset({Touch.PRIVATE, Touch.OUTSIDE}),
    KNOWN,
    needs="account-aggregator",
    timeout_s=20.0,
)
AA_FETCH: Final = Spec(
    "aa-fetch",
    "Read the person's bank accounts under a consent that they have given: balances and transactions.",
    _object(
        ("consent",),
        consent={"type": "string", "maxLength": 40},
        from_day={"type": "string", "format": "date", "maxLength": 10},
        to_day={"type": "string", "format": "date", "maxLength": 10},
    ),
    _object(
        accounts={
            "type": "array",
            "x-unkept": True,
            "items": _object(
                bank=_said(untrusted=True),
                number=_said(importance=3),
                kind=_said(untrusted=True),
                balance={**_MONEY, "x-importance": 3},
                currency=_said(untrusted=True),
                transactions={
                    "type": "array",
                    "items": _object(
                        day={"type": "string", "x-format": "date"},
                        kind=_said(untrusted=True),
                        amount=_MONEY,
                        words=_said(untrusted=True),
                    ),
                },
            ),
        }
    ),
    # Not READ: the same again is another reading, which the consent counts.
    Effect.ACT,
    frozenset({Touch.PRIVATE, Touch.UNTRUSTED}),
    KNOWN,
    needs="account-aggregator",
    long_running=True,
    timeout_s=110.0,
)
ABDM_LOOKUP: Final = Spec(
    "abdm-lookup",
    "Look up who a patient is by their ABHA address, with their consent: first with address and purpose, "
    "which sends the patient a code; then with the consent's id and the code that the patient gave.",
    _object(
        address={"type": "string", "maxLength": 60, "x-unkept": True, "x-health": True},
        purpose=_PURPOSE,
        consent={"type": "string", "maxLength": 40},
        code={"type": "string", "maxLength": 10, "x-secret": True},
    ),
    _object(
        summary=_SUMMARY,
        consent=_said(importance=3),
        until={**_TIME, "x-label": "code valid until"},
        patient=_object(name=_HEALTH, address=_HEALTH, number=_HEALTH, gender=_HEALTH, born=_HEALTH),
    ),
    Effect.ACT,
    frozenset({Touch.PRIVATE, Touch.OUTSIDE, Touch.UNTRUSTED}),
    KNOWN,
    needs="abdm",
    timeout_s=30.0,
)


def payment_link(name: str, what: str) -> Spec:
    """The two tools that make pages to pay on; agents know them by two names."""
    return Spec(
        name,
        f"{what} Of an item in the owner's stock, at its price; any other amount only in the owner's own "
        "conversation.",
        _object(
            item={"type": "string", "maxLength": 128, "description": "SKU or id in the stock"},
            quantity={"type": "integer", "minimum": 1, "maximum": 10_000},
            amount={**_MONEY, "minimum": 1, "description": "In minor units, e.g. paise"},
            currency={"type": "string", "pattern": "^[A-Z]{3}$"},
            purpose=_PURPOSE,
            days={"type": "integer", "minimum": 1, "maximum": 90},
        ),
        PAYMENT_STATUS.result,
        Effect.ACT,
        frozenset({Touch.OUTSIDE}),
        EVERY_DOOR,
        needs="razorpay",
        timeout_s=25.0,
    )


PAYMENT_STATUS: Final = Spec(
    "payment-status",
    "Say whether a payment link was paid, by its reference.",
    _object(("reference",), reference={"type": "string", "maxLength": 40}),
    _object(
        reference=_said(importance=3),
        url=_said({"type": "string"}, label="pay here", importance=3),
        amount={**_MONEY, "x-importance": 3},
        currency=_said(),
        purpose=_said(),
        paid=_MONEY,
        status=_said(importance=3),
        until={**_TIME, "x-label": "open until"},
    ),
    Effect.READ,
    frozenset(),
    EVERY_DOOR,
    needs="razorpay",
)
SPLIT_PAYMENT: Final = Spec(
    "split-payment",
    "Split what was paid on a link between linked accounts by weights; `keep` is the owner's own weight.",
    _object(
        ("reference", "shares", "keep"),
        reference={"type": "string", "maxLength": 40},
        shares={
            "type": "array",
            "minItems": 1,
            "maxItems": 20,
            "items": _object(
                ("account", "weight"),
                account={"type": "string", "maxLength": 40},
                weight={"type": "integer", "minimum": 1, "maximum": 10**9},
            ),
        },
        keep={"type": "integer", "minimum": 0, "maximum": 10**9},
    ),
    _object(
        reference=_said(),
        currency=_said(),
        parts={
            "type": "array",
            "items": _object(account=_said(importance=3), amount={**_MONEY, "x-importance": 3}),
        },
        kept={**_MONEY, "x-label": "kept"},
    ),
    Effect.IRREVERSIBLE,
    frozenset({Touch.OUTSIDE}),
    needs="razorpay",
    timeout_s=28.0,
)
