"""Webhooks in each provider's documented shape, and what is read from them: one table for each channel.

The shapes are those of the providers' references (named in the adapters), with other names and numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Json = dict[str, Any]


class Case(NamedTuple):
    """A webhook; `read` are the fields of each message that came of it, sender apart; `files` its attachments
    as kind and reference; `receipts` as id, state, reason."""

    name: str
    payload: Json
    read: tuple[Json, ...] = ()
    sender: tuple[str, str, str] = ("", "", "")
    files: tuple[tuple[str, str], ...] = ()
    receipts: tuple[tuple[str, str, str], ...] = ()
    unreadable: str = ""
    form: bool = False


def wa(
    *messages: Json, statuses: tuple[Json, ...] = (), contact: Json | None = None, number: str = ""
) -> Json:
    """A webhook of Meta's."""
    value = {
        "messaging_product": "whatsapp",
        "metadata": {"display_phone_number": "15550783881", "phone_number_id": number or "106540352242922"},
        "contacts": [contact or {"profile": {"name": "Asha Rao"}, "wa_id": "919876543210"}],
        "messages": list(messages),
        "statuses": list(statuses),
    }
    changes = [{"value": value, "field": "messages"}]
    return {"object": "whatsapp_business_account", "entry": [{"id": "102290129340398", "changes": changes}]}


def wa_message(kind: str, content: Any, message_id: str = "wamid.A1", **more: Any) -> Json:
    """One message of Asha's."""
    return {
        "from": "919876543210",
        "id": message_id,
        "timestamp": "1795408200",
        "type": kind,
        kind: content,
    } | more


_ASHA = ("phone", "+919876543210", "Asha Rao")
WHATSAPP = (
    Case(
        "text that quotes",
        wa(wa_message("text", {"body": "Kal 5 baje?"}, context={"from": "15550783881", "id": "wamid.Q"})),
        ({"text": "Kal 5 baje?", "provider_message_id": "wamid.A1", "in_reply_to": "wamid.Q"},),
        _ASHA,
    ),
    Case(
        "two messages in one webhook",
        wa(wa_message("text", {"body": "one"}), wa_message("text", {"body": "two"}, "wamid.A2")),
        ({"text": "one"}, {"text": "two", "provider_message_id": "wamid.A2"}),
        _ASHA,
    ),
    Case(
        "reply button",
        wa(
            wa_message(
                "interactive", {"type": "button_reply", "button_reply": {"id": "slot-1", "title": "10:00"}}
            )
        ),
        ({"choice": "slot-1", "text": "10:00"},),
        _ASHA,
    ),
    Case(
        "row of a list",
        wa(
            wa_message(
                "interactive",
                {
                    "type": "list_reply",
                    "list_reply": {"id": "s2", "title": "Tuesday", "description": "11:00"},
                },
            )
        ),
        ({"choice": "s2", "text": "Tuesday"},),
        _ASHA,
    ),
    Case(
        "button of a template",
        wa(wa_message("button", {"payload": "yes 4F7K", "text": "Yes"})),
        ({"choice": "yes 4F7K", "text": "Yes"},),
        _ASHA,
    ),
    Case(
        "reaction",
        wa(wa_message("reaction", {"message_id": "wamid.Q", "emoji": "👍"})),
        ({"text": "👍", "in_reply_to": "wamid.Q"},),
        _ASHA,
    ),
    Case("reaction taken back", wa(wa_message("reaction", {"message_id": "wamid.Q", "emoji": ""}))),
    Case(
        "voice note",
        wa(wa_message("audio", {"mime_type": "audio/ogg; codecs=opus", "id": "1908", "voice": True})),
        ({},),
        _ASHA,
        files=(("audio", "1908"),),
    ),
    Case(
        "image with a caption",
        wa(
            wa_message(
                "image", {"caption": "our menu", "mime_type": "image/jpeg", "sha256": "x", "id": "1003"}
            )
        ),
        ({"text": "our menu"},),
        _ASHA,
        files=(("image", "1003"),),
    ),
    Case(
        "file whose id is a path",
        wa(wa_message("document", {"id": "../me", "filename": "a.pdf"})),
        ({},),
        _ASHA,
        unreadable="document",
    ),
    Case(
        "location",
        wa(wa_message("location", {"latitude": 12.97, "longitude": 77.59, "name": "Cubbon Park"})),
        ({"location": {"latitude": 12.97, "longitude": 77.59, "name": "Cubbon Park"}},),
        _ASHA,
    ),
    Case(
        "location beyond the earth",
        wa(wa_message("location", {"latitude": 91, "longitude": 0})),
        ({},),
        _ASHA,
        unreadable="location",
    ),
    Case(
        "contact card",
        wa(wa_message("contacts", [{"name": {"formatted_name": "Bob"}, "phones": [{"phone": "+91 98"}]}])),
        ({"text": "Bob +91 98"},),
        _ASHA,
    ),
    Case(
        "person without a number",
        wa(
            {
                "id": "wamid.B",
                "timestamp": "1795408200",
                "type": "text",
                "text": {"body": "hi"},
                "from_user_id": "IN.13491208655302741918",
            },
            contact={"profile": {"name": "A", "username": "asha"}, "user_id": "IN.13491208655302741918"},
        ),
        ({"text": "hi"},),
        ("business_scoped_id", "IN.13491208655302741918", "A"),
    ),
    Case("kind that nobody knows", wa(wa_message("unsupported", {})), ({},), _ASHA, unreadable="unsupported"),
    Case(
        "changed number", wa(wa_message("system", {"body": "User A changed", "type": "user_changed_number"}))
    ),
    Case("message of a group", wa(wa_message("text", {"body": "hi"}, group_id="g1"))),
    Case("message for another number of the app", wa(wa_message("text", {"body": "hi"}), number="999")),
    Case(
        "statuses",
        wa(
            statuses=(
                {"id": "wamid.S", "status": "delivered", "timestamp": "1", "recipient_id": "919876543210"},
                {"id": "wamid.T", "status": "failed", "errors": [{"code": 131047, "title": "Re-engagement"}]},
                {"id": "wamid.U", "status": "deleted"},
            )
        ),
        receipts=(("wamid.S", "delivered", ""), ("wamid.T", "failed", "whatsapp-131047")),
    ),
    Case(
        "junk in every place",
        {
            "object": "whatsapp_business_account",
            "entry": [
                7,
                {
                    "changes": [
                        None,
                        {
                            "field": "messages",
                            "value": {
                                "metadata": {"phone_number_id": "106540352242922"},
                                "contacts": "no",
                                "messages": [3, {"id": 4, "from": ["x"]}],
                                "statuses": ["a"],
                            },
                        },
                    ]
                },
            ],
        },
    ),
)


