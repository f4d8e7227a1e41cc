"""Every channel by its table: what is read, what is refused, what goes out and what the answers mean."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st
from indai.edge.channels.base import Account, Attachment, Fate, Raw
from indai.edge.channels.rendering import shortened
from indai.edge.channels.table import ADAPTERS, adapter_of
from indai.edge.forms.splitting import size
from indai.protocol.errors import IndaiError, InvalidInput, Reason, Refused
from indai.v1 import conversation_pb2 as pb

from tests.unit.edge.accounts import ACCOUNTS, NOW_S, SLACK, TELEGRAM, WHATSAPP, signed
from tests.unit.edge.webhooks import TABLES, Case, sl, tg, wa, wa_message

CASES = [
    pytest.param(provider, case, id=f"{provider}: {case.name}")
    for provider, table in TABLES.items()
    for case in table
]
# Each adapter by one message of its table.
FIRST = [pytest.param(provider, table[0], id=provider) for provider, table in TABLES.items()]


def received(provider: str, raw: Raw) -> Any:
    adapter, account = ADAPTERS[provider], ACCOUNTS[provider]
    adapter.verify(raw, account, NOW_S)
    return adapter.receive(raw, account)


@pytest.mark.parametrize(("provider", "case"), CASES)
def test_a_webhook_is_read_as_its_provider_documents_it(provider: str, case: Case) -> None:
    found = received(provider, signed(provider, case.payload, form=case.form))
    assert len(found.incoming) == len(case.read)
    for incoming, wanted in zip(found.incoming, case.read, strict=True):
        message = json_format.MessageToDict(incoming.message, preserving_proto_field_name=True)
        sender = incoming.message.sender
        assert {key: message.get(key) for key in wanted} == wanted
        assert {"text", "choice", "location"} & message.keys() <= wanted.keys()
        assert (sender.kind, sender.value, sender.display_name) == case.sender
        assert sender.channel == ADAPTERS[provider].channel
        assert sender.verified
        assert incoming.message.account == ACCOUNTS[provider].account
        assert message["provider_message_id"]
        assert tuple((each.kind, each.reference) for each in incoming.attachments) == case.files
        assert incoming.unreadable == case.unreadable
    assert (
        tuple((each.provider_message_id, each.state, each.reason) for each in found.receipts) == case.receipts
    )
    assert found.skipped or found.incoming or found.receipts
    assert found.answer.body == ""


@pytest.mark.parametrize(("provider", "case"), FIRST)
def test_a_forged_webhook_is_refused(provider: str, case: Case) -> None:
    adapter, account = ADAPTERS[provider], ACCOUNTS[provider]
    good = signed(provider, case.payload)
    adapter.verify(good, account, NOW_S)
    forgeries = [
        replace(good, headers={}),
        replace(good, headers={name: value[:-1] + "é" for name, value in good.headers.items()}),
        replace(good, method="PUT", headers={}),
    ]
    if provider in ("whatsapp-cloud", "slack"):  # these sign the bytes
        forgeries.append(replace(good, body=good.body + b" "))
    for raw in forgeries:
        with pytest.raises(Refused) as refusal:
            adapter.verify(raw, account, NOW_S)
        assert refusal.value.reason is Reason.BAD_SIGNATURE


@pytest.mark.parametrize("provider", sorted(ADAPTERS))
def test_without_a_secret_nothing_is_believed(provider: str) -> None:
    bare = replace(ACCOUNTS[provider], secrets={})
    raw = signed(provider, {})
    empty = replace(raw, headers=dict.fromkeys(raw.headers, "") | {"x-slack-request-timestamp": str(NOW_S)})
    for each in (raw, empty, Raw("GET", {"hub.mode": "subscribe", "hub.verify_token": ""}, {}, b"")):
        with pytest.raises(Refused):
            ADAPTERS[provider].verify(each, bare, NOW_S)


def test_meta_is_shown_its_challenge_for_the_verify_token_only() -> None:
    query = {"hub.mode": "subscribe", "hub.verify_token": "verify-me", "hub.challenge": "1158201444"}
    assert received("whatsapp-cloud", Raw("GET", query, {}, b"")).answer.body == "1158201444"
    for wrong in ({"hub.verify_token": "no"}, {"hub.mode": "unsubscribe"}):
        with pytest.raises(Refused):
            received("whatsapp-cloud", Raw("GET", query | wrong, {}, b""))


def test_slack_is_shown_its_challenge_and_not_after_five_minutes() -> None:
    body = {"type": "url_verification", "token": "x", "challenge": "3eZbrw1aB"}
    assert received("slack", signed("slack", body)).answer.body == "3eZbrw1aB"
    for late in (NOW_S - 301, NOW_S + 301):
        with pytest.raises(Refused):
            received("slack", signed("slack", body, now_s=late))


def test_gupshup_is_believed_from_its_addresses_only() -> None:
    good = signed("gupshup", {})
    adapter = ADAPTERS["gupshup"]
    adapter.verify(replace(good, remote="34.202.224.208"), ACCOUNTS["gupshup"], NOW_S)
    documented = replace(ACCOUNTS["gupshup"], settings={"app_name": "DemoApp"})
    adapter.verify(replace(good, remote="52.66.99.126"), documented, NOW_S)
    for account, remote in ((ACCOUNTS["gupshup"], "10.0.0.1"), (documented, "127.0.0.1"), (documented, "")):
        with pytest.raises(Refused):
            adapter.verify(replace(good, remote=remote), account, NOW_S)


@pytest.mark.parametrize("provider", sorted(ADAPTERS))
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b"null"])
def test_what_is_no_webhook_is_an_error_or_nothing(provider: str, body: bytes) -> None:
    raw = signed(provider, body)
    try:
        found = received(provider, raw)
    except InvalidInput:
        return
    assert not found.incoming


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("date", [True, -1, 1 << 70])
def test_a_time_that_is_none_is_left_out(date: int) -> None:
    [incoming] = received("telegram", signed("telegram", tg(text="Hi", date=date))).incoming
    assert not incoming.message.HasField("sent_time")


@given(st.data(), _VALUES)
def test_any_value_in_any_place_of_a_webhook_is_read_or_left_out(data: st.DataObject, value: Any) -> None:
    provider, case = data.draw(
        st.sampled_from([(provider, case) for provider, table in TABLES.items() for case in table])
    )
    payload = json.loads(json.dumps(case.payload))
    place = payload
    while isinstance(place, dict | list) and place:
        key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else list(range(len(place)))))
        if data.draw(st.booleans()) or not isinstance(place[key], dict | list):
            place[key] = value
            break
        place = place[key]
    try:
        found = received(provider, signed(provider, payload, form=case.form))
    except InvalidInput:
        return
    for incoming in found.incoming:
        assert incoming.message.provider_message_id
        assert incoming.message.sender.value
        incoming.message.SerializeToString()


LONG = "This sentence is repeated, and it is long enough. " * 150
TWO = [pb.Choice(id="a", title="Ten in the morning, or so"), pb.Choice(id="b", title="b")]


def reply(text: str, choices: int = 0) -> pb.Reply:
    offered = [
        pb.Choice(id=f"slot-{n}", title=f"{n} o'clock in the morning", description="d" * 100)
        for n in range(choices)
    ]
    return pb.Reply(text=text, choices=offered)


def words_of(payload: dict[str, Any]) -> list[tuple[str, int]]:
    """All texts of a payload with their limits, by the providers' references."""
    found: list[tuple[str, int]] = []
    if "interactive" in payload:
        inner = payload["interactive"]
        found.append((inner["body"]["text"], 1024))
        found += [(each["reply"]["title"], 20) for each in inner["action"].get("buttons", [])]
        rows = [row for section in inner["action"].get("sections", []) for row in section["rows"]]
        found += [(row["title"], 24) for row in rows] + [(row["description"], 72) for row in rows]
        assert len(rows) <= 10
        assert len(inner["action"].get("buttons", [])) <= 3
    elif payload.get("type") == "quick_reply":
        found.append((payload["content"]["text"], 1024))
        found += [(each["title"], 20) for each in payload["options"]]
    elif payload.get("type") == "list":
        found.append((payload["body"], 1024))
        found += [(row["title"], 24) for row in payload["items"][0]["options"]]
    elif "blocks" in payload:
        found.append((payload["blocks"][0]["text"]["text"], 3000))
    else:
        text = payload["text"]
        found.append(
            (text["body"] if isinstance(text, dict) else text, 4000 if "unfurl_links" in payload else 4096)
        )
    return found


