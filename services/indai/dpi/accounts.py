"""People's accounts at banks, over an Account Aggregator: consent asked for, its artefact checked,
information fetched within it and never outside.

A consent is ACTIVE here once the aggregator's signed artefact has been fetched and permits no more than was
asked for. What takes a consent away (REVOKED, PAUSED, EXPIRED, REJECTED) is taken at a signed notification's
word; what would give is asked about again, so an old notification gives nothing back.

Information is opened, read and answered; none of it is stored.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog
from aiohttp import web
from indai.dpi.aggregator import Aggregator, read_stamp, stamp
from indai.dpi.consents import Consent, Consents
from indai.dpi.jws import HEADER, signature_of
from indai.dpi.sealing import Exchange
from indai.dpi.statements import Statement, read_statement
from indai.protocol.errors import IndaiError, InvalidInput, NotFound, Reason, Refused, Unavailable
from indai.tools.identity import refuse_aadhaar

CONSENT_HOOK: Final = "/dpi/aa/Consent/Notification"
FI_HOOK: Final = "/dpi/aa/FI/Notification"
DAY_MS: Final = 86_400_000
FETCH_S: Final = 90.0
FRESH_MS: Final = 10 * 60_000
PURPOSES: Final = {
    "101": ("Wealth management service", "Personal Finance"),
    "102": ("Customer spending patterns, budget or other reportings", "Personal Finance"),
    "103": ("Aggregated statement", "Financial Reporting"),
    "104": ("Explicit consent to monitor the accounts", "Account Query and Monitoring"),
    "105": ("Explicit one-time consent for the accounts", "Account Query and Monitoring"),
}
FI_TYPES: Final = ("DEPOSIT", "TERM_DEPOSIT", "RECURRING_DEPOSIT", "MUTUAL_FUNDS", "EQUITIES", "GSTR1_3B")
_TAKES: Final = {"REVOKED", "PAUSED", "EXPIRED", "REJECTED", "FAILED"}
_GIVES: Final = {"ACTIVE", "APPROVED", "READY"}

log = structlog.get_logger(__name__)
Client = Callable[[], Awaitable[Aggregator]]


@dataclass(frozen=True, slots=True)
class Wish:
    """What consent is asked for: `customer` is the person's id at the aggregator, which is not kept."""

    customer: str
    purpose_code: str
    purpose: str
    fi_types: tuple[str, ...]
    months: int
    days: int
    once: bool

    def check(self) -> None:
        """Raises InvalidInput for what can't be asked for."""
        name, at, where = self.customer.partition("@")
        if not (name and at and where) or not self.customer.isascii() or len(self.customer) > 100:
            raise _wrong("customer", "your id at the aggregator, like name@aa")
        refuse_aadhaar({"aadhaar": name}, "The customer's id")
        if self.purpose_code not in PURPOSES:
            raise _wrong("purpose_code", "one of " + ", ".join(PURPOSES))
        if not self.fi_types or set(self.fi_types) - set(FI_TYPES):
            raise _wrong("fi_types", "some of " + ", ".join(FI_TYPES))
        if not 1 <= self.months <= 24 or not 1 <= self.days <= 365:
            raise _wrong("months and days", "1 to 24 months back, 1 to 365 days")


