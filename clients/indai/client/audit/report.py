"""What an audit found, as plain data, and its three renderings: an object, lines of text, an exit
status.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any

WIDTH = 80


class Verdict(StrEnum):
    """What can be said about one commitment. Later in this list outranks earlier when several apply."""

    VALID = "VALID"
    # Its content is erased or withheld.
    UNOPENED = "UNOPENED"
    # Something needed to judge it was not supplied: a registry, the policy engine, a policy version.
    INCONCLUSIVE = "INCONCLUSIVE"
    # The offerer's receipt is missing, or not every supplied ledger holds it.
    UNCONFIRMED = "UNCONFIRMED"
    # A key of it was revoked with effect from before it, but published only after it; or receipt and
    # refusal exist.
    CONTESTED = "CONTESTED"
    # It breaks a rule.
    INVALID = "INVALID"


class Severity(Enum):
    """How bad a finding is: (rank, exit status it leads to)."""

    # Does not change the exit status.
    NOTE = (0, 0)
    # Something could not be judged.
    OPEN = (1, 3)
    # A file cannot be read, or was changed.
    UNREADABLE = (2, 2)
    # A rule of the protocol is broken.
    INVALID = (3, 1)
    # Two signed statements contradict each other: a proof against who signed them.
    FRAUD = (4, 1)

    @property
    def exit_status(self) -> int:
        """The shell's."""
        return self.value[1]


_VERDICT_SEVERITY: Mapping[Verdict, Severity] = {
    Verdict.VALID: Severity.NOTE,
    Verdict.UNOPENED: Severity.OPEN,
    Verdict.INCONCLUSIVE: Severity.OPEN,
    Verdict.UNCONFIRMED: Severity.OPEN,
    Verdict.CONTESTED: Severity.INVALID,
    Verdict.INVALID: Severity.INVALID,
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the input something stands: a file's name, the line (from 1), the leaf's index in its
    log.
    """

    file: str
    line: int = 0
    index: int | None = None

    def __str__(self) -> str:
        line = f" line {self.line}" if self.line else ""
        leaf = f" (leaf {self.index})" if self.index is not None else ""
        return f"{self.file}{line}{leaf}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be. `check` is the stable name of the check that found it."""

    severity: Severity
    check: str
    place: Place
    message: str
    # Hex mid of the commitment it is about, or empty.
    mid: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "severity": self.severity.name,
            "check": self.check,
            "file": self.place.file,
            "line": self.place.line,
            "index": self.place.index,
            "message": self.message,
            "mid": self.mid,
        }


@dataclass(frozen=True, slots=True)
class CommitmentVerdict:
    """The verdict on one commitment; `why` is empty when it is VALID."""

    mid: str
    verdict: Verdict
    parties: tuple[str, ...] = ()
    words: str = ""
    why: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()
    # What became of it: COMMITTED, FULFILLED, CANCELLED and so on; empty when that cannot be said.
    state: str = ""
    disputed: bool = False

    @property
    def became(self) -> str:
        """What became of it, for a person; empty while it just stands."""
        state = "" if self.state == "COMMITTED" else self.state.lower()
        return ", ".join(filter(None, (state, "disputed" if self.disputed else "")))

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "mid": self.mid,
            "verdict": self.verdict.value,
            "parties": list(self.parties),
            "words": self.words,
            "state": self.state,
            "disputed": self.disputed,
            "why": list(self.why),
            "places": [
                {"file": place.file, "line": place.line, "index": place.index} for place in self.places
            ],
        }


@dataclass(frozen=True, slots=True)
class Counts:
    """How much was looked at."""

    ledgers: int = 0
    leaves: int = 0
    opened: int = 0
    checkpoints: int = 0
    threads: int = 0
    messages: int = 0
    decisions: int = 0
    registry_entries: int = 0


