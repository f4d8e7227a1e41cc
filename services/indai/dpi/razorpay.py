"""The wire of a payment provider, Razorpay's: signed webhooks in, payment links and transfers out.

A webhook is a POST whose header `X-Razorpay-Signature` is the hexadecimal HMAC-SHA256 of the raw body under
the secret that was agreed with the provider; nothing else about it is proved, not even other headers. Amounts
are integers in the currency's minor unit. https://razorpay.com/docs/webhooks/payment-links,
https://razorpay.com/docs/api/payments/payment-links,
https://razorpay.com/docs/api/payments/route
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import aiohttp
from indai.protocol.errors import Reason, Unavailable

SIGNATURE_HEADER = "X-Razorpay-Signature"
TIMEOUT_S = 10.0
MAX_ANSWER = 64 * 1024
CAPTURED = ("payment.captured", "payment_link.paid", "payment_link.partially_paid")
ENDED = ("payment_link.expired", "payment_link.cancelled")
FAILED = "payment.failed"
# IND: a commitment. INL: a link that a conversation asked for.
_REFERENCE = re.compile(r"IN[DL][0-9A-F]{32}")
_DESCRIPTION = re.compile(r"#?([A-Za-z0-9_]{1,64})")


@dataclass(frozen=True, slots=True)
class Payment:
    """Money that was captured, or was not: the provider's id, minor units, ISO 4217."""

    id: str
    amount_minor: int
    currency: str
    status: str


@dataclass(frozen=True, slots=True)
class Webhook:
    """What a webhook says. `reference` is ours; where the provider gives only its link's id, `link_id` is."""

    event: str
    reference: str = ""
    link_id: str = ""
    payment: Payment | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """A payment link at the provider."""

    id: str
    url: str


@dataclass(frozen=True, slots=True)
class Transfer:
    """A part of a payment for a linked account, minor units of the payment's currency."""

    account: str
    amount_minor: int


def is_signed(body: bytes, signature: str, secret: str) -> bool:
    """Whether the provider signed exactly these bytes; compared in constant time."""
    expected = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), signature.encode("utf-8", "replace"))


def read(body: bytes) -> Webhook | None:
    """A signed body; None for what is no event of a form known here."""
    try:
        doc = json.loads(body)
        payload, event = doc["payload"], doc["event"]
        link = payload["payment_link"]["entity"] if "payment_link" in payload else {}
        payment = payload["payment"]["entity"] if "payment" in payload else {}
        if not isinstance(event, str):
            return None
        return Webhook(event, _reference(link, payment), _link_id(link, payment), _payment(payment))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _payment(entity: dict[str, Any]) -> Payment | None:
    if not entity:
        return None
    amount, texts = entity["amount"], [entity[name] for name in ("id", "currency", "status")]
    if type(amount) is not int or amount <= 0 or not all(isinstance(text, str) and text for text in texts):
        raise ValueError("no payment")
    return Payment(texts[0][:64], amount, texts[1], texts[2])


def _reference(link: dict[str, Any], payment: dict[str, Any]) -> str:
    """Ours, where it stands: the link's own field, or the notes that go with it (a list when empty)."""
    notes = payment.get("notes")
    found = link.get("reference_id") or (notes.get("reference_id") if isinstance(notes, dict) else "")
    return found if isinstance(found, str) and _REFERENCE.fullmatch(found) else ""


def _link_id(link: dict[str, Any], payment: dict[str, Any]) -> str:
    """A payment on a link names it in its description: `#` and the id without `plink_`."""
    if isinstance(link.get("id"), str):
        return str(link["id"])
    match = _DESCRIPTION.fullmatch(payment.get("description") or "")
    return f"plink_{match[1]}" if match else ""


class Provider:
    """The provider's API for payment links. `key` is `key id:key secret`."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def open_page(
        self,
        base: str,
        key: str,
        *,
        amount_minor: int,
        currency: str,
        reference: str,
        purpose: str,
        due_ms: int,
    ) -> Page:
        """A page for one commitment; the same again when the provider has one under this reference. Raises
        Unavailable."""
        wanted = {
            "amount": amount_minor,
            "currency": currency,
            "accept_partial": False,
            "reference_id": reference,
            "description": purpose,
            "expire_by": due_ms // 1000,
            "notes": {"reference_id": reference},
        }
        known = await self._call("GET", base, key, f"/v1/payment_links?reference_id={reference}")
        links = known.get("payment_links")
        found = [each for each in links if _is_ours(each, reference)] if isinstance(links, list) else []
        entity = found[0] if found else await self._call("POST", base, key, "/v1/payment_links", wanted)
        page, url = entity.get("id"), entity.get("short_url")
        if not isinstance(page, str) or not isinstance(url, str) or not _is_ours(entity, reference):
            raise _unavailable("its answer is no payment link")
        if (entity.get("amount"), entity.get("currency")) != (amount_minor, currency):
            raise _unavailable("its payment link is over another amount")
        return Page(page, url)

    async def close_page(self, base: str, key: str, page: str) -> None:
        """Nobody can pay on it any more. Raises Unavailable."""
        await self._call("POST", base, key, f"/v1/payment_links/{page}/cancel")

    async def transfer(
        self,
        base: str,
        key: str,
        payment_id: str,
        currency: str,
        reference: str,
        wanted: Sequence[Transfer],
    ) -> None:
        """Transfers from a captured payment, each once: the provider has no idempotency key for these, so it
        is asked first which are there. Whoever calls keeps others from calling meanwhile. Raises
        Unavailable."""
        path = f"/v1/payments/{quote(payment_id, safe='')}/transfers"
        known = (await self._call("GET", base, key, path)).get("items")
        if not isinstance(known, list):
            raise _unavailable("its answer is no list of transfers")
        there = {each["recipient"]: each["amount"] for each in known if _is_noted(each, reference)}
        if any(there.get(each.account, each.amount_minor) != each.amount_minor for each in wanted):
            raise _unavailable("it has transfers of other amounts")
        missing = [each for each in wanted if each.account not in there]
        if missing:
            made = [
                {
                    "account": each.account,
                    "amount": each.amount_minor,
                    "currency": currency,
                    "notes": {"reference_id": reference},
                }
                for each in missing
            ]
            answer = await self._call("POST", base, key, path, {"transfers": made})
            if not isinstance(answer.get("items"), list) or len(answer["items"]) != len(made):
                raise _unavailable("its answer is no list of transfers")

    async def _call(
        self, method: str, base: str, key: str, path: str, doc: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        name, _, secret = key.partition(":")
        try:
            async with self._session.request(
                method,
                base.rstrip("/") + path,
                json=doc,
                headers={"Authorization": aiohttp.encode_basic_auth(name, secret)},
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
            ) as answer:
                body = await answer.content.read(MAX_ANSWER + 1)
                if answer.status != 200 or len(body) > MAX_ANSWER:
                    raise _unavailable(f"it answers with status {answer.status}")
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _unavailable(type(error).__name__) from None
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise _unavailable("its answer is no JSON object")
        return found


def _is_ours(entity: Any, reference: str) -> bool:
    return isinstance(entity, dict) and entity.get("reference_id") == reference


def _is_noted(entity: Any, reference: str) -> bool:
    """A transfer of ours that has not failed."""
    notes = entity.get("notes") if isinstance(entity, dict) else None
    ours = isinstance(notes, dict) and notes.get("reference_id") == reference
    return ours and entity.get("status") != "failed" and {"recipient", "amount"} <= set(entity)


def _unavailable(why: str) -> Unavailable:
    return Unavailable(Reason.UNREACHABLE, f"The payment provider can't be used: {why}.")
