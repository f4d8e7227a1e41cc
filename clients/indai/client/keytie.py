"""What shows that two keys are those of one log, the one after the other.

Either each key has announced the next, and both have signed it (`indai.protocol.logkeys`); or, for a ledger
whose change its former key has not announced, every operation on its node's handle, from the first on, signed
by that handle's rotation keys: its records name both. The first stands by itself. The second is as good as
the handle is known, which a mirror of the registry tells.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from indai.client.exports import ledger_node
from indai.protocol.envelope import parse_envelope
from indai.protocol.errors import IndaiError, ProtocolError, Reason
from indai.protocol.logkeys import read_announcement
from indai.protocol.note import Verifier, decode_base64, parse_vkey
from indai.protocol.operations import Chain, apply_operation

_RULE = "FRD-03"


@dataclass(frozen=True, slots=True)
class KeyTie:
    """That `later` follows a log's former key: `announcements`, oldest first, or `operations` on a node's
    handle with their times, ms. Nothing is verified before `check`."""

    later: Verifier
    announcements: tuple[bytes, ...] = ()
    operations: tuple[tuple[int, bytes], ...] = ()

    def check(self, former: Verifier) -> None:
        """Raises ProtocolError when this does not lead from `former` to `later`, two keys of one log."""
        if bool(self.announcements) == bool(self.operations):
            raise _broken("it has one way from the one to the other")
        if self.announcements:
            reached = former
            for body in self.announcements:
                old, new = read_announcement(body)
                if old != reached:
                    raise _broken("an announcement is not by the key before it")
                reached = new
            if reached != self.later:
                raise _broken("the last announcement is of another key")
            return
        if not _reached(former, self.later, self.operations):
            raise _broken("the node's operations do not name both keys, the one after the other")

    def lines(self) -> list[dict[str, Any]]:
        """As objects of a file."""
        announced = [{"type": "announcement", "note": body.decode("utf-8")} for body in self.announcements]
        signed = [
            {"type": "operation", "time_ms": time_ms, "operation": base64.b64encode(raw).decode("ascii")}
            for time_ms, raw in self.operations
        ]
        return [*announced, *signed]

    @classmethod
    def parse(cls, vkey: str, lines: Sequence[Mapping[str, Any]]) -> KeyTie:
        """From a file's objects; raises ValueError, TypeError, KeyError or IndaiError for what is none."""
        announced, signed = list[bytes](), list[tuple[int, bytes]]()
        for line in lines:
            if line["type"] == "announcement":
                announced.append(line["note"].encode())
                continue
            raw = decode_base64(line["operation"])
            if raw is None or type(line["time_ms"]) is not int:
                raise ValueError(line["type"])
            signed.append((line["time_ms"], raw))
        return cls(parse_vkey(vkey), tuple(announced), tuple(signed))


def announced(notes: Sequence[bytes], former: Verifier, later: Verifier) -> KeyTie | None:
    """The way from one key to a later one by announcements out of `notes`, oldest first; None if there is
    none."""
    way, reached = list[bytes](), former
    for note in notes:
        try:
            old, new = read_announcement(note)
        except IndaiError:
            continue
        if old == reached:
            way, reached = [*way, note], new
            if reached == later:
                return KeyTie(later, tuple(way))
    return None


def recorded(former: Verifier, later: Verifier, operations: Sequence[tuple[int, bytes]]) -> KeyTie | None:
    """The way from one key to a later one by a node's operations: as many of them as it takes; None where
    they name only one. Raises ProtocolError for operations that do not follow from each other."""
    count = _reached(former, later, operations)
    return KeyTie(later, operations=tuple(operations[:count])) if count else None


def _reached(former: Verifier, later: Verifier, operations: Sequence[tuple[int, bytes]]) -> int:
    """How many operations it takes until both keys are named in their order; 0 where they never are."""
    begun = False
    for count, vkey in list(_named(former.name, operations)):  # all of them: none may be wrong
        begun = begun or vkey == former.vkey
        if begun and vkey == later.vkey:
            return count
    return 0


def _named(origin: str, operations: Sequence[tuple[int, bytes]]) -> Iterator[tuple[int, str]]:
    """(operations so far, key) for each that names one for this ledger, in their order. Raises
    ProtocolError."""
    chain: Chain | None = None
    for count, (time_ms, raw) in enumerate(operations, 1):
        chain = apply_operation(chain, parse_envelope(raw), time_ms)
        record = chain.state.node_record
        if chain.handle != ledger_node(origin):
            raise _broken("an operation is on another handle than the ledger's node")
        if record is not None:
            yield count, record.ledger_vkey  # which has the ledger's name in it


def follows(one: Verifier, other: Verifier, keys: Sequence[str]) -> tuple[Verifier, Verifier] | None:
    """Both keys with the former first, by the order of a log's `keys`; None where one is not among them."""
    order = [vkey for before, vkey in pairwise(["", *keys]) if vkey != before]
    if one.vkey not in order or other.vkey not in order:
        return None
    former, later = sorted((one, other), key=lambda each: order.index(each.vkey))
    return former, later


def _broken(why: str) -> ProtocolError:
    return ProtocolError(Reason.BAD_PROOF, f"This ties no two keys of a log: {why}.", rule=_RULE)
