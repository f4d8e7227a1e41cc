"""Worlds in which three on three nodes meet: alice coordinates, bob and carol are asked, vote and sign."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from indai.client.audit import Report
from indai.client.exports import IN, OUT
from indai.protocol.ballots import Ordinal
from indai.protocol.envelope import Envelope, cosign, parse_envelope
from indai.protocol.group.board import Ask, Board, Said, Settle, elect
from indai.protocol.group.signing import complete
from indai.protocol.handlestate import HandleState, NodeRecord
from indai.protocol.header import new_id
from indai.protocol.kinds.base import Window
from indai.protocol.kinds.meet import MeetWish
from indai.protocol.leaf import LeafKind
from indai.protocol.operations import CREATE
from indai.v1 import envelope_pb2, intents_pb2
from indai.v1 import negotiation_pb2 as pb

from .worlds import ALICE, BOB, DAY, HOUR, NOW, Deal, Node, World, activate, key, person, sealed

CAROL, NODE_C = "ind.ai/carol", "ind.ai/node-c"
ALL, MEMBERS = (ALICE, BOB, CAROL), (BOB, CAROL)
NAMES = ("a", "b", "c")
SLOTS = (NOW + DAY, NOW + DAY + 2 * HOUR)
MINUTES = 30
YES, OK, NO = pb.ORDINAL_YES, pb.ORDINAL_OK, pb.ORDINAL_NO


class Trio(World):
    """A third node, carol's."""

    def __init__(self) -> None:
        super().__init__()
        self.c = Node(NODE_C, CAROL, key(NODE_C), self.registry.network)
        record = NodeRecord("127.0.0.1:7000", b"", self.c.origin, self.c.signer().verifier.vkey)
        state = HandleState((key(f"{NODE_C} rotation").public_key,), node_record=record)
        self.registry.submit(CREATE, NODE_C, state, NOW - DAY)
        self.registry.submit(CREATE, CAROL, person(self.c), NOW - DAY)
        activate(self.c, self.policy, NOW - HOUR)

    def node(self, who: str) -> Node:
        return {ALICE: self.a, BOB: self.b, CAROL: self.c}[who]

    def audit(self, folder: Path, names: Sequence[str] = NAMES) -> Report:
        return super().audit(folder, names)


