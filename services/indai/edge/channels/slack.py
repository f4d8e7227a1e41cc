"""Slack: the Events API, interactive blocks and chat.postMessage (https://docs.slack.dev).

Direct messages with the app only: in a channel, what an agent says to its owner would be read by others.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import unescape
from typing import Final
from urllib.parse import parse_qs, urlsplit

from google.protobuf.timestamp_pb2 import Timestamp
from indai.edge.channels.base import (
    Account,
    Answer,
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
    json_or_nothing,
    malformed,
    read_json,
    retry_after,
    text_of,
)
from indai.edge.channels.carried import File, Takes
from indai.edge.channels.rendering import Offer, lay_out
from indai.edge.forms import slack
from indai.v1 import conversation_pb2 as pb

API: Final = "https://slack.com/api"
WINDOW_S: Final = 300
_THINKING: Final = "hourglass_flowing_sand"
_ID: Final = re.compile(r"[A-Z0-9]{2,40}")
_TS: Final = re.compile(r"[0-9]{1,12}\.[0-9]{1,10}")
_LINK: Final = re.compile(r"<([^<>|]+)(?:\|([^<>]*))?>")
_KINDS: Final = {"image": "image", "audio": "audio", "video": "video"}
_READ: Final = (None, "file_share", "thread_broadcast")
_AWAY: Final = (
    "internal_error",
    "fatal_error",
    "service_unavailable",
    "request_timeout",
    "team_added_to_org",
)
_UNHEALTHY: Final = (
    *("invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "missing_scope"),
    *("no_permission", "org_login_required", "ekm_access_denied", "access_denied", "accesslimited"),
)


class Slack:
    """See the module."""

    name = "slack"
    channel = "slack"
    fields = (
        Field("signing_secret", "of the app: it signs requests", secret=True),
        Field("bot_token", "of the app in the workspace (xoxb-…)", secret=True),
        Field("api", f"another address of the API than {API}", required=False),
    )
    limits = Limits(
        text=4000,
        body=3000,
        buttons=10,
        button_title=75,
        rows=25,
        row_title=75,
        row_description=75,
        choice_id=150,
        per_second=10,
        pair_every_s=1,
        pair_burst=3,
        files=Takes(lacking=frozenset({"slack-missing_scope"})),
    )
    hosts = ("files.slack.com",)
    thinks_every_s = 0.0  # a reaction stays until it is taken back

    def verify(self, raw: Raw, account: Account, now_s: float) -> None:
        """Signing secret v0, at most five minutes old."""
        stamp = raw.headers.get("x-slack-request-timestamp", "")
        if not (stamp.isascii() and stamp.isdigit()) or abs(now_s - int(stamp[:12])) > WINDOW_S:
            raise forged(account)
        signed = b"v0:" + stamp.encode() + b":" + raw.body
        wanted = (
            "v0=" + hmac.new(account.secret("signing_secret").encode(), signed, hashlib.sha256).hexdigest()
        )
        shown = raw.headers.get("x-slack-signature", "").encode("utf-8", "replace")
        if not hmac.compare_digest(shown, wanted.encode()):
            raise forged(account)

    def receive(self, raw: Raw, account: Account) -> Received:
        """An event, the taps of an interactive message, or the verification of our address."""
        body = _body(raw)
        kind = body.get("type")
        if kind == "url_verification":
            return Received(answer=Answer(body=text_of(body.get("challenge"), 1000)))
        team = text_of(body.get("team_id"), 40) or text_of(an_object(body.get("team")).get("id"), 40)
        if team != account.account:
            return Received(skipped=1)
        if kind == "event_callback":
            found = _event(an_object(body.get("event")), account)
            return Received((found,)) if found else Received(skipped=1)
        if kind == "block_actions":
            taps = [_tap(an_object(action), body, account) for action in a_list(body.get("actions"))]
            return Received(tuple(tap for tap in taps if tap), skipped=taps.count(None))
        return Received(skipped=1)

    def render(self, reply: pb.Reply) -> list[Json]:
        """Texts; buttons or a menu in blocks under the last one."""
        layout = lay_out(reply, self.limits, slack.render)
        payloads = [_text(text) for text in layout.texts]
        if layout.buttons or layout.rows:
            elements = [_menu(layout.rows)] if layout.rows else list(map(_button, layout.buttons))
            section = {"type": "section", "text": {"type": "mrkdwn", "text": layout.body}}
            blocks = [section, {"type": "actions", "elements": elements}]
            payloads.append(_text(layout.body) | {"blocks": blocks})
        return payloads

    def template(self, name: str, reply: pb.Reply) -> Json | None:
        """There is no window."""
        return None

    def address(self, identity: pb.Identity) -> str:
        """A user's id opens their direct messages with the app."""
        return identity.value.rpartition("/")[2]

    def request(self, payload: Json, address: str, account: Account) -> Request:
        """chat.postMessage."""
        channel, _, thread = address.partition("/")
        return _call(
            account,
            "chat.postMessage",
            {"channel": channel, **({"thread_ts": thread} if thread else {}), **payload},
        )

    def bring(self, file: File, address: str, account: Account, told: Sequence[Json]) -> Step:
        """An address for the file is asked for, the file brought there, and shown to the person:
        files.getUploadURLExternal, its `upload_url`, files.completeUploadExternal."""
        if not told:
            form = {"filename": file.name, "length": str(len(file.content))}
            asked = _call(account, "files.getUploadURLExternal", {})
            return Step(replace(asked, json=None, form=form))
        url, file_id = text_of(told[0].get("upload_url"), 2000), text_of(told[0].get("file_id"), 40)
        if not url or not _ID.fullmatch(file_id):
            raise malformed("The provider names no address for the file.")
        if len(told) == 1:
            octets = {"Content-Type": "application/octet-stream"}  # the address itself is the right to it
            return Step(Request("POST", url, octets, body=file.content), kept=True)
        channel, _, thread = address.partition("/")
        shown = {"files": [{"id": file_id, "title": file.name}], "channels": channel}
        shown |= {"thread_ts": thread} if thread else {}
        return Step(_call(account, "files.completeUploadExternal", shown), last=True)

    def judge(self, status: int, headers: Mapping[str, str], body: str) -> Verdict:
        """By the `error` of an answer, which has status 200 even then."""
        wait_s = retry_after(headers, 0.0)
        if status == 429:
            return Verdict(Fate.SLOW_ACCOUNT, reason="slack-ratelimited", wait_s=wait_s)
        if status != 200:
            fate = Fate.AGAIN if status >= 500 else Fate.DEAD
            return Verdict(fate, reason=f"slack-{status}", wait_s=wait_s)
        answer = json_or_nothing(body)
        if body.startswith("OK"):
            return Verdict(Fate.SENT)  # where files are uploaded to
        if not answer:
            return Verdict(Fate.AGAIN, reason="slack-no-json")
        if answer.get("ok") is True:
            return Verdict(Fate.SENT, f"{text_of(answer.get('channel'), 40)}/{text_of(answer.get('ts'), 40)}")
        error = text_of(answer.get("error"), 60)
        reason = f"slack-{error}"
        if error in ("ratelimited", "rate_limited"):
            return Verdict(Fate.SLOW_ACCOUNT, reason=reason, wait_s=wait_s)
        if error in _AWAY:
            return Verdict(Fate.AGAIN, reason=reason)
        return Verdict(Fate.UNHEALTHY if error in _UNHEALTHY else Fate.DEAD, reason=reason)

    def seen(self, message_id: str, address: str, account: Account) -> Request | None:
        """There is no such sign."""
        return None

    def thinking(self, message_id: str, address: str, account: Account) -> Request | None:
        """A reaction to the message."""
        return _reaction_call(account, "reactions.add", message_id)

    def thought(self, message_id: str, address: str, account: Account) -> Request | None:
        """The reaction is taken back."""
        return _reaction_call(account, "reactions.remove", message_id)

    def locate(self, attachment: Attachment, account: Account) -> Request | None:
        """The event names the address already."""
        return None

    def download(self, attachment: Attachment, found: Json, account: Account) -> Request:
        """The private address, with the bot's token."""
        return Request("GET", attachment.reference, _bearer(account))

    def check(self, account: Account) -> Request:
        """auth.test."""
        return _call(account, "auth.test", {})

    def webhook(self, account: Account, url: str) -> Request | None:
        """Is set by hand in the app's configuration, for events and for interactivity."""
        return None


