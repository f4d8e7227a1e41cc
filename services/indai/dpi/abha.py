"""The health mission's wire (ABDM, version 3): a session of this node at the gateway, and an ABHA address
whose holder agrees by a one-time code on their own phone.

    POST {gateway}/api/hiecm/gateway/v3/sessions                 clientId, clientSecret -> accessToken
    GET  {abha}/abha/api/v3/profile/public/certificate           the key for what is sent sealed
    POST {abha}/abha/api/v3/phr/web/login/abha/search            abhaAddress -> status, authMethods
    POST {abha}/abha/api/v3/phr/web/login/abha/request/otp       -> txnId; a code goes to the holder's phone
    POST {abha}/abha/api/v3/phr/web/login/abha/verify            txnId and code -> token
    GET  {abha}/abha/api/v3/phr/web/login/profile/abha-profile   X-token -> profile

Address and code travel sealed to the service's key (RSA-OAEP with SHA-1, as it states). `REQUEST-ID` and
`TIMESTAMP` go with every call, `X-CM-ID` with the first. https://sandbox.abdm.gov.in/
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key
from indai.dpi.aggregator import stamp
from indai.dpi.remote import Answer, Remote
from indai.protocol.errors import InvalidInput, NotFound, Reason, Refused
from indai.tools.identity import refuse_aadhaar

SESSIONS: Final = "/api/hiecm/gateway/v3/sessions"
_BASE: Final = "/abha/api/v3"
_LOGIN: Final = f"{_BASE}/phr/web/login"
_SCOPE: Final = ["abha-address-login", "mobile-verify"]
_ADDRESS: Final = re.compile(r"[a-z0-9][a-z0-9._]{2,38}[a-z0-9]@(abdm|sbx)")
_OTP: Final = re.compile(r"\d{6}")
EARLY_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class Holder:
    """What an operation may see of a person; every field is about health identity, and none is kept."""

    address: str = field(repr=False)
    number: str = field(repr=False)
    name: str = field(repr=False)
    gender: str = field(repr=False)
    born: str = field(repr=False)
    status: str


def check_address(text: str) -> str:
    """An ABHA address. Raises InvalidInput, and Refused for an Aadhaar number in its place."""
    address = text.strip().lower()
    refuse_aadhaar({"aadhaar": address.partition("@")[0]}, "The ABHA address")
    if not _ADDRESS.fullmatch(address):
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "That is no ABHA address.",
            hint="it is written like asha.k@abdm",
        )
    return address


def check_otp(text: str) -> str:
    """A one-time code. Raises InvalidInput."""
    if not _OTP.fullmatch(text.strip()):
        raise InvalidInput(Reason.INVALID_ARGUMENT, "The code has six digits.")
    return text.strip()


class HealthIds:
    """The service, as one client of it. Every method may raise Unavailable, Refused."""

    def __init__(
        self,
        gateway: Remote,
        abha: Remote,
        client_id: str,
        client_secret: str,
        cm: str,
        clock: Callable[[], int],
    ) -> None:
        self._gateway, self._abha, self._clock = gateway, abha, clock
        self._id, self._secret, self._cm = client_id, client_secret, cm
        self._token, self._until_ms = "", 0
        self._lock = asyncio.Lock()

    async def send_code(self, address: str) -> str:
        """Have the holder sent a code; the transaction's id. Raises NotFound for nobody's address, Refused
        for one that can't be asked that way."""
        found = await self._call("POST", f"{_LOGIN}/abha/search", {"abhaAddress": address})
        if found.get("status") != "ACTIVE":
            raise Refused(Reason.PROVIDER_REFUSED, "That ABHA address is not active.")
        if "MOBILE_OTP" not in _list(found, "authMethods") or "MOBILE_OTP" in _list(
            found, "blockedAuthMethods"
        ):
            raise Refused(Reason.PROVIDER_REFUSED, "That ABHA address takes no code by mobile phone.")
        wanted = {
            "scope": _SCOPE,
            "loginHint": "abha-address",
            "loginId": await self._sealed(address),
            "otpSystem": "abdm",
        }
        return self._text(await self._call("POST", f"{_LOGIN}/abha/request/otp", wanted), "txnId")

    async def holder(self, transaction: str, code: str) -> Holder:
        """Who gave the code. Raises Refused(PERMISSION_DENIED) for a wrong one."""
        wanted = {
            "scope": _SCOPE,
            "authData": {
                "authMethods": ["otp"],
                "otp": {"txnId": transaction, "otpValue": await self._sealed(code)},
            },
        }
        doc = await self._call("POST", f"{_LOGIN}/abha/verify", wanted)
        tokens = doc.get("tokens")
        if doc.get("authResult") != "success" or not isinstance(tokens, dict):
            raise Refused(
                Reason.PERMISSION_DENIED, "The code is not right, or too old.", hint="ask for another code"
            )
        person = {"X-token": f"Bearer {self._text(tokens, 'token')}"}
        profile = await self._call("GET", f"{_LOGIN}/profile/abha-profile", headers=person)
        born = "-".join(
            str(profile[name]).zfill(2)
            for name in ("yearOfBirth", "monthOfBirth", "dayOfBirth")
            if profile.get(name)
        )
        texts = [
            str(profile.get(name) or "")[:100] for name in ("abhaAddress", "abhaNumber", "fullName", "gender")
        ]
        address, number, name, gender = texts
        return Holder(address, _masked(number), name, gender, born, str(profile.get("status") or "")[:20])

    async def _call(
        self,
        method: str,
        path: str,
        doc: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """An answer; a session that ended early is begun anew, once."""
        for last in (False, True):
            token = await self._session()
            sent = self._headers() | {"Authorization": f"Bearer {token}"} | dict(headers or {})
            answer = await self._abha.call(method, path, json=doc, headers=sent)
            if answer.status != 401 or last:
                break
            if self._token == token:
                self._token = ""
        return self._judged(answer)

    def _judged(self, answer: Answer) -> dict[str, Any]:
        if answer.status == 404:
            raise NotFound(Reason.NOT_FOUND, "There is nobody with that ABHA address.")
        if answer.status in (400, 422):
            raise Refused(Reason.PERMISSION_DENIED, "The health service does not take that address or code.")
        if answer.status != 200:
            raise self._abha.refused(answer.status)
        return answer.json()

    async def _session(self) -> str:
        async with self._lock:
            if self._token and self._until_ms - EARLY_MS > self._clock():
                return self._token
            answer = await self._gateway.call(
                "POST",
                SESSIONS,
                json={"clientId": self._id, "clientSecret": self._secret, "grantType": "client_credentials"},
                headers=self._headers() | {"X-CM-ID": self._cm},
            )
            if answer.status not in (200, 202):
                raise Refused(
                    Reason.PROVIDER_REFUSED,
                    "The health gateway does not know this node.",
                    hint="the operator checks client_id and client_secret in dpi.yaml",
                )
            doc = answer.json()
            token, seconds = doc.get("accessToken"), doc.get("expiresIn")
            if not isinstance(token, str) or not token or not isinstance(seconds, int):
                raise self._gateway.broken("no session")
            self._token, self._until_ms = token, self._clock() + seconds * 1000
            return token

    async def _sealed(self, text: str) -> str:
        doc = await self._call("GET", f"{_BASE}/profile/public/certificate")
        key = _public(self._text(doc, "publicKey"))
        if key is None:
            raise self._abha.broken("no public key")
        # The service names this padding; what it protects is read by nobody but it, over TLS.
        oaep = padding.OAEP(mgf=padding.MGF1(SHA1()), algorithm=SHA1(), label=None)  # noqa: S303
        return base64.b64encode(key.encrypt(text.encode(), oaep)).decode()

    def _headers(self) -> dict[str, str]:
        return {"REQUEST-ID": str(uuid.uuid4()), "TIMESTAMP": stamp(self._clock())}

    def _text(self, doc: Mapping[str, Any], name: str) -> str:
        value = doc.get(name)
        if not isinstance(value, str) or not value:
            raise self._abha.broken(f"no {name}")
        return value


def _public(text: str) -> RSAPublicKey | None:
    """A key in PEM, or its bare base64."""
    try:
        pem = text.strip().startswith("-----")
        key = load_pem_public_key(text.encode()) if pem else load_der_public_key(base64.b64decode(text))
    except (ValueError, binascii.Error):
        return None
    return key if isinstance(key, RSAPublicKey) and key.key_size >= 2048 else None


def _masked(number: str) -> str:
    """The last four digits."""
    return "XX-XXXX-XXXX-" + number[-4:] if number else ""


def _list(doc: Mapping[str, Any], name: str) -> list[Any]:
    found = doc.get(name)
    return found if isinstance(found, list) else []
