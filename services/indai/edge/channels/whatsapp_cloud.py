"""WhatsApp by Meta's Cloud API: https://developers.facebook.com/documentation/business-messaging/whatsapp.

Webhooks are signed over their raw bytes (`X-Hub-Signature-256`). A person has a phone number, or only a
business-scoped id since usernames came; an answer goes to whichever came.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp
from indai.edge.channels.base import (
    MAX_NAME,
    Account,
    Answer,
    Attachment,
    Fate,
    Field,
    Incoming,
    Json,
    Limits,
    Raw,
    Receipt,
    Received,
    Request,
    State,
    Step,
    Verdict,
    a_list,
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
from indai.edge.channels.carried import PICTURE, File, Takes
from indai.edge.channels.rendering import lay_out
from indai.edge.forms import plain, whatsapp
from indai.edge.forms.document import parse
from indai.edge.forms.splitting import split
from indai.v1 import conversation_pb2 as pb

API: Final = "https://graph.facebook.com/v23.0"
_BSUID: Final = re.compile(r"[A-Z]{2}\.(?:ENT\.)?[A-Za-z0-9]{1,128}")
_STATES: Final = {
    "sent": State.SENT,
    "delivered": State.DELIVERED,
    "read": State.READ,
    "failed": State.FAILED,
}
_MEDIA: Final = ("image", "audio", "video", "document", "sticker")
_PLAIN: Final = "text/plain"
_OFFICE: Final = "application/vnd.openxmlformats-officedocument."
# https://developers.facebook.com/documentation/business-messaging/whatsapp/business-phone-numbers/media
_DOCUMENTS: Final = frozenset(
    {
        _PLAIN,
        "application/pdf",
        f"{_OFFICE}wordprocessingml.document",
        f"{_OFFICE}spreadsheetml.sheet",
        f"{_OFFICE}presentationml.presentation",
    }
)
# Texts that are taken as plain ones; what they are stands in the file's name, by which telephones open them.
_TEXTS: Final = frozenset({"text/calendar", "text/csv", "text/vcard"})
_IGNORED: Final = ("system", "request_welcome")
# https://developers.facebook.com/documentation/business-messaging/whatsapp/support/error-codes
_FATES: Final = {
    Fate.SLOW_ACCOUNT: (4, 80007, 130429, 131048, 131057, 133016),
    Fate.SLOW_PAIR: (131056,),
    Fate.UNHEALTHY: (0, 3, 10, 190, 200, 368, 131005, 131031, 131042, 131045, 133010),
    Fate.AGAIN: (1, 2, 131000, 131016, 133004),
}
_BAD_TOKEN: Final = 190
_FATE_OF: Final = {code: fate for fate, codes in _FATES.items() for code in codes}


class WhatsAppCloud:
    """See the module."""

    name = "whatsapp-cloud"
    channel = "whatsapp"
    fields = (
        Field("phone_number_id", "the number's id in Meta's dashboard"),
        Field("app_secret", "the app's secret: it signs webhooks", secret=True),
        Field("verify_token", "what Meta shows once when the webhook is set up", secret=True),
        Field("access_token", "a system user's token that may send", secret=True),
        Field("api", f"another address of the API than {API}", required=False),
    )
    limits = Limits(
        text=4096,
        body=1024,
        buttons=3,
        button_title=20,
        rows=10,
        row_title=24,
        row_description=72,
        choice_id=200,
        per_second=80,
        # One in six seconds to one person; what is sent at once is borrowed from later.
        pair_every_s=6,
        pair_burst=5,
        window_h=24,
        receipts=True,
        files=Takes(documents=_DOCUMENTS | _TEXTS),
    )
    hosts = ("lookaside.fbsbx.com", ".whatsapp.net", ".fbcdn.net")
    thinks_every_s = 20.0  # the indicator goes out after 25

    def verify(self, raw: Raw, account: Account, now_s: float) -> None:
        """The handshake by its token, everything else by the signature over the raw bytes."""
        if raw.method == "GET":
            shown, known = raw.query.get("hub.verify_token", ""), account.secret("verify_token")
            if raw.query.get("hub.mode") != "subscribe" or not _same(shown, known):
                raise forged(account)
            return
        key = account.secret("app_secret").encode()
        wanted = "sha256=" + hmac.new(key, raw.body, hashlib.sha256).hexdigest()
        if not _same(raw.headers.get("x-hub-signature-256", ""), wanted):
            raise forged(account)

    def receive(self, raw: Raw, account: Account) -> Received:
        """All messages and statuses of a webhook that are meant for this number."""
        if raw.method == "GET":
            return Received(answer=Answer(body=raw.query.get("hub.challenge", "")[:200]))
        body = read_json(raw.body)
        if body.get("object") != "whatsapp_business_account":
            raise malformed("This is no webhook of a WhatsApp business account.")
        incoming: list[Incoming] = []
        receipts: list[Receipt] = []
        skipped = 0
        for value in _values(body):
            if text_of(an_object(value.get("metadata")).get("phone_number_id")) != account.setting(
                "phone_number_id"
            ):
                skipped += 1
                continue
            contacts = [an_object(contact) for contact in a_list(value.get("contacts"))]
            for message in map(an_object, a_list(value.get("messages"))):
                read = _message(message, _contact(contacts, message), account)
                skipped += read is None
                incoming += [read] if read else []
            for status in a_list(value.get("statuses")):
                receipt = _receipt(an_object(status))
                skipped += receipt is None
                receipts += [receipt] if receipt else []
        return Received(tuple(incoming), tuple(receipts), skipped=skipped)

    def render(self, reply: pb.Reply) -> list[Json]:
        """Texts, and reply buttons or a list under the last one."""
        layout = lay_out(reply, self.limits, whatsapp.render)
        payloads: list[Json] = [{"type": "text", "text": {"body": text}} for text in layout.texts]
        if layout.buttons:
            action: Json = {
                "buttons": [
                    {"type": "reply", "reply": {"id": each.id, "title": each.title}}
                    for each in layout.buttons
                ]
            }
            payloads.append(_interactive("button", layout.body, action))
        if layout.rows:
            rows = [
                {"id": each.id, "title": each.title}
                | ({"description": each.description} if each.description else {})
                for each in layout.rows
            ]
            action = {"button": "☰", "sections": [{"rows": rows}]}
            payloads.append(_interactive("list", layout.body, action))
        return payloads

    def template(self, name: str, reply: pb.Reply) -> Json | None:
        """A template with the reply's words as its one parameter: they stand on one line there."""
        words = " ".join(plain.render(parse(reply.text)).split())
        text = (split(parse(words), plain.render, self.limits.body) or ["…"])[0]
        return {
            "type": "template",
            "template": {
                "name": name,
                "language": {"code": (reply.language or "en").replace("-", "_")},
                "components": [{"type": "body", "parameters": [{"type": "text", "text": text}]}],
            },
        }

    def address(self, identity: pb.Identity) -> str:
        """The number's digits, or the business-scoped id."""
        return identity.value.removeprefix("+")

    def request(self, payload: Json, address: str, account: Account) -> Request:
        """A message to a number or to a business-scoped id."""
        recipient = {"recipient": address} if _BSUID.fullmatch(address) else {"to": address}
        return _post(account, {"recipient_type": "individual", **recipient, **payload})

    def bring(self, file: File, address: str, account: Account, told: Sequence[Json]) -> Step:
        """The file is uploaded, then a message names it by its id, which is good for weeks."""
        if not told:
            given = replace(file, media_type=_PLAIN) if file.media_type in _TEXTS else file
            form = {"messaging_product": "whatsapp", "type": given.media_type}
            url = f"{_api(account)}/{account.setting('phone_number_id')}/media"
            return Step(Request("POST", url, _bearer(account), form=form, file=("file", given)), kept=True)
        if not (media_id := text_of(told[-1].get("id"), 200)):
            raise malformed("The provider gives the file no id.")
        content = {"id": media_id} | ({} if file.kind == PICTURE else {"filename": file.name})
        return Step(self.request({"type": file.kind, file.kind: content}, address, account), last=True)

    def judge(self, status: int, headers: Mapping[str, str], body: str) -> Verdict:
        """By Meta's error code, which says more than the status."""
        answer = json_or_nothing(body)
        if 200 <= status < 300:
            sent = an_object(next(iter(a_list(answer.get("messages"))), {}))
            return Verdict(Fate.SENT, text_of(sent.get("id"), 500))
        error = an_object(answer.get("error"))
        code, sub = error.get("code"), error.get("error_subcode")
        reason = f"whatsapp-{code}" if is_whole(code) else f"http-{status}"
        if code == _BAD_TOKEN and is_whole(sub):  # why it is bad
            reason += f"-{sub}"
        wait_s = retry_after(headers, 0.0)
        if is_whole(code) and code in _FATE_OF:
            return Verdict(_FATE_OF[code], reason=reason, wait_s=wait_s)
        if status == 429:
            return Verdict(Fate.SLOW_ACCOUNT, reason=reason, wait_s=wait_s)
        if status >= 500:
            return Verdict(Fate.AGAIN, reason=reason, wait_s=wait_s)
        return Verdict(Fate.UNHEALTHY if status in (401, 403) else Fate.DEAD, reason=reason)

    def seen(self, message_id: str, address: str, account: Account) -> Request | None:
        """The two blue ticks."""
        return _post(account, {"status": "read", "message_id": message_id})

    def thinking(self, message_id: str, address: str, account: Account) -> Request | None:
        """The typing indicator, which is part of a read receipt."""
        return _post(
            account, {"status": "read", "message_id": message_id, "typing_indicator": {"type": "text"}}
        )

    def thought(self, message_id: str, address: str, account: Account) -> Request | None:
        """It goes out by itself."""
        return None

    def locate(self, attachment: Attachment, account: Account) -> Request | None:
        """An id's address, good for five minutes."""
        return Request("GET", f"{_api(account)}/{attachment.reference}", _bearer(account))

    def download(self, attachment: Attachment, found: Json, account: Account) -> Request:
        """The file itself needs the token as well."""
        if not (url := text_of(found.get("url"), 2000)):
            raise malformed("The provider names no address for the file.")
        return Request("GET", url, _bearer(account))

    def check(self, account: Account) -> Request:
        """The number's own description."""
        url = (
            f"{_api(account)}/{account.setting('phone_number_id')}?fields=display_phone_number,quality_rating"
        )
        return Request("GET", url, _bearer(account))

    def webhook(self, account: Account, url: str) -> Request | None:
        """Is set by hand in Meta's dashboard, with the verify token."""
        return None


