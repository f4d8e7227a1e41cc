"""DigiLocker on this machine: the documented wire, with its people, documents and bad days."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from aiohttp import encode_basic_auth, web

CLIENT, SECRET = "INDAI0001", "client-secret-5a1f"
MARKS = "in.gov.cbse-SSCER-20231234567"
CARD = "in.gov.uidai-ADHAR-8b2f6c31f5ab4c1e"
STRANGE = "in.gov.somewhere-XMLXX-1"


@dataclass
class LockerServer:
    """`faults` are answered instead, the first first: a status, or "slow", "redirect", "tampered", "huge"."""

    url: str = ""
    redirect: str = ""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    access: set[str] = field(default_factory=set)
    refresh: set[str] = field(default_factory=set)
    faults: list[int | str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    files: dict[str, tuple[str, bytes]] = field(
        default_factory=lambda: {MARKS: ("application/pdf", b"%PDF-1.7 marks of Asha")}
    )
    expires_in: int = 3600
    listing: list[Any] = field(
        default_factory=lambda: [
            {
                "name": "Class X Marksheet",
                "type": "file",
                "size": "",
                "date": "12-05-2023",
                "parent": "",
                "mime": ["application/pdf"],
                "uri": MARKS,
                "doctype": "SSCER",
                "description": "Marksheet",
                "issuerid": "in.gov.cbse",
                "issuer": "CBSE",
            },
            {"name": "Aadhaar Card", "type": "file", "uri": CARD, "doctype": "ADHAR", "issuer": "UIDAI"},
            {"name": "no reference", "type": "file", "uri": "../etc/passwd"},
            "nothing",
        ]
    )

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/public/oauth2/1/token", self.token),
            web.post("/public/oauth2/1/revoke", self.revoke),
            web.get("/public/oauth2/2/files/issued", self.issued),
            web.get("/public/oauth2/1/file/{uri}", self.file),
        ]

    def consent(self, url: str) -> str:
        """The person allows it, in their browser: where they are sent back."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert urlsplit(url).path == "/public/oauth2/1/authorize"
        assert (asked["response_type"], asked["client_id"]) == ("code", CLIENT)
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_hex(8)
        self.codes[code] = asked
        back = urlencode({"code": code, "state": asked["state"]})
        return f"{asked['redirect_uri']}?{back}"

    async def token(self, request: web.Request) -> web.Response:
        form = await request.post()
        if (fault := await self._fault()) is not None:
            return fault
        if request.headers.get("Authorization") != encode_basic_auth(CLIENT, SECRET):
            return web.json_response({"error": "invalid_client"}, status=401)
        if form["grant_type"] == "authorization_code":
            asked = self.codes.pop(str(form["code"]), None)
            proof = hashlib.sha256(str(form.get("code_verifier")).encode()).digest()
            proven = base64.urlsafe_b64encode(proof).rstrip(b"=").decode()
            if (
                asked is None
                or proven != asked["code_challenge"]
                or form["redirect_uri"] != asked["redirect_uri"]
            ):
                return web.json_response({"error": "invalid_grant"}, status=400)
        elif form["refresh_token"] not in self.refresh:
            return web.json_response({"error": "invalid_grant"}, status=400)
        else:
            self.refresh.discard(str(form["refresh_token"]))  # rotated: good for one use
        made = {"access_token": "at-" + secrets.token_hex(12), "refresh_token": "rt-" + secrets.token_hex(12)}
        self.access, self.refresh = {made["access_token"]}, {made["refresh_token"]}
        return web.json_response(
            made
            | {"expires_in": self.expires_in, "token_type": "Bearer", "name": "Asha", "digilockerid": "d1"}
        )

    async def revoke(self, request: web.Request) -> web.Response:
        form = await request.post()
        if (fault := await self._fault()) is not None:
            return fault
        assert request.headers["Authorization"] == encode_basic_auth(CLIENT, SECRET)
        if form["token"] in self.refresh:
            self.access, self.refresh = set(), set()
        return web.Response()

    async def issued(self, request: web.Request) -> web.Response:
        if (fault := await self._fault()) is not None:
            return fault
        if not self._admitted(request):
            return web.json_response({"error": "invalid_token"}, status=401)
        return web.json_response({"items": self.listing, "resource": "D:/"})

    async def file(self, request: web.Request) -> web.Response:
        uri = request.match_info["uri"]
        self.seen.append(uri)
        tampered = self.faults[:1] == ["tampered"]
        if (fault := await self._fault()) is not None and not tampered:
            return fault
        if not self._admitted(request):
            return web.json_response({"error": "invalid_token"}, status=401)
        if uri not in self.files:
            return web.json_response({"error": "uri_not_found"}, status=404)
        mime, body = self.files[uri]
        mac = base64.b64encode(hmac.digest(SECRET.encode(), body, "sha256")).decode()
        body = body + b" and more" if tampered else body
        return web.Response(body=body, headers={"Content-Type": mime, "hmac": mac})

    def _admitted(self, request: web.Request) -> bool:
        return request.headers["Authorization"].removeprefix("Bearer ") in self.access

    async def _fault(self) -> web.Response | None:
        fault = self.faults.pop(0) if self.faults else None
        match fault:
            case None:
                return None
            case "slow":
                await asyncio.sleep(1)
                return None
            case "redirect":
                return web.Response(status=302, headers={"Location": "http://169.254.169.254/latest/"})
            case "huge":
                return web.Response(body=b"x" * (2 * 1024 * 1024), content_type="application/json")
            case "html":
                return web.Response(text="<html>", content_type="text/html")
            case 429:
                return web.Response(status=429, headers={"Retry-After": "7"})
            case int():
                return web.Response(status=fault, text=f"secret words {SECRET}")
        return web.Response()