def _body(raw: Raw) -> Json:
    if raw.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        try:
            fields = parse_qs(raw.body.decode(), max_num_fields=20)
        except ValueError:
            raise malformed("The body is no form.") from None
        return read_json(fields.get("payload", [""])[0])
    return read_json(raw.body)


def _event(event: Json, account: Account) -> Incoming | None:
    if event.get("bot_id") or not _ID.fullmatch(text_of(event.get("user"), 41)):
        return None
    if event.get("type") == "reaction_added":
        return _reaction(event, account)
    channel, stamp = text_of(event.get("channel"), 40), text_of(event.get("ts"), 40)
    direct = event.get("type") == "message" and event.get("channel_type") == "im"
    if (
        not direct
        or event.get("subtype") not in _READ
        or not _ID.fullmatch(channel)
        or not _TS.fullmatch(stamp)
    ):
        return None
    found = _inbound(event["user"], account, f"{channel}/{stamp}", stamp)
    found.text = _words(text_of(event.get("text")))
    thread = text_of(event.get("thread_ts"), 40)
    if _TS.fullmatch(thread) and thread != stamp:
        found.in_reply_to = f"{channel}/{thread}"
    address = f"{channel}/{thread}" if found.in_reply_to else channel
    files = tuple(filter(None, (_file(an_object(each)) for each in a_list(event.get("files"))[:10])))
    return Incoming(found, address, files, "" if found.text.strip() or files else "unknown")