def _values(body: Json) -> Iterator[Json]:
    for entry in a_list(body.get("entry")):
        for change in a_list(an_object(entry).get("changes")):
            if an_object(change).get("field") == "messages":
                yield an_object(change.get("value"))


def _contact(contacts: list[Json], message: Json) -> Json:
    """Who wrote a message, among those that a webhook describes."""
    keys = [("wa_id", message.get("from")), ("user_id", message.get("from_user_id"))]
    found = [contact for contact in contacts for key, value in keys if value and contact.get(key) == value]
    return found[0] if found else contacts[0] if len(contacts) == 1 else {}


def _message(message: Json, contact: Json, account: Account) -> Incoming | None:
    """One message, or None for one that says nothing."""
    identity = _identity(message, contact)
    message_id, kind = text_of(message.get("id"), 500), text_of(message.get("type"), 40)
    if identity is None or not message_id or kind in _IGNORED or message.get("group_id"):
        return None
    found = pb.InboundMessage(
        sender=identity,
        account=account.account,
        provider_message_id=message_id,
        in_reply_to=text_of(an_object(message.get("context")).get("id"), 500),
    )
    stamp = text_of(message.get("timestamp"), 12)
    if stamp.isascii() and stamp.isdigit():
        found.sent_time.CopyFrom(Timestamp(seconds=int(stamp)))
    content = an_object(message.get(kind))
    address = identity.value.removeprefix("+")
    if kind in _MEDIA:
        found.text = text_of(content.get("caption"))
        name, claimed = text_of(content.get("filename"), 200), text_of(content.get("mime_type"), 100)
        reference = text_of(content.get("id"), 200)
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,200}", reference):
            return Incoming(found, address, unreadable=kind)
        return Incoming(found, address, (Attachment(kind, reference, claimed, name),))
    if kind == "contacts":
        content = {"contacts": message.get("contacts")}
    if not _say(found, kind, content):
        if kind == "reaction":
            return None  # it was taken back
        return Incoming(found, address, unreadable=kind or "unknown")
    return Incoming(found, address)


