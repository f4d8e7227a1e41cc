"""An Account Aggregator's wire: the ReBIT specification, version 2.0.0, as a financial information user.

    POST /Consent           ConsentDetail                -> ConsentHandle
    POST /Consent/handle    ConsentHandle                -> ConsentStatus
    POST /Consent/fetch     consentId                    -> signedConsent
    POST /FI/request        FIDataRange, KeyMaterial     -> sessionId
    POST /FI/fetch          sessionId                    -> FI, sealed for this request

Every body is signed in `x-jws-signature`, and so is every answer, over its exact bytes; an answer repeats our
`txnid`. https://api.rebit.org.in/
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from indai.dpi.jws import HEADER, Signer, Verifier
from indai.dpi.remote import Answer, Remote
from indai.protocol.errors import NotFound, Reason, Refused

VERSION: Final = "2.0.0"
MAX_FI: Final = 16 * 1024 * 1024
_CODE: Final = re.compile(r"[A-Za-z]{1,40}")


class Aggregator:
    """One aggregator, as one user of it. Every method may raise Unavailable, Refused, and
    IndaiError(BAD_SIGNATURE) for an answer that it did not sign."""

    def __init__(
        self, remote: Remote, api_key: str, signer: Signer, verifier: Verifier, clock: Callable[[], int]
    ) -> None:
        self._remote, self._api_key = remote, api_key
        self._signer, self._clock = signer, clock
        self.verifier = verifier

    async def ask(self, detail: Mapping[str, Any]) -> str:
        """Ask for a consent; its handle."""
        return self._text(await self._post("/Consent", ConsentDetail=detail), "ConsentHandle")

    async def status(self, handle: str) -> tuple[str, str]:
        """(status, consent id or "") of a handle."""
        doc = await self._post("/Consent/handle", ConsentHandle=handle)
        found = doc.get("ConsentStatus")
        if doc.get("ConsentHandle") != handle or not isinstance(found, dict):
            raise self._remote.broken("no status of this consent")
        return self._text(found, "status"), str(found.get("id") or "")

    async def artefact(self, consent_id: str) -> tuple[str, str, dict[str, Any]]:
        """(status, the signed artefact, what it says)."""
        doc = await self._post("/Consent/fetch", consentId=consent_id)
        if doc.get("consentId") != consent_id:
            raise self._remote.broken("another consent")
        signed = self._text(doc, "signedConsent")
        return self._text(doc, "status"), signed, self.verifier.compact(signed)

    async def request(
        self, consent_id: str, signature: str, from_ms: int, to_ms: int, material: Mapping[str, Any]
    ) -> str:
        """Ask for information under a consent; the session's id."""
        doc = await self._post(
            "/FI/request",
            FIDataRange={"from": stamp(from_ms), "to": stamp(to_ms)},
            Consent={"id": consent_id, "digitalSignature": signature},
            KeyMaterial=material,
        )
        if doc.get("consentId") != consent_id:
            raise self._remote.broken("another consent")
        return self._text(doc, "sessionId")

    async def fetch(self, session: str) -> list[dict[str, Any]]:
        """The sealed information of a session. Raises NotFound while there is none yet."""
        doc = await self._post("/FI/fetch", max_bytes=MAX_FI, sessionId=session)
        found = doc.get("FI")
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            raise self._remote.broken("no financial information")
        return found

    def answer(self, txnid: str) -> tuple[bytes, str]:
        """The body that acknowledges a notification, and its signature."""
        body = json.dumps(self._envelope(txnid) | {"response": "OK"}).encode()
        return body, self._signer.detached(body)

    async def _post(self, path: str, *, max_bytes: int = 1024 * 1024, **fields: Any) -> dict[str, Any]:
        txnid = str(uuid.uuid4())
        body = json.dumps(self._envelope(txnid) | fields).encode()
        answer = await self._remote.call(
            "POST",
            path,
            data=body,
            max_bytes=max_bytes,
            headers={
                "Content-Type": "application/json",
                "client_api_key": self._api_key,
                HEADER: self._signer.detached(body),
            },
        )
        if answer.status >= 400:
            raise self._refused(answer)
        self.verifier.detached(answer.headers.get(HEADER, ""), answer.body)
        doc = answer.json()
        if doc.get("txnid") != txnid:
            raise self._remote.broken("an answer to another request")
        return doc

    def _refused(self, answer: Answer) -> Refused | NotFound:
        """Its words are not repeated, its code is: it is one of a list."""
        code = answer.json().get("errorCode")
        if answer.status == 404:
            return NotFound(Reason.NOT_FOUND, "The Account Aggregator does not have that (yet).")
        named = code if isinstance(code, str) and _CODE.fullmatch(code) else str(answer.status)
        return Refused(Reason.PROVIDER_REFUSED, f"The Account Aggregator refuses this: {named}.")

    def _envelope(self, txnid: str) -> dict[str, Any]:
        return {"ver": VERSION, "timestamp": stamp(self._clock()), "txnid": txnid}

    def _text(self, doc: Mapping[str, Any], name: str) -> str:
        value = doc.get(name)
        if not isinstance(value, str) or not 0 < len(value) <= 64 * 1024:
            raise self._remote.broken(f"no {name}")
        return value


def stamp(ms: int) -> str:
    """A time as the specification writes it."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03d}Z"


def read_stamp(text: Any) -> int:
    """Milliseconds since the epoch. Raises ValueError, also for a time without a zone."""
    at = datetime.fromisoformat(str(text))
    if at.tzinfo is None:
        raise ValueError("a time without a zone")
    return round(at.timestamp() * 1000)
