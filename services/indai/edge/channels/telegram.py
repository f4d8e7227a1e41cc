"""Telegram's Bot API: https://core.telegram.org/bots/api. Private chats only: in a group, what an agent says
to its owner would be read by others."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp
from indai.edge.channels.base import (
    MAX_NAME,
    Account,
    Attachment,
    Fate,
    Field,
    Incoming,
    Json,
    Limits,
    Raw,
    Received,
    Request,
    Step,
    Verdict,
    a_list,
    an_object,
    forged,
    is_whole,
    json_or_nothing,
    malformed,
    read_json,
    retry_after,
    text_of,
)
from indai.edge.channels.carried import PICTURE, File, Takes
from indai.edge.channels.rendering import lay_out
from indai.edge.forms import telegram
from indai.v1 import conversation_pb2 as pb

API: Final = "https://api.telegram.org"
UPDATES: Final = ("message", "callback_query", "message_reaction")
_CALLBACK: Final = "callback/"
_KINDS: Final = {
    "voice": "audio",
    "audio": "audio",
    "video": "video",
    "video_note": "video",
    "animation": "video",
    "document": "document",
    "sticker": "sticker",
}
_FILE_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,300}")
_FILE_PATH: Final = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*")
_SERVICE: Final = re.compile(r"(new_chat|left_chat|delete_chat|group_|pinned_|boost_|forum_|users?_shared)")


class Telegram:
    """See the module."""

    name = "telegram"
    channel = "telegram"
    fields = (
        Field("bot_token", "as @BotFather gave it", secret=True),
        Field("webhook_secret", "letters, digits, _ and -: Telegram shows it with each update", secret=True),
        Field("api", f"another address of the API than {API}", required=False),
    )
    limits = Limits(
        text=4096,
        body=4096,
        buttons=10,
        button_title=40,
        rows=10,
        row_title=40,
        row_description=72,
        choice_id=64,
        per_second=30,
        pair_every_s=1,
        pair_burst=3,
        files=Takes(),
    )
    hosts = ("api.telegram.org",)
    thinks_every_s = 4.5  # it goes out after 5

    def verify(self, raw: Raw, account: Account, now_s: float) -> None:
        """The secret that was given with the webhook's address."""
        shown = raw.headers.get("x-telegram-bot-api-secret-token", "").encode("utf-8", "replace")
        if raw.method != "POST" or not hmac.compare_digest(shown, account.secret("webhook_secret").encode()):
            raise forged(account)

    def receive(self, raw: Raw, account: Account) -> Received:
        """One update. What was edited later stays as it was said: it has been answered already."""
        update = read_json(raw.body)
        if not is_whole(update.get("update_id")):
            raise malformed("This is no update.")
        if message := an_object(update.get("message")):
            found = _message(message, account)
        elif query := an_object(update.get("callback_query")):
            found = _tap(query, account)
        else:
            found = _reaction(an_object(update.get("message_reaction")), update["update_id"], account)
        return Received((found,)) if found else Received(skipped=1)

    def render(self, reply: pb.Reply) -> list[Json]:
        """Texts, and an inline keyboard under the last one."""
        layout = lay_out(reply, self.limits, telegram.render)
        payloads = [_text(text) for text in layout.texts]
        if offers := layout.buttons or layout.rows:
            keyboard = [[{"text": offer.title, "callback_data": offer.id}] for offer in offers]
            payloads.append(_text(layout.body) | {"reply_markup": {"inline_keyboard": keyboard}})
        return payloads

    def template(self, name: str, reply: pb.Reply) -> Json | None:
        """There is no window."""
        return None

    def address(self, identity: pb.Identity) -> str:
        """A person's private chat has their own id."""
        return identity.value

    def request(self, payload: Json, address: str, account: Account) -> Request:
        """sendMessage."""
        return _call(account, "sendMessage", {"chat_id": address, **payload})

    def bring(self, file: File, address: str, account: Account, told: Sequence[Json]) -> Step:
        """sendPhoto or sendDocument, with the file in the form."""
        method, field = ("sendPhoto", "photo") if file.kind == PICTURE else ("sendDocument", "document")
        sent = replace(_call(account, method, {}), json=None, form={"chat_id": address}, file=(field, file))
        return Step(sent, last=True)

    def judge(self, status: int, headers: Mapping[str, str], body: str) -> Verdict:
        """By the error code, which is the status as well."""
        answer = json_or_nothing(body)
        if status == 200 and answer.get("ok") is True:
            sent = an_object(answer.get("result"))
            chat = an_object(sent.get("chat")).get("id")
            return Verdict(Fate.SENT, f"{chat}/{sent.get('message_id')}")
        reason = f"telegram-{status}"
        if status == 429:
            # A chat's limit and the bot's look alike; the wait is for this chat, others have their own pace.
            asked = an_object(answer.get("parameters")).get("retry_after")
            wait_s = float(asked) if is_whole(asked) else retry_after(headers, 0.0)
            return Verdict(Fate.SLOW_PAIR, reason=reason, wait_s=min(wait_s, 3600.0))
        if status >= 500 or status == 409:
            return Verdict(Fate.AGAIN, reason=reason, wait_s=retry_after(headers, 0.0))
        # 404 is what a token gets that was revoked: it is part of the address.
        return Verdict(Fate.UNHEALTHY if status in (401, 404) else Fate.DEAD, reason=reason)

    def seen(self, message_id: str, address: str, account: Account) -> Request | None:
        """A tapped button stops turning; for a message there is no such sign."""
        if not message_id.startswith(_CALLBACK):
            return None
        query = {"callback_query_id": message_id.removeprefix(_CALLBACK)}
        return _call(account, "answerCallbackQuery", query)

    def thinking(self, message_id: str, address: str, account: Account) -> Request | None:
        """Typing."""
        return _call(account, "sendChatAction", {"chat_id": address, "action": "typing"})

    def thought(self, message_id: str, address: str, account: Account) -> Request | None:
        """It goes out by itself."""
        return None

    def locate(self, attachment: Attachment, account: Account) -> Request | None:
        """getFile."""
        return _call(account, "getFile", {"file_id": attachment.reference})

    def download(self, attachment: Attachment, found: Json, account: Account) -> Request:
        """The path that getFile answered, under the bot's own address."""
        path = text_of(an_object(found.get("result")).get("file_path"), 500)
        if not _FILE_PATH.fullmatch(path) or ".." in path:
            raise malformed("The provider names no address for the file.")
        return Request("GET", f"{_api(account)}/file/bot{account.secret('bot_token')}/{path}")

    def check(self, account: Account) -> Request:
        """getMe."""
        return _call(account, "getMe", {})

    def webhook(self, account: Account, url: str) -> Request | None:
        """setWebhook."""
        secret = account.secret("webhook_secret")
        return _call(
            account, "setWebhook", {"url": url, "secret_token": secret, "allowed_updates": list(UPDATES)}
        )