@dataclass(frozen=True, slots=True)
class Proof:
    """A file that proves a contradiction to anybody with a mirror of the registry."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Report:
    """The whole result."""

    commitments: tuple[CommitmentVerdict, ...] = ()
    findings: tuple[Finding, ...] = ()
    counts: Counts = field(default_factory=Counts)
    # Of two words (`indai.client.audit.twowords`) and of two histories (`indai.client.fraud`), each once.
    proofs: tuple[Proof, ...] = ()

    @property
    def severity(self) -> Severity:
        """The worst of findings and verdicts."""
        found = [finding.severity for finding in self.findings]
        judged = [_VERDICT_SEVERITY[commitment.verdict] for commitment in self.commitments]
        return max([*found, *judged], key=lambda severity: severity.value[0], default=Severity.NOTE)

    @property
    def exit_status(self) -> int:
        """0: nothing wrong. 1: INVALID, CONTESTED or fraud. 2: an input is damaged. 3: something is left
        open.
        """
        return self.severity.exit_status

    @property
    def verdicts(self) -> dict[str, int]:
        """How many commitments have each verdict; every verdict is there."""
        counted = Counter(commitment.verdict for commitment in self.commitments)
        return {verdict.value: counted[verdict] for verdict in Verdict}

    @property
    def conclusion(self) -> str:
        """One sentence on the whole."""
        return _CONCLUSIONS[self.severity]

    def to_json(self) -> dict[str, Any]:
        """The whole report as plain data."""
        return {
            "severity": self.severity.name,
            "exit_status": self.exit_status,
            "verdicts": self.verdicts,
            "counts": {name: getattr(self.counts, name) for name in Counts.__dataclass_fields__},
            "commitments": [commitment.to_json() for commitment in self.commitments],
            "findings": [finding.to_json() for finding in self.findings],
            "proofs": [proof.name for proof in self.proofs],
        }

    def lines(self) -> list[tuple[str, str]]:
        """The report for a person, at most 80 columns: (style, text), style one of `good`, `bad`,
        `warn`, ``.
        """
        return [*self._commitment_lines(), *self._finding_lines(), *self._summary_lines()]

    def _commitment_lines(self) -> list[tuple[str, str]]:
        lines = []
        for commitment in self.commitments:
            named = f"{commitment.mid[:12]}  {' and '.join(commitment.parties) or 'unknown parties'}"
            what = named if commitment.mid else str(commitment.places[0])
            style = _STYLES[_VERDICT_SEVERITY[commitment.verdict]]
            lines += _wrapped(style, f"{commitment.verdict.value:<12}  ", what)
            lines += _wrapped("", " " * 14, commitment.words)
            lines += _wrapped("", " " * 14, commitment.became)
            for why in commitment.why:
                lines += _wrapped("", " " * 14 + "- ", why)
        return lines

    def _finding_lines(self) -> list[tuple[str, str]]:
        if not self.findings:
            return []
        lines = [("", ""), ("", "Findings")]
        for finding in self.findings:
            lines += _wrapped(_STYLES[finding.severity], f"{finding.severity.name:<12}  ", str(finding.place))
            lines += _wrapped("", " " * 14, finding.message)
        return lines

    def _summary_lines(self) -> list[tuple[str, str]]:
        counts = self.counts
        verdicts = ", ".join(f"{count} {name}" for name, count in self.verdicts.items() if count)
        read = ", ".join(
            (
                _many(counts.ledgers, "ledger"),
                f"{_many(counts.leaves, 'leaf', 'leaves')} ({counts.opened} opened)",
                f"{_many(counts.messages, 'message')} in {_many(counts.threads, 'thread')}",
                _many(counts.decisions, "policy decision"),
                _many(counts.registry_entries, "registry entry", "registry entries"),
            )
        )
        judged = f"{_many(len(self.commitments), 'commitment')}: {verdicts or 'none'}."
        return [
            ("", ""),
            *_wrapped("", "", f"Read {read}."),
            *_wrapped("", "", judged),
            *_wrapped(_STYLES[self.severity], "", self.conclusion),
        ]


_STYLES = {
    Severity.NOTE: "good",
    Severity.OPEN: "warn",
    Severity.UNREADABLE: "bad",
    Severity.INVALID: "bad",
    Severity.FRAUD: "bad",
}
_CONCLUSIONS = {
    Severity.NOTE: "Everything supplied is consistent and valid.",
    Severity.OPEN: "Nothing is wrong in what was supplied, but not everything could be judged.",
    Severity.UNREADABLE: "An input is damaged or cannot be read.",
    Severity.INVALID: "A rule is broken.",
    Severity.FRAUD: "Signed statements contradict each other: the findings are proof of fraud.",
}


def _wrapped(style: str, lead: str, text: str) -> list[tuple[str, str]]:
    # Names and titles come from files nobody vouches for: no control character reaches a terminal.
    shown = "".join(char if char.isprintable() else " " for char in text)
    wrapped = textwrap.wrap(shown, WIDTH - len(lead), break_on_hyphens=False)
    return [(style, (lead if not n else " " * len(lead)) + line) for n, line in enumerate(wrapped)]


def _many(count: int, one: str, more: str = "") -> str:
    return f"{count:,} {one if count == 1 else more or one + 's'}"
