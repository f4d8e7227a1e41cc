"""WhatsApp through Gupshup: https://docs.gupshup.io (webhooks of version 2, the form API `wa/api/v1`).

Gupshup documents no signature: a webhook is believed if it comes from one of their addresses *and* shows the
header that was set on the subscription.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping, Sequence
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

from google.protobuf.timestamp_pb2 import Timestamp
from indai.edge.channels.base import (
    MAX_NAME,
    Account,
    Attachment,
    Fate,
    Field,
    Incoming,
    Json,
    Raw,
    Receipt,
    Received,
    Request,
    State,
    Step,
    Verdict,
    an_object,
    forged,
    is_whole,
    json_or_nothing,
    malformed,
    phone_identity,
    read_json,
    retry_after,
    text_of,
)
from indai.edge.channels.carried import PICTURE, File
from indai.edge.channels.rendering import lay_out
from indai.edge.channels.whatsapp_cloud import WhatsAppCloud
from indai.edge.forms import plain, whatsapp
from indai.edge.forms.document import parse
from indai.edge.forms.splitting import split
from indai.v1 import conversation_pb2 as pb

API: Final = "https://api.gupshup.io"
HEADER: Final = "x-indai-secret"
# https://partner-docs.gupshup.io/docs/gupshup-ip-allowlisting, as of April 2026
ADDRESSES: Final = (
    "34.202.224.208,52.66.99.126,15.206.217.7,13.126.35.181,3.6.228.131,13.232.173.180,13.127.57.130,"
    "13.234.143.231,3.7.115.196,13.232.49.3,18.193.1.225,3.68.131.220,63.176.209.228,63.183.31.123"
)
_STATES: Final = {
    "sent": State.SENT,
    "delivered": State.DELIVERED,
    "read": State.READ,
    "failed": State.FAILED,
}
_MEDIA: Final = {
    "image": "image",
    "audio": "audio",
    "video": "video",
    "file": "document",
    "sticker": "sticker",
}


class Gupshup:
    """See the module."""

    name = "gupshup"
    channel = "whatsapp"
    fields = (
        Field("app_name", "the app's name at Gupshup"),
        Field("webhook_secret", f"what the subscription sends as the header {HEADER}", secret=True),
        Field("api_key", "of the account", secret=True),
        Field("addresses", "from which webhooks come, instead of the documented ones", required=False),
        Field("api", f"another address of the API than {API}", required=False),
    )
    limits = WhatsAppCloud.limits
    hosts = ("filemanager.gupshup.io", ".gupshup.io")
    thinks_every_s = 0.0

    def verify(self, raw: Raw, account: Account, now_s: float) -> None:
        """The secret header, from a known address."""
        shown = raw.headers.get(HEADER, "").encode("utf-8", "replace")
        known = hmac.compare_digest(shown, account.secret("webhook_secret").encode())
        if raw.method != "POST" or not known or not _listed(raw.remote, account):
            raise forged(account)

    def receive(self, raw: Raw, account: Account) -> Received:
        """One message, or what became of one of ours. The answer is empty: another would be sent on."""
        if not raw.body.strip():
            return Received(skipped=1)  # what is sent when the address is set
        body = read_json(raw.body)
        if body.get("app") != account.setting("app_name"):
            return Received(skipped=1)
        payload = an_object(body.get("payload"))
        if body.get("type") == "message":
            found = _message(payload, body.get("timestamp"), account)
            return Received((found,)) if found else Received(skipped=1)
        receipt = _receipt(payload) if body.get("type") == "message-event" else None
        return Received(receipts=(receipt,)) if receipt else Received(skipped=1)

    def render(self, reply: pb.Reply) -> list[Json]:
        """Texts, and quick replies or a list as the last one."""
        layout = lay_out(reply, self.limits, whatsapp.render)
        payloads: list[Json] = [{"type": "text", "text": text} for text in layout.texts]
        if layout.buttons:
            options: list[Json] = [
                {"type": "text", "title": each.title, "postbackText": each.id} for each in layout.buttons
            ]
            content = {"type": "text", "text": layout.body}
            payloads.append({"type": "quick_reply", "content": content, "options": options})
        if layout.rows:
            options = [
                {
                    "type": "text",
                    "title": each.title,
                    "description": each.description,
                    "postbackText": each.id,
                }
                for each in layout.rows
            ]
            buttons = [{"type": "text", "title": "☰"}]
            listed = {
                "type": "list",
                "body": layout.body,
                "globalButtons": buttons,
                "items": [{"options": options}],
            }
            payloads.append(listed)
        return payloads

    def template(self, name: str, reply: pb.Reply) -> Json | None:
        """A template by its id, with the reply's words as its one parameter."""
        words = " ".join(plain.render(parse(reply.text)).split())
        text = (split(parse(words), plain.render, self.limits.body) or ["…"])[0]
        return {"template": {"id": name, "params": [text]}}

    def address(self, identity: pb.Identity) -> str:
        """The number's digits."""
        return identity.value.removeprefix("+")

    def request(self, payload: Json, address: str, account: Account) -> Request:
        """A message, or a template."""
        form = {
            "channel": "whatsapp",
            "source": account.account.removeprefix("+"),
            "destination": address,
            "src.name": account.setting("app_name"),
        }
        if "template" in payload:
            form["template"], path = json.dumps(payload["template"], ensure_ascii=False), "template/msg"
        else:
            form["message"], path = json.dumps(payload, ensure_ascii=False), "msg"
        return Request("POST", f"{_api(account)}/wa/api/v1/{path}", _key(account), form=form)

    def bring(self, file: File, address: str, account: Account, told: Sequence[Json]) -> Step:
        """A message with the address from which Gupshup fetches the file."""
        if not file.link:
            raise malformed("Gupshup fetches files, and this program has no address.")
        if file.kind == PICTURE:
            message = {"type": "image", "originalUrl": file.link, "previewUrl": file.link}
        else:
            message = {"type": "file", "url": file.link, "filename": file.name}
        return Step(self.request(message, address, account), last=True)

    def judge(self, status: int, headers: Mapping[str, str], body: str) -> Verdict:
        """Accepted ones are submitted; what becomes of them is told later."""
        answer = json_or_nothing(body)
        if 200 <= status < 300 and answer.get("status") == "submitted":
            return Verdict(Fate.SENT, text_of(answer.get("messageId"), 200))
        wait_s, reason = retry_after(headers, 0.0), f"gupshup-{status}"
        if status == 429:
            return Verdict(Fate.SLOW_ACCOUNT, reason=reason, wait_s=wait_s)
        if status >= 500:
            return Verdict(Fate.AGAIN, reason=reason, wait_s=wait_s)
        return Verdict(Fate.UNHEALTHY if status in (401, 403) else Fate.DEAD, reason=reason)

    def seen(self, message_id: str, address: str, account: Account) -> Request | None:
        """None is documented."""
        return None

    def thinking(self, message_id: str, address: str, account: Account) -> Request | None:
        """None is documented."""
        return None

    def thought(self, message_id: str, address: str, account: Account) -> Request | None:
        """None is documented."""
        return None

    def locate(self, attachment: Attachment, account: Account) -> Request | None:
        """The message names the address already."""
        return None

    def download(self, attachment: Attachment, found: Json, account: Account) -> Request:
        """A public address that expires."""
        return Request("GET", attachment.reference)

    def check(self, account: Account) -> Request:
        """The templates of the app: reading them needs the key."""
        return Request("GET", f"{_api(account)}/wa/app/{account.setting('app_name')}/template", _key(account))

    def webhook(self, account: Account, url: str) -> Request | None:
        """Is set by hand, with its header."""
        return None


