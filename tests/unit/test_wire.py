"""Strict parsing: what a protobuf parser would forgive is refused."""

from __future__ import annotations

import timeit
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.wire import MAX_DEPTH, strict_parse
from indai.v1.envelope_pb2 import Header
from indai.v1.negotiation_pb2 import Commitment, Move

F = descriptor_pb2.FieldDescriptorProto
SINGULAR = [
    (1, "text", F.TYPE_STRING),
    (2, "data", F.TYPE_BYTES),
    (3, "i32", F.TYPE_INT32),
    (4, "u32", F.TYPE_UINT32),
    (5, "s64", F.TYPE_SINT64),
    (6, "flag", F.TYPE_BOOL),
    (7, "f64", F.TYPE_FIXED64),
    (8, "f32", F.TYPE_FLOAT),
    (9, "i64", F.TYPE_INT64),
]
REPEATED = [(21, "numbers", F.TYPE_UINT32), (22, "fixed", F.TYPE_FIXED32), (23, "texts", F.TYPE_STRING)]


def build() -> tuple[type[Any], type[Any]]:
    file = descriptor_pb2.FileDescriptorProto(
        name="strict_test.proto", package="strict_test", syntax="proto3"
    )
    every = file.message_type.add(name="Every")
    for number, name, kind in SINGULAR:
        every.field.add(number=number, name=name, type=kind, label=F.LABEL_OPTIONAL)
    for number, name, kind in REPEATED:
        every.field.add(number=number, name=name, type=kind, label=F.LABEL_REPEATED)
    every.oneof_decl.add(name="choice")
    for number, name in ((31, "left"), (32, "right")):
        every.field.add(number=number, name=name, type=F.TYPE_UINT64, label=F.LABEL_OPTIONAL, oneof_index=0)
    for number, name, label in ((41, "child", F.LABEL_OPTIONAL), (42, "children", F.LABEL_REPEATED)):
        every.field.add(
            number=number, name=name, type=F.TYPE_MESSAGE, type_name=".strict_test.Every", label=label
        )
    mapped = file.message_type.add(name="Mapped")
    entry = mapped.nested_type.add(name="ItemsEntry")
    entry.options.map_entry = True
    for number, name in ((1, "key"), (2, "value")):
        entry.field.add(number=number, name=name, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL)
    type_name = ".strict_test.Mapped.ItemsEntry"
    mapped.field.add(number=1, name="items", type=F.TYPE_MESSAGE, type_name=type_name, label=F.LABEL_REPEATED)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = (pool.FindMessageTypeByName(f"strict_test.{name}") for name in ("Every", "Mapped"))
    first, second = (message_factory.GetMessageClass(descriptor) for descriptor in found)
    return first, second


Every, Mapped = build()


def refused(data: bytes, message_class: type[Message] = Every) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        strict_parse(message_class, data)
    assert caught.value.reason is Reason.MALFORMED
    assert caught.value.rule == "ENV-02"
    return caught.value


def nested(levels: int) -> bytes:
    data = b""
    for _ in range(levels - 1):
        size = len(data)
        length = bytes((size,)) if size < 128 else bytes((size & 0x7F | 0x80, size >> 7))
        data = b"\xca\x02" + length + data
    return data


def test_a_message_with_every_kind_of_field_is_read_as_the_library_reads_it() -> None:
    message = Every(
        text="é", data=b"\xff", i32=-1, u32=2**32 - 1, s64=-5, flag=True, f64=1, f32=1.5, i64=-(2**63)
    )
    message.numbers.extend([1, 300, 2**32 - 1])
    message.fixed.extend([1, 2])
    message.texts.extend(["a", "", "b"])
    message.right = 0
    message.child.text = "inner"
    message.children.add().left = 2**64 - 1
    message.children.add()
    assert strict_parse(Every, message.SerializeToString()) == message


def test_unpacked_and_packed_numbers_are_both_read() -> None:
    assert list(strict_parse(Every, b"\xa8\x01\x01\xaa\x01\x02\x02\x03").numbers) == [1, 2, 3]


