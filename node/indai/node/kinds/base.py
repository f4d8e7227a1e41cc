"""What a kind of intent has on the node: the answers of policy and stock, and what follows from a deal.

The engine calls these inside a batch, so they neither write nor wait for anybody but policy: rows go into the
draft, and whatever must leave the machine is an effect row, carried out after the commit and idempotent by
its key.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from indai.node.holdings import NOTHING, Holdings, Leaving
from indai.protocol.kinds.base import Kind
from indai.protocol.lifecycle import History
from indai.protocol.messages import Message, Terms, Wish
from indai.protocol.party_state import Side
from indai.v1 import policy_pb2


@dataclass(frozen=True, slots=True)
class Case:
    """One owner's side of one thread, as a module is asked about it.

    `side` is the pure state: role, thread so far (None before the first message). `held` is what the owner
    has promised elsewhere or here, and `leaving` what of that makes way for what is agreed here; `outgoing`
    says that this owner began.
    """

    owner: str
    peer: str
    outgoing: bool
    zone: ZoneInfo
    side: Side
    held: Holdings
    now_ms: int
    leaving: Leaving = NOTHING


@dataclass(frozen=True, slots=True)
class Answer:
    """A module's word. `decision` is what the policy said about what was chosen, or the first refused.

    One of `terms` and `wish` is what is to be said, both None for a refusal; `reason` of a refusal goes to
    the peer, `words` to the owner where no decision has any. `limit_minor` is what may be spent on
    this local day in all, in the currency of the terms: the table refuses a reservation beyond it. `standing`
    says by which standing word of the owner's it is permitted where the policy would ask; else empty.
    """

    outcome: int  # policy_pb2.Outcome
    decision: policy_pb2.Decision | None = None
    terms: Terms | None = None
    wish: Wish | None = None
    reason: str = ""
    words: str = ""
    limit_minor: int | None = None
    standing: str = ""


@dataclass(frozen=True, slots=True)
class Deal:
    """A commitment from one owner's side. `prefix` is what their rule wants before its title."""

    owner: str
    peer: str
    offerer: str
    thread: bytes
    mid: bytes
    terms: Terms
    prefix: str
    now_ms: int
    attendees: tuple[str, ...] = ()  # of several: all their handles, the offerer first
    time_ms: int = 0  # where only one of several times is meant: its start


@dataclass(frozen=True, slots=True)
class EffectRow:
    """One row of node.effects: `kind` says who carries it out, `key` makes it idempotent."""

    key: str
    kind: str
    doc: dict[str, Any]


class KindModule(ABC):
    """One kind of intent, served for every owner of this node."""

    kind: ClassVar[Kind]

    async def prepare(self, owner: str, peer: str, message: Message) -> None:  # noqa: B027 -- most have nothing to
        """Before the batch that takes a peer's wish: look up what takes longer than policy does. It may
        happen again, and what it finds may be lost before `choose`; it changes nothing."""

    @abstractmethod
    async def propose(self, case: Case, wish: Wish) -> Answer:
        """Whether, and as what, our owner's wish may be proposed: answered by a wish."""

    @abstractmethod
    async def choose(self, case: Case, wish: Wish) -> Answer:
        """What answers a peer's wish: terms, or a wish to counter with.

        Where another gives (NEG-27: `case.side.thread.giver` is neither empty nor `case.side.owner`), only a
        wish or a refusal can be the answer.
        """

    @abstractmethod
    async def sign(self, case: Case, terms: Terms) -> Answer:
        """Whether exactly these terms may be signed now: our owner's own, or what a peer offers."""

    @abstractmethod
    def enact(self, deal: Deal) -> Sequence[EffectRow]:
        """What follows from the commitment, outside the database."""

    def undo(self, deal: Deal) -> Sequence[EffectRow]:
        """What takes that back: cancelled, superseded, voided, expired before it was paid."""
        return ()

    def remains(self, deal: Deal, life: History | None) -> str:
        """What is still owed after that, by how it came about; a sentence for the owner."""
        return ""

    def check_offer(self, offer: Message) -> None:  # noqa: B027 -- most kinds have nothing to add
        """Refuse terms that only this kind can see to be wrong; raises ProtocolError."""

    def is_wanted(self, wish: Wish, terms: Terms) -> bool:
        """Whether our owner's own wish is their yes to these terms where the policy would ask (never to what
        it refuses)."""
        return False
