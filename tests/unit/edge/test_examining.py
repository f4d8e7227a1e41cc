"""What a test of a channel says of each answer that a newcomer meets, in the providers' documented shapes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from indai.edge.channels.base import Fate
from indai.edge.channels.examining import (
    CHECK,
    META_SCOPES,
    SECRET,
    SET,
    SLACK_SCOPES,
    TOKEN,
    WEBHOOK,
    Answered,
    findings,
    questions,
)
from indai.edge.channels.table import adapter_of
from indai.edge.channels.troubles import explained

from tests.unit.edge.accounts import ACCOUNTS

URL = "https://node.example/channels/x"
ME = {"ok": True, "result": {"id": 1, "is_bot": True, "username": "indai_bot"}}
HERE = {"ok": True, "result": {"url": URL, "pending_update_count": 0}}
NUMBER = {"display_phone_number": "+1 555-078-3881", "quality_rating": "GREEN", "id": "1"}
GOOD_TOKEN = {"data": {"is_valid": True, "scopes": sorted(META_SCOPES), "expires_at": 0}}
WORKSPACE = {"ok": True, "team": "Acme", "team_id": "T0001", "user_id": "U1", "bot_id": "B1"}


def told(body: Any, status: int = 200, **headers: str) -> Answered:
    return Answered(
        status, {name.replace("_", "-"): value for name, value in headers.items()}, json.dumps(body)
    )


def configured(**levels: str) -> Answered:
    return told({"webhook_configuration": levels, "id": "1"})


def not_set(description: str) -> Answered:
    return told(
        {"ok": False, "error_code": 400, "description": f"Bad Request: bad webhook: {description}"}, 400
    )


def lacking(*scopes: str) -> str:
    return ",".join(sorted(SLACK_SCOPES - set(scopes)))


WELL: dict[str, dict[str, Answered]] = {
    "slack": {CHECK: told(WORKSPACE, x_oauth_scopes=lacking())},
    "telegram": {CHECK: told(ME), SET: told({"ok": True, "result": True}), WEBHOOK: told(HERE)},
    "whatsapp-cloud": {
        CHECK: told(NUMBER),
        WEBHOOK: configured(application=URL),
        TOKEN: told(GOOD_TOKEN),
        SECRET: told({"id": "1"}),
    },
    "gupshup": {CHECK: told({"status": "success", "templates": []})},
}
CASES: list[tuple[str, dict[str, Answered], str, str]] = [
    ("slack", {CHECK: told(WORKSPACE, x_oauth_scopes=lacking("files:write"))}, "slack-scopes", "files:write"),
    (
        "slack",
        {CHECK: told(WORKSPACE, x_oauth_scopes=lacking("chat:write", "im:history"))},
        "slack-scopes",
        "chat:write, im:history",
    ),
    ("slack", {CHECK: told({**WORKSPACE, "team_id": "T0002"})}, "slack-team", "T0002"),
    ("slack", {CHECK: told({**WORKSPACE, "bot_id": None})}, "slack-user", "xoxb-"),
    (
        "telegram",
        {CHECK: told({"ok": True, "result": {"username": "other_bot"}})},
        "telegram-bot",
        "@other_bot",
    ),
    ("telegram", {SET: not_set("An HTTPS URL must be provided for webhook")}, "telegram-https", URL),
    (
        "telegram",
        {SET: not_set("Webhook can be set up only on ports 80, 88, 443 or 8443")},
        "telegram-port",
        "8443",
    ),
    (
        "telegram",
        {SET: not_set("Failed to resolve host: Name or service not known")},
        "telegram-host",
        "--public-url",
    ),
    (
        "telegram",
        {SET: not_set("secret token contains illegal characters")},
        "telegram-secret",
        "webhook_secret",
    ),
    ("telegram", {SET: not_set("who knows")}, "webhook-refused", "address"),
    (
        "telegram",
        {WEBHOOK: told({"ok": True, "result": {"url": "https://old.example/hook/s3cret"}})},
        "telegram-elsewhere",
        "old.example",
    ),
    (
        "telegram",
        {
            WEBHOOK: told(
                {"ok": True, "result": {"url": URL, "last_error_message": "Wrong response: 401 Unauthorized"}}
            )
        },
        "telegram-refused-here",
        "401",
    ),
    (
        "telegram",
        {WEBHOOK: told({"ok": True, "result": {"url": URL, "last_error_message": "Connection timed out"}})},
        "telegram-last-error",
        "timed out",
    ),
    (
        "whatsapp-cloud",
        {CHECK: told({**NUMBER, "display_phone_number": "+91 98765 43210"})},
        "whatsapp-number",
        "+919876543210",
    ),
    (
        "whatsapp-cloud",
        {
            SECRET: told(
                {"error": {"message": "Invalid appsecret_proof provided in the API argument", "code": 100}},
                400,
            )
        },
        "whatsapp-secret",
        "app_secret",
    ),
    (
        "whatsapp-cloud",
        {TOKEN: told({"data": {"scopes": ["whatsapp_business_management"], "expires_at": 0}})},
        "whatsapp-scopes",
        "whatsapp_business_messaging",
    ),
    (
        "whatsapp-cloud",
        {TOKEN: told({"data": {"scopes": sorted(META_SCOPES), "expires_at": 1_795_500_000}})},
        "whatsapp-expires",
        "2026-11-24",
    ),
    ("whatsapp-cloud", {WEBHOOK: configured()}, "whatsapp-no-webhook", URL),
    (
        "whatsapp-cloud",
        {WEBHOOK: configured(application=URL, phone_number="https://other.example/hook/s3cret")},
        "whatsapp-elsewhere",
        "other.example",
    ),
]
# What `judge` says of refused credentials, as each reference documents it.
REFUSED: list[tuple[str, int, Any, str]] = [
    *(
        ("slack", 200, {"ok": False, "error": error}, f"slack-{error}")
        for error in ("invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired")
    ),
    *(
        ("slack", 200, {"ok": False, "error": error}, f"slack-{error}")
        for error in ("missing_scope", "not_allowed_token_type", "messages_tab_disabled", "channel_not_found")
    ),
    ("telegram", 401, {"ok": False, "error_code": 401, "description": "Unauthorized"}, "telegram-401"),
    ("telegram", 404, {"ok": False, "error_code": 404, "description": "Not Found"}, "telegram-404"),
    ("telegram", 403, {"ok": False, "description": "Forbidden: bot was blocked by the user"}, "telegram-403"),
    ("whatsapp-cloud", 401, {"error": {"code": 190, "error_subcode": 463}}, "whatsapp-190-463"),
    ("whatsapp-cloud", 401, {"error": {"code": 190, "error_subcode": 460}}, "whatsapp-190-460"),
    *(
        ("whatsapp-cloud", 400, {"error": {"code": code}}, f"whatsapp-{code}")
        for code in (10, 100, 190, 200, 368, 131030, 131047, 132001, 133010)
    ),
    ("slack", 200, {"ok": False, "error": "service_unavailable"}, "slack-service_unavailable"),
    ("telegram", 502, "<html>", "telegram-502"),
    ("whatsapp-cloud", 503, {"error": {"code": 131016}}, "whatsapp-131016"),
    ("whatsapp-cloud", 503, "<html>", "http-503"),
    ("gupshup", 500, "", "gupshup-500"),
    ("gupshup", 401, {"message": "Authentication Failed"}, "gupshup-401"),
    ("gupshup", 404, {"status": "error"}, "gupshup-404"),
]


@pytest.mark.parametrize("provider", WELL)
def test_where_all_is_well_nothing_is_found(provider: str) -> None:
    assert not findings(provider, ACCOUNTS[provider], URL, WELL[provider])


@pytest.mark.parametrize(("provider", "answers", "reason", "named"), CASES)
def test_each_thing_that_is_wrong_is_named_with_what_to_do(
    provider: str, answers: dict[str, Answered], reason: str, named: str
) -> None:
    (found,) = findings(provider, ACCOUNTS[provider], URL, WELL[provider] | answers)
    assert found.reason == reason
    assert named in f"{found.words} {found.hint}"
    assert found.hint
    assert "s3cret" not in f"{found.words} {found.hint}"  # where else somebody listens is half shown


@pytest.mark.parametrize(("provider", "status", "body", "reason"), REFUSED)
def test_what_a_provider_refuses_has_words(provider: str, status: int, body: Any, reason: str) -> None:
    verdict = adapter_of(provider).judge(status, {}, json.dumps(body))
    assert (verdict.reason, verdict.fate is not Fate.SENT) == (reason, True)
    assert explained(reason).words
    assert explained(reason).hint


def test_only_files_go_otherwise_without_files_write() -> None:
    lacks = {CHECK: told(WORKSPACE, x_oauth_scopes=lacking("files:write"))}
    assert [each.grave for each in findings("slack", ACCOUNTS["slack"], URL, lacks)] == [False]
    lacks = {CHECK: told(WORKSPACE, x_oauth_scopes=lacking("files:write", "chat:write"))}
    assert [each.grave for each in findings("slack", ACCOUNTS["slack"], URL, lacks)] == [True]


def test_what_is_not_answered_is_no_finding_and_an_address_without_https_is_one() -> None:
    refused = told({"error": {"code": 100}}, 400)
    for provider, account in ACCOUNTS.items():
        only = {CHECK: WELL[provider][CHECK], **dict.fromkeys(questions(provider, account), refused)}
        assert not findings(provider, account, URL, only)
        found = findings(provider, account, "http://127.0.0.1:8080/channels/x", only)
        assert [each.reason for each in found] == ([] if provider == "telegram" else ["no-https"])


def test_no_question_shows_its_secrets() -> None:
    for provider, account in ACCOUNTS.items():
        for request in questions(provider, account).values():
            assert not any(secret in repr(request) for secret in account.secrets.values())


def test_what_a_provider_says_is_data() -> None:
    found = explained("telegram-last-error", found="{url} {0}\n\x1b[31m" + "x" * 500, url=URL)
    assert "\n" not in found.words
    assert len(found.words) < 400
    assert "{url} {0}" in found.words
