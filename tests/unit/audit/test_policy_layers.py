"""Decisions of several layers, with advice, are taken again by the audit; a changed layer is found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from indai.client.audit import Report, Verdict
from indai.client.decisions import Layer
from indai.policy.compiled import CompiledPolicy, compile_policy

from .worlds import HOUR, NOW, Deal, World, activate

OWNER = (
    "version: 1\ntimezone: UTC\ntone:\n  - { id: warm, style: warm }\n"
    "rules:\n  - { id: all, allow: meet, with: anyone }\n"
)
HOUSE = "version: 1\nrules:\n  - { id: rest, allow: anything, with: anyone, tell_owner: now }\n"


def of_two_layers() -> CompiledPolicy:
    return compile_policy(OWNER, {"organisation": HOUSE})


def audited(folder: Path, policy: CompiledPolicy, shown: CompiledPolicy) -> Report:
    """Decided under `policy`, with `shown` in the ledgers."""
    world = World()
    world.policy = policy
    for node in (world.a, world.b):
        activate(node, shown, NOW - HOUR + 1)
    Deal(world).run()
    return world.audit(folder)


def test_decisions_of_several_layers_with_advice_replay(tmp_path: Path) -> None:
    policy = of_two_layers()
    assert policy.layers[-1].advise
    report = audited(tmp_path, policy, policy)
    assert report.findings == ()
    assert [one.verdict for one in report.commitments] == [Verdict.VALID]


@pytest.mark.parametrize("change", ["advice", "rules", "text"])
def test_a_layer_that_was_changed_afterwards_is_found(tmp_path: Path, change: str) -> None:
    policy = of_two_layers()
    platform, house, owner = policy.layers
    layers: tuple[Layer, ...] = policy.layers
    if change == "advice":
        layers = (platform, house, replace(owner, advise=owner.advise.replace("warm", "cold")))
    elif change == "rules":
        layers = (platform, replace(house, grant=house.grant.replace("now", "quietly")), owner)
    others = {"organisation": HOUSE + "# more\n"} if change == "text" else policy.others
    shown = replace(policy, layers=layers, others=others)
    findings = audited(tmp_path, policy, shown).findings
    assert any("is not the one that its hash names" in one.message for one in findings)
