"""The types `party.step` works on: the state of one side, the events it takes, the effects it asks for.

A `Side` is stored as JSON between transactions. Only the messages of its thread are stored, in order of
arrival: the rules fold them into the same thread again, so a stored state can't contradict its own
transcript.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from indai.protocol.group.state import Group, Member
from indai.protocol.kinds.base import Holding
from indai.protocol.kinds.meet import MeetWish
from indai.protocol.lifecycle import History
from indai.protocol.messages import (
    MAX_OFFER_LIFE_MS,
    MINUTE_MS,
    Body,
    EventKind,
    Message,
    Move,
    Terms,
    Wish,
)
from indai.protocol.negotiation import OfferState, Thread
from indai.protocol.party_json import body_from_json, body_to_json, message_to_json
from indai.protocol.party_stored import fold, life_to_json, relive

REMIND_BEFORE_MS = 15 * MINUTE_MS  # where an owner has said nothing else


class Role(Enum):
    """Who began the thread."""

    INITIATOR = "INITIATOR"
    RESPONDER = "RESPONDER"


class Phase(Enum):
    """Where our side is: the names of the owner service's ThreadState."""

    NEGOTIATING = "NEGOTIATING"
    ASKING_OWNER = "ASKING_OWNER"
    ON_HOLD = "ON_HOLD"
    AWAITING_RECEIPT = "AWAITING_RECEIPT"
    COMMITTED = "COMMITTED"
    REJECTED = "REJECTED"
    WITHDRAWN = "WITHDRAWN"
    LAPSED = "LAPSED"
    IN_DOUBT = "IN_DOUBT"

    @property
    def ended(self) -> bool:
        """Whether the phase is final."""
        return self in (Phase.COMMITTED, Phase.REJECTED, Phase.WITHDRAWN, Phase.LAPSED)


class Question(Enum):
    """What the host is asked: may this be proposed, what would answer it, may these terms be signed."""

    PROPOSE_WISH = "PROPOSE_WISH"
    CHOOSE_TERMS = "CHOOSE_TERMS"
    SIGN_TERMS = "SIGN_TERMS"


class Outcome(Enum):
    """What policy, and what there is to give, say."""

    PERMIT = "PERMIT"
    ASK = "ASK"
    REFUSE = "REFUSE"


@dataclass(frozen=True, slots=True)
class OwnerStarts:
    """Our owner wants something: a wish, or concrete terms for a single round trip. `thread` is a fresh
    UUIDv7; `supersedes` the mid of the commitment whose place this is to take, empty for none; `hops` how
    many agents have passed on what led to it."""

    wish: Wish | Terms
    thread: bytes
    owner: str
    peer: str
    supersedes: bytes = b""
    hops: int = 0


@dataclass(frozen=True, slots=True)
class OwnerConvenes:
    """Our owner, whose handle is `handle`, wants to meet several: 2 to 19 members, each another subject.
    `algorithm` is one of `group.algorithms.ALGORITHMS`; `hops` and `supersedes` as in OwnerStarts."""

    wish: MeetWish
    thread: bytes
    owner: str
    handle: str
    members: tuple[Member, ...]
    algorithm: str = "windows"
    hops: int = 0
    supersedes: bytes = b""


@dataclass(frozen=True, slots=True)
class Received:
    """A verified message of the peer, signed with the key whose id is `key`. `signature`, of a vote on a
    commitment of several: the voter's own."""

    message: Message
    signature: bytes = b""
    key: str = ""


@dataclass(frozen=True, slots=True)
class PeerRefused:
    """The node of member `subject` has refused a message of ours for good."""

    subject: str
    reason: str


@dataclass(frozen=True, slots=True)
class HostAnswers:
    """The answer to a Consult.

    `terms`: the terms chosen, or a wish to counter with; None means exactly what was consulted about.
    `reason` and `sentence` go to the peer when the outcome is REFUSE, so neither may tell the rule behind
    it.
    """

    outcome: Outcome
    terms: Wish | Terms | None = None
    reason: str = "POLICY_DENIED"
    sentence: str = ""
    offer_life_ms: int = MAX_OFFER_LIFE_MS


@dataclass(frozen=True, slots=True)
class OwnerAnswers:
    """Our owner's word on the AskOwner that is open. `instead` (NEG-37): what they want in place of what was
    asked; a wish goes out as a COUNTER, terms, where no offer stands, as an OFFER."""

    approved: bool
    instead: Wish | Terms | None = None


