"""A payment provider on this machine: its API for payment links, its signed webhooks, and its bad days."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from aiohttp import encode_basic_auth, web

KEY = "rzp_test_key:key secret"


@dataclass
class Provider:
    """Links by id, as the provider keeps them. `faults` are statuses answered instead, first things first;
    0 is none."""

    url: str = ""
    links: dict[str, dict[str, Any]] = field(default_factory=dict)
    faults: list[int] = field(default_factory=list)
    together: int = 0
    asking: int = 0
    met: asyncio.Event = field(default_factory=asyncio.Event)
    made: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    async def create(self, request: web.Request) -> web.Response:
        """POST /v1/payment_links: a reference is used once."""
        wanted = await request.json()
        if any(each["reference_id"] == wanted["reference_id"] for each in self.links.values()):
            return web.json_response({"error": {"code": "BAD_REQUEST_ERROR"}}, status=400)
        link = wanted | {"id": f"plink_{uuid.uuid4().hex[:14]}", "status": "created", "amount_paid": 0}
        link["short_url"] = f"https://pay.example/{link['id']}"
        self.links[link["id"]] = link
        return self._answer(request, link)

    async def find(self, request: web.Request) -> web.Response:
        """GET /v1/payment_links."""
        wanted = request.query.get("reference_id")
        found = [each for each in self.links.values() if each["reference_id"] == wanted]
        return self._answer(request, {"payment_links": found})

    async def cancel(self, request: web.Request) -> web.Response:
        """POST /v1/payment_links/{id}/cancel."""
        link = self.links[request.match_info["link"]]
        link["status"] = "cancelled"
        return self._answer(request, link)

    async def transfers(self, request: web.Request) -> web.Response:
        """GET and POST /v1/payments/{id}/transfers."""
        kept = self.made.setdefault(request.match_info["payment"], [])
        if request.method == "GET":
            listed = list(kept)
            self.asking += 1
            if self.asking < self.together:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.met.wait(), 0.3)
            elif self.together:
                self.met.set()
            return self._answer(request, {"entity": "collection", "count": len(kept), "items": listed})
        wanted = (await request.json())["transfers"]
        items = [
            {
                "id": f"trf_{uuid.uuid4().hex[:14]}",
                "entity": "transfer",
                "status": "pending",
                "source": request.match_info["payment"],
                "recipient": each["account"],
                "amount": each["amount"],
                "currency": each["currency"],
                "notes": each["notes"],
            }
            for each in wanted
        ]
        kept += items
        return self._answer(request, {"entity": "collection", "count": len(items), "items": items})

    def _answer(self, request: web.Request, doc: dict[str, Any]) -> web.Response:
        if request.headers["Authorization"] != encode_basic_auth(*KEY.split(":", 1)):
            return web.Response(status=401)
        if fault := self.faults.pop(0) if self.faults else 0:  # it was done, and nobody hears of it
            return web.Response(status=fault, text="{")
        return web.json_response(doc)

    def word(self, link_id: str, event: str, **payment: Any) -> bytes:
        """The body of a webhook about a link."""
        link = self.links[link_id]
        entity = {
            "id": f"pay_{uuid.uuid4().hex[:14]}",
            "entity": "payment",
            "amount": link["amount"],
            "currency": link["currency"],
            "status": "captured",
            "description": f"#{link_id.removeprefix('plink_')}",
            "notes": [],
        }
        payload: dict[str, Any] = {}
        if event.startswith("payment_link"):
            payload["payment_link"] = {"entity": link}
        if event not in ("payment_link.cancelled", "payment_link.expired"):
            payload["payment"] = {"entity": entity | payment}
        return json.dumps({"entity": "event", "event": event, "payload": payload}).encode()


@contextlib.asynccontextmanager
async def running_provider() -> AsyncIterator[Provider]:
    """One, on a port of its own."""
    provider, app = Provider(), web.Application()
    app.add_routes(
        [
            web.post("/v1/payment_links", provider.create),
            web.get("/v1/payment_links", provider.find),
            web.post("/v1/payment_links/{link}/cancel", provider.cancel),
            web.get("/v1/payments/{payment}/transfers", provider.transfers),
            web.post("/v1/payments/{payment}/transfers", provider.transfers),
        ]
    )
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    provider.url = f"http://{host}:{port}"
    try:
        yield provider
    finally:
        await runner.cleanup()
