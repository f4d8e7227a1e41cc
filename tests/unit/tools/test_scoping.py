"""Layers only narrow: no list, at no layer, gives a tool that another layer withholds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from indai.protocol.errors import InvalidInput
from indai.tools.scoping import Layer, Lists, Scoping, read_lists
from indai.tools.values import Caller, Spec

NAMES = ("meet", "pay", "recall", "search-web")
DOORS = ("private", "public", "distribution")
CHANNELS = ("web", "whatsapp", "voice")
OBJECT: Any = {"type": "object", "additionalProperties": False}

some = st.frozensets(st.sampled_from(NAMES))
layers = st.builds(
    Layer,
    allow=st.none() | some,
    deny=some,
    doors=st.dictionaries(st.sampled_from(DOORS), some),
    channels=st.dictionaries(st.sampled_from(CHANNELS), some),
)
specs = st.builds(
    Spec,
    name=st.sampled_from(NAMES),
    description=st.just("x"),
    arguments=st.just(OBJECT),
    result=st.just(OBJECT),
    doors=st.frozensets(st.sampled_from(DOORS)),
    channels=st.frozensets(st.sampled_from(CHANNELS)),
)


def caller(door: str, channel: str, narrowed: frozenset[str] | None = None, **more: Any) -> Caller:
    known = {"verified": True, **more}
    return Caller(
        "acme", "b", "ind.ai/alice", "s", "ind.ai/alice", door, channel, session_tools=narrowed, **known
    )


@given(specs, layers, layers, some, st.none() | some, st.sampled_from(DOORS), st.sampled_from(CHANNELS))
def test_what_is_allowed_is_allowed_by_every_layer_alone(
    spec: Spec,
    platform: Layer,
    organisation: Layer,
    agent: frozenset[str],
    session: frozenset[str] | None,
    door: str,
    channel: str,
) -> None:
    scoping = Scoping(Lists(platform=platform, organisations={"acme": organisation}))
    refused = scoping.refusal(caller(door, channel, session), tuple(agent), spec)
    alone = (
        platform.lets(spec.name, door, channel)
        and organisation.lets(spec.name, door, channel)
        and spec.name in agent
        and (session is None or spec.name in session)
        and door in spec.doors
        and (not spec.channels or channel in spec.channels)
    )
    assert (refused is None) == alone


@given(specs, layers, some, st.sampled_from(DOORS), st.sampled_from(CHANNELS))
def test_one_more_list_never_gives_a_tool(
    spec: Spec, layer: Layer, agent: frozenset[str], door: str, channel: str
) -> None:
    here, names = caller(door, channel), tuple(agent)
    without = Scoping().refusal(here, names, spec)
    for lists in (Lists(platform=layer), Lists(organisations={"acme": layer})):
        if without is not None:
            assert Scoping(lists).refusal(here, names, spec) is not None


def test_another_organisations_list_says_nothing_here() -> None:
    spec = Spec("meet", "x", OBJECT, OBJECT)
    lists = Lists(organisations={"other": Layer(allow=frozenset())})
    assert Scoping(lists).refusal(caller("private", "web"), ("meet",), spec) is None


@pytest.mark.parametrize("more", [{"verified": False}, {"person": "ind.ai/bob"}])
def test_the_private_door_is_the_proven_owners_alone(more: dict[str, Any]) -> None:
    spec = Spec("meet", "x", OBJECT, OBJECT)
    base: dict[str, Any] = {
        "tenant": "t",
        "binding": "b",
        "owner": "ind.ai/alice",
        "session": "s",
        "channel": "web",
    }
    given = {**base, "person": "ind.ai/alice", "verified": True, "door": "private"}
    assert Scoping().refusal(Caller(**given), ("meet",), spec) is None
    refused = Scoping().refusal(Caller(**{**given, **more}), ("meet",), spec)
    assert refused is not None
    assert refused.code == "NOT_ALLOWED"


@pytest.mark.parametrize(
    ("connected", "disabled", "maintenance", "code"),
    [
        (False, False, frozenset[str](), "NEEDS_INTEGRATION"),
        (True, True, frozenset[str](), "TOOL_DISABLED"),
        (True, False, frozenset({"meet"}), "MAINTENANCE"),
    ],
)
def test_a_refusal_says_why(connected: bool, disabled: bool, maintenance: frozenset[str], code: str) -> None:
    spec = Spec("meet", "x", OBJECT, OBJECT, needs="digilocker")
    scoping = Scoping(Lists(maintenance=maintenance))
    refused = scoping.refusal(caller("private", "web"), ("meet",), spec, connected, disabled)
    assert refused is not None
    assert refused.code == code


@pytest.mark.parametrize(
    "text",
    [
        "version: 1\nplatfrom: {}",
        "platform: {allow: [Meet]}",
        "version: 2",
        "- a",
        "platform: [",
        "x: " + "y" * 70_000,
    ],
)
def test_a_file_of_lists_with_anything_unknown_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        read_lists(text, "tools.yaml")


def test_a_file_of_lists_is_read() -> None:
    lists = read_lists("version: 1\nplatform: {deny: [pay], doors: {public: [recall]}}", "tools.yaml")
    assert lists.platform.lets("recall", "public", "web")
    assert not lists.platform.lets("meet", "public", "web")
    assert not lists.platform.lets("pay", "private", "web")
