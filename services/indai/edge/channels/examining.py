"""What `indai channel test` asks of each provider, beside whether the credentials are good, and what the
answers say.

Each question changes nothing. One that a provider does not answer is no finding: the references promise these
fields to the holder of the token, and a token that may do less than that may still send. Pure.

Sources: https://docs.slack.dev/reference/methods/auth.test and /authentication (X-OAuth-Scopes);
https://core.telegram.org/bots/api#getwebhookinfo; Meta's references of the phone number node, of webhook
overrides, of `debug_token`, and of `appsecret_proof` (Graph API, Securing Requests).
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode, urlsplit

from indai.edge.channels.base import (
    Account,
    Json,
    Request,
    an_object,
    json_or_nothing,
    phone_identity,
    text_of,
)
from indai.edge.channels.troubles import Finding, explained

CHECK, WEBHOOK, TOKEN, SECRET, SET = "check", "webhook", "token", "secret", "set"
"""Names of questions: the credentials' own, and where Telegram was told our address, are asked by others."""
SLACK_SCOPES: Final = frozenset(
    ("chat:write", "files:read", "files:write", "im:history", "reactions:read", "reactions:write")
)
META_SCOPES: Final = frozenset(("whatsapp_business_messaging", "whatsapp_business_management"))
_PORTS: Final = (None, 80, 88, 443, 8443)


@dataclass(frozen=True, slots=True)
class Answered:
    """A provider's answer to one question; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: str

    @property
    def good(self) -> Json:
        """What it says, where it says anything."""
        return json_or_nothing(self.body) if 200 <= self.status < 300 else {}


def questions(provider: str, account: Account) -> dict[str, Request]:
    """By name."""
    if provider == "telegram":
        api = account.setting("api", "https://api.telegram.org")
        return {WEBHOOK: Request("POST", f"{api}/bot{account.secret('bot_token')}/getWebhookInfo", json={})}
    if provider != "whatsapp-cloud":
        return {}
    token, api = account.secret("access_token"), account.setting("api", "https://graph.facebook.com/v23.0")
    bearer, number = {"Authorization": f"Bearer {token}"}, account.setting("phone_number_id")
    proof = hmac.new(account.secret("app_secret").encode(), token.encode(), hashlib.sha256).hexdigest()
    return {
        WEBHOOK: Request("GET", f"{api}/{number}?fields=webhook_configuration", bearer),
        TOKEN: Request("GET", f"{api}/debug_token?{urlencode({'input_token': token})}", bearer),
        SECRET: Request(
            "GET", f"{api}/{number}?{urlencode({'fields': 'id', 'appsecret_proof': proof})}", bearer
        ),
    }


def findings(provider: str, account: Account, url: str, answers: Mapping[str, Answered]) -> list[Finding]:
    """What is wrong, the graver first. `url` is where our webhook is; `answers` are those that came, by the
    question's name."""
    found = list(_FINDS[provider](account, url, answers))
    if urlsplit(url).scheme != "https" and provider != "telegram":
        found.append(explained("no-https", provider=provider, url=url))
    return sorted(found, key=lambda each: not each.grave)


def refused_here(provider: str, count: int, at: str) -> Finding:
    """That requests came to the webhook which nobody had signed whom the channel knows."""
    return explained(
        "refused-here", grave=False, count=str(count), found=at, what=explained(f"secret-{provider}").hint
    )


def _slack(account: Account, _: str, answers: Mapping[str, Answered]) -> Iterator[Finding]:
    said = answers[CHECK].good
    if said.get("ok") is not True:
        return
    if not said.get("bot_id"):
        yield explained("slack-user")
    team = text_of(said.get("team_id"), 40)
    if team and team != account.account:
        yield explained("slack-team", found=team, account=account.account)
    if granted := answers[CHECK].headers.get("x-oauth-scopes", ""):
        missing = sorted(SLACK_SCOPES - {each.strip() for each in granted.split(",")})
        if missing:  # without files:write files go as addresses, and everything else goes
            yield explained("slack-scopes", grave=missing != ["files:write"], scopes=", ".join(missing))


