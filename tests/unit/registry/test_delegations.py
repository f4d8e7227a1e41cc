"""Sub-agents: what a delegation says, and that every level can only narrow it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.client.handlekeys import claim, delegate, end_delegation, retire, set_intents
from indai.protocol.delegations import Link, allotted, check_delegation, delegator_of, links
from indai.protocol.envelope import seal
from indai.protocol.errors import NotFound, ProtocolError, Reason
from indai.protocol.handlestate import Delegation
from indai.protocol.keys import SigningKey
from indai.protocol.operations import PAYLOAD_TYPE, UPDATE, Chain, apply_operation, build_operation
from indai.v1 import registry_pb2 as pb

NOW = 1_790_000_000_000
DAY = 86_400_000
REGISTRY = "ind.ai/registry"
ROOT = SigningKey.from_seed(b"r" * 32)


def created(handle: str, delegator: str = "", node: str = "ind.ai/home") -> Chain:
    genesis = claim(handle, REGISTRY, [ROOT], now_ms=NOW, node=node, delegator=delegator)
    return apply_operation(None, genesis, NOW)


def grant(to: Chain, **changes: Any) -> Delegation:
    base = Delegation(to.handle, to.subject_id, ("meet", "pay"), NOW, NOW + DAY, (("EUR", 5_000),), 2)
    return replace(base, **changes)


def granted(above: Chain, below: Chain, **changes: Any) -> Chain:
    return apply_operation(above, delegate(above, ROOT, grant(below, **changes), now_ms=NOW), NOW)


def family(*levels: dict[str, Any]) -> list[Chain]:
    """alice -> work -> travel -> trains, as many as there are levels."""
    names = [
        "ind.ai/alice",
        "ind.ai/alice/work",
        "ind.ai/alice/travel",
        "ind.ai/alice/trains",
        "ind.ai/alice/fifth",
    ]
    chains = [created("ind.ai/alice")]
    for number in range(len(levels)):
        chains.append(created(names[number + 1], names[number] if number else ""))
    for number in reversed(range(len(levels))):
        chains[number] = granted(chains[number], chains[number + 1], **levels[number])
    return chains


def denied(path: list[Chain], kind: str = "meet", at: int = NOW, **more: Any) -> Reason | None:
    try:
        check_delegation(path, kind, at, **more)
    except ProtocolError as error:
        return error.reason if error.rule == "REG-37" else Reason.INTERNAL
    return None


@pytest.mark.rule("REG-37")
def test_a_sub_agent_acts_within_what_it_was_given() -> None:
    path = family({})
    assert denied(path) is None
    assert denied(path, "ask") is Reason.PERMISSION_DENIED
    assert denied(path, at=NOW - 1) is Reason.EXPIRED
    assert denied(path, at=NOW + DAY - 1) is None
    assert denied(path, at=NOW + DAY) is Reason.EXPIRED
    assert denied([created("ind.ai/alice"), path[1]]) is Reason.PERMISSION_DENIED
    assert denied(path[1:]) is Reason.PERMISSION_DENIED
    assert denied([]) is Reason.PERMISSION_DENIED
    other = family({"subject_id": "ind:" + "a" * 32})
    assert denied(other) is Reason.UNKNOWN_PEER


@pytest.mark.rule("REG-37")
def test_a_delegation_ends_with_who_gave_it() -> None:
    path = family({})
    ended = apply_operation(path[0], retire(path[0], ROOT, now_ms=NOW + 5), NOW + 5)
    assert denied([ended, path[1]], at=NOW + 4) is None
    assert denied([ended, path[1]], at=NOW + 5) is Reason.KEY_REVOKED
    without = apply_operation(path[0], end_delegation(path[0], ROOT, path[1].handle, now_ms=NOW + 5))
    assert denied([without, path[1]], at=NOW + 5) is Reason.PERMISSION_DENIED
    with pytest.raises(NotFound):
        end_delegation(without, ROOT, path[1].handle, now_ms=NOW + 6)


@pytest.mark.rule("REG-37")
def test_three_levels_and_no_more() -> None:
    three = family({}, {"depth": 1}, {"depth": 0})
    assert denied(three) is None
    assert denied(family({}, {"depth": 0}, {"depth": 0})) is Reason.PERMISSION_DENIED
    assert denied(family({"depth": 1}, {"depth": 1}, {"depth": 0})) is Reason.PERMISSION_DENIED
    assert denied(family({}, {}, {}, {})) is Reason.PERMISSION_DENIED


@pytest.mark.rule("REG-37")
def test_a_budget_counts_what_was_spent_at_every_level() -> None:
    path = family({}, {"budgets": (("EUR", 9_000),), "depth": 0})
    work, travel = path[1].subject_id, path[2].subject_id
    assert denied(path, "pay", amount=("EUR", 5_000)) is None
    assert denied(path, "pay", amount=("EUR", 5_001)) is Reason.PERMISSION_DENIED  # the parent's is less
    assert denied(path, "pay", amount=("USD", 1)) is Reason.PERMISSION_DENIED
    assert denied(path, "pay", amount=("EUR", 0)) is Reason.PERMISSION_DENIED
    assert links(path, "EUR") == (
        Link("ind.ai/alice", work, 5_000),
        Link("ind.ai/alice/work", travel, 9_000),
    )


@pytest.mark.rule("REG-37")
def test_what_was_given_away_for_good_cannot_be_spent() -> None:
    path = family({"budgets": (("EUR", 9_000),)}, {"allotment": True, "depth": 0})
    assert [link.budget_minor for link in links(path, "EUR")] == [4_000, 5_000]
    assert denied(path[:2], "pay", amount=("EUR", 4_000)) is None
    assert denied(path[:2], "pay", amount=("EUR", 4_001)) is Reason.PERMISSION_DENIED


@pytest.mark.rule("REG-37")
def test_who_lives_on_another_node_spends_only_an_allotment() -> None:
    alice, away = created("ind.ai/alice"), created("ind.ai/alice/work", node="ind.ai/elsewhere")
    money = "EUR", 1_000
    assert denied([granted(alice, away), away], "pay", amount=money) is Reason.PERMISSION_DENIED
    assert denied([granted(alice, away), away], "meet") is None
    assert denied([granted(alice, away, allotment=True), away], "pay", amount=money) is None


def test_an_allotment_is_debited_when_granted() -> None:
    alice, work, lab = (created(f"ind.ai/alice{sub}") for sub in ("", "/work", "/lab"))
    alice = granted(granted(alice, work, allotment=True), lab, allotment=True)
    assert allotted(alice.state) == {"EUR": 10_000}
    assert allotted(granted(alice, lab).state) == {"EUR": 5_000}


KINDS = st.lists(st.sampled_from(["meet", "pay", "ask"]), min_size=1, max_size=3, unique=True)
LEVEL = st.fixed_dictionaries(
    {
        "kinds": KINDS.map(tuple),
        "valid_until_ms": st.integers(NOW + 1, NOW + 10),
        "budgets": st.integers(1, 10).map(lambda amount: (("EUR", amount),)),
    }
)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(LEVEL, min_size=1, max_size=3),
    st.sampled_from(["meet", "pay"]),
    st.integers(NOW, NOW + 11),
    st.integers(1, 11),
)
def test_every_level_only_narrows(levels: list[dict[str, Any]], kind: str, at: int, amount: int) -> None:
    allowed = all(
        kind in level["kinds"] and at < level["valid_until_ms"] and amount <= level["budgets"][0][1]
        for level in levels
    )
    assert (denied(family(*levels), kind, at, amount=("EUR", amount)) is None) == allowed


@pytest.mark.rule("REG-35")
def test_only_a_delegate_changes_delegations() -> None:
    path = family({})
    alice = created("ind.ai/alice")
    for kind, chain, state in (
        (UPDATE, alice, path[0].state),
        (pb.OPERATION_TYPE_DELEGATE, alice, alice.state),
    ):
        with pytest.raises(ProtocolError) as caught:
            build_operation(kind, chain, state, ROOT, issued_at_ms=NOW, nonce=b"n" * 16)
        assert caught.value.rule == "REG-35"
    # Other operations carry them along.
    changed = apply_operation(path[0], set_intents(path[0], ROOT, ["meet"], now_ms=NOW + 1))
    assert changed.state.delegations == path[0].state.delegations


@pytest.mark.rule("REG-36")
@pytest.mark.parametrize(
    "edit",
    [
        lambda d: setattr(d, "handle", "ind.ai/bob/work"),
        lambda d: setattr(d, "handle", "ind.ai/alice"),
        lambda d: setattr(d, "handle", "ind.ai/Alice/work"),
        lambda d: setattr(d, "handle", "nothing"),
        lambda d: setattr(d, "subject_id", "alice"),
        lambda d: d.ClearField("kinds"),
        lambda d: setattr(d, "valid_until_ms", 0),
        lambda d: setattr(d, "valid_until_ms", NOW),
        lambda d: setattr(d, "depth", 3),
        lambda d: setattr(d.budgets[0], "currency", "euro"),
        lambda d: setattr(d.budgets[0], "amount_minor", 0),
        lambda d: d.budgets.add(currency="EUR", amount_minor=5),
    ],
)
def test_a_malformed_delegation_is_refused(edit: Callable[[pb.Delegation], object]) -> None:
    alice, work = created("ind.ai/alice"), created("ind.ai/alice/work")
    good = delegate(alice, ROOT, grant(work), now_ms=NOW)
    operation = pb.Operation.FromString(good.payload)
    edit(operation.state.delegations[0])
    with pytest.raises(ProtocolError) as caught:
        apply_operation(alice, seal(PAYLOAD_TYPE, operation.SerializeToString(), [ROOT]), NOW)
    assert caught.value.rule == "REG-36"


@pytest.mark.rule("REG-36")
def test_a_delegator_is_of_the_same_name_and_of_a_sub_handle_only() -> None:
    assert delegator_of(created("ind.ai/alice/work")) == "ind.ai/alice"
    assert delegator_of(created("ind.ai/alice")) == ""
    for handle, delegator in (
        ("ind.ai/alice", "ind.ai/alice/work"),
        ("ind.ai/alice/work", "ind.ai/bob"),
        ("ind.ai/alice/work", "ind.ai/alice/work"),
    ):
        with pytest.raises(ProtocolError) as caught:
            created(handle, delegator)
        assert caught.value.rule == "REG-36"