def gs(kind: str, content: Json, **more: Any) -> Json:
    """A message by Gupshup."""
    sender = {"phone": "919876543210", "name": "Asha Rao", "country_code": "91", "dial_code": "9876543210"}
    payload = {
        "id": "ABEG1",
        "source": "919876543210",
        "type": kind,
        "payload": content,
        "sender": sender,
    } | more
    return {"app": "DemoApp", "timestamp": 1795408200370, "version": 2, "type": "message", "payload": payload}


def gs_event(kind: str, **more: Any) -> Json:
    """What became of a message."""
    payload = {"id": "ABEG9", "gsId": "ee4a68a0", "type": kind, "destination": "919876543210", **more}
    return {"app": "DemoApp", "timestamp": 1, "version": 2, "type": "message-event", "payload": payload}


GUPSHUP = (
    Case("text", gs("text", {"text": "Hi"}), ({"text": "Hi", "provider_message_id": "ABEG1"},), _ASHA),
    Case(
        "quoting text",
        gs("text", {"text": "Hi"}, context={"id": "gBEG", "gsId": "9b71295f"}),
        ({"text": "Hi", "in_reply_to": "9b71295f"},),
        _ASHA,
    ),
    Case(
        "row of a list",
        gs("list_reply", {"title": "Tuesday", "id": "", "reply": "Tuesday 2", "postbackText": "s2"}),
        ({"choice": "s2", "text": "Tuesday"},),
        _ASHA,
    ),
    Case(
        "quick reply",
        gs("button_reply", {"title": "10:00", "id": "qr1", "reply": "10:00 1", "postbackText": "slot-1"}),
        ({"choice": "slot-1", "text": "10:00"},),
        _ASHA,
    ),
    Case(
        "voice note",
        gs(
            "audio",
            {"url": "https://filemanager.gupshup.io/fm/wamedia/demo/a.ogg", "contentType": "audio/ogg"},
        ),
        ({},),
        _ASHA,
        files=(("audio", "https://filemanager.gupshup.io/fm/wamedia/demo/a.ogg"),),
    ),
    Case("file that lies here", gs("file", {"url": "file:///etc/passwd"}), ({},), _ASHA, unreadable="file"),
    Case(
        "location",
        gs("location", {"longitude": "77.59", "latitude": "12.97"}),
        ({"location": {"latitude": 12.97, "longitude": 77.59}},),
        _ASHA,
    ),
    Case(
        "location that is none",
        gs("location", {"longitude": "nan", "latitude": "12"}),
        ({},),
        _ASHA,
        unreadable="location",
    ),
    Case("status", gs_event("delivered"), receipts=(("ee4a68a0", "delivered", ""),)),
    Case(
        "failure",
        gs_event("failed", payload={"code": 1002, "reason": "Number does not exist on WhatsApp"}),
        receipts=(("ee4a68a0", "failed", "gupshup-1002"),),
    ),
    Case("in their queue", gs_event("enqueued")),
    Case("message of another app", gs("text", {"text": "Hi"}) | {"app": "Other"}),
    Case("event of a user", {"app": "DemoApp", "type": "user-event", "payload": {"type": "opted-in"}}),
)

