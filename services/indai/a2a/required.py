"""Whether a request has every field that the specification requires (A2A 1.0, section 5.7).

The SDK's validator reads the options of every field of every message anew: an eighth of what a small request
costs. Here the required fields of each type are read once; what is missing by them is missing for the SDK's
validator too, and that one says what is wrong.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from a2a.utils.proto_utils import validate_proto_required_fields
from google.api import field_behavior_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message


def check_required(request: Message) -> None:
    """Raises the SDK's InvalidParamsError for a request that lacks a field."""
    if not _complete(request):
        validate_proto_required_fields(request)


def _complete(message: Message) -> bool:
    present = message.ListFields()
    required = _required(message.DESCRIPTOR)
    if required and not required.issubset([field.number for field, _ in present]):
        return False
    return all(
        _all_complete(field, value) for field, value in present if field.type == FieldDescriptor.TYPE_MESSAGE
    )


def _all_complete(field: Any, value: Any) -> bool:
    if field.message_type.GetOptions().map_entry:
        values = field.message_type.fields_by_name["value"]
        return values.message_type is None or all(map(_complete, value.values()))
    return all(map(_complete, value)) if field.is_repeated else _complete(value)


@lru_cache(maxsize=256)
def _required(descriptor: Descriptor) -> frozenset[int]:
    behaviours = field_behavior_pb2.field_behavior
    return frozenset(
        field.number
        for field in descriptor.fields
        if field_behavior_pb2.REQUIRED in field.GetOptions().Extensions[behaviours]
    )