class BankAccounts:
    """Consents and information for every owner of this node."""

    def __init__(
        self,
        client: Client,
        consents: Consents,
        owners: Callable[[], list[str]],
        clock: Callable[[], int],
        ids: Callable[[], tuple[str, str]],
    ) -> None:
        self._client, self._consents, self._owners, self._clock = client, consents, owners, clock
        self._ids = ids
        self._waiting: dict[str, asyncio.Event] = {}

    async def ask(self, owner: str, person: str, wish: Wish, turn: str = "") -> Consent:
        """Ask for consent; the person gives it in their aggregator's app. Asked once for the same turn."""
        wish.check()
        consent_id = self._consents.id_for(owner, person, turn, repr(wish))
        if (known := await self._consents.find(owner, person, consent_id)) is not None:
            return known
        client, now = await self._client(), self._clock()
        detail = {
            "from_ms": now - wish.months * 30 * DAY_MS,
            "to_ms": now + wish.days * DAY_MS,
            "fi_types": list(wish.fi_types),
            "once": wish.once,
        }
        handle = await client.ask(_consent_detail(wish, detail, now, self._ids()[1]))
        return await self._consents.add(
            owner,
            person,
            "aa",
            wish.purpose,
            now + wish.days * DAY_MS,
            purpose_code=wish.purpose_code,
            consent_id=consent_id,
            handle=handle,
            detail=detail,
        )

    async def status(self, owner: str, person: str, consent_id: str) -> Consent:
        """The consent, as it is at the aggregator now."""
        return await self._renewed(await self._consents.get(owner, person, consent_id, "aa"))

    async def revoke(self, owner: str, person: str, consent_id: str) -> Consent:
        """Read nothing more under it. Where it was given, only the person can end it."""
        consent = await self._consents.get(owner, person, consent_id)
        await self._consents.change(consent, "REVOKED")
        return await self._consents.get(owner, person, consent_id)

    async def fetch(
        self, owner: str, person: str, consent_id: str, from_ms: int = 0, to_ms: int = 0
    ) -> list[Statement]:
        """What the consent covers, in [from_ms, to_ms) or all of it. Raises Refused outside of the consent,
        Unavailable when providers take too long."""
        consent = await self._renewed(await self._consents.get(owner, person, consent_id, "aa"))
        now = self._clock()
        consent.check_active(now)
        begin, end = from_ms or consent.detail["from_ms"], to_ms or min(now, consent.detail["to_ms"])
        if not consent.detail["from_ms"] <= begin < end <= consent.detail["to_ms"]:
            raise Refused(
                Reason.PERMISSION_DENIED,
                "The consent does not cover that time.",
                hint="ask within it, or for another consent",
            )
        client, exchange = await self._client(), Exchange()
        material = exchange.material(stamp(now + DAY_MS))
        session = await client.request(
            consent.artefact, signature_of(consent.signature), begin, end, material
        )
        # Counted once the aggregator has agreed, and before anything is read.
        once = bool(consent.detail["once"])
        await self._consents.use(consent, "fetch", most=1, since_ms=0 if once else now - DAY_MS, once=once)
        found = await self._arrived(client, session)
        after = await self._consents.get(owner, person, consent_id, "aa")
        if after.status not in ("ACTIVE", "USED"):
            after.check_active(now)
        return [
            within
            for each in _statements(exchange, found)
            if (within := _covered(each, consent.detail["fi_types"], begin, end)) is not None
        ]

    def routes(self) -> list[web.RouteDef]:
        """Where the aggregator calls."""
        return [web.post(CONSENT_HOOK, self._consent_told), web.post(FI_HOOK, self._session_told)]

    async def _renewed(self, consent: Consent) -> Consent:
        """Ask the aggregator about one that is not active; fetch the artefact of one that became so."""
        if consent.status not in ("PENDING", "PAUSED"):
            return consent
        client = await self._client()
        status, artefact = await client.status(consent.handle)
        if status in _GIVES and artefact:
            return await self._activated(client, consent, artefact)
        if status in _TAKES and status != consent.status:
            await self._consents.change(consent, status)
        return await self._consents.get(consent.owner, consent.person, consent.id)

    async def _activated(self, client: Aggregator, consent: Consent, artefact: str) -> Consent:
        status, signed, said = await client.artefact(artefact)
        if status != "ACTIVE":
            await self._consents.change(consent, status if status in _TAKES else "FAILED")
        else:
            try:
                narrowed, expires_ms = _within(consent, said)
            except (KeyError, TypeError, ValueError):
                await self._consents.change(consent, "FAILED")
                raise IndaiError(
                    Reason.MALFORMED, "The consent artefact permits something else than was asked for."
                ) from None
            await self._consents.change(
                consent, "ACTIVE", artefact=artefact, signature=signed, detail=narrowed, expires_ms=expires_ms
            )
        return await self._consents.get(consent.owner, consent.person, consent.id)

    async def _arrived(self, client: Aggregator, session: str) -> list[dict[str, Any]]:
        """Wait for a session: told by a notification, or asked about in growing steps."""
        told = self._waiting.setdefault(session, asyncio.Event())
        try:
            async with asyncio.timeout(FETCH_S):
                pause = 0.25
                while True:
                    try:
                        return await client.fetch(session)
                    except NotFound:
                        told.clear()
                    try:
                        async with asyncio.timeout(pause):
                            await told.wait()
                    except TimeoutError:
                        pause = min(pause * 2, 8.0)
        except TimeoutError:
            raise Unavailable(
                Reason.DEADLINE_EXCEEDED, "The banks have not answered yet.", hint="try again in some minutes"
            ) from None
        finally:
            self._waiting.pop(session, None)

    async def _consent_told(self, request: web.Request) -> web.Response:
        client, doc, refused = await self._signed(request)
        if refused is not None:
            return refused
        told = doc.get("ConsentStatusNotification")
        told = told if isinstance(told, dict) else {}
        handle, artefact, status = (
            str(told.get(name) or "") for name in ("consentHandle", "consentId", "consentStatus")
        )
        consent = await self._consents.by_handle(self._owners(), "aa", handle, artefact)
        if consent is None:
            return web.json_response({"errorCode": "InvalidConsentId"}, status=404)
        if status in _TAKES:
            await self._consents.change(consent, status)
        elif status in _GIVES:
            try:
                await self._renewed(consent)
            except IndaiError as error:
                log.info("consent not looked at yet", reason=error.reason.name)
        return _acknowledged(client, doc)

    async def _session_told(self, request: web.Request) -> web.Response:
        client, doc, refused = await self._signed(request)
        if refused is not None:
            return refused
        told = doc.get("FIStatusNotification")
        session = str(told.get("sessionId") or "") if isinstance(told, dict) else ""
        if (waiting := self._waiting.get(session)) is not None:
            waiting.set()
        return _acknowledged(client, doc)

    async def _signed(self, request: web.Request) -> tuple[Aggregator, dict[str, Any], web.Response | None]:
        """A notification that the aggregator signed, lately; else what it is answered."""
        body = await request.read()
        try:
            client = await self._client()
        except IndaiError as error:
            log.error("a notification can't be looked at", reason=error.reason.name)
            raise web.HTTPServiceUnavailable from None
        try:
            client.verifier.detached(request.headers.get(HEADER, ""), body)
        except IndaiError:
            log.warning("a notification of the account aggregator is not signed")
            return client, {}, web.json_response({"errorCode": "SignatureDoesNotMatch"}, status=401)
        try:
            doc = json.loads(body)
            known = doc["Notifier"]["id"] == self._ids()[0]
            fresh = abs(read_stamp(doc["timestamp"]) - self._clock()) <= FRESH_MS
        except (ValueError, KeyError, TypeError, RecursionError):
            known = fresh = False
        if not (known and fresh):
            return client, {}, web.json_response({"errorCode": "InvalidRequest"}, status=400)
        return client, doc, None