_TG_USER = {"id": 123456789, "is_bot": False, "first_name": "Asha", "last_name": "Rao", "language_code": "hi"}
_TG_CHAT = {"id": 123456789, "first_name": "Asha", "type": "private"}
_TG_ASHA = ("telegram_id", "123456789", "Asha Rao")


def tg(**message: Any) -> Json:
    """An update with a message."""
    whole = {"message_id": 7, "from": _TG_USER, "chat": _TG_CHAT, "date": 1795408200} | message
    return {"update_id": 1, "message": whole}


TELEGRAM = (
    Case(
        "text that quotes",
        tg(text="Hi", reply_to_message={"message_id": 5, "chat": _TG_CHAT}),
        (
            {
                "text": "Hi",
                "provider_message_id": "123456789/7",
                "in_reply_to": "123456789/5",
                "language": "hi",
            },
        ),
        _TG_ASHA,
    ),
    Case(
        "start by a link to a handle", tg(text="/start bob"), ({"text": "Hello", "handle": "bob"},), _TG_ASHA
    ),
    Case(
        "start by a link with a code", tg(text="/start link-ABCD2345"), ({"text": "link ABCD2345"},), _TG_ASHA
    ),
    Case("start", tg(text="/start"), ({"text": "Hello"},), _TG_ASHA),
    Case(
        "tapped button",
        {
            "update_id": 2,
            "callback_query": {
                "id": "4382bfdwdsb323b2d9",
                "from": _TG_USER,
                "chat_instance": "1",
                "data": "slot-1",
                "message": {
                    "message_id": 6,
                    "chat": _TG_CHAT,
                    "date": 1,
                    "reply_markup": {"inline_keyboard": [[{"text": "10:00", "callback_data": "slot-1"}]]},
                },
            },
        },
        (
            {
                "choice": "slot-1",
                "text": "10:00",
                "provider_message_id": "callback/4382bfdwdsb323b2d9",
                "in_reply_to": "123456789/6",
            },
        ),
        _TG_ASHA,
    ),
    Case(
        "reaction",
        {
            "update_id": 3,
            "message_reaction": {
                "chat": _TG_CHAT,
                "message_id": 6,
                "user": _TG_USER,
                "date": 1795408200,
                "old_reaction": [],
                "new_reaction": [{"type": "emoji", "emoji": "👍"}],
            },
        },
        ({"text": "👍", "in_reply_to": "123456789/6"},),
        _TG_ASHA,
    ),
    Case(
        "photo in three sizes",
        tg(photo=[{"file_id": "S"}, {"file_id": "M"}, {"file_id": "L"}], caption="menu"),
        ({"text": "menu"},),
        _TG_ASHA,
        files=(("image", "L"),),
    ),
    Case(
        "voice note",
        tg(voice={"file_id": "AwACAgIAAx", "duration": 3, "mime_type": "audio/ogg"}),
        ({},),
        _TG_ASHA,
        files=(("audio", "AwACAgIAAx"),),
    ),
    Case(
        "venue",
        tg(
            location={"latitude": 12.97, "longitude": 77.59},
            venue={"title": "Cubbon Park", "location": {"latitude": 12.97, "longitude": 77.59}},
        ),
        ({"location": {"latitude": 12.97, "longitude": 77.59, "name": "Cubbon Park"}},),
        _TG_ASHA,
    ),
    Case("poll", tg(poll={"id": "1"}), ({},), _TG_ASHA, unreadable="unknown"),
    Case("what was edited", {"update_id": 4, "edited_message": tg(text="Hi!")["message"]}),
    Case("message of a group", tg(text="hi", chat={"id": -1, "type": "group"})),
    Case("message of a bot", tg(text="hi", **{"from": _TG_USER | {"is_bot": True}})),
    Case("junk in every place", {"update_id": 5, "message": {"from": "me", "chat": [1], "photo": {"a": 1}}}),
)


