"""Server-sent events, however the network cuts them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.llm.providers import http
from indai.llm.providers.http import EventDecoder, joined, parsed
from indai.llm.values import Event, Fault, Progress, ProviderFault, TextDelta

HEAD = ': hi\r\n\r\nevent: x\r\ndata: {"a": "नमस्ते"}\r\n\r\n'
WIRE = (HEAD + "data:two\ndata: lines\n\n\nid: 7\ndata: [DONE]\n\n").encode()
EVENTS = ['{"a": "नमस्ते"}', "two\nlines", "[DONE]"]


@given(st.lists(st.integers(0, len(WIRE)), max_size=30).map(sorted))
@settings(max_examples=80)
def test_events_are_the_same_however_they_are_cut(cuts: list[int]) -> None:
    decoder, found = EventDecoder("p"), []
    for start, end in zip([0, *cuts], [*cuts, len(WIRE)], strict=True):
        found += decoder.feed(WIRE[start:end])
    assert found == EVENTS


def test_an_event_without_an_end_is_given_when_the_stream_ends() -> None:
    decoder = EventDecoder("p")
    assert decoder.feed(b"data: last") == []
    assert decoder.feed(b"\n\n") == ["last"]


def test_an_event_that_does_not_end_is_not_gathered_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_EVENT_BYTES", 1000)
    decoder = EventDecoder("p")
    decoder.feed(b"x" * 1000)
    with pytest.raises(ProviderFault):
        decoder.feed(b"x")


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '"x"', "[" * 100_000, "\x00"])
def test_what_is_no_json_object_is_a_broken_answer(text: str) -> None:
    with pytest.raises(ProviderFault) as raised:
        parsed(text, "p")
    assert raised.value.fault is Fault.BROKEN


def test_texts_that_came_at_once_are_one() -> None:
    events: list[Event] = [TextDelta("a"), TextDelta("b"), Progress(), TextDelta("c")]
    assert list(joined(events)) == [TextDelta("ab"), Progress(), TextDelta("c")]


def test_what_came_before_a_fault_is_given_out_before_it() -> None:
    def failing() -> Iterator[Event]:
        yield TextDelta("a")
        raise ProviderFault(Fault.BROKEN, "x")

    found = joined(failing())
    assert next(found) == TextDelta("a")
    with pytest.raises(ProviderFault):
        next(found)