@pytest.mark.rule("ENV-02")
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x50\x01", "does not know"),
        (b"\x00", "does not know"),
        (b"\x0a\x01a\x0a\x01a", "twice"),
        (b"\x18\x01\x18\x01", "twice"),
        (b"\xf8\x01\x01\x80\x02\x01", "twice"),
        (b"\xca\x02\x00\xca\x02\x00", "twice"),
        (b"\x08\x01", "wire type 0"),
        (b"\x1a\x01\x01", "wire type 2"),
        (b"\x0a\x05abc", "ends inside field 1"),
        (b"\x0a", "ends inside"),
        (b"\x18", "ends inside"),
        (b"\x18\x80", "ends inside"),
        (b"\x39\x01\x02", "ends inside"),
        (b"\x45\x01", "ends inside"),
        (b"\x18\x81\x00", "longer than"),
        (b"\x98\x00\x01", "longer than"),
        (b"\x0a\x81\x00a", "longer than"),
        (b"\x48" + b"\xff" * 9 + b"\x02", "longer than"),
        (b"\x48" + b"\xff" * 10 + b"\x01", "ten bytes"),
        (b"\x30\x02", "range"),
        (b"\x20\x80\x80\x80\x80\x10", "range"),
        (b"\x18\x80\x80\x80\x80\x08", "range"),
        (b"\xaa\x01\x05\x80\x80\x80\x80\x10", "range"),
        (b"\xaa\x01\x01\x80", "ends inside"),
        (b"\xb2\x01\x03\x01\x02\x03", "ends inside"),
        (b"\x0b\x0c", "wire type 3"),
        (b"\xcb\x02\xcc\x02", "wire type 3"),
        (b"\x0a\x01\xff", "not UTF-8"),
        (b"\x0a\x03\xed\xa0\x80", "not UTF-8"),
        (b"\xba\x01\x01\xff", "not UTF-8"),
        (b"\xca\x02\x02\x50\x01", "does not know"),
        (b"\xca\x02\x03\x0a\x05a", "ends inside field 1"),
    ],
)
def test_each_ambiguity_is_refused(data: bytes, why: str) -> None:
    assert why in refused(data).message


@pytest.mark.rule("ENV-02")
def test_nesting_has_a_limit() -> None:
    strict_parse(Every, nested(MAX_DEPTH))
    assert "deep" in refused(nested(MAX_DEPTH + 1)).message
    assert "deep" in refused(nested(100)).message


@pytest.mark.rule("ENV-01")
def test_a_message_over_the_limit_is_refused_before_it_is_read() -> None:
    data = Every(data=b"x" * 65_532).SerializeToString()
    assert len(data) == 65_536
    strict_parse(Every, data)
    with pytest.raises(ProtocolError) as caught:
        strict_parse(Every, b"\xff" * 65_537)
    assert caught.value.reason is Reason.TOO_LARGE
    with pytest.raises(ProtocolError):
        strict_parse(Every, data, limit=100)


def test_a_map_cannot_be_declared_in_a_signed_message() -> None:
    for _ in range(2):
        with pytest.raises(TypeError, match="map"):
            strict_parse(Mapped, b"")


def test_every_signed_payload_can_be_parsed_strictly() -> None:
    assert strict_parse(Move, b"") == Move()
    assert strict_parse(Commitment, b"") == Commitment()


@settings(max_examples=200)
@given(st.binary(max_size=40))
def test_what_is_accepted_has_no_unknown_fields_and_serialises_to_an_equal_message(data: bytes) -> None:
    check_accepted(Every, data)


@settings(max_examples=200)
@given(st.data())
def test_a_damaged_message_is_refused_or_read_the_same_by_the_library(data: st.DataObject) -> None:
    message = Every(text="name", data=b"0123", i32=-7, s64=9, right=3)
    message.numbers.extend([1, 2, 900])
    message.child.texts.extend(["x", "y"])
    whole = message.SerializeToString()
    at = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(at, min(at + 4, len(whole))))
    check_accepted(Every, whole[:at] + data.draw(st.binary(max_size=4)) + whole[end:])


def check_accepted(message_class: type[Message], data: bytes) -> None:
    message = read_or_refuse(message_class, data)
    if message is not None:
        again = message.SerializeToString(deterministic=True)
        assert strict_parse(message_class, again).SerializeToString(deterministic=True) == again
        assert len(UnknownFieldSet(message)) == 0


def read_or_refuse(message_class: type[Message], data: bytes) -> Message | None:
    try:
        return strict_parse(message_class, data)
    except ProtocolError:
        return None


def test_the_scan_costs_microseconds() -> None:
    header = Header(
        id=b"i" * 16, network="n" * 40, sender="s" * 20, sender_subject="s" * 36, recipient="r" * 20
    )
    header.MergeFrom(
        Header(recipient_subject="r" * 36, key_id="k" * 51, issued_at_ms=1 << 40, nonce=b"n" * 16)
    )
    commitment = Commitment(header=header)
    for name in "ab":
        commitment.parties.add(handle=f"ind.ai/{name}", subject_id=name * 36, key_id=name * 51)
    commitment.meet.title = "a title"
    data = commitment.SerializeToString()
    strict_parse(Commitment, data)
    best = min(timeit.repeat(lambda: strict_parse(Commitment, data), number=100, repeat=5)) / 100
    assert best < 200e-6  # ten to fifteen microseconds on an idle core; the rest is for a busy one
