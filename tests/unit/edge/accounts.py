"""An account of each provider, and requests signed as each provider signs them."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any
from urllib.parse import urlencode

from indai.edge.channels.base import Account, Raw

NOW_S = 1_795_408_200
WHATSAPP = Account(
    "wa",
    "personal",
    "whatsapp-cloud",
    "+15550783881",
    {"phone_number_id": "106540352242922"},
    {"app_secret": "app-secret", "verify_token": "verify-me", "access_token": "EAAG-token"},
)
GUPSHUP = Account(
    "gs",
    "personal",
    "gupshup",
    "+917834811114",
    {"app_name": "DemoApp", "addresses": "127.0.0.0/8, 34.202.224.208"},
    {"webhook_secret": "hook-secret", "api_key": "gs-key"},
)
TELEGRAM = Account(
    "tg",
    "personal",
    "telegram",
    "indai_bot",
    {},
    {"bot_token": "110201543:AAHd", "webhook_secret": "tg_secret"},
)
SLACK = Account(
    "sl", "personal", "slack", "T0001", {}, {"signing_secret": "8f742231b10e", "bot_token": "xoxb-1"}
)
ACCOUNTS = {account.provider: account for account in (WHATSAPP, GUPSHUP, TELEGRAM, SLACK)}


def signed(provider: str, payload: Any, *, now_s: int = NOW_S, form: bool = False) -> Raw:
    """The request with which a provider delivers a payload."""
    body = payload if isinstance(payload, bytes) else json.dumps(payload, ensure_ascii=False).encode()
    headers = {"content-type": "application/json"}
    if form:
        body = urlencode({"payload": body.decode()}).encode()
        headers = {"content-type": "application/x-www-form-urlencoded"}
    if provider == "whatsapp-cloud":
        digest = hmac.new(b"app-secret", body, hashlib.sha256).hexdigest()
        headers["x-hub-signature-256"] = f"sha256={digest}"
    elif provider == "gupshup":
        headers["x-indai-secret"] = "hook-secret"
    elif provider == "telegram":
        headers["x-telegram-bot-api-secret-token"] = "tg_secret"
    else:
        digest = hmac.new(b"8f742231b10e", b"v0:%d:%s" % (now_s, body), hashlib.sha256).hexdigest()
        headers |= {"x-slack-request-timestamp": str(now_s), "x-slack-signature": f"v0={digest}"}
    return Raw("POST", {}, headers, body, "127.0.0.1")
