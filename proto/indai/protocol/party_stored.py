"""A side's thread and life out of what is stored: its messages, which the rules fold into the same again."""

from __future__ import annotations

from typing import Any

from indai.protocol import lifecycle
from indai.protocol.lifecycle import History, deed_of
from indai.protocol.messages import END_OF_TIME_MS, Message, Terms
from indai.protocol.negotiation import Thread, apply, open_thread
from indai.protocol.party_json import message_from_json, message_to_json


def begin_life(offer: Message | None) -> History:
    """The life of what was agreed; raises RuntimeError if nothing was."""
    if offer is None or not isinstance(offer.body, Terms):
        raise RuntimeError("nothing was agreed")
    parties = offer.parties or (offer.sender, offer.recipient)
    return lifecycle.committed(deed_of(offer.mid, parties, offer.body))


def life_to_json(life: History | None) -> dict[str, Any]:
    """What `relive` needs beside the offer."""
    fields: dict[str, Any] = {
        "events": [message_to_json(message) for message in life.messages] if life else []
    }
    if life and life.successors:
        fields["successors"] = sorted(mid.hex() for mid in life.successors)
    if life and life.instead:
        fields["instead"] = sorted([mid.hex(), time_ms] for mid, time_ms in life.instead)
    return fields


def relive(offer: Message | None, fields: dict[str, Any]) -> History:
    """The life again. Nothing is from the future here: it was judged when it came."""
    history = begin_life(offer)
    for mid in fields.get("successors", []):
        history = lifecycle.named_by(history, bytes.fromhex(mid))
    for mid, time_ms in fields.get("instead", []):
        history = lifecycle.named_by(history, bytes.fromhex(mid), time_ms)
    for event in fields.get("events", []):
        history = lifecycle.apply(history, message_from_json(event), END_OF_TIME_MS)
    return history


def fold(messages: list[dict[str, Any]]) -> Thread | None:
    """The thread again. No ACCEPT is late here: whether it was, has been decided and is stored."""
    if not messages:
        return None
    first, *others = (message_from_json(message) for message in messages)
    thread = open_thread(first)
    for message in others:
        thread = apply(thread, message, 0)
    return thread