@pytest.mark.parametrize("provider", sorted(ADAPTERS))
@pytest.mark.parametrize("choices", [0, 2, 3, 4, 10, 11, 30])
@pytest.mark.parametrize("text", ["", "Hi.", "**Hi** <b>&</b>", LONG], ids=["none", "short", "marks", "long"])
def test_no_reply_breaks_a_limit_of_its_channel(provider: str, text: str, choices: int) -> None:
    adapter = ADAPTERS[provider]
    payloads = adapter.render(reply(text, choices))
    assert bool(payloads) == bool(text or choices)
    for payload in payloads:
        assert all(0 < size(words) <= limit for words, limit in words_of(payload))
    # Slack shows `text` in notifications only where there are blocks.
    shown = [payload | {"text": ""} if "blocks" in payload else payload for payload in payloads]
    whole = json.dumps(shown)
    for number in range(choices):  # each can be tapped, or its number typed
        assert f"slot-{number}" in whole or f"{number + 1}. {number} o'clock" in whole
    if text == LONG:
        assert whole.count("long enough") == 150
        assert len(payloads) <= 3


def test_a_choice_whose_id_does_not_fit_is_numbered() -> None:
    choices = [pb.Choice(id="x" * 65, title="A"), pb.Choice(id="y", title="B")]
    payloads = ADAPTERS["telegram"].render(pb.Reply(text="Which?", choices=choices))
    assert payloads[0]["text"] == "Which?\n\n1. A\n2. B"


