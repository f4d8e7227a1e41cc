"""A reply in the parts that a channel takes: words first, and what can be tapped beneath the last of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from indai.edge.channels.base import Limits
from indai.edge.forms.document import parse
from indai.edge.forms.splitting import Render, size, split
from indai.v1 import conversation_pb2 as pb


@dataclass(frozen=True, slots=True)
class Offer:
    """Something to tap; its title and description fit the channel."""

    id: str
    title: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class Layout:
    """Texts in order; then `body`, if there are `buttons` or `rows` (never both) beneath it."""

    texts: tuple[str, ...]
    body: str = ""
    buttons: tuple[Offer, ...] = ()
    rows: tuple[Offer, ...] = ()


def lay_out(reply: pb.Reply, limits: Limits, render: Render) -> Layout:
    """The words of a reply; its files go by themselves. Choices that can't be tapped on this channel are
    numbered in the text."""
    text, choices = reply.text, list(reply.choices)
    fits = 0 < len(choices) <= max(limits.buttons, limits.rows) and all(
        0 < len(choice.id.encode()) <= limits.choice_id and choice.title.strip() for choice in choices
    )
    if not fits:
        return Layout(tuple(split(parse(text + _numbered(choices)), render, limits.text)))
    *texts, body = split(parse(text), render, limits.text) or [""]
    if size(body) > limits.body:
        # The last part again, so that only its end stands above the buttons.
        *more, body = split(parse(text), render, limits.body)
        texts = _together(more, limits.text)
    if len(choices) <= limits.buttons:
        buttons = tuple(Offer(choice.id, shortened(choice.title, limits.button_title)) for choice in choices)
        return Layout(tuple(texts), body or "…", buttons=buttons)
    rows = tuple(
        Offer(
            choice.id,
            shortened(choice.title, limits.row_title),
            shortened(choice.description, limits.row_description),
        )
        for choice in choices
    )
    return Layout(tuple(texts), body or "…", rows=rows)


def numbered(reply: pb.Reply, limits: Limits) -> bool:
    """Whether the reply's choices are numbered on this channel, so that a number answers them."""
    return bool(reply.choices) and not (
        len(reply.choices) <= max(limits.buttons, limits.rows)
        and all(0 < len(choice.id.encode()) <= limits.choice_id for choice in reply.choices)
    )


def shortened(text: str, limit: int) -> str:
    """One line of at most `limit` units, ending in … where it was cut."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    if size(line) <= limit:
        return line
    while size(line) > limit - 1:
        line = line[:-1]
    return line.rstrip() + "…"


def _numbered(choices: Sequence[pb.Choice]) -> str:
    return "\n\n" + "\n".join(
        f"{number}. {choice.title}" + (f": {choice.description}" if choice.description else "")
        for number, choice in enumerate(choices, start=1)
    )


def _together(parts: Sequence[str], limit: int) -> list[str]:
    """Neighbouring parts as one where they fit."""
    found: list[str] = []
    for part in parts:
        if found and size(found[-1]) + size(part) + 2 <= limit:
            found[-1] += f"\n\n{part}"
        else:
            found.append(part)
    return found
