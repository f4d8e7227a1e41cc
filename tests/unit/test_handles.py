"""Handles: one canonical form, and a message that names what is wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from indai.protocol.errors import InvalidInput, Reason, Refused
from indai.protocol.handles import MAX_NAME, MIN_NAME, RESERVED_NAMES, Handle, check_claimable

names = st.from_regex(r"[a-z0-9]+(-[a-z0-9]+)*", fullmatch=True).filter(
    lambda n: MIN_NAME <= len(n) <= MAX_NAME
)


@pytest.mark.rule("HND-01")
@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("ind.ai/alice", ("ind.ai", "alice", None)),
        ("Ind.AI/Alice/Work", ("ind.ai", "alice", "work")),
        ("ranveer.ai", ("ranveer.ai", "", None)),
        ("a-b.example.co/x-1-y", ("a-b.example.co", "x-1-y", None)),
    ],
)
def test_a_handle_is_read_in_any_case_and_shown_in_lower_case(
    text: str, parts: tuple[str, str, str | None]
) -> None:
    handle = Handle.parse(text)
    assert (handle.authority, handle.name, handle.sub) == parts
    assert str(handle) == text.lower()


@pytest.mark.rule("HND-01")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "part is empty"),
        ("alice", "not a domain name"),
        ("ind.ai/", "part is empty"),
        ("/alice", "part is empty"),
        ("ind.ai//work", "part is empty"),
        ("ind.ai/alice/work/more", "more than three parts"),
        ("ind..ai/alice", "part of a domain name"),
        ("-ind.ai/alice", "part of a domain name"),
        ("xn--80ak6aa92e.com", "part of a domain name"),
        ("127.0.0.1/alice", "IP address"),
        ("ind.ai:443/alice", "part of a domain name"),
        ("https://ind.ai/alice", "more than three parts"),
        ("a" * 64 + ".ai/alice", "part of a domain name"),
        (".".join(["abc"] * 70), "not a domain name"),
        ("x" * 10_000, "at most"),
    ],
)
def test_what_is_not_a_handle_is_refused_with_the_rule_it_breaks(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as refused:
        Handle.parse(text)
    assert refused.value.reason is Reason.INVALID_HANDLE
    assert len(refused.value.message) < 400
    assert refused.value.hint


@pytest.mark.rule("HND-02")
@pytest.mark.parametrize(
    "name", ["al", "a" * 31, "-alice", "alice-", "al--ice", "al_ice", "al ice", "al.ice", "al\nice"]
)
@pytest.mark.parametrize("form", ["ind.ai/{}", "ind.ai/alice/{}"])
def test_a_name_outside_its_alphabet_or_length_is_refused(name: str, form: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Handle.parse(form.format(name))
    assert refused.value.metadata["rule"] == "HND-02"


@pytest.mark.rule("HND-03")
@pytest.mark.parametrize(
    "text", ["ind.ai/\u0430lice", "ind.ai/\u212aelly", "\u0131nd.ai/alice", "ind.ai/alice\u200b"]
)
def test_a_confusable_is_refused_and_shown_escaped(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"\\u") as refused:
        Handle.parse(text)
    assert refused.value.message.isascii()


@pytest.mark.rule("HND-04")
@pytest.mark.parametrize("text", ["ind.ai/admin", "ind.ai/registry", "ind.ai/alice/ledger"])
def test_a_reserved_name_parses_but_cannot_be_claimed(text: str) -> None:
    with pytest.raises(Refused, match="reserved"):
        check_claimable(Handle.parse(text))


def test_an_ordinary_name_can_be_claimed() -> None:
    for text in ("ind.ai/alice", "ind.ai/alice/work", "ranveer.ai"):
        check_claimable(Handle.parse(text))


def test_every_reserved_name_would_otherwise_be_a_name() -> None:
    for name in RESERVED_NAMES:
        assert len(name) < MIN_NAME or Handle.parse(f"ind.ai/{name}").name == name


def test_a_branded_domain_has_no_sub_handle() -> None:
    with pytest.raises(InvalidInput, match="no sub-handle"):
        Handle("ranveer.ai", "", "work")


def test_handles_sort_and_know_their_parent() -> None:
    alice, work = Handle.parse("ind.ai/alice"), Handle.parse("ind.ai/alice/work")
    assert sorted([work, Handle.parse("ranveer.ai"), alice]) == [alice, work, Handle.parse("ranveer.ai")]
    assert work.parent == alice
    assert alice.parent is None
    assert Handle.parse("ranveer.ai").branded
    assert not alice.branded


@given(name=names, sub=st.none() | names)
def test_canonical_text_reads_back_as_the_same_handle(name: str, sub: str | None) -> None:
    handle = Handle("ind.ai", name, sub)
    assert Handle.parse(str(handle)) == handle
    assert Handle.parse(str(handle).upper()) == handle


@given(st.text(max_size=60))
def test_any_text_is_a_handle_or_invalid_input(text: str) -> None:
    try:
        handle = Handle.parse(text)
    except InvalidInput:
        return
    assert str(handle) == text.lower()