def _acknowledged(client: Aggregator, doc: dict[str, Any]) -> web.Response:
    body, signature = client.answer(str(doc.get("txnid", ""))[:64])
    return web.Response(body=body, content_type="application/json", headers={HEADER: signature})


def _statements(exchange: Exchange, found: Sequence[dict[str, Any]]) -> list[Statement]:
    statements = []
    for provider in found:
        accounts = provider.get("data")
        for each in accounts if isinstance(accounts, list) else []:
            if not isinstance(each, dict):
                raise IndaiError(Reason.MALFORMED, "The financial information can't be read.")
            plain = exchange.open(provider.get("KeyMaterial"), each.get("encryptedFI"))
            name = str(provider.get("fipID") or provider.get("fipId") or "")
            statements.append(read_statement(name, str(each.get("maskedAccNumber") or ""), plain))
    return statements


def _covered(statement: Statement, fi_types: Sequence[str], begin: int, end: int) -> Statement | None:
    """What of it the consent covers: a provider may send more."""
    if _letters(statement.kind) not in {_letters(each) for each in fi_types}:
        return None
    first, last = stamp(begin)[:10], stamp(end)[:10]
    return replace(statement, entries=tuple(each for each in statement.entries if first <= each.day <= last))


def _letters(kind: str) -> str:
    """A kind of information, however a provider writes it: `TERM_DEPOSIT`, `term-deposit`."""
    return "".join(each for each in kind.upper() if each.isalnum()).rstrip("S")


def _consent_detail(wish: Wish, detail: dict[str, Any], now_ms: int, fiu: str) -> dict[str, Any]:
    text, category = PURPOSES[wish.purpose_code]
    return {
        "consentStart": stamp(now_ms),
        "consentExpiry": stamp(now_ms + wish.days * DAY_MS),
        "consentMode": "VIEW",
        "fetchType": "ONETIME" if wish.once else "PERIODIC",
        "consentTypes": ["SUMMARY", "TRANSACTIONS"],
        "fiTypes": list(wish.fi_types),
        "DataConsumer": {"id": fiu, "type": "FIU"},
        "Customer": {"id": wish.customer},
        "Purpose": {
            "code": wish.purpose_code,
            "refUri": f"https://api.rebit.org.in/aa/purpose/{wish.purpose_code}.xml",
            "text": text,
            "Category": {"type": category},
        },
        "FIDataRange": {"from": stamp(detail["from_ms"]), "to": stamp(detail["to_ms"])},
        # Nothing is kept: it is read, answered, and gone.
        "DataLife": {"unit": "DAY", "value": 0},
        "Frequency": {"unit": "DAY", "value": 1},
    }


def _within(consent: Consent, said: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """What the artefact permits, narrowed to it, and until when. Raises ValueError, KeyError or TypeError if
    that is more, or else, than was asked for."""
    asked = consent.detail
    begin, end = (read_stamp(said["FIDataRange"][name]) for name in ("from", "to"))
    expires_ms = read_stamp(said["consentExpiry"])
    once = {"ONETIME": True, "PERIODIC": False}[said["fetchType"]]
    fits = (
        said["Purpose"]["code"] == consent.purpose_code
        and set(said["fiTypes"]) <= set(asked["fi_types"])
        and asked["from_ms"] <= begin < end <= asked["to_ms"]
        and expires_ms <= consent.expires_ms
        and once >= bool(asked["once"])
    )
    if not fits:
        raise ValueError("another consent")
    types = [each for each in asked["fi_types"] if each in said["fiTypes"]]
    return {"from_ms": begin, "to_ms": end, "fi_types": types, "once": once}, expires_ms


def _wrong(field: str, words: str) -> InvalidInput:
    return InvalidInput(
        Reason.INVALID_ARGUMENT, f"The field {field} does not fit: {words}.", fields={field: words}
    )