@dataclass
class Gathering:
    """One meeting of three, step by step; a test bends a field or what lies in the nodes afterwards.

    `votes`: what each says of the two slots; `asked_of`: whose answer stands under whose ballot; `slot`: the
    one offered, None for the one elected; `unsigned`: whose signature is left out of the commitment.
    """

    world: Trio = field(default_factory=Trio)
    votes: dict[str, tuple[pb.Ordinal.ValueType, ...]] = field(
        default_factory=lambda: {BOB: (NO, YES), CAROL: (OK, OK)}
    )
    asked_of: dict[str, str] = field(default_factory=dict)
    silent: str = ""
    slot: int | None = None
    unsigned: str = ""
    forged: str = ""
    undecided: str = ""
    relays: Callable[[bytes], bytes] = lambda raw: raw
    released: str = ""
    thread: bytes = new_id(NOW, b"gathering!")
    step: int = 0

    def header(self, sender: str, recipient: str, answers: bytes = b"") -> envelope_pb2.Header:
        self.step += 1
        random = hashlib.sha256(b"gathering %d" % self.step).digest()
        return envelope_pb2.Header(
            id=new_id(NOW + self.step, random[:10]),
            network=self.world.registry.network,
            sender=sender,
            sender_subject=self.world.subject(sender),
            recipient=recipient,
            recipient_subject=self.world.subject(recipient),
            key_id=key(f"{sender} agent").key_id,
            issued_at_ms=NOW + self.step,
            expires_at_ms=NOW + self.step + 12 * HOUR,
            nonce=random[:16],
            in_reply_to=answers,
            thread=self.thread,
        )

    def say(self, owner: str, envelope: Envelope, direction: str) -> None:
        self.world.node(owner).say(owner, self.thread, envelope, direction)

    def to_all(self, envelope: Envelope, members: Sequence[str] = MEMBERS) -> None:
        """What goes to several: alice keeps it and each relay, a member what was relayed."""
        self.say(ALICE, envelope, OUT)
        for member in members:
            relay = pb.Move(
                header=self.header(ALICE, member), relay=pb.Relay(envelope=self.relays(envelope.raw))
            )
            self.say(ALICE, sealed("move", relay, ALICE), OUT)
            self.say(member, envelope, IN)

    def ask(self) -> Board:
        """One ballot; the answers as the election sees them."""
        windows = [intents_pb2.Window(start_ms=at, end_ms=at + MINUTES * 60_000) for at in SLOTS]
        wish = intents_pb2.MeetWish(title="Tea", duration_minutes=MINUTES, windows=windows)
        queries = {}
        for member in MEMBERS:
            query = pb.Query(ballot=pb.BallotQuery(wish=wish, attendees=ALL))
            queries[member] = sealed("move", pb.Move(header=self.header(ALICE, member), query=query), ALICE)
            self.say(ALICE, queries[member], OUT)
        said = []
        slots = tuple(Window(window.start_ms, window.end_ms) for window in windows)
        for member in MEMBERS:
            about = queries[self.asked_of.get(member, member)].mid
            answer = pb.Answer(ballot=pb.BallotAnswer(ordinals=self.votes[member]))
            move = sealed("move", pb.Move(header=self.header(member, ALICE, about), answer=answer), member)
            if member != self.silent:
                self.say(ALICE, move, IN)
                ordinals = tuple(Ordinal(each) for each in self.votes[member])
                ask = Ask(self.world.subject(member), True, slots)
                said.append(Said(ask, move.mid, ordinals=ordinals))
        members = tuple(self.world.subject(member) for member in MEMBERS)
        return Board(self.thread, MeetWish("Tea", MINUTES, slots, ""), members, tuple(said))

    def offer(self, board: Board) -> Envelope:
        step = elect(board)
        assert isinstance(step, Settle)
        start_ms = step.slot.start_ms if self.slot is None else SLOTS[self.slot]
        parties = [
            pb.Party(handle=who, subject_id=self.world.subject(who), key_id=key(f"{who} agent").key_id)
            for who in ALL
        ]
        terms = intents_pb2.MeetTerms(
            start_ms=start_ms, end_ms=start_ms + MINUTES * 60_000, title="Tea", ical_uid="three@ind.ai"
        )
        commitment = pb.Commitment(header=self.header(ALICE, BOB), parties=parties, meet=terms)
        return sealed("commitment", commitment, ALICE)

    def sign(self, offer: Envelope, who: str) -> Envelope:
        vote = cosign(offer, key(f"{who} agent"))
        if who == self.forged:
            message = envelope_pb2.Envelope.FromString(vote.raw)
            message.signatures[1].sig = key("forger").sign(vote.pae)
            return parse_envelope(message.SerializeToString(deterministic=True))
        return vote

    def decide(self, who: str, offer: Envelope) -> None:
        start_ms = pb.Commitment.FromString(offer.payload).meet.start_ms
        deal = Deal(self.world, start_ms=start_ms, minutes=MINUTES)
        if who != self.undecided:
            deal.decide(self.world.node(who), offer.mid, BOB if who == ALICE else ALICE)

    def withdraw(self, offer: Envelope) -> Envelope:
        taken = pb.Withdraw(mid=offer.mid)
        header = self.header(ALICE, BOB, offer.mid)
        return sealed("move", pb.Move(header=header, withdraw=taken), ALICE)

    def run(self) -> Trio:
        """All of it."""
        offer = self.offer(self.ask())
        self.to_all(offer)
        self.decide(ALICE, offer)
        votes = []
        for member in MEMBERS:
            vote = self.sign(offer, member)
            self.decide(member, offer)
            self.say(member, vote, OUT)
            votes.append((self.world.subject(member), vote.signatures[1].sig))
        whole = complete(offer, votes)
        if self.unsigned:
            message = envelope_pb2.Envelope.FromString(whole.raw)
            del message.signatures[ALL.index(self.unsigned)]
            whole = parse_envelope(message.SerializeToString(deterministic=True))
        self.settle(offer, whole)
        return self.world

    def settle(self, offer: Envelope, whole: Envelope) -> None:
        """The commitment in every ledger, and the RECEIPT."""
        index = self.world.a.add(LeafKind.COMMITMENT, ALICE, whole.mid, whole.raw, NOW + 50)
        for member in MEMBERS:
            node = self.world.node(member)
            node.add(LeafKind.COMMITMENT, member, whole.mid, whole.raw, NOW + 51)
        if not self.unsigned:
            self.say(ALICE, whole, IN)
        receipt = pb.Receipt(
            header=self.header(ALICE, BOB, whole.mid),
            mid=whole.mid,
            log=self.world.a.origin,
            index=index,
            leaf_time_ms=NOW + 50,
            commitment=whole.raw,
        )
        word = sealed("receipt", receipt, ALICE)
        told = [member for member in MEMBERS if member != self.released]
        self.to_all(word, told)
        if self.released:
            self.say(self.released, self.withdraw(offer), IN)

    def cancel(self, sender: str = ALICE) -> None:
        """An event of alice's in all ledgers, as if it stood."""
        offer_mid = self.world.a.contents[-1]
        assert offer_mid is not None
        mid = offer_mid.mid
        event = pb.Event(
            header=self.header(sender, BOB, mid), commitment=mid, kind=pb.EVENT_KIND_CANCEL, seq=1, prev=mid
        )
        event.header.issued_at_ms = NOW + HOUR
        event.header.expires_at_ms = NOW + DAY
        envelope = sealed("event", event, sender)
        self.to_all(envelope)
        for who in ALL:
            node = self.world.node(who)
            node.add(LeafKind.COMMITMENT, who, envelope.mid, envelope.raw, NOW + HOUR + 1)