def _telegram(account: Account, url: str, answers: Mapping[str, Answered]) -> Iterator[Finding]:
    bot = text_of(an_object(answers[CHECK].good.get("result")).get("username"), 40)
    if bot and bot.lower() != account.account.removeprefix("@").lower():
        yield explained("telegram-bot", found=bot, account=account.account)
    if (told := answers.get(SET)) is not None and not told.good.get("ok"):
        yield _not_set(url, text_of(json_or_nothing(told.body).get("description"), 200).lower())
        return
    info = an_object(answers[WEBHOOK].good.get("result")) if WEBHOOK in answers else {}
    where, error = text_of(info.get("url"), 500), text_of(info.get("last_error_message"), 200)
    if where and where != url:
        yield explained("telegram-elsewhere", found=_host(where))
    if "401" in error or "403" in error:
        yield explained("telegram-refused-here", grave=False, found=error)
    elif error:
        yield explained("telegram-last-error", grave=False, found=error, url=url)


def _not_set(url: str, said: str) -> Finding:
    """Why Telegram does not take an address, by its own description."""
    parts = urlsplit(url)
    if parts.scheme != "https" or "https" in said:
        return explained("telegram-https", url=url)
    if "port" in said or parts.port not in _PORTS:
        return explained("telegram-port")
    if "secret" in said:
        return explained("telegram-secret")
    if any(each in said for each in ("resolve", "getaddrinfo", "reserved", "host", "ip address")):
        return explained("telegram-host", url=url)
    return explained("webhook-refused")


def _whatsapp(account: Account, url: str, answers: Mapping[str, Answered]) -> Iterator[Finding]:
    shown = answers[CHECK].good.get("display_phone_number")
    number = phone_identity("".join(filter(str.isdigit, text_of(shown, 40))))
    if number and number != account.account:
        yield explained("whatsapp-number", found=number, account=account.account)
    if (proof := answers.get(SECRET)) is not None and _about_proof(proof):
        yield explained("whatsapp-secret")
    yield from _token(an_object(answers[TOKEN].good.get("data")) if TOKEN in answers else {})
    told = an_object(answers[WEBHOOK].good.get("webhook_configuration")) if WEBHOOK in answers else None
    if told is None:
        return
    # The number's own address goes before the account's, and that before the app's.
    levels = (
        text_of(told.get(each), 500) for each in ("phone_number", "whatsapp_business_account", "application")
    )
    where = next(filter(None, levels), "")
    if not where:
        if answers[WEBHOOK].good:
            yield explained("whatsapp-no-webhook", url=url)
    elif where != url:
        yield explained("whatsapp-elsewhere", found=_host(where), url=url)


def _token(said: Json) -> Iterator[Finding]:
    """What the token may do, and until when."""
    granted = said.get("scopes")
    if isinstance(granted, list):
        missing = sorted(META_SCOPES - set(map(str, granted)))
        if missing:
            grave = "whatsapp_business_messaging" in missing
            yield explained("whatsapp-scopes", grave=grave, scopes=", ".join(missing))
    ends = said.get("expires_at")
    if isinstance(ends, int) and 0 < ends < 1 << 40:
        day = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(ends))
        yield explained("whatsapp-expires", grave=False, found=day)


def _about_proof(answer: Answered) -> bool:
    said = an_object(json_or_nothing(answer.body).get("error")).get("message")
    return answer.status >= 400 and "appsecret_proof" in text_of(said, 400)


def _gupshup(_: Account, __: str, ___: Mapping[str, Answered]) -> Iterator[Finding]:
    """Nothing more can be asked with an app's key."""
    return iter(())


def _host(url: str) -> str:
    """Where another address lies; its path may hold what is no business of ours."""
    return urlsplit(url).netloc or "another address"


_FINDS: Final = {"slack": _slack, "telegram": _telegram, "whatsapp-cloud": _whatsapp, "gupshup": _gupshup}