def _listed(remote: str, account: Account) -> bool:
    try:
        address = ip_address(remote)
        networks = [ip_network(each.strip()) for each in account.setting("addresses", ADDRESSES).split(",")]
    except ValueError:
        return False
    return any(address in network for network in networks)


def _message(payload: Json, stamp: object, account: Account) -> Incoming | None:
    sender, content = an_object(payload.get("sender")), an_object(payload.get("payload"))
    number = phone_identity(text_of(payload.get("source"), 20) or text_of(sender.get("phone"), 20))
    message_id, kind = text_of(payload.get("id"), 500), text_of(payload.get("type"), 40)
    if not number or not message_id:
        return None
    found = pb.InboundMessage(
        sender=pb.Identity(
            channel="whatsapp",
            kind="phone",
            value=number,
            verified=True,
            display_name=text_of(sender.get("name"), MAX_NAME),
        ),
        account=account.account,
        provider_message_id=message_id,
        in_reply_to=_quoted(an_object(payload.get("context"))),
    )
    if is_whole(stamp) and 0 < stamp < 1 << 43:
        found.sent_time.CopyFrom(Timestamp(seconds=stamp // 1000))
    address = number.removeprefix("+")
    if kind in _MEDIA:
        attachment = _attachment(_MEDIA[kind], content)
        found.text = text_of(content.get("caption"))
        return Incoming(found, address, (attachment,) if attachment else (), "" if attachment else kind)
    return Incoming(found, address, unreadable="" if _say(found, kind, content) else kind or "unknown")


def _say(found: pb.InboundMessage, kind: str, content: Json) -> bool:
    if kind in ("button_reply", "list_reply", "quick_reply"):
        found.choice = text_of(content.get("postbackText"), 1000) or text_of(content.get("id"), 1000)
        found.text = text_of(content.get("title")) or text_of(content.get("text"))
    elif kind == "reaction":
        found.text = text_of(content.get("emoji"), 20)
    elif kind == "location":
        return _locate(found, content)
    else:
        found.text = text_of(content.get("text"))
    return bool(found.text.strip() or found.choice)


def _locate(found: pb.InboundMessage, content: Json) -> bool:
    try:
        latitude, longitude = float(content["latitude"]), float(content["longitude"])
    except (KeyError, TypeError, ValueError):
        return False
    if not (abs(latitude) <= 90 and abs(longitude) <= 180):
        return False
    found.location.CopyFrom(
        pb.Location(latitude=latitude, longitude=longitude, name=text_of(content.get("name"), 200))
    )
    return True


def _attachment(kind: str, content: Json) -> Attachment | None:
    url = text_of(content.get("url"), 2000)
    try:
        known = urlsplit(url).scheme in ("https", "http")
    except ValueError:
        return None
    claimed, name = text_of(content.get("contentType"), 100), text_of(content.get("name"), 200)
    return Attachment(kind, url, claimed, name) if known else None


def _quoted(context: Json) -> str:
    """Ours are known by Gupshup's id."""
    return text_of(context.get("gsId"), 500) or text_of(context.get("id"), 500)


def _receipt(payload: Json) -> Receipt | None:
    state = _STATES.get(text_of(payload.get("type"), 20))
    message_id = text_of(payload.get("gsId"), 500) or text_of(payload.get("id"), 500)
    if state is None or not message_id:
        return None
    code = an_object(payload.get("payload")).get("code")
    return Receipt(message_id, state, f"gupshup-{code}" if is_whole(code) else "")


def _key(account: Account) -> dict[str, str]:
    return {"apikey": account.secret("api_key")}


def _api(account: Account) -> str:
    return account.setting("api", API).rstrip("/")