def _say(found: pb.InboundMessage, kind: str, content: Json) -> bool:
    """Fill in what was said; False when there is nothing in it that can be read."""
    match kind:
        case "text":
            found.text = text_of(content.get("body"))
        case "button":  # the button of a template
            found.choice, found.text = text_of(content.get("payload"), 1000), text_of(content.get("text"))
        case "interactive":
            tapped = an_object(content.get(text_of(content.get("type"), 40)))
            found.choice, found.text = text_of(tapped.get("id"), 1000), text_of(tapped.get("title"))
        case "reaction":
            found.text = text_of(content.get("emoji"), 20)
            found.in_reply_to = text_of(content.get("message_id"), 500)
        case "location":
            return _locate(found, content)
        case "contacts":
            found.text = "\n".join(_contact_words(content.get("contacts")))
    return bool(found.text.strip() or found.choice)


def _locate(found: pb.InboundMessage, content: Json) -> bool:
    latitude, longitude = content.get("latitude"), content.get("longitude")
    if not isinstance(latitude, int | float) or not isinstance(longitude, int | float):
        return False
    if abs(latitude) > 90 or abs(longitude) > 180:
        return False
    name = text_of(content.get("name"), 200) or text_of(content.get("address"), 200)
    found.location.CopyFrom(pb.Location(latitude=latitude, longitude=longitude, name=name))
    return True