def cancelled() -> Trio:
    gathering = Gathering()
    gathering.run()
    gathering.cancel()
    return gathering.world


def bent(**lies: object) -> Callable[[], Trio]:
    return lambda: Gathering(**lies).run()  # type: ignore[arg-type]


def key_revoked_long_before() -> Trio:
    gathering = Gathering()
    gathering.world.revoke(CAROL, NOW - HOUR)
    return gathering.run()


def answer_withheld() -> Trio:
    """Carol's ballot is cut out of the coordinator's copy: another slot could have been elected."""
    world = Gathering().run()
    del world.a.messages[3]
    return world


def event_of_others_recorded() -> Trio:
    """A second agent of carol's node has a leaf of an event between three others."""
    world = cancelled()
    shown = world.c.contents[-1]
    assert shown is not None
    world.c.add(LeafKind.COMMITMENT, "ind.ai/dora", shown.mid, shown.envelope, NOW + HOUR + 2)
    return world


def vote_without_a_word() -> Trio:
    """All that is shown is carol's own: she has signed and heard nothing."""
    world = Gathering().run()
    world.c.messages = world.c.messages[:2]
    del world.c.leaves[-1], world.c.contents[-1]
    return world


def relay_of_something_else(raw: bytes) -> bytes:
    """What alice says she relayed is what nobody was sent."""
    message = envelope_pb2.Envelope.FromString(raw)
    message.signatures[0].sig = b"\x01" + message.signatures[0].sig[1:]
    return message.SerializeToString(deterministic=True)


LIES = [
    ("parties", bent(unsigned=CAROL)),
    ("signature", bent(forged=CAROL)),
    ("key", key_revoked_long_before),
    ("transcript", bent(asked_of={BOB: CAROL, CAROL: BOB})),
    ("transcript", bent(slot=0)),
    ("transcript", answer_withheld),
    ("transcript", bent(relays=relay_of_something_else)),
    ("permitted", bent(undecided=CAROL)),
    ("contradiction", bent(released=CAROL)),
    ("content", event_of_others_recorded),
]
