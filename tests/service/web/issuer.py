"""An OpenID provider for tests: discovery, a token endpoint that checks PKCE, keys; it signs as told."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import ECKey

CLIENT, SECRET = "indai-desk", "a client's secret"


@dataclass
class Provider:
    """A provider; `claims` are put over those that would be right."""

    url: str = ""
    key: ECKey = field(default_factory=lambda: ECKey.generate_key("P-256", {"kid": "one"}))
    claims: dict[str, Any] = field(default_factory=dict)
    asked: dict[str, dict[str, str]] = field(default_factory=dict)
    signer: ECKey | None = None  # signs in the place of `key`, which is still what it publishes

    def consent(self, onward: str) -> str:
        """What the person's browser is sent back with: the query of the return address."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(onward).query).items()}
        code = f"code-{len(self.asked)}"
        self.asked[code] = query
        return f"code={code}&state={query['state']}"

    async def discovery(self, request: web.Request) -> web.Response:
        value = {"issuer": self.url, "authorization_endpoint": f"{self.url}/authorize"}
        return web.json_response(
            value | {"token_endpoint": f"{self.url}/token", "jwks_uri": f"{self.url}/keys"}
        )

    async def keys(self, request: web.Request) -> web.Response:
        return web.json_response({"keys": [self.key.as_dict(private=False)]})

    async def token(self, request: web.Request) -> web.Response:
        form = await request.post()
        asked = self.asked.pop(str(form["code"]), None)
        verifier = hashlib.sha256(str(form["code_verifier"]).encode()).digest()
        challenge = base64.urlsafe_b64encode(verifier).rstrip(b"=").decode()
        if (
            asked is None
            or asked["code_challenge"] != challenge
            or asked["redirect_uri"] != form["redirect_uri"]
            or form["client_secret"] != SECRET
        ):
            return web.json_response({"error": "invalid_grant"}, status=400)
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "sub": "7", "iat": now, "exp": now + 60}
        claims |= {"nonce": asked["nonce"], "email": "asha@example.org", "email_verified": True}
        header, signer = {"alg": "ES256", "kid": "one"}, self.signer or self.key
        text = jwt.encode(header, claims | self.claims, signer)
        return web.json_response({"id_token": text, "access_token": "x", "token_type": "Bearer"})


@asynccontextmanager
async def provider() -> AsyncIterator[Provider]:
    """One that listens."""
    made, app = Provider(), web.Application()
    app.add_routes(
        [
            web.get("/.well-known/openid-configuration", made.discovery),
            web.get("/keys", made.keys),
            web.post("/token", made.token),
        ]
    )
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield made
    finally:
        await runner.cleanup()