def _contact_words(content: Any) -> Iterator[str]:
    for contact in a_list(content)[:10]:
        name = text_of(an_object(an_object(contact).get("name")).get("formatted_name"), MAX_NAME)
        phones = [
            text_of(an_object(phone).get("phone"), 30) for phone in a_list(an_object(contact).get("phones"))
        ]
        yield " ".join([name, *phones]).strip()


def _identity(message: Json, contact: Json) -> pb.Identity | None:
    name = text_of(an_object(contact.get("profile")).get("name"), MAX_NAME)
    number = phone_identity(text_of(message.get("from"), 20) or text_of(contact.get("wa_id"), 20))
    scoped = text_of(message.get("from_user_id"), 140) or text_of(contact.get("user_id"), 140)
    if number:
        return pb.Identity(channel="whatsapp", kind="phone", value=number, verified=True, display_name=name)
    if _BSUID.fullmatch(scoped):
        kind = "business_scoped_id"
        return pb.Identity(channel="whatsapp", kind=kind, value=scoped, verified=True, display_name=name)
    return None


def _receipt(status: Json) -> Receipt | None:
    state = _STATES.get(text_of(status.get("status"), 20))
    message_id = text_of(status.get("id"), 500)
    if state is None or not message_id:
        return None
    code = an_object(next(iter(a_list(status.get("errors"))), {})).get("code")
    return Receipt(message_id, state, f"whatsapp-{code}" if is_whole(code) else "")


def _interactive(kind: str, body: str, action: Json) -> Json:
    return {"type": "interactive", "interactive": {"type": kind, "body": {"text": body}, "action": action}}


def _post(account: Account, body: Json) -> Request:
    url = f"{_api(account)}/{account.setting('phone_number_id')}/messages"
    return Request("POST", url, _bearer(account), json={"messaging_product": "whatsapp", **body})


def _api(account: Account) -> str:
    return account.setting("api", API).rstrip("/")


def _bearer(account: Account) -> dict[str, str]:
    return {"Authorization": f"Bearer {account.secret('access_token')}"}


def _same(shown: str, known: str) -> bool:
    return hmac.compare_digest(shown.encode("utf-8", "replace"), known.encode())
