"""Which network this is: the registry's log key, and whose cosignatures give its heads their time.

The file is a C2SP tlog-policy with one log, named twice when its key was replaced: first the key that
names the network for ever, then the one believed. The log's origin is `<authority>/registry`, so the
authority needs no line of its own; the log's second key stands in it as the witness `clock`, on which the
quorum rests while there are no independent witnesses. `indai up` writes the file; another network's client
needs a copy of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from indai.client.statefile import replace_file
from indai.protocol.checkpoint import Checkpoint
from indai.protocol.errors import InvalidInput, ProtocolError, Reason
from indai.protocol.handles import Handle
from indai.protocol.header import network_id
from indai.protocol.logkeys import KeyChange, follow
from indai.protocol.note import Verifier
from indai.protocol.tlogpolicy import NO_QUORUM, TlogPolicy, parse_policy

_SUFFIX = "/registry"
_HEADER = "# The registry this program believes: its log, and who vouches for the time of its heads.\n"


@dataclass(frozen=True, slots=True)
class Head:
    """A verified head of the registry's log: the signed note, what it says, its time in ms."""

    note: bytes
    checkpoint: Checkpoint
    time_ms: int

    @property
    def size(self) -> int:
        """Number of leaves."""
        return self.checkpoint.size

    @property
    def root(self) -> bytes:
        """Root of the tree, 32 bytes."""
        return self.checkpoint.root


@dataclass(frozen=True, slots=True)
class NetworkPolicy:
    """The trusted keys of one network's registry."""

    policy: TlogPolicy

    def __post_init__(self) -> None:
        names = {log.name for log in self.policy.logs}
        if len(names) != 1 or not names.pop().endswith(_SUFFIX):
            raise _invalid("it must have one log, <authority>/registry")
        if self.policy.quorum == NO_QUORUM:
            raise _invalid("it needs a quorum, since heads have no other time")
        Handle(self.authority)

    @classmethod
    def of_registry(
        cls,
        log: Verifier,
        clock: Verifier,
        witnesses: TlogPolicy | None = None,
        first: Verifier | None = None,
    ) -> NetworkPolicy:
        """The policy of a registry: with `witnesses` their quorum vouches for its heads and their time, else
        the registry's own clock does. `first` is the log's first key, if `log` is another."""
        logs = tuple(dict.fromkeys((first or log, log)))
        if witnesses is None or witnesses.quorum == NO_QUORUM:
            return cls(TlogPolicy(logs, {"clock": clock}, {}, "clock"))
        known = {"clock": clock} | dict(witnesses.witnesses)
        return cls(TlogPolicy(logs, known, witnesses.groups, witnesses.quorum, witnesses.urls))

    @classmethod
    def parse(cls, text: str) -> NetworkPolicy:
        """Read the text of a policy file; raises InvalidInput(INVALID_ARGUMENT)."""
        return cls(parse_policy(text.encode("utf-8")))

    @classmethod
    def load(cls, path: Path) -> NetworkPolicy:
        """Read a policy file; raises InvalidInput(INVALID_ARGUMENT)."""
        try:
            return cls.parse(path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise _invalid(f"{path} cannot be read") from error

    def dump(self, path: Path) -> None:
        """Write the policy file; raises Unavailable(STORAGE_FULL)."""
        replace_file(path, self.format().encode("utf-8"))

    def format(self) -> str:
        """The text of the policy file."""
        return _HEADER + self.policy.format()

    @property
    def log(self) -> Verifier:
        """The key that the registry's log signs with now."""
        return self.policy.logs[-1]

    @property
    def first(self) -> Verifier:
        """The log's first key, which names the network."""
        return self.policy.logs[0]

    @property
    def origin(self) -> str:
        """The origin of the registry's log; every operation names it."""
        return self.log.name

    @property
    def authority(self) -> str:
        """The domain under which this registry names handles."""
        return self.origin.removesuffix(_SUFFIX)

    @property
    def network(self) -> str:
        """What every message names: the origin, `+` and the hex hash of the log's first key."""
        return network_id(self.first)

    def with_log(self, log: Verifier) -> NetworkPolicy:
        """This policy with another key of the log."""
        return NetworkPolicy(replace(self.policy, logs=tuple(dict.fromkeys((self.first, log)))))

    def follow(self, change: KeyChange) -> tuple[Head, NetworkPolicy]:
        """The head that shows the log's next key, and the policy that believes it; raises ProtocolError
        (BAD_SIGNATURE, BAD_CHECKPOINT, BAD_PROOF or MALFORMED)."""
        _, changed = follow(self._believed, change)
        return self.open(change.note), self.with_log(changed.logs[0])

    @property
    def _believed(self) -> TlogPolicy:
        return replace(self.policy, logs=(self.log,))

    def open(self, note: bytes) -> Head:
        """Verify a head's note; raises ProtocolError (BAD_SIGNATURE, BAD_CHECKPOINT or MALFORMED)."""
        checkpoint, cosignatures = self._believed.open(note)
        time_s = self.policy.time(cosignatures)
        if time_s is None:
            message = "The registry's head carries no time that the policy accepts."
            raise ProtocolError(Reason.BAD_CHECKPOINT, message, rule="REG-13")
        return Head(note, checkpoint, time_s * 1000)


def _invalid(why: str) -> InvalidInput:
    return InvalidInput(
        Reason.INVALID_ARGUMENT,
        f"This is not the policy of a network: {why}.",
        hint="use the file that `indai up` of that network wrote",
    )