def _message(message: Json, account: Account) -> Incoming | None:
    chat, sender = an_object(message.get("chat")), an_object(message.get("from"))
    identity = _identity(sender)
    if chat.get("type") != "private" or identity is None or any(map(_SERVICE.match, message)):
        return None
    found = _inbound(
        identity, sender, account, f"{chat.get('id')}/{message.get('message_id')}", message.get("date")
    )
    if quoted := an_object(message.get("reply_to_message")).get("message_id"):
        found.in_reply_to = f"{chat.get('id')}/{quoted}"
    _say(found, text_of(message.get("text")) or text_of(message.get("caption")))
    address = str(chat.get("id"))
    if (attachment := _attachment(message)) is not None:
        return Incoming(found, address, (attachment,))
    if place := an_object(message.get("location")):
        name = text_of(an_object(message.get("venue")).get("title"), 200)
        latitude, longitude = place.get("latitude"), place.get("longitude")
        if isinstance(latitude, int | float) and isinstance(longitude, int | float):
            found.location.CopyFrom(pb.Location(latitude=latitude, longitude=longitude, name=name))
            return Incoming(found, address)
    if contact := an_object(message.get("contact")):
        words = (contact.get("first_name"), contact.get("last_name"), contact.get("phone_number"))
        found.text = " ".join(filter(None, (text_of(word, MAX_NAME) for word in words)))
    return Incoming(found, address, unreadable="" if found.text.strip() else "unknown")


