"""DigiLocker's wire, as the Authorized Partner API specification documents it: OAuth 2.0 with PKCE (RFC
7636), the list of issued documents, a document by its reference.

    GET  /public/oauth2/1/authorize       the person's browser
    POST /public/oauth2/1/token           authorization_code, refresh_token; the client by HTTP Basic
    POST /public/oauth2/1/revoke          RFC 7009
    GET  /public/oauth2/2/files/issued
    GET  /public/oauth2/1/file/{uri}      header `hmac`: base64 HMAC-SHA256 of the body under client_secret
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode

import aiohttp
from indai.dpi.remote import Answer, Remote
from indai.protocol.errors import IndaiError, InvalidInput, NotFound, Reason, Refused

MAX_FILE: Final = 10 * 1024 * 1024
MAX_LISTED: Final = 200
_REFERENCE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{2,40}-[A-Z0-9]{2,10}-[A-Za-z0-9._-]{1,120}")
_AADHAAR: Final = ("ADHAR", "AADHAAR")


class Expired(Exception):
    """The access token is not accepted (any more)."""


class Revoked(Exception):
    """Neither is the grant behind it: only the person can connect again."""


@dataclass(frozen=True, slots=True)
class Token:
    """What the vault keeps. Times in ms; `consent_until_ms` is 0 where DigiLocker states none."""

    access: str = field(repr=False)
    refresh: str = field(repr=False)
    expires_ms: int
    consent_until_ms: int
    name: str = ""

    def dump(self) -> str:
        """As text, for the vault alone."""
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, text: str) -> Token:
        """What `dump` wrote."""
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True)
class Issued:
    """A document that an issuer has put there. `uri` is the reference that is kept."""

    uri: str
    name: str
    doctype: str
    issuer: str
    mime: tuple[str, ...]
    date: str

    @property
    def is_aadhaar(self) -> bool:
        """Whether it is the Aadhaar card itself, which is not pulled."""
        return self.doctype.upper() in _AADHAAR or is_aadhaar_reference(self.uri)


@dataclass(frozen=True, slots=True)
class File:
    """A document's bytes."""

    mime: str
    body: bytes = field(repr=False)


def challenge(verifier: str) -> str:
    """S256 of a PKCE verifier."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def check_reference(uri: str) -> str:
    """Raises InvalidInput for what is no document's reference, and Refused for that of an Aadhaar card."""
    if not _REFERENCE.fullmatch(uri):
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "That is no reference of a DigiLocker document.",
            hint="digilocker_list names them, such as in.gov.cbse-SSCER-123",
        )
    if is_aadhaar_reference(uri):
        raise Refused(
            Reason.POLICY_DENIED,
            "The Aadhaar card itself is not pulled: only its DigiLocker reference is used.",
        )
    return uri


def is_aadhaar_reference(uri: str) -> bool:
    """By its issuer (UIDAI) or its type."""
    issuer, _, rest = uri.partition("-")
    return "uidai" in issuer.lower() or rest.partition("-")[0].upper() in _AADHAAR


