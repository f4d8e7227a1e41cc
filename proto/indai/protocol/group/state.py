"""A coordinator's state for one meeting of several, and the account of what was disclosed to whom."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from indai.protocol.ballots import Ordinal
from indai.protocol.group.board import Ask, Board, Said
from indai.protocol.kinds.base import Window
from indai.protocol.kinds.meet import MeetWish
from indai.protocol.messages import Message, Move
from indai.protocol.party_json import body_from_json, body_to_json, message_from_json, message_to_json


@dataclass(frozen=True, slots=True)
class Member:
    """Whom the coordinator asks: subject id, and handle at the time."""

    subject: str
    handle: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A question under way: the query's mid."""

    mid: bytes
    ask: Ask


@dataclass(frozen=True, slots=True)
class Disclosure:
    """What the coordinator told a member, and what the member told it: how many windows, slots, ordinals."""

    handle: str
    told_windows: int = 0
    told_slots: int = 0
    heard_windows: int = 0
    heard_ordinals: int = 0
    exchanges: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """`handle` is the coordinator's own. `votes` are signatures by subject, `holding` who asks an owner.

    `queue` is what is still to be sent in this transaction, `open` what waits for an answer until
    `until_ms`, `rounds` how many rounds of questions there were, `blocked` the handles of those without whom
    it might have come about, `heard` the identities of what has arrived, `keys` by subject the id of the key
    that a member has answered with: the one it is to sign with.
    """

    handle: str
    members: tuple[Member, ...]
    wish: MeetWish
    algorithm: str
    said: tuple[Said, ...] = ()
    queue: tuple[Ask, ...] = ()
    open: tuple[Asked, ...] = ()
    rounds: int = 0
    until_ms: int = 0
    offer: Message | None = None
    votes: tuple[tuple[str, bytes], ...] = ()
    holding: frozenset[str] = frozenset()
    blocked: tuple[str, ...] = ()
    heard: frozenset[tuple[bytes, str, str]] = frozenset()
    keys: tuple[tuple[str, str], ...] = ()

    @property
    def attendees(self) -> tuple[str, ...]:
        """Handles of all, the coordinator first."""
        return (self.handle, *(member.handle for member in self.members))

    @property
    def subjects(self) -> tuple[str, ...]:
        """Of the members, in the order in which they sign."""
        return tuple(member.subject for member in self.members)

    def board(self, thread: bytes) -> Board:
        """What an algorithm sees."""
        return Board(thread, self.wish, self.subjects, self.said)

    def handles(self, subjects: tuple[str, ...]) -> tuple[str, ...]:
        """Of these members."""
        return tuple(member.handle for member in self.members if member.subject in subjects)

    def hear(self, message: Message, key: str) -> Group:
        """The message is known from now on, and the key of its sender."""
        keys = dict(self.keys) | {message.sender: key}
        return replace(self, heard=self.heard | {_identity(message)}, keys=tuple(sorted(keys.items())))

    def knows(self, message: Message) -> bool:
        """Whether it has arrived before."""
        return _identity(message) in self.heard

    def account(self) -> tuple[Disclosure, ...]:
        """What was disclosed to whom, by member (GRP-06); the slot offered counts as told to each."""
        return tuple(self._account(member) for member in self.members)

    def _account(self, member: Member) -> Disclosure:
        asks = [
            a
            for a in (*(s.ask for s in self.said), *(o.ask for o in self.open))
            if a.member == member.subject
        ]
        said = [each for each in self.said if each.ask.member == member.subject]
        return Disclosure(
            member.handle,
            sum(len(ask.windows) for ask in asks if not ask.ballot),
            sum(len(ask.windows) for ask in asks if ask.ballot) + (self.offer is not None),
            sum(len(each.windows) for each in said),
            sum(len(each.ordinals) for each in said),
            len(asks) + (self.offer is not None),
        )

    def to_json(self) -> dict[str, Any]:
        """For storage; `queue` is empty between transactions."""
        return {
            "handle": self.handle,
            "members": [[member.subject, member.handle] for member in self.members],
            "wish": body_to_json(self.wish),
            "algorithm": self.algorithm,
            "said": [
                {
                    "ask": _ask_to_json(each.ask),
                    "mid": each.mid.hex(),
                    "windows": _spans(each.windows),
                    "ordinals": [int(word) for word in each.ordinals],
                }
                for each in self.said
            ],
            "open": [[asked.mid.hex(), _ask_to_json(asked.ask)] for asked in self.open],
            "rounds": self.rounds,
            "until_ms": self.until_ms,
            "offer": message_to_json(self.offer) if self.offer else None,
            "votes": [[subject, signature.hex()] for subject, signature in self.votes],
            "holding": sorted(self.holding),
            "blocked": list(self.blocked),
            "keys": dict(self.keys),
            "heard": sorted([mid.hex(), move, sender] for mid, move, sender in self.heard),
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Group:
        """What `to_json` wrote."""
        wish = body_from_json(fields["wish"])
        if not isinstance(wish, MeetWish):
            raise RuntimeError("a group without a wish")
        return cls(
            fields["handle"],
            tuple(Member(*member) for member in fields["members"]),
            wish,
            fields["algorithm"],
            tuple(_said_from_json(each) for each in fields["said"]),
            (),
            tuple(Asked(bytes.fromhex(mid), _ask_from_json(ask)) for mid, ask in fields["open"]),
            fields["rounds"],
            fields["until_ms"],
            message_from_json(fields["offer"]) if fields["offer"] else None,
            tuple((subject, bytes.fromhex(signature)) for subject, signature in fields["votes"]),
            frozenset(fields["holding"]),
            tuple(fields["blocked"]),
            frozenset((bytes.fromhex(mid), move, sender) for mid, move, sender in fields["heard"]),
            tuple(sorted(fields["keys"].items())),
        )


def _identity(message: Message) -> tuple[bytes, str, str]:
    return message.mid, message.move.value, message.sender if message.move is Move.ACCEPT else ""


def _spans(windows: tuple[Window, ...]) -> list[list[int]]:
    return [[window.start_ms, window.end_ms] for window in windows]


def _ask_to_json(ask: Ask) -> dict[str, Any]:
    return {"member": ask.member, "ballot": ask.ballot, "windows": _spans(ask.windows)}


def _ask_from_json(fields: dict[str, Any]) -> Ask:
    return Ask(fields["member"], fields["ballot"], tuple(Window(*span) for span in fields["windows"]))


def _said_from_json(fields: dict[str, Any]) -> Said:
    return Said(
        _ask_from_json(fields["ask"]),
        bytes.fromhex(fields["mid"]),
        tuple(Window(*span) for span in fields["windows"]),
        tuple(Ordinal(word) for word in fields["ordinals"]),
    )
