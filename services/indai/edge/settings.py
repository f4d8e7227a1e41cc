"""The settings of a channel, checked before they are stored."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

from indai.edge.accounts import VAULT
from indai.edge.channels.base import Adapter, Field, phone_identity
from indai.protocol.errors import InvalidInput, Reason
from indai.v1 import channels_pb2 as pb

# Settings that every channel may have.
COMMON: Final = (
    Field("template", "the template that may carry words outside the window", required=False),
    Field("per_second", "messages a second, where the number has another rate", required=False),
    Field("pair_every_s", "seconds between messages to one person", required=False),
    Field("proxies", "addresses of proxies of yours, whose X-Forwarded-For is believed", required=False),
)
_MOST: Final = 500
_REFERENCE: Final = re.compile(r"vault:[A-Za-z0-9_./-]{1,200}")
_ACCOUNT: Final = re.compile(r"[A-Za-z0-9_.+-]{2,64}")
_NUMBER: Final = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?")


def check_settings(adapter: Adapter, account: str, given: Mapping[str, str]) -> dict[str, str]:
    """Those that were given, without empty ones. Raises InvalidInput with what is wrong in each field."""
    fields = {field.name: field for field in (*adapter.fields, *COMMON)}
    settings = {name: value.strip() for name, value in given.items() if value.strip()}
    wrong = {name: "there is no such setting" for name in settings if name not in fields}
    for name, field in fields.items():
        if problem := _problem(field, settings.get(name, "")):
            wrong[name] = problem
    if not _ACCOUNT.fullmatch(account) or (
        adapter.channel == "whatsapp" and phone_identity(account) != account
    ):
        wrong["account"] = "write the number as +919876543210, or the name of the bot or workspace"
    if wrong:
        names = ", ".join(sorted(wrong))
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"These settings of {adapter.name} are missing or wrong: {names}.",
            hint="; ".join(f"{name}: {words}" for name, words in sorted(wrong.items())),
            fields=wrong,
        )
    return settings


def steps(adapter: Adapter, channel: pb.Channel) -> list[str]:
    """What is left to do at the provider's."""
    match adapter.name:
        case "whatsapp-cloud":
            return [
                f"In Meta's dashboard, set the callback URL to {channel.webhook_url}.",
                f"Set the verify token to the value of {channel.settings['verify_token']}.",
                "Subscribe to the field messages.",
            ]
        case "gupshup":
            return [
                f"At Gupshup, add a subscription to {channel.webhook_url}, version 2.",
                f"Set its header x-indai-secret to the value of {channel.settings['webhook_secret']}.",
                "Let it send messages, and the events sent, delivered, read and failed.",
            ]
        case "slack":
            return [
                f"In the app's configuration, set the request URL of events to {channel.webhook_url}.",
                "Set the request URL of interactivity to the same.",
                "Subscribe to message.im and reaction_added.",
                "Give the bot the scopes chat:write, files:read, files:write, im:history, reactions:read"
                " and reactions:write.",
            ]
        case _:
            return [f"Run: indai channel test {channel.name}. It tells Telegram the address."]


def _problem(field: Field, value: str) -> str:
    if not value:
        return field.words if field.required else ""
    if len(value) > _MOST or not value.isprintable():
        return f"it has at most {_MOST} characters"
    if field.secret and not _REFERENCE.fullmatch(value):
        return f"store the secret with indai secret set, and name it here like {VAULT}{field.name}"
    if not field.secret and value.startswith(VAULT):
        return "it is no secret: write the value itself"
    if field.name == "api" and not _is_api(value):
        return "an https address, or http on this machine"
    if field.name in ("addresses", "proxies") and not _are_networks(value):
        return "addresses or networks, with commas between"
    if field.name in ("per_second", "pair_every_s") and not (_NUMBER.fullmatch(value) and float(value) > 0):
        return "a number above 0"
    return ""


def _is_api(value: str) -> bool:
    try:
        url = urlsplit(value)
        host = url.hostname or ""
        local = host == "localhost" or ip_address(host).is_loopback if host else False
    except ValueError:
        local = False
    return (
        bool(url.hostname)
        and not url.username
        and (url.scheme == "https" or (url.scheme == "http" and local))
    )


def _are_networks(value: str) -> bool:
    try:
        for each in value.split(","):
            ip_network(each.strip())
    except ValueError:
        return False
    return True