def sl(**event: Any) -> Json:
    """An event in a direct message."""
    whole = {
        "type": "message",
        "channel": "D024BE91L",
        "channel_type": "im",
        "user": "U2147483697",
        "text": "Hi",
        "ts": "1795408200.000200",
    } | event
    return {
        "type": "event_callback",
        "team_id": "T0001",
        "api_app_id": "A0",
        "event": whole,
        "event_id": "Ev1",
    }


def sl_tap(action: Json) -> Json:
    """Taps on one of our messages."""
    return {
        "type": "block_actions",
        "user": {"id": "U2147483697", "username": "asha", "team_id": "T0001"},
        "team": {"id": "T0001", "domain": "acme"},
        "channel": {"id": "D024BE91L", "name": "directmessage"},
        "message": {"type": "message", "ts": "1795408100.000100"},
        "actions": [action],
    }


_SL_ASHA = ("slack_id", "T0001/U2147483697", "")
SLACK = (
    Case(
        "text with links and mentions",
        sl(text="ask &lt;you&gt; <https://ind.ai|ind> and <@U1>"),
        ({"text": "ask <you> https://ind.ai and @U1", "provider_message_id": "D024BE91L/1795408200.000200"},),
        _SL_ASHA,
    ),
    Case(
        "answer in a thread",
        sl(thread_ts="1795408100.000100"),
        ({"text": "Hi", "in_reply_to": "D024BE91L/1795408100.000100"},),
        _SL_ASHA,
    ),
    Case(
        "file",
        sl(
            subtype="file_share",
            text="",
            files=[
                {
                    "id": "F1",
                    "mimetype": "image/png",
                    "name": "a.png",
                    "url_private_download": "https://files.slack.com/files-pri/T1-F1/download/a.png",
                }
            ],
        ),
        ({},),
        _SL_ASHA,
        files=(("image", "https://files.slack.com/files-pri/T1-F1/download/a.png"),),
    ),
    Case(
        "tapped button",
        sl_tap(
            {
                "type": "button",
                "action_id": "choice-slot-1",
                "value": "slot-1",
                "action_ts": "1795408200.1",
                "text": {"type": "plain_text", "text": "10:00"},
            }
        ),
        ({"choice": "slot-1", "text": "10:00", "in_reply_to": "D024BE91L/1795408100.000100"},),
        _SL_ASHA,
        form=True,
    ),
    Case(
        "chosen from a menu",
        sl_tap(
            {
                "type": "static_select",
                "action_id": "choice",
                "action_ts": "1795408200.1",
                "selected_option": {"value": "s2", "text": {"type": "plain_text", "text": "Tuesday"}},
            }
        ),
        ({"choice": "s2", "text": "Tuesday"},),
        _SL_ASHA,
        form=True,
    ),
    Case(
        "reaction",
        sl(
            type="reaction_added",
            reaction="thumbsup",
            event_ts="1795408201.1",
            item={"type": "message", "channel": "D024BE91L", "ts": "1795408100.000100"},
        ),
        ({"text": ":thumbsup:", "in_reply_to": "D024BE91L/1795408100.000100"},),
        _SL_ASHA,
    ),
    Case("own message", sl(bot_id="B1")),
    Case("what was edited", sl(subtype="message_changed")),
    Case("message in a channel", sl(channel="C1ABCDEF", channel_type="channel")),
    Case("message of another workspace", sl() | {"team_id": "T9"}),
    Case(
        "junk in every place",
        {"type": "event_callback", "team_id": "T0001", "event": {"user": "U1", "ts": 4}},
    ),
)
TABLES = {"whatsapp-cloud": WHATSAPP, "gupshup": GUPSHUP, "telegram": TELEGRAM, "slack": SLACK}
