"""Evidence among the files of an audit: two histories of a log (`indai.client.fraud`), or two words of one
party.

A proof stands by itself. A pair of heads that is none is settled by a mirror of the log: the heads are
compared with its tree like any others that somebody has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from indai.client.audit.findings import Findings
from indai.client.audit.registry import KeyHistory
from indai.client.audit.report import Place, Severity
from indai.client.audit.trees import Head
from indai.client.audit.twowords import MAX_FILE as MAX_WORDS
from indai.client.audit.twowords import TwoWords, is_two_words
from indai.client.exports import ledger_node
from indai.client.fraud import is_evidence, read_evidence
from indai.protocol.errors import IndaiError, InvalidInput
from indai.protocol.note import Verifier


@dataclass(frozen=True, slots=True)
class Accusations:
    """Files of evidence by whom they accuse: the registry, a ledger, or an offerer of two words."""

    registry: tuple[Path, ...] = ()
    ledgers: tuple[Path, ...] = ()
    words: tuple[Path, ...] = ()

    @classmethod
    def among(cls, paths: Sequence[Path]) -> Accusations:
        """Those among `paths`; the others are exports."""
        evidence = [path for path in paths if is_evidence(path)]
        ledgers = [path for path in evidence if _accuses_ledger(path)]
        return cls(
            tuple(path for path in evidence if path not in ledgers),
            tuple(ledgers),
            tuple(path for path in paths if is_two_words(path)),
        )

    @property
    def files(self) -> tuple[Path, ...]:
        """All of them."""
        return (*self.registry, *self.ledgers, *self.words)


def against_registry(
    paths: Sequence[Path], trusted: Sequence[Verifier] | None, mirrored: bool, findings: Findings
) -> list[Head]:
    """The heads of the trusted registry in files of evidence, for its mirror's tree to be compared with.

    `trusted` are the logs that the audit was told to believe, None for nobody said; `mirrored` says that
    there is a mirror to settle what is no proof.
    """
    believed = None if trusted is None else [one.vkey for one in trusted]
    return [head for path in paths for head in _read(path, lambda _: believed, mirrored, findings, True)]


def against_ledgers(
    paths: Sequence[Path], history: KeyHistory | None, exported: Collection[str], findings: Findings
) -> list[Head]:
    """As `against_registry`, of ledgers: their keys are those that the registry shows. `exported`
    are the logs whose exports are supplied.
    """
    heads: list[Head] = []
    for path in paths:
        if history is None:
            findings.add(
                Severity.OPEN,
                "evidence",
                Place(path.name),
                "It accuses a ledger, and no registry shows its key.",
            )
        else:
            heads += _read(path, _published(history), _log_of(path) in exported, findings, False)
    return heads


def judge_words(paths: Sequence[Path], history: KeyHistory | None, findings: Findings) -> None:
    """Proofs of two words on one commitment."""
    for path in paths:
        place = Place(path.name)
        try:
            with path.open("rb") as file:
                words = TwoWords.parse(file.read(MAX_WORDS))
            if history is None:
                findings.add(
                    Severity.OPEN, "evidence", place, "No registry shows the keys of whom it accuses."
                )
                continue
            liar, mid = words.verify(history)
        except InvalidInput as error:
            findings.add(Severity.UNREADABLE, "file", place, error.message)
        except IndaiError as error:
            findings.add(Severity.INVALID, "evidence", place, error.message)
        else:
            findings.add(Severity.FRAUD, "contradiction", place, f"{liar} signed two different words.", mid)


def _published(history: KeyHistory) -> Callable[[str], list[str]]:
    return lambda log: [vkey for origin, vkey in history.ledgers(ledger_node(log)) if origin == log]


def _accuses_ledger(path: Path) -> bool:
    return "/ledger/" in _log_of(path)


def _log_of(path: Path) -> str:
    try:
        return read_evidence(path).log.name
    except InvalidInput:
        return ""


def _read(
    path: Path,
    believed: Callable[[str], list[str] | None],
    mirrored: bool,
    findings: Findings,
    announced: bool,
) -> list[Head]:
    """Both heads of a file; `believed` are the keys of a log that count, None for any. `announced`: so does
    one that such a key has announced as the next."""
    place = Place(path.name)
    try:
        evidence = read_evidence(path)
        small, large = evidence.heads()
    except InvalidInput as error:
        findings.add(Severity.UNREADABLE, "file", place, error.message)
        return []
    except IndaiError as error:
        findings.add(Severity.INVALID, "evidence", place, error.message)
        return []
    origin = evidence.log.name
    keys = believed(origin)
    tie = evidence.tie
    later = [tie.later.vkey] if tie and not (announced and tie.announcements) else []
    if keys is not None and not {evidence.log.vkey, *later} <= set(keys):
        message = f"It accuses {origin} under a key that nobody here trusts, so it says nothing."
        findings.add(Severity.INVALID, "evidence", place, message)
        return []
    if evidence.is_proof:
        sizes = f"{small.size} and {large.size}"
        message = f"{origin} signed two histories: its heads of sizes {sizes} exclude each other."
        findings.add(Severity.FRAUD, "split-view", place, message)
    elif not mirrored:
        message = f"Whether the heads of {origin} in it belong to one history, only a mirror of it can tell."
        findings.add(Severity.OPEN, "evidence", place, message)
    notes = ((small, evidence.smaller), (large, evidence.larger))
    return [Head(head, place, note, evidence.key_of(note).vkey) for head, note in notes]