def _reaction(event: Json, account: Account) -> Incoming | None:
    item = an_object(event.get("item"))
    channel, stamp, at = (
        text_of(value, 40) for value in (item.get("channel"), item.get("ts"), event.get("event_ts"))
    )
    if not re.fullmatch(r"D[A-Z0-9]+", channel) or not _TS.fullmatch(stamp) or not _TS.fullmatch(at):
        return None
    found = _inbound(event["user"], account, f"reaction/{channel}/{at}", at)
    found.text, found.in_reply_to = f":{text_of(event.get('reaction'), 80)}:", f"{channel}/{stamp}"
    return Incoming(found, channel)


def _tap(action: Json, body: Json, account: Account) -> Incoming | None:
    user = text_of(an_object(body.get("user")).get("id"), 41)
    channel = text_of(an_object(body.get("channel")).get("id"), 40)
    stamp = text_of(action.get("action_ts"), 40)
    option = an_object(action.get("selected_option"))
    choice = text_of(action.get("value"), 200) or text_of(option.get("value"), 200)
    title = an_object(option.get("text") or action.get("text")).get("text")
    if not all((_ID.fullmatch(user), re.fullmatch(r"D[A-Z0-9]+", channel), _TS.fullmatch(stamp), choice)):
        return None
    found = _inbound(user, account, f"action/{channel}/{stamp}", stamp)
    found.choice, found.text = choice, text_of(title, 200)
    message = text_of(an_object(body.get("message")).get("ts"), 40)
    found.in_reply_to = f"{channel}/{message}" if _TS.fullmatch(message) else ""
    return Incoming(found, channel)


def _file(file: Json) -> Attachment | None:
    url = text_of(file.get("url_private_download"), 2000) or text_of(file.get("url_private"), 2000)
    claimed = text_of(file.get("mimetype"), 100)
    try:
        known = urlsplit(url).scheme in ("https", "http")
    except ValueError:
        known = False
    kind = _KINDS.get(claimed.partition("/")[0], "document")
    return Attachment(kind, url, claimed, text_of(file.get("name"), 200)) if known else None


def _inbound(user: str, account: Account, message_id: str, stamp: str) -> pb.InboundMessage:
    # A user's id is unique within its workspace only.
    sender = pb.Identity(channel="slack", kind="slack_id", value=f"{account.account}/{user}", verified=True)
    return pb.InboundMessage(
        sender=sender,
        account=account.account,
        provider_message_id=message_id,
        sent_time=Timestamp(seconds=int(stamp.partition(".")[0][:11])),
    )


def _words(text: str) -> str:
    """What was typed: links as their address, mentions by their id."""
    return unescape(_LINK.sub(lambda found: found[1] if "://" in found[1] else found[2] or found[1], text))


def _text(text: str) -> Json:
    return {"text": text, "unfurl_links": False, "unfurl_media": False}


def _button(offer: Offer) -> Json:
    words = {"type": "plain_text", "text": offer.title}
    return {"type": "button", "text": words, "value": offer.id, "action_id": f"choice-{offer.id}"}


def _menu(offers: tuple[Offer, ...]) -> Json:
    options = [
        {"text": {"type": "plain_text", "text": offer.title}, "value": offer.id}
        | ({"description": {"type": "plain_text", "text": offer.description}} if offer.description else {})
        for offer in offers
    ]
    return {
        "type": "static_select",
        "placeholder": {"type": "plain_text", "text": "…"},
        "options": options,
        "action_id": "choice",
    }


def _reaction_call(account: Account, method: str, message_id: str) -> Request | None:
    channel, _, stamp = message_id.partition("/")
    if not _ID.fullmatch(channel) or not _TS.fullmatch(stamp):
        return None
    return _call(account, method, {"channel": channel, "timestamp": stamp, "name": _THINKING})


def _call(account: Account, method: str, body: Json) -> Request:
    return Request("POST", f"{account.setting('api', API).rstrip('/')}/{method}", _bearer(account), json=body)


def _bearer(account: Account) -> dict[str, str]:
    return {"Authorization": f"Bearer {account.secret('bot_token')}"}