class DigiLocker:
    """The service, as one client of it. Every method may raise Unavailable, Refused(INSECURE)."""

    def __init__(self, remote: Remote, client_id: str, client_secret: str) -> None:
        self._remote = remote
        self._id, self._secret = client_id, client_secret

    def authorize_url(self, state: str, verifier: str, redirect: str) -> str:
        """Where the person consents, in their browser."""
        query = {
            "response_type": "code",
            "client_id": self._id,
            "redirect_uri": redirect,
            "state": state,
            "code_challenge": challenge(verifier),
            "code_challenge_method": "S256",
        }
        return f"{self._remote.base}/public/oauth2/1/authorize?{urlencode(query)}"

    async def exchange(self, code: str, verifier: str, redirect: str, now_ms: int) -> Token:
        """The token for a code. Raises Revoked for a code that is not accepted."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect,
            "code_verifier": verifier,
        }
        return self._token(await self._post("token", form), now_ms)

    async def refresh(self, token: Token, now_ms: int) -> Token:
        """The next token. Raises Revoked."""
        form = {"grant_type": "refresh_token", "refresh_token": token.refresh}
        return self._token(await self._post("token", form), now_ms, token)

    async def revoke(self, token: Token) -> None:
        """End the grant."""
        form = {"token": token.refresh or token.access, "token_type_hint": "refresh_token"}
        await self._post("revoke", form)

    async def issued(self, access: str) -> list[Issued]:
        """The person's issued documents. Raises Expired."""
        answer = await self._get("/public/oauth2/2/files/issued", access)
        items = answer.json().get("items")
        if answer.status != 200 or not isinstance(items, list):
            raise self._remote.broken("no list of documents")
        return [found for each in items[:MAX_LISTED] if (found := _issued(each)) is not None]

    async def file(self, access: str, uri: str) -> File:
        """A document, whose HMAC fits. Raises Expired, NotFound, IndaiError(BAD_SIGNATURE)."""
        path = f"/public/oauth2/1/file/{quote(check_reference(uri), safe='')}"
        answer = await self._get(path, access, max_bytes=MAX_FILE)
        if answer.status != 200:
            raise self._remote.refused(answer.status)
        expected = base64.b64encode(hmac.digest(self._secret.encode(), answer.body, "sha256"))
        given = answer.headers.get("hmac", "").encode("utf-8", "replace")
        if not hmac.compare_digest(expected, given):
            raise IndaiError(
                Reason.BAD_SIGNATURE, "The document was changed on its way: its HMAC does not fit."
            )
        return File(answer.headers.get("content-type", "").partition(";")[0].strip().lower(), answer.body)

    async def _get(self, path: str, access: str, **more: Any) -> Answer:
        headers = {"Authorization": f"Bearer {access}"}
        answer = await self._remote.call("GET", path, headers=headers, **more)
        if answer.status == 401:
            raise Expired
        if answer.status == 404:
            raise NotFound(Reason.NOT_FOUND, "DigiLocker does not have that.")
        if answer.status == 403:
            raise Refused(Reason.PERMISSION_DENIED, "The person did not let DigiLocker show that.")
        return answer

    async def _post(self, what: str, form: Mapping[str, str]) -> Answer:
        headers = {"Authorization": aiohttp.encode_basic_auth(self._id, self._secret)}
        answer = await self._remote.call("POST", f"/public/oauth2/1/{what}", data=form, headers=headers)
        if answer.json().get("error") == "invalid_client":
            # Not the person's grant but this node's own: nobody is told to connect again.
            raise Refused(
                Reason.PROVIDER_REFUSED,
                "DigiLocker does not know this node.",
                hint="the operator checks client_id and client_secret in dpi.yaml",
            )
        if answer.status in (400, 401, 403):
            raise Revoked
        if answer.status != 200:
            raise self._remote.refused(answer.status)
        return answer

    def _token(self, answer: Answer, now_ms: int, before: Token | None = None) -> Token:
        doc = answer.json()
        access, refresh, seconds = (doc.get(key) for key in ("access_token", "refresh_token", "expires_in"))
        refresh = refresh or (before.refresh if before else "")
        try:
            expires_ms = now_ms + int(seconds or 0) * 1000
            until_ms = int(doc.get("consent_valid_till") or 0) * 1000
        except (TypeError, ValueError):
            raise self._remote.broken("no token") from None
        if not (isinstance(access, str) and access and isinstance(refresh, str)):
            raise self._remote.broken("no token")
        name = doc.get("name") if isinstance(doc.get("name"), str) else ""
        known = before or Token("", "", 0, 0)
        return Token(access, refresh, expires_ms, until_ms or known.consent_until_ms, name or known.name)


def _issued(item: Any) -> Issued | None:
    """One entry; None for what is no document, or has no reference that could be asked for."""
    if not isinstance(item, dict):
        return None
    texts = [item.get(key) for key in ("uri", "name", "doctype", "issuer", "date")]
    uri, name, doctype, issuer, date = (text[:200] if isinstance(text, str) else "" for text in texts)
    mime = item.get("mime") or []
    kinds = [mime] if isinstance(mime, str) else [each for each in mime if isinstance(each, str)]
    return Issued(uri, name, doctype, issuer, tuple(kinds[:5]), date) if _REFERENCE.fullmatch(uri) else None