@dataclass(frozen=True, slots=True)
class OwnerWithdraws:
    """Our owner takes the matter back; or the node does, with a `reason` (LIF-26)."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class OwnerActs:
    """Our owner, or for a POST or VOID our payment provider, says this of what was agreed.

    `reason` is a name in capitals or empty; `outcome` goes with FULFIL, `posted_minor` with POST, `time_ms`
    (the start of the time that is left out) with OMIT.
    """

    kind: EventKind
    reason: str = ""
    sentence: str = ""
    outcome: str = ""
    posted_minor: int = 0
    time_ms: int = 0


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The commitment `mid`, of the same parties, stands and names ours: it takes our commitment's place, or
    that of the one time that begins at `time_ms`."""

    mid: bytes
    time_ms: int = 0


@dataclass(frozen=True, slots=True)
class Sent:
    """A Send has been built, signed and put in the outbox; this is what it says."""

    message: Message


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed; due at `party.wakes_at`."""


Event: TypeAlias = (
    OwnerStarts
    | OwnerConvenes
    | Received
    | PeerRefused
    | HostAnswers
    | OwnerAnswers
    | OwnerWithdraws
    | OwnerActs
    | Succeeded
    | Sent
    | Tick
)


@dataclass(frozen=True, slots=True)
class Consult:
    """Ask policy and the kind's own module, and feed HostAnswers back in the same transaction. `approved`:
    our owner said yes."""

    question: Question
    terms: Wish | Terms
    approved: bool = False


@dataclass(frozen=True, slots=True)
class Send:
    """Build, sign and queue a message, and feed Sent back in the same transaction.

    An ACCEPT is a cosignature on the stored OFFER `in_reply_to`. The body of a RECEIPT is None: the host
    knows log, index and leaf time once it has carried out the Commit before it.
    """

    move: Move
    body: Body | None
    in_reply_to: bytes
    expires_in_ms: int
    supersedes: bytes = b""
    to: str = ""  # of a coordinator: the one member that it is for; empty for all


@dataclass(frozen=True, slots=True)
class Forward:
    """Relay the stored message `mid` of one member to all the others, byte for byte."""

    mid: bytes


@dataclass(frozen=True, slots=True)
class AskOwner:
    """Put exactly these terms before our owner, in place of an earlier question of the thread.

    The question is void once the phase is no longer ASKING_OWNER.
    """

    terms: Wish | Terms
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class Reserve:
    """Hold what our signature under `terms` needs (slot, stock, money; perhaps nothing) for this thread; the
    transaction fails when it is not to be had."""

    terms: Terms
    holdings: tuple[Holding, ...]


@dataclass(frozen=True, slots=True)
class Consume:
    """What is reserved belongs to a commitment now."""

    terms: Terms


@dataclass(frozen=True, slots=True)
class Release:
    """Give the reservation back."""

    terms: Terms


@dataclass(frozen=True, slots=True)
class Commit:
    """Append the COMMIT leaf of this commitment to our own ledger."""

    mid: bytes


@dataclass(frozen=True, slots=True)
class Enact:
    """Do what follows from the commitment (a meeting: write the event), idempotent, after the
    transaction."""

    terms: Terms


@dataclass(frozen=True, slots=True)
class Tell:
    """A sentence for our owner."""

    words: str


@dataclass(frozen=True, slots=True)
class Resend:
    """Queue the stored message `mid` of ours once more, byte-identical."""

    mid: bytes


@dataclass(frozen=True, slots=True)
class Record:
    """Append the leaf of this event, just stored, to our own ledger."""

    mid: bytes


@dataclass(frozen=True, slots=True)
class Unbook:
    """What was reserved for a commitment is free again: all of it, or the time that begins at `time_ms`."""

    terms: Terms
    time_ms: int = 0


@dataclass(frozen=True, slots=True)
class Undo:
    """Take back what Enact has done (a meeting: mark the event as cancelled), idempotent, after the
    transaction; of one time alone where `time_ms` names its start."""

    terms: Terms
    time_ms: int = 0


@dataclass(frozen=True, slots=True)
class Remind:
    """Tell our owner that this begins soon, or is due: it was to be told at `at_ms`, 0 for the one before the
    start."""

    terms: Terms
    at_ms: int = 0


Effect: TypeAlias = (
    Consult
    | Send
    | Forward
    | AskOwner
    | Reserve
    | Consume
    | Release
    | Commit
    | Enact
    | Tell
    | Resend
    | Record
    | Unbook
    | Undo
    | Remind
)


@dataclass(frozen=True, slots=True)
class Side:
    """One party's state. `thread` is None until our first message is signed.

    `terms` is what the host or our owner was last asked about, `reserved` what we hold a reservation for,
    `offer` the decision about our own offer, `deadline_ms` our owner's, `life` what has happened since the
    deed, `supersedes` the commitment whose place this is to take, `group` what a coordinator of several knows
    (it has no `thread`), `remind_at_ms` when else our owner is to be reminded, ascending, `hops` how many
    agents have passed on what led to the thread, `wanted` what our owner put in the place of what they were
    asked, `contenders` the open threads that ask for the place of what was agreed here. `question`,
    `approved` and `sending` are set only between the steps of one transaction, never in a stored state.
    """

    role: Role
    owner: str
    peer: str
    thread_id: bytes
    phase: Phase
    thread: Thread | None = None
    terms: Wish | Terms | None = None
    reserved: Terms | None = None
    offer: OfferState | None = None
    deadline_ms: int = 0
    reason: str = ""
    life: History | None = None
    reminded: bool = False
    remind_before_ms: int = REMIND_BEFORE_MS
    remind_at_ms: tuple[int, ...] = ()
    supersedes: bytes = b""
    group: Group | None = None
    hops: int = 0
    wanted: Wish | Terms | None = None
    contenders: tuple[bytes, ...] = ()
    question: Question | None = None
    approved: bool = False
    sending: Move | None = None

    def to_json(self) -> str:
        """The state as JSON with sorted keys; raises RuntimeError in the middle of a transaction's steps."""
        if self.question is not None or self.sending is not None:
            raise RuntimeError("a Consult or a Send is still unanswered")
        fields: dict[str, Any] = {
            "version": 1,
            "role": self.role.value,
            "owner": self.owner,
            "peer": self.peer,
            "thread_id": self.thread_id.hex(),
            "phase": self.phase.value,
            "messages": [message_to_json(message) for message in self.thread.messages] if self.thread else [],
            "terms": body_to_json(self.terms),
            "reserved": body_to_json(self.reserved),
            "offer": self.offer.value if self.offer else None,
            "deadline_ms": self.deadline_ms,
            "reason": self.reason,
            **life_to_json(self.life),
            "reminded": self.reminded,
            "remind_before_ms": self.remind_before_ms,
        }
        if self.remind_at_ms:
            fields["remind_at_ms"] = self.remind_at_ms
        if self.supersedes:
            fields["supersedes"] = self.supersedes.hex()
        if self.hops:
            fields["hops"] = self.hops
        if self.wanted:
            fields["wanted"] = body_to_json(self.wanted)
        if self.group:
            fields["group"] = self.group.to_json()
        if self.contenders:
            fields["contenders"] = sorted(thread.hex() for thread in self.contenders)
        return json.dumps(fields, sort_keys=True, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Side:
        """The state that `to_json` wrote (or the same JSON after a round through jsonb)."""
        fields = json.loads(text)
        reserved = body_from_json(fields["reserved"])
        terms, wanted = body_from_json(fields["terms"]), body_from_json(fields.get("wanted"))
        thread = fold(fields["messages"])
        group = Group.from_json(fields["group"]) if "group" in fields else None
        offer = group.offer if group else thread.offer if thread else None
        return cls(
            role=Role(fields["role"]),
            owner=fields["owner"],
            peer=fields["peer"],
            thread_id=bytes.fromhex(fields["thread_id"]),
            phase=Phase(fields["phase"]),
            thread=thread,
            terms=terms if isinstance(terms, Wish | Terms) else None,
            reserved=reserved if isinstance(reserved, Terms) else None,
            offer=OfferState(fields["offer"]) if fields["offer"] else None,
            deadline_ms=fields["deadline_ms"],
            reason=fields["reason"],
            life=relive(offer, fields) if fields["phase"] == Phase.COMMITTED.value else None,
            reminded=fields.get("reminded", False),
            remind_before_ms=fields.get("remind_before_ms", REMIND_BEFORE_MS),
            remind_at_ms=tuple(fields.get("remind_at_ms", ())),
            supersedes=bytes.fromhex(fields.get("supersedes", "")),
            group=group,
            hops=fields.get("hops", 0),
            wanted=wanted if isinstance(wanted, Wish | Terms) else None,
            contenders=tuple(map(bytes.fromhex, fields.get("contenders", ()))),
        )

    def knows(self, message: Message) -> bool:
        """Whether the message is part of what is stored."""
        if self.group is not None and self.group.knows(message):
            return True
        if message.move is Move.EVENT:
            return self.life is not None and self.life.find(message.mid) is not None
        return self.thread is not None and self.thread.find(*message.identity) is not None
