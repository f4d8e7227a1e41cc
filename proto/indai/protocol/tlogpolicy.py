"""Which checkpoints to believe: known logs, known witnesses and a quorum (C2SP tlog-policy)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from indai.protocol.checkpoint import Checkpoint, open_checkpoint
from indai.protocol.errors import IndaiError, InvalidInput, ProtocolError, Reason
from indai.protocol.note import (
    COSIGNATURE,
    COSIGNATURE_ML_DSA_44,
    ED25519,
    VerifiedSignature,
    Verifier,
    parse_note,
    parse_vkey,
)
from indai.protocol.quoting import quoted

NO_QUORUM = "none"
MAX_POLICY = 1_000_000
MAX_LINES = 1_024

_LOG_TYPES = (ED25519, COSIGNATURE_ML_DSA_44)
_WITNESS_TYPES = (COSIGNATURE, COSIGNATURE_ML_DSA_44)
_FORBIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Group:
    """At least `threshold` of `members` (witnesses or groups defined before) must have cosigned."""

    threshold: int
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TlogPolicy:
    """A parsed policy. Names of witnesses and groups mean something inside the policy only.

    `urls` has the submission prefix of each witness for which the file names one.
    """

    logs: tuple[Verifier, ...]
    witnesses: Mapping[str, Verifier] = field(default_factory=dict)
    groups: Mapping[str, Group] = field(default_factory=dict)
    quorum: str = NO_QUORUM
    urls: Mapping[str, str] = field(default_factory=dict)

    def open(self, raw: bytes) -> tuple[Checkpoint, tuple[VerifiedSignature, ...]]:
        """Open a checkpoint of one of the logs under the quorum.

        Raises ProtocolError as `open_checkpoint` does, or BAD_CHECKPOINT where the quorum is not reached.
        """
        checkpoint, cosignatures = open_checkpoint(raw, self._log_of(raw), tuple(self.witnesses.values()))
        self.check(cosignatures)
        return checkpoint, cosignatures

    def check(self, cosignatures: Sequence[VerifiedSignature]) -> None:
        """The cosigners reach the quorum; raises ProtocolError(BAD_CHECKPOINT)."""
        if not self._reached(self.quorum, {cosignature.verifier for cosignature in cosignatures}):
            message = f"The checkpoint's cosignatures do not reach the quorum {quoted(self.quorum)}."
            raise ProtocolError(
                Reason.BAD_CHECKPOINT, message, rule="LOG-06", hint="ask the log's witnesses again"
            )

    def time(self, cosignatures: Iterable[VerifiedSignature]) -> int | None:
        """The latest time (s since the epoch) by which a whole quorum vouches for; None without a quorum."""
        if self.quorum == NO_QUORUM:
            return None
        cosigners: set[Verifier] = set()
        timed = ((s.time, s.verifier) for s in cosignatures if s.time is not None)
        for time, verifier in sorted(timed, key=lambda pair: -pair[0]):
            cosigners.add(verifier)
            if self._reached(self.quorum, cosigners):
                return time
        return None

    def format(self) -> str:
        """The text of this policy, as `parse_policy` reads it."""
        lines = [f"log {log.vkey}" for log in self.logs]
        lines += [
            f"witness {name} {verifier.vkey} {self.urls.get(name, '')}".rstrip()
            for name, verifier in self.witnesses.items()
        ]
        lines += [
            f"group {name} {group.threshold} {' '.join(group.members)}" for name, group in self.groups.items()
        ]
        return "".join(f"{line}\n" for line in (*lines, f"quorum {self.quorum}"))

    def _log_of(self, raw: bytes) -> Verifier:
        _, signatures = parse_note(raw)
        signed = {(signature.name, signature.key_hash) for signature in signatures}
        for log in self.logs:
            if (log.name, log.key_hash) in signed:
                return log
        message = "The checkpoint is signed by no log of the policy."
        raise ProtocolError(Reason.BAD_SIGNATURE, message, rule="LOG-04")

    def _reached(self, name: str, cosigners: set[Verifier]) -> bool:
        if name == NO_QUORUM:
            return True
        if name in self.witnesses:
            return self.witnesses[name] in cosigners
        group = self.groups[name]
        return sum(self._reached(member, cosigners) for member in group.members) >= group.threshold


def parse_policy(raw: bytes) -> TlogPolicy:
    """Read a policy file; raises InvalidInput(INVALID_ARGUMENT) naming the line."""
    if len(raw) > MAX_POLICY:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"A log policy has at most {MAX_POLICY} bytes.")
    # Names are opaque octets: what is not UTF-8 is kept as it is.
    lines = raw.decode("utf-8", "surrogateescape").split("\n")
    if len(lines) > MAX_LINES:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"A log policy has at most {MAX_LINES} lines.")
    reading = _Reading()
    for number, line in enumerate(lines, 1):
        try:
            reading.line(line)
        except IndaiError as error:
            message = f"Line {number} of the log policy: {error.message}"
            raise InvalidInput(Reason.INVALID_ARGUMENT, message) from None
    if reading.quorum is None:
        raise InvalidInput(Reason.INVALID_ARGUMENT, "The log policy has no quorum line.")
    return TlogPolicy(tuple(reading.logs), reading.witnesses, reading.groups, reading.quorum, reading.urls)


class _Reading:
    """A policy while its lines are read: a line may name only what stands above it."""

    def __init__(self) -> None:
        self.logs: list[Verifier] = []
        self.witnesses: dict[str, Verifier] = {}
        self.groups: dict[str, Group] = {}
        self.quorum: str | None = None
        self.urls: dict[str, str] = {}
        self._members: set[str] = set()

    def line(self, line: str) -> None:
        """Read one line."""
        if _FORBIDDEN.search(line):
            raise _invalid("it has a control character")
        words = [word for word in re.split("[ \t]+", line) if word]
        if not words or words[0].startswith("#"):
            return
        match words:
            case ["log", vkey, *url] if len(url) <= 1:
                self.logs.append(_key(vkey, self.logs, _LOG_TYPES))
            case ["witness", name, vkey, *url] if len(url) <= 1:
                self._define(name)
                self.witnesses[name] = _key(vkey, self.witnesses.values(), _WITNESS_TYPES)
                self.urls |= {name: url[0]} if url else {}
            case ["group", name, threshold, *members] if members:
                self._define(name)
                self.groups[name] = self._group(threshold, members)
            case ["quorum", name]:
                self._set_quorum(name)
            case _:
                raise _invalid(f"{quoted(line)} is not log, witness, group or quorum with its words")

    def _define(self, name: str) -> None:
        if name == NO_QUORUM or name in self.witnesses or name in self.groups:
            raise _invalid(f"the name {quoted(name)} is taken")

    def _group(self, threshold: str, members: list[str]) -> Group:
        for member in members:
            if member not in self.witnesses and member not in self.groups:
                raise _invalid(f"{quoted(member)} is not defined above")
            if member in self._members:
                raise _invalid(f"{quoted(member)} is a member twice")
            self._members.add(member)
        named = {"any": 1, "all": len(members)}
        if threshold not in named and not re.fullmatch("[1-9][0-9]{0,3}", threshold):
            raise _invalid(f"{quoted(threshold)} is not any, all or a number")
        needed = named[threshold] if threshold in named else int(threshold)
        if needed > len(members):
            raise _invalid(f"{needed} of {len(members)} members can never be reached")
        return Group(needed, tuple(members))

    def _set_quorum(self, name: str) -> None:
        if self.quorum is not None:
            raise _invalid("there is a second quorum")
        if name != NO_QUORUM and name not in self.witnesses and name not in self.groups:
            raise _invalid(f"{quoted(name)} is not defined above")
        self.quorum = name


def _key(vkey: str, others: Iterable[Verifier], types: tuple[int, ...]) -> Verifier:
    verifier = parse_vkey(vkey)
    if verifier.algorithm not in types:
        raise _invalid(f"a key of signature type {verifier.algorithm} does not fit here")
    if any(verifier.public_key == other.public_key for other in others):
        raise _invalid(f"the key of {quoted(verifier.name)} stands here twice")
    return verifier


def _invalid(why: str) -> InvalidInput:
    return InvalidInput(Reason.INVALID_ARGUMENT, why + ".")