def test_a_title_is_cut_with_its_end_shown() -> None:
    assert shortened("Ten in the morning, or so", 20) == "Ten in the morning,…"
    assert size(shortened("👩‍👩‍👧‍👦" * 5, 20)) <= 20


def test_requests_are_what_the_providers_document() -> None:
    hi = reply("Hi.")
    built = {
        name: adapter.request(adapter.render(hi)[0], "919876543210", ACCOUNTS[name])
        for name, adapter in ADAPTERS.items()
    }
    meta = built["whatsapp-cloud"]
    assert meta.url == "https://graph.facebook.com/v23.0/106540352242922/messages"
    assert meta.headers == {"Authorization": "Bearer EAAG-token"}
    assert meta.json == {
        "messaging_product": "whatsapp",
        "recipient_type": "individual",
        "to": "919876543210",
        "type": "text",
        "text": {"body": "Hi."},
    }
    scoped = ADAPTERS["whatsapp-cloud"].request({}, "IN.13491208655302741918", WHATSAPP).json or {}
    assert scoped["recipient"] == "IN.13491208655302741918"
    assert "to" not in scoped
    assert built["gupshup"].form == {
        "channel": "whatsapp",
        "source": "917834811114",
        "destination": "919876543210",
        "src.name": "DemoApp",
        "message": '{"type": "text", "text": "Hi."}',
    }
    assert built["telegram"].url == "https://api.telegram.org/bot110201543:AAHd/sendMessage"
    assert (built["telegram"].json or {})["parse_mode"] == "HTML"
    assert built["slack"].url == "https://slack.com/api/chat.postMessage"
    thread = ADAPTERS["slack"].request({"text": "x"}, "D1/1.2", SLACK).json
    assert thread == {"channel": "D1", "thread_ts": "1.2", "text": "x"}
    assert "AAHd" not in repr(built["telegram"])
    assert "secret" not in repr(TELEGRAM)


def test_a_template_carries_the_words_on_one_line() -> None:
    made = ADAPTERS["whatsapp-cloud"].template(
        "update", pb.Reply(text="**Hi**\n\n- one\n- two", language="hi")
    )
    assert made is not None
    assert made["template"]["components"][0]["parameters"] == [{"type": "text", "text": "Hi - one - two"}]
    assert made["template"]["language"] == {"code": "hi"}


JUDGED = [
    ("whatsapp-cloud", 200, {}, {"messages": [{"id": "wamid.X"}]}, (Fate.SENT, "wamid.X", 0)),
    ("whatsapp-cloud", 400, {}, {"error": {"code": 131056}}, (Fate.SLOW_PAIR, "whatsapp-131056", 0)),
    (
        "whatsapp-cloud",
        429,
        {"retry-after": "7"},
        {"error": {"code": 130429}},
        (Fate.SLOW_ACCOUNT, "whatsapp-130429", 7),
    ),
    ("whatsapp-cloud", 401, {}, {"error": {"code": 190}}, (Fate.UNHEALTHY, "whatsapp-190", 0)),
    ("whatsapp-cloud", 400, {}, {"error": {"code": 131047}}, (Fate.DEAD, "whatsapp-131047", 0)),
    ("whatsapp-cloud", 400, {}, {"error": {"code": 131031}}, (Fate.UNHEALTHY, "whatsapp-131031", 0)),
    ("whatsapp-cloud", 503, {}, "<html>", (Fate.AGAIN, "http-503", 0)),
    ("gupshup", 202, {}, {"status": "submitted", "messageId": "ee4a"}, (Fate.SENT, "ee4a", 0)),
    ("gupshup", 401, {}, {"status": "error"}, (Fate.UNHEALTHY, "gupshup-401", 0)),
    (
        "gupshup",
        400,
        {},
        {"status": "error", "message": "Invalid Destination"},
        (Fate.DEAD, "gupshup-400", 0),
    ),
    ("gupshup", 200, {}, {"status": "error"}, (Fate.DEAD, "gupshup-200", 0)),
    ("gupshup", 429, {"retry-after": "soon"}, "", (Fate.SLOW_ACCOUNT, "gupshup-429", 0)),
    (
        "telegram",
        200,
        {},
        {"ok": True, "result": {"message_id": 8, "chat": {"id": 5}}},
        (Fate.SENT, "5/8", 0),
    ),
    (
        "telegram",
        429,
        {},
        {"ok": False, "parameters": {"retry_after": 5}},
        (Fate.SLOW_PAIR, "telegram-429", 5),
    ),
    ("telegram", 403, {}, {"ok": False, "description": "bot was blocked"}, (Fate.DEAD, "telegram-403", 0)),
    ("telegram", 401, {}, {"ok": False}, (Fate.UNHEALTHY, "telegram-401", 0)),
    ("telegram", 502, {}, "bad gateway", (Fate.AGAIN, "telegram-502", 0)),
    ("slack", 200, {}, {"ok": True, "channel": "D1", "ts": "1.2"}, (Fate.SENT, "D1/1.2", 0)),
    ("slack", 200, {}, {"ok": False, "error": "token_revoked"}, (Fate.UNHEALTHY, "slack-token_revoked", 0)),
    (
        "slack",
        200,
        {},
        {"ok": False, "error": "channel_not_found"},
        (Fate.DEAD, "slack-channel_not_found", 0),
    ),
    ("slack", 200, {}, {"ok": False, "error": "internal_error"}, (Fate.AGAIN, "slack-internal_error", 0)),
    ("slack", 429, {"retry-after": "30"}, "", (Fate.SLOW_ACCOUNT, "slack-ratelimited", 30)),
    ("slack", 200, {}, "not json", (Fate.AGAIN, "slack-no-json", 0)),
]