def _say(found: pb.InboundMessage, text: str) -> None:
    """The text; a deep link's payload is the handle that was named, or a code to link this chat by."""
    command, _, payload = text.partition(" ")
    if command != "/start":
        found.text = text
    elif payload.lower().startswith("link-"):
        found.text = f"link {payload[5:]}"
    else:
        found.text, found.handle = "Hello", payload.strip()[:100]


def _tap(query: Json, account: Account) -> Incoming | None:
    sender, message = an_object(query.get("from")), an_object(query.get("message"))
    identity, chat = _identity(sender), an_object(message.get("chat"))
    choice = text_of(query.get("data"), 64)
    if identity is None or chat.get("type") != "private" or not choice or not text_of(query.get("id"), 100):
        return None
    found = _inbound(identity, sender, account, _CALLBACK + text_of(query["id"], 100), None)
    found.choice, found.in_reply_to = choice, f"{chat.get('id')}/{message.get('message_id')}"
    rows = a_list(an_object(message.get("reply_markup")).get("inline_keyboard"))
    buttons = [an_object(button) for row in rows for button in a_list(row)]
    titles = [text_of(each.get("text"), 200) for each in buttons if each.get("callback_data") == choice]
    found.text = titles[0] if titles else ""
    return Incoming(found, str(chat.get("id")))


def _reaction(reaction: Json, update_id: int, account: Account) -> Incoming | None:
    sender, chat = an_object(reaction.get("user")), an_object(reaction.get("chat"))
    new = [an_object(each) for each in a_list(reaction.get("new_reaction"))]
    emoji = "".join(text_of(each.get("emoji"), 20) for each in new if each.get("type") == "emoji")
    identity = _identity(sender)
    if identity is None or chat.get("type") != "private" or not emoji:
        return None
    found = _inbound(identity, sender, account, f"reaction/{update_id}", reaction.get("date"))
    found.text, found.in_reply_to = emoji, f"{chat.get('id')}/{reaction.get('message_id')}"
    return Incoming(found, str(chat.get("id")))


def _attachment(message: Json) -> Attachment | None:
    photos = [an_object(photo) for photo in a_list(message.get("photo"))]
    candidates = [("image", photos[-1])] if photos else []
    candidates += [(kind, an_object(message[key])) for key, kind in _KINDS.items() if key in message]
    for kind, file in candidates:
        reference = text_of(file.get("file_id"), 300)
        if _FILE_ID.fullmatch(reference):
            claimed, name = text_of(file.get("mime_type"), 100), text_of(file.get("file_name"), 200)
            return Attachment(kind, reference, claimed, name)
    return None


def _inbound(
    identity: pb.Identity, sender: Json, account: Account, message_id: str, date: object
) -> pb.InboundMessage:
    found = pb.InboundMessage(
        sender=identity,
        account=account.account,
        provider_message_id=message_id,
        language=text_of(sender.get("language_code"), 20),
    )
    if is_whole(date) and 0 < date < 1 << 33:
        found.sent_time.CopyFrom(Timestamp(seconds=date))
    return found


def _identity(sender: Json) -> pb.Identity | None:
    number = sender.get("id")
    if not is_whole(number) or sender.get("is_bot"):
        return None
    name = f"{text_of(sender.get('first_name'))} {text_of(sender.get('last_name'))}".strip()[:MAX_NAME]
    return pb.Identity(
        channel="telegram", kind="telegram_id", value=str(number), verified=True, display_name=name
    )


def _text(text: str) -> Json:
    return {"text": text, "parse_mode": "HTML", "link_preview_options": {"is_disabled": True}}


def _call(account: Account, method: str, body: Json) -> Request:
    return Request("POST", f"{_api(account)}/bot{account.secret('bot_token')}/{method}", json=body)


def _api(account: Account) -> str:
    return account.setting("api", API).rstrip("/")
