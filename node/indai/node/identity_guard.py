"""No request of a person's program may carry an Aadhaar number, whatever it is for.

One guard in front of every method that admits its caller: titles, notes, questions, names, rules, memories.
Bytes are not read (documents have a guard of their own), and a message to an agent passes: its intake takes
the number out, and the person is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from indai.tools.identity import refuse_aadhaar

PASSES: Final = frozenset({"/indai.v1.ConversationService/SendMessage"})
_MAYBE: Final = re.compile(r"(?:\d\D?){12}")
"""Twelve digits of any script with at most one character between: nearly every request has none."""


def check_request(method: str, request: Message) -> None:
    """Raises Refused(POLICY_DENIED), which does not repeat the number."""
    if method not in PASSES and any(_MAYBE.search(text) for text in _texts(request)):
        refuse_aadhaar(_plain(request), "The request")


def _texts(message: Message) -> Iterator[str]:
    for field, value in message.ListFields():
        yield from _of(field, value)


def _of(field: FieldDescriptor, value: Any) -> Iterator[str]:
    if field.type == FieldDescriptor.TYPE_STRING:
        yield from [value] if isinstance(value, str) else value
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        for each in _several(field, value):
            yield from [each] if isinstance(each, str) else _texts(each) if isinstance(each, Message) else ()


def _several(field: FieldDescriptor, value: Any) -> list[Any]:
    """The values of a field that may be one message, a list of them, or a map."""
    if isinstance(value, Message):
        return [value]
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return [*value.keys(), *value.values()]
    return list(value)


def _plain(message: Message) -> dict[str, Any]:
    """Texts under the names of their fields, which are a number's context."""
    found: dict[str, Any] = {}
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_STRING:
            found[field.name] = value if isinstance(value, str) else list(value)
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            inner = _several(field, value)
            found[field.name] = [_plain(each) if isinstance(each, Message) else each for each in inner]
    return found