@pytest.mark.parametrize(("provider", "status", "headers", "body", "wanted"), JUDGED)
def test_an_answer_means_what_its_provider_says(
    provider: str, status: int, headers: dict[str, str], body: Any, wanted: tuple[Fate, str, float]
) -> None:
    text = body if isinstance(body, str) else json.dumps(body)
    verdict = ADAPTERS[provider].judge(status, headers, text)
    assert (verdict.fate, verdict.provider_message_id or verdict.reason, verdict.wait_s) == wanted


def test_files_are_found_as_documented() -> None:
    def found(account: Account, reference: str, answer: dict[str, Any]) -> tuple[str, str]:
        adapter, attachment = adapter_of(account.provider), Attachment("audio", reference)
        first = adapter.locate(attachment, account)
        return first.url if first else "", adapter.download(attachment, answer, account).url

    assert found(WHATSAPP, "1908", {"url": "https://lookaside.fbsbx.com/x"}) == (
        "https://graph.facebook.com/v23.0/1908",
        "https://lookaside.fbsbx.com/x",
    )
    assert found(TELEGRAM, "AwAC", {"ok": True, "result": {"file_path": "voice/file_1.oga"}}) == (
        "https://api.telegram.org/bot110201543:AAHd/getFile",
        "https://api.telegram.org/file/bot110201543:AAHd/voice/file_1.oga",
    )
    assert found(SLACK, "https://files.slack.com/a", {}) == ("", "https://files.slack.com/a")
    for bad in ("../../etc/passwd", "", "a//b?x", "/abs"):
        with pytest.raises(InvalidInput):
            found(TELEGRAM, "AwAC", {"result": {"file_path": bad}})


def test_signs_of_life_are_what_each_provider_has() -> None:
    meta = ADAPTERS["whatsapp-cloud"].thinking("wamid.A", "91", WHATSAPP)
    assert meta is not None
    assert meta.json == {
        "messaging_product": "whatsapp",
        "status": "read",
        "message_id": "wamid.A",
        "typing_indicator": {"type": "text"},
    }
    typing = ADAPTERS["telegram"].thinking("5/7", "5", TELEGRAM)
    assert typing is not None
    assert typing.json == {"chat_id": "5", "action": "typing"}
    stopped = ADAPTERS["telegram"].seen("callback/9", "5", TELEGRAM)
    assert stopped is not None
    assert stopped.json == {"callback_query_id": "9"}
    reacted = ADAPTERS["slack"].thinking("D1/1.2", "D1", SLACK)
    assert reacted is not None
    assert reacted.json == {"channel": "D1", "timestamp": "1.2", "name": "hourglass_flowing_sand"}
    assert ADAPTERS["slack"].thinking("action/D1/1.2", "D1", SLACK) is None


def test_an_unknown_kind_of_channel_is_refused_with_those_there_are() -> None:
    with pytest.raises(IndaiError, match="whatsapp-cloud, gupshup, telegram, slack"):
        adapter_of("fax")


def test_text_with_a_lone_surrogate_is_read() -> None:
    for provider, payload in (
        ("whatsapp-cloud", wa(wa_message("text", {"body": "a\\ud800b"}))),
        ("telegram", tg(text="a\\ud800b")),
        ("slack", sl(text="a\\ud800b")),
    ):
        raw = signed(provider, json.dumps(payload).replace("\\\\ud800", "\\ud800").encode())
        assert received(provider, raw).incoming[0].message.text == "a?b"
