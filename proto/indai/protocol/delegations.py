"""What a sub-agent may do: the least of everything that was delegated on the way down to it.

A handle delegates to a sub-handle of its own `authority/name`, that one perhaps to another; at most three
delegations lie between a handle and the deepest. Nothing is copied downwards: each record says what it gives,
and whoever judges a sub-agent takes the intersection, so a delegation can only narrow, whatever it claims.
Budgets are counted where the delegator lives, so who lives elsewhere spends only from an allotment, which was
debited there when it was granted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.handles import Handle
from indai.protocol.handlestate import MAX_DEPTH, Delegation, HandleState
from indai.protocol.operations import Chain


@dataclass(frozen=True, slots=True)
class Link:
    """One delegation above a spender: whose, to which subject, and what it leaves for spending in all, in
    minor units of one currency."""

    delegator: str
    delegate: str
    budget_minor: int


def delegator_of(chain: Chain) -> str:
    """The handle whose record delegates to this one; empty for a handle that is nobody's sub-agent."""
    parent = Handle.parse(chain.handle).parent
    return chain.state.delegator or (str(parent) if parent else "")


def check_delegation(
    path: Sequence[Chain],
    kind: str,
    time_ms: int,
    amount: tuple[str, int] | None = None,
) -> None:
    """Check that the last of `path` may act in `kind` at `time_ms` (with no kind: at all), and spend `amount`
    (currency, units) if it has spent nothing before: what it has is counted with `links`, at its node.

    `path` leads from a handle that is nobody's sub-agent down to the one that acts, each named by the one
    before. Raises ProtocolError: PERMISSION_DENIED, EXPIRED, UNKNOWN_PEER for another subject than the one
    delegated to, KEY_REVOKED when a handle on the way was retired.
    """
    if not path or delegator_of(path[0]):
        raise _denied(Reason.PERMISSION_DENIED, "A sub-agent's authority begins at no sub-agent")
    if len(path) - 1 > MAX_DEPTH:
        raise _denied(Reason.PERMISSION_DENIED, f"{path[-1].handle} is over {MAX_DEPTH} delegations deep")
    for chain in path:
        if chain.ended_at_ms and time_ms >= chain.ended_at_ms:
            raise _denied(Reason.KEY_REVOKED, f"{chain.handle} was retired, and what it delegated with it")
    for level, (above, below) in enumerate(pairwise(path)):
        grant = _grant(above, below)
        _check_grant(grant, kind, time_ms)
        if grant.depth < len(path) - 2 - level:
            raise _denied(Reason.PERMISSION_DENIED, f"{below.handle} may not delegate this far")
        if amount is not None:
            _check_budget(above, below, grant, amount)


def links(path: Sequence[Chain], currency: str) -> tuple[Link, ...]:
    """The delegations of `path` and what each leaves to spend: its budget, less what the delegate has itself
    given away for good."""
    return tuple(
        Link(above.handle, below.subject_id, _left(_grant(above, below), below, currency))
        for above, below in pairwise(path)
    )


def allotted(state: HandleState) -> dict[str, int]:
    """What a handle has given away for good to sub-agents on other nodes, by currency, in minor units."""
    given: Counter[str] = Counter()
    for one in state.delegations:
        if one.allotment:
            given.update(dict(one.budgets))
    return dict(given)


def _grant(above: Chain, below: Chain) -> Delegation:
    if delegator_of(below) != above.handle:
        raise _denied(Reason.PERMISSION_DENIED, f"{below.handle} is no sub-agent of {above.handle}")
    grant = next((one for one in above.state.delegations if one.handle == below.handle), None)
    if grant is None:
        raise _denied(Reason.PERMISSION_DENIED, f"{above.handle} delegates nothing to {below.handle}")
    if grant.subject_id != below.subject_id:
        raise _denied(Reason.UNKNOWN_PEER, f"{above.handle} delegates to another subject of {below.handle}")
    return grant


def _check_grant(grant: Delegation, kind: str, time_ms: int) -> None:
    if kind and kind not in grant.kinds:
        raise _denied(Reason.PERMISSION_DENIED, f"Nobody delegated {kind} to {grant.handle}")
    if not grant.valid_from_ms <= time_ms < grant.valid_until_ms:
        raise _denied(Reason.EXPIRED, f"The delegation to {grant.handle} is not valid at this time")


def _left(grant: Delegation, delegate: Chain, currency: str) -> int:
    return dict(grant.budgets).get(currency, 0) - allotted(delegate.state).get(currency, 0)


def _check_budget(above: Chain, below: Chain, grant: Delegation, amount: tuple[str, int]) -> None:
    currency, minor = amount
    if not grant.allotment and _home(above) != _home(below):
        raise _denied(
            Reason.PERMISSION_DENIED,
            f"{below.handle} lives on another node than its money, without an allotment",
        )
    if not 0 < minor <= _left(grant, below, currency):
        raise _denied(Reason.PERMISSION_DENIED, f"{grant.handle} has too little {currency} left")


def _home(chain: Chain) -> str:
    return chain.state.node or chain.handle


def _denied(reason: Reason, message: str) -> ProtocolError:
    return ProtocolError(reason, message + ".", rule="REG-37")
