"""The health mission's gateway and ABHA service on this machine: the documented version 3 wire."""

from __future__ import annotations

import base64
import re
import secrets
import uuid
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

CLIENT, SECRET, ADDRESS, NUMBER = "SBX_1", "abdm-secret-9c", "asha.k@sbx", "91-1234-5678-9012"
KEY = rsa.generate_private_key(65537, 2048)
_OAEP = padding.OAEP(mgf=padding.MGF1(SHA1()), algorithm=SHA1(), label=None)  # noqa: S303


@dataclass
class HealthServer:
    """`code` is what the holder's phone was sent. `sessions` are the gateway's live tokens."""

    url: str = ""
    code: str = ""
    status: str = "ACTIVE"
    sessions: set[str] = field(default_factory=set)
    transactions: dict[str, str] = field(default_factory=dict)
    people: set[str] = field(default_factory=set)
    faults: list[int] = field(default_factory=list)
    verified: int = 0

    def routes(self) -> list[web.RouteDef]:
        login = "/abha/api/v3/phr/web/login"
        return [
            web.post("/api/hiecm/gateway/v3/sessions", self.session),
            web.get("/abha/api/v3/profile/public/certificate", self._admitted(self.certificate)),
            web.post(f"{login}/abha/search", self._admitted(self.search)),
            web.post(f"{login}/abha/request/otp", self._admitted(self.send)),
            web.post(f"{login}/abha/verify", self._admitted(self.verify)),
            web.get(f"{login}/profile/abha-profile", self._admitted(self.profile)),
        ]

    async def session(self, request: web.Request) -> web.Response:
        doc = await request.json()
        assert (request.headers["X-CM-ID"], doc["grantType"]) == ("sbx", "client_credentials")
        _stamped(request)
        if (doc["clientId"], doc["clientSecret"]) != (CLIENT, SECRET):
            return web.json_response({"error": {"code": "900901", "message": SECRET}}, status=401)
        token = secrets.token_hex(8)
        self.sessions.add(token)
        return web.json_response({"accessToken": token, "expiresIn": 1200, "tokenType": "bearer"}, status=202)

    async def certificate(self, request: web.Request) -> dict[str, Any]:
        raw = KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return {
            "publicKey": base64.b64encode(raw).decode(),
            "encryptionAlgorithm": "RSA/ECB/OAEPWithSHA-1AndMGF1Padding",
        }

    async def search(self, request: web.Request) -> dict[str, Any] | int:
        if (await request.json())["abhaAddress"] != ADDRESS:
            return 404
        return {
            "healthIdNumber": NUMBER,
            "abhaAddress": ADDRESS,
            "authMethods": ["AADHAAR_OTP", "MOBILE_OTP"],
            "blockedAuthMethods": [],
            "status": self.status,
            "fullName": "Asha K",
        }

    async def send(self, request: web.Request) -> dict[str, Any]:
        doc = await request.json()
        assert (doc["loginHint"], doc["otpSystem"]) == ("abha-address", "abdm")
        assert _opened(doc["loginId"]) == ADDRESS
        self.code, transaction = f"{secrets.randbelow(10**6):06d}", str(uuid.uuid4())
        self.transactions[transaction] = self.code
        return {"txnId": transaction, "message": "OTP sent to ******3210"}

    async def verify(self, request: web.Request) -> dict[str, Any]:
        self.verified += 1
        otp = (await request.json())["authData"]["otp"]
        if self.transactions.get(otp["txnId"]) != _opened(otp["otpValue"]):
            return {"authResult": "failed", "message": "Entered OTP is incorrect."}
        del self.transactions[otp["txnId"]]
        token = secrets.token_hex(8)
        self.people.add(token)
        return {"authResult": "success", "tokens": {"token": token, "expiresIn": 1800}, "users": []}

    async def profile(self, request: web.Request) -> dict[str, Any] | int:
        if request.headers["X-token"].removeprefix("Bearer ") not in self.people:
            return 401
        return {
            "abhaAddress": ADDRESS,
            "abhaNumber": NUMBER,
            "fullName": "Asha K",
            "gender": "F",
            "yearOfBirth": "1990",
            "monthOfBirth": "4",
            "dayOfBirth": "2",
            "mobile": "9876543210",
            "status": "ACTIVE",
        }

    def _admitted(self, work: Any) -> Any:
        async def handler(request: web.Request) -> web.Response:
            _stamped(request)
            if self.faults:
                return web.Response(status=self.faults.pop(0), text=SECRET)
            if request.headers["Authorization"].removeprefix("Bearer ") not in self.sessions:
                return web.json_response({"code": "900901"}, status=401)
            found = await work(request)
            if isinstance(found, int):
                return web.json_response({"error": {"code": "ABDM-1114"}}, status=found)
            return web.json_response(found)

        return handler


def _stamped(request: web.Request) -> None:
    uuid.UUID(request.headers["REQUEST-ID"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", request.headers["TIMESTAMP"])


def _opened(text: str) -> str:
    return KEY.decrypt(base64.b64decode(text), _OAEP).decode()


def health_config(url: str) -> str:
    return (
        f"version: 1\nabdm: {{gateway_url: '{url}', abha_url: '{url}', client_id: {CLIENT},"
        " client_secret: 'vault:abdm', cm: sbx}\n"
    )
