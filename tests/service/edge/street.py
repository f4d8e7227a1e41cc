"""A node's channels as the outside meets them: signed webhooks and calls, and a provider that answers."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import aiohttp
from indai.client.channels import plain_channel
from indai.node.keystore import open_keystore
from indai.node.secrets import Secrets
from indai.v1 import channels_pb2
from indai.v1.channels_pb2_grpc import ChannelServiceStub
from indai.voice.telephone import STREAM, WEBHOOK, signature

from tests.service.edge.provider import Provider
from tests.service.node.world import Node
from tests.unit.edge.accounts import ACCOUNTS, signed
from tests.unit.edge.webhooks import tg, wa, wa_message

if TYPE_CHECKING:
    from indai.v1.channels_pb2_grpc import ChannelServiceAsyncStub

NUMBER = "+918012345678"
SPEECH = f'version: 1\nnumbers: {{"{NUMBER}": {{handle: ind.ai/bob, auth_token: "vault:twilio"}}}}\n'
"""The telephones of a node where bob lives."""


class Street:
    """A node with its channels, and the provider of its messengers."""

    def __init__(self, a: Node, provider: Provider) -> None:
        self.a, self.provider = a, provider
        self._number = 0

    async def add(self, provider: str) -> channels_pb2.PutChannelResponse:
        account = ACCOUNTS[provider]
        secrets = Secrets(self.a.data, open_keystore(self.a.data, {}), {})
        for name, value in account.secrets.items():
            secrets.set(f"{account.name}-{name}", value)
        references = {name: f"vault:{account.name}-{name}" for name in account.secrets}
        settings = {**account.settings, **references, "api": self.provider.address, "pair_every_s": "0.001"}
        channel = channels_pb2.Channel(
            name=account.name, provider=provider, account=account.account, settings=settings
        )
        answer: channels_pb2.PutChannelResponse = await self._operator().PutChannel(
            channels_pb2.PutChannelRequest(channel=channel)
        )
        return answer

    async def remove(self, provider: str) -> None:
        """Without its channel again."""
        request = channels_pb2.RemoveChannelRequest(name=ACCOUNTS[provider].name)
        await self._operator().RemoveChannel(request)

    def _operator(self) -> ChannelServiceAsyncStub:
        token = (self.a.data / "operator.token").read_text().strip()
        return ChannelServiceStub(plain_channel(self.a.info.addresses["owner"], token=token))

    async def say(self, provider: str, payload: Any) -> str:
        """All that is answered to a webhook: words, and the files behind them."""
        before = len(self.provider.sent)
        raw = signed(provider, payload, now_s=int(time.time()))
        url = f"http://{self.a.info.addresses['http']}/channels/{ACCOUNTS[provider].name}"
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, data=raw.body, headers=dict(raw.headers)) as answer,
        ):
            assert answer.status == 200
        asked = channels_pb2.GetChannelStatusRequest(name=ACCOUNTS[provider].name)
        async with asyncio.timeout(60):
            while (found := await self._operator().GetChannelStatus(asked)).unread or found.waiting:
                await asyncio.sleep(0.02)
        return json.dumps(self.provider.sent[before:], ensure_ascii=False, default=repr)

    async def whatsapp(self, text: str) -> str:
        self._number += 1
        stamp = str(int(time.time()))
        return await self.say(
            "whatsapp-cloud", wa(wa_message("text", {"body": text}, f"wamid.{self._number}", timestamp=stamp))
        )

    async def telegram(self, text: str) -> str:
        self._number += 1
        return await self.say("telegram", tg(text=text, message_id=self._number, date=int(time.time())))


async def call(base: str, caller: str, said: bytes) -> None:
    """A signed call from a number; returns when it was answered."""
    form = {"CallSid": f"CA{caller[1:]:0>32}", "From": caller, "To": NUMBER, "AccountSid": "AC1"}
    shown = {"X-Twilio-Signature": signature("twilio-token", base + WEBHOOK, form)}
    async with aiohttp.ClientSession() as session:
        async with session.post(base + WEBHOOK, data=form, headers=shown) as answer:
            tree = ElementTree.fromstring(await answer.text())  # noqa: S314 - our own answer
        stream = tree.find("./Connect/Stream")
        assert stream is not None
        parameters = {each.attrib["name"]: each.attrib["value"] for each in stream}
        async with session.ws_connect(base + STREAM) as line:
            await line.send_json({"event": "connected", "protocol": "Call", "version": "1.0.0"})
            start = {"callSid": form["CallSid"], "streamSid": "MZ1", "customParameters": parameters}
            await line.send_json({"event": "start", "start": start, "streamSid": "MZ1"})
            for at in range(0, len(said), 1600):
                payload = base64.b64encode(said[at : at + 1600]).decode()
                await line.send_json({"event": "media", "media": {"track": "inbound", "payload": payload}})
            async with asyncio.timeout(60):
                sentences = 0
                while sentences < 3:  # the greeting, that it is booked, and how the invitation comes
                    event = await line.receive_json()
                    sentences += event["event"] == "mark"
