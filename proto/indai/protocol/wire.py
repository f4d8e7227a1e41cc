"""Strict protobuf parsing: what a parser would forgive is refused before it is parsed.

A protobuf parser keeps unknown fields, lets the last of two values win, and skips what it does not
understand, so two readers of the same signed bytes can see different messages. This scan walks the raw
bytes beside the descriptor (protobuf.dev, "Encoding") and accepts only what has one reading. It runs on
every message: the table of each message type is built once, and the loop does no more than one dictionary
look-up for a field.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from indai.protocol.errors import ProtocolError, Reason

MAX_MESSAGE = 65_536
MAX_DEPTH = 16

M = TypeVar("M", bound=Message)

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_UINT64 = (1 << 64) - 1
_NEGATIVE_INT32 = (1 << 64) - (1 << 31)  # a negative int32 is sign-extended to ten bytes

_F = FieldDescriptor
_WIRE_TYPES: dict[int, int] = {
    **dict.fromkeys((_F.TYPE_FIXED64, _F.TYPE_SFIXED64, _F.TYPE_DOUBLE), _FIXED64),
    **dict.fromkeys((_F.TYPE_FIXED32, _F.TYPE_SFIXED32, _F.TYPE_FLOAT), _FIXED32),
    **dict.fromkeys((_F.TYPE_STRING, _F.TYPE_BYTES, _F.TYPE_MESSAGE), _LENGTH),
    **dict.fromkeys((_F.TYPE_INT64, _F.TYPE_UINT64, _F.TYPE_SINT64), _VARINT),
    **dict.fromkeys((_F.TYPE_INT32, _F.TYPE_UINT32, _F.TYPE_SINT32, _F.TYPE_ENUM, _F.TYPE_BOOL), _VARINT),
}
_MAX_VALUES: dict[int, int] = {
    _F.TYPE_BOOL: 1,
    _F.TYPE_UINT32: (1 << 32) - 1,
    _F.TYPE_SINT32: (1 << 32) - 1,
    _F.TYPE_INT32: (1 << 31) - 1,
    _F.TYPE_ENUM: (1 << 31) - 1,
}
_SIGN_EXTENDED = (_F.TYPE_INT32, _F.TYPE_ENUM)


class _Entry(NamedTuple):
    """How one tag is read. `bit` is shared by the members of a oneof and is 0 for a repeated field."""

    wire_type: int
    bit: int
    max_value: int
    sign_extended: bool
    message: _Table | None
    packed: _Entry | None


class _Table:
    """The tags one message type accepts. Known by name before it is filled, since types may be recursive."""

    __slots__ = ("entries", "name", "numbers")

    def __init__(self, name: str) -> None:
        self.name = name
        self.entries: dict[int, _Entry] = {}
        self.numbers: frozenset[int] = frozenset()


_tables: dict[Any, _Table] = {}


def strict_parse(message_class: type[M], data: bytes, *, limit: int = MAX_MESSAGE) -> M:
    """Parse `data`; raises ProtocolError: TOO_LARGE over `limit` bytes, MALFORMED if it is ambiguous."""
    if len(data) > limit:
        message = f"A {message_class.DESCRIPTOR.name} of {len(data)} bytes is over the limit of {limit}."
        raise ProtocolError(Reason.TOO_LARGE, message, rule="ENV-01")
    table = _tables.get(message_class.DESCRIPTOR) or _register(message_class.DESCRIPTOR)
    _scan(table, data, 0, len(data), 1)
    try:
        return message_class.FromString(data)
    except DecodeError:
        # All that is left for the library to refuse is text that is not UTF-8.
        raise malformed(f"A {table.name} holds text that is not UTF-8") from None


def malformed(what: str) -> ProtocolError:
    """The error for bytes that have no single reading."""
    return ProtocolError(Reason.MALFORMED, what + ".", rule="ENV-02")


def read_varint(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """(value, next position) of the varint at `pos`; refuses truncated, padded and over-64-bit ones."""
    if pos < end and data[pos] < 0x80:  # most are one byte long
        return data[pos], pos + 1
    value = shift = 0
    while pos < end:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if (byte == 0 and shift) or value > _UINT64:
                raise malformed("A varint is longer than its value needs")
            return value, pos
        shift += 7
        if shift > 63:
            raise malformed("A varint has more than ten bytes")
    raise malformed("The message ends inside a varint")


def _scan(table: _Table, data: bytes, pos: int, end: int, depth: int) -> None:
    entries = table.entries
    seen = 0
    while pos < end:
        tag = data[pos]
        pos += 1
        if tag > 0x7F:
            tag, pos = read_varint(data, pos - 1, end)
        entry = entries.get(tag)
        if entry is None:
            raise _unexpected(table, tag)
        wire_type, bit, _, _, message, packed = entry
        if seen & bit:
            raise malformed(f"{table.name} has field {tag >> 3} (or another of its oneof) twice")
        seen |= bit
        if wire_type == _LENGTH:
            size = data[pos] if pos < end else 0x80
            if size < 0x80:
                pos += 1
            else:
                size, pos = read_varint(data, pos, end)
            stop = pos + size
            if stop > end:
                raise malformed(f"{table.name} ends inside field {tag >> 3}")
            if message is not None:
                if depth >= MAX_DEPTH:
                    raise malformed(f"{table.name} is nested more than {MAX_DEPTH} deep")
                _scan(message, data, pos, stop, depth + 1)
            elif packed is not None:
                _scan_packed(table, packed, data, pos, stop)
            pos = stop
        else:
            pos = _skip_scalar(table, entry, data, pos, end)


def _skip_scalar(table: _Table, entry: _Entry, data: bytes, pos: int, end: int) -> int:
    if entry.wire_type == _VARINT:
        value, pos = read_varint(data, pos, end)
        if value > entry.max_value and not (entry.sign_extended and value >= _NEGATIVE_INT32):
            raise malformed(f"{table.name} has a number outside the range of its field")
        return pos
    pos += 8 if entry.wire_type == _FIXED64 else 4
    if pos > end:
        raise malformed(f"{table.name} ends inside a number")
    return pos


def _scan_packed(table: _Table, entry: _Entry, data: bytes, pos: int, end: int) -> None:
    while pos < end:
        pos = _skip_scalar(table, entry, data, pos, end)


def _unexpected(table: _Table, tag: int) -> ProtocolError:
    number = tag >> 3
    if number in table.numbers:
        return malformed(
            f"{table.name} has field {number} with wire type {tag & 7}, which is not the field's"
        )
    return malformed(f"{table.name} has field {number}, which this version does not know")


def _register(descriptor: Any) -> _Table:
    # All or nothing: a table that could not be finished must not be found half-built by the next message.
    built: dict[Any, _Table] = {}
    table = _build(descriptor, built)
    _tables.update(built)
    return table


def _build(descriptor: Any, built: dict[Any, _Table]) -> _Table:
    table = built[descriptor] = _Table(descriptor.name)
    bits: dict[str, int] = {}
    for field in descriptor.fields:
        oneof = field.containing_oneof
        bit = 0 if field.is_repeated else bits.setdefault((oneof or field).full_name, 1 << len(bits))
        _add(table, field, bit, built)
    table.numbers = frozenset(field.number for field in descriptor.fields)
    return table


def _add(table: _Table, field: Any, bit: int, built: dict[Any, _Table]) -> None:
    if field.type not in _WIRE_TYPES:
        raise TypeError(f"{field.full_name}: a group cannot be parsed strictly")
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        raise TypeError(f"{field.full_name}: a map has no single encoding and cannot be parsed strictly")
    wire_type = _WIRE_TYPES[field.type]
    sub = (built.get(message) or _build(message, built)) if message is not None else None
    entry = _Entry(
        wire_type, bit, _MAX_VALUES.get(field.type, _UINT64), field.type in _SIGN_EXTENDED, sub, None
    )
    table.entries[field.number << 3 | wire_type] = entry
    if field.is_repeated and wire_type != _LENGTH:
        table.entries[field.number << 3 | _LENGTH] = _Entry(_LENGTH, 0, 0, False, None, entry)
