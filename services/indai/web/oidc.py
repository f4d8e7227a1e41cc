"""Signing in with an organisation: OpenID Connect Core 1.0, the authorization code flow with PKCE (RFC 7636).

`oidc.yaml` in the data directory sets it up:

    issuer: https://login.example.org
    client_id: indai
    client_secret: vault:env/OIDC_SECRET    # or vault:NAME; left out for a public client

Whoever the issuer proves, by a verified e-mail address, is let in as the account of that name that was
granted before, which is theirs from then on, by their subject; nobody is let in by the issuer alone, and an
owner never. State, nonce and verifier travel in
a cookie of the browser that began, sealed by a code of ours: nothing is kept here in between.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import aiohttp
import yaml
from aiohttp import web
from indai.protocol.errors import InvalidInput, Reason, Refused, Unavailable
from indai.web.accounts import OWNER, Account, Accounts
from indai.web.sessions import MINUTE_MS
from indai.web.sign_in import SignIn, device_of
from indai.web.site import Site
from indai.web.visit import Visit
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

BEGIN: Final = "/desk/oidc/begin"
RETURN: Final = "/desk/oidc/return"
ALGORITHMS: Final = ["RS256", "ES256", "PS256", "Ed25519"]
LIFE_MS: Final = 10 * MINUTE_MS
SKEW_S: Final = 60
MAX_ANSWER: Final = 256 * 1024
MAX_SUBJECT: Final = 255
"""OpenID Connect Core 1.0, section 2."""
_COOKIE: Final = "oidc"


@dataclass(frozen=True, slots=True)
class Issuer:
    """What `oidc.yaml` says, with the secret looked up."""

    issuer: str
    client_id: str
    client_secret: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class _Begun:
    """What a browser that began brings back: `until_ms`, and three random texts."""

    state: str
    nonce: str
    verifier: str
    until_ms: int


class Oidc:
    """Routes of an organisation's sign-in."""

    def __init__(
        self,
        site: Site,
        sign_in: SignIn,
        accounts: Accounts,
        issuer: Issuer,
        secret: bytes,
        http: aiohttp.ClientSession,
    ) -> None:
        self._site, self._sign_in, self._accounts = site, sign_in, accounts
        self._issuer, self._secret, self._http = issuer, secret, http
        self._found: dict[str, Any] = {}

    def routes(self) -> Sequence[web.RouteDef]:
        """What the site serves of it."""
        return (self._site.post(BEGIN, self.begin), self._site.get(RETURN, self.come_back))

    async def begin(self, visit: Visit) -> web.StreamResponse:
        """Send the browser to the issuer."""
        found = await self._discovered()
        texts = [secrets.token_urlsafe(32) for _ in range(3)]
        begun = _Begun(texts[0], texts[1], texts[2], self._site.clock() + LIFE_MS)
        challenge = hashlib.sha256(begun.verifier.encode()).digest()
        query = urlencode(
            {
                "response_type": "code",
                "client_id": self._issuer.client_id,
                "redirect_uri": self._return_address(),
                "scope": "openid email",
                "state": begun.state,
                "nonce": begun.nonce,
                "code_challenge": base64.urlsafe_b64encode(challenge).rstrip(b"=").decode(),
                "code_challenge_method": "S256",
            }
        )
        endpoint = str(found["authorization_endpoint"])
        mark = "&" if "?" in endpoint else "?"
        # A page and no redirect: a form of ours may lead to ourselves alone.
        answer = visit.page(
            "web/onward.html", onward=f"{endpoint}{mark}{query}", host=urlsplit(endpoint).netloc
        )
        self._site.remember(answer, _COOKIE, self._sealed(begun), LIFE_MS // 1000)
        return answer

    async def come_back(self, visit: Visit) -> web.StreamResponse:
        """Where the issuer sends the browser: a session, if all of it holds."""
        begun = self._opened(self._site.remembered(visit.request, _COOKIE))
        query = visit.request.query
        if begun is None or not hmac.compare_digest(query.get("state", "").encode(), begun.state.encode()):
            raise _refused("This sign-in was not begun in this browser, or too long ago.")
        if "code" not in query:
            raise _refused("Your organisation did not sign you in.")
        claims = await self._claims(query["code"], begun)
        account = await self._account(claims)
        token = await self._site.sessions.begin(
            account, "oidc", device_of(visit.request.headers.get("User-Agent", ""))
        )
        answer = await self._sign_in.welcome(visit, token, visit.go)
        self._site.remember(answer, _COOKIE, "", 0)
        return answer

    async def _claims(self, code: str, begun: _Begun) -> dict[str, Any]:
        """The claims of the issuer's ID token for this code, verified."""
        found = await self._discovered()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._return_address(),
            "client_id": self._issuer.client_id,
            "code_verifier": begun.verifier,
        }
        if self._issuer.client_secret:
            form["client_secret"] = self._issuer.client_secret
        answer = await self._json("POST", str(found["token_endpoint"]), form)
        keys = await self._json("GET", str(found["jwks_uri"]))
        now = self._site.clock() // 1000
        try:
            token = jwt.decode(str(answer["id_token"]), KeySet.import_key_set(keys), algorithms=ALGORITHMS)  # type: ignore[arg-type]
            jwt.JWTClaimsRegistry(
                now=now,
                leeway=SKEW_S,
                iss={"essential": True, "value": self._issuer.issuer},
                aud={"essential": True, "value": self._issuer.client_id},
                exp={"essential": True},
                iat={"essential": True},
                nonce={"essential": True, "value": begun.nonce},
            ).validate(token.claims)
        except (JoseError, KeyError, ValueError, TypeError):
            raise _refused("What your organisation said about you does not verify.") from None
        claims: dict[str, Any] = dict(token.claims)
        audience = claims["aud"]
        if not isinstance(audience, str) and claims.get("azp") != self._issuer.client_id:
            raise _refused("What your organisation said about you was meant for another program.")
        return claims

    async def _account(self, claims: dict[str, Any]) -> Account:
        """The one account that was granted under this address; raises Refused."""
        email = claims.get("email")
        if not isinstance(email, str) or claims.get("email_verified") is not True:
            raise _refused("Your organisation does not vouch for your e-mail address.")
        found = [one for one in await self._accounts.named(email) if one.role != OWNER]
        if len(found) != 1:
            raise _refused(
                "Nobody was let in under your e-mail address."
                if not found
                else "Your e-mail address was let in at several places: sign in with a code for one of them."
            )
        subject = claims.get("sub")
        if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT:
            raise _refused("What your organisation said about you names nobody.")
        if not await self._accounts.is_proved_by(found[0], f"{self._issuer.issuer} {subject}"):
            raise _refused("Somebody else of your organisation was let in under this e-mail address before.")
        return found[0]

    async def _discovered(self) -> dict[str, Any]:
        """The issuer's configuration (OpenID Connect Discovery 1.0), read once."""
        if not self._found:
            where = f"{self._issuer.issuer.rstrip('/')}/.well-known/openid-configuration"
            found = await self._json("GET", where)
            wanted = ("authorization_endpoint", "token_endpoint", "jwks_uri")
            if found.get("issuer") != self._issuer.issuer or not all(
                _is_safe(str(found.get(name))) for name in wanted
            ):
                raise Unavailable(
                    Reason.UNREACHABLE,
                    "The organisation's sign-in describes itself wrongly.",
                    hint="check `issuer` in oidc.yaml",
                )
            self._found = found
        return self._found

    async def _json(self, method: str, where: str, form: dict[str, str] | None = None) -> dict[str, Any]:
        try:
            async with self._http.request(method, where, data=form, allow_redirects=False) as answer:
                text = await answer.content.read(MAX_ANSWER)
                value = json.loads(text) if answer.status == 200 else None
        except (aiohttp.ClientError, TimeoutError, ValueError):
            value = None
        if not isinstance(value, dict):
            raise Unavailable(
                Reason.UNREACHABLE,
                "The organisation's sign-in does not answer.",
                hint="try again in a minute",
            )
        return value

    def _return_address(self) -> str:
        return f"{self._site.place().url}{RETURN}"

    def _sealed(self, begun: _Begun) -> str:
        value = [begun.state, begun.nonce, begun.verifier, begun.until_ms]
        text = base64.urlsafe_b64encode(json.dumps(value).encode()).decode()
        return f"{text}.{self._code(text)}"

    def _opened(self, cookie: str) -> _Begun | None:
        text, _, code = cookie.partition(".")
        if not hmac.compare_digest(self._code(text).encode(), code.encode("utf-8", "replace")):
            return None
        state, nonce, verifier, until_ms = json.loads(base64.urlsafe_b64decode(text))
        return _Begun(state, nonce, verifier, until_ms) if until_ms > self._site.clock() else None

    def _code(self, text: str) -> str:
        return hmac.new(self._secret, b"oidc:" + text.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def read_issuer(text: str, secret_of: Callable[[str], str]) -> Issuer:
    """`oidc.yaml`; `secret_of` looks a reference up. Raises InvalidInput."""
    try:
        value = yaml.safe_load(text)
        issuer = Issuer(
            value["issuer"],
            value["client_id"],
            secret_of(value["client_secret"]) if "client_secret" in value else "",
        )
    except (yaml.YAMLError, KeyError, TypeError, AttributeError):
        raise _bad_file("it wants `issuer` and `client_id`") from None
    if (
        not isinstance(issuer.issuer, str)
        or not isinstance(issuer.client_id, str)
        or not _is_safe(issuer.issuer)
    ):
        raise _bad_file("an issuer is an https address; http is taken on loopback alone")
    return issuer


def _is_safe(address: str) -> bool:
    parts = urlsplit(address)
    return parts.scheme == "https" or (
        parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")
    )


def _bad_file(why: str) -> InvalidInput:
    return InvalidInput(
        Reason.INVALID_ARGUMENT, f"oidc.yaml cannot be used: {why}.", hint="see docs/desks.md"
    )


def _refused(why: str) -> Refused:
    return Refused(Reason.UNAUTHENTICATED, why, hint="begin again at the sign-in, or ask who lets people in")
