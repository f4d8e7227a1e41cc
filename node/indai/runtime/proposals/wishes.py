"""What people say of how a persona speaks, and what it asks for. Pure; `wishes.yaml` has the words.

Only which of a few wishes it is comes from what somebody said: the change and its reason are the program's
own words, so nobody writes a line of a persona by talking to it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

import yaml
from indai.runtime.proposals.values import Proposal

MAX_WORDS: Final = 14
"""A longer message is about something else as well."""


def wish_of(text: str) -> str:
    """Which wish a message is; empty for none, and for one that can't be told from another."""
    if len(text) > 160 or len(text.split()) > MAX_WORDS:
        return ""
    lowered = text.lower()
    found = [name for name, pattern in _patterns().items() if pattern.search(lowered)]
    return found[0] if len(found) == 1 else ""


def reason_of(wish: str) -> str:
    """Why, as a reviewer reads it."""
    return str(_wishes()[wish]["reason"])


def change_of(wish: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The change of a persona that a wish asks for."""
    known = _wishes()[wish]
    if "set" in known:
        return dict(known["set"])
    avoid = list(config.get("voice", {}).get("avoid", ()))
    return {"voice": {"avoid": avoid if known["avoid"] in avoid else [*avoid, known["avoid"]]}}


def change_now(proposal: Proposal, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a proposal would change by now: a wish may ask for less than when it was first heard."""
    return change_of(proposal.wish, config) if proposal.wish in _wishes() else proposal.change


@cache
def _patterns() -> Mapping[str, re.Pattern[str]]:
    return {
        name: re.compile("|".join(f"(?:{line})" for lines in wish["says"].values() for line in lines))
        for name, wish in _wishes().items()
    }


@cache
def _wishes() -> Mapping[str, Any]:
    data: Mapping[str, Any] = yaml.safe_load(
        resources.files(__package__).joinpath("wishes.yaml").read_text("utf-8")
    )
    return data
