"""Evidence of two histories among the files of an audit (`indai.client.fraud`).

A proof stands by itself. A pair of heads that is none is settled by a mirror of the registry: the heads are
compared with its tree like any others that somebody has seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from indai.client.audit.findings import Findings
from indai.client.audit.report import Place, Severity
from indai.client.audit.trees import Head
from indai.client.fraud import read_evidence
from indai.protocol.errors import IndaiError, InvalidInput
from indai.protocol.note import Verifier


def read_all(
    paths: Sequence[Path], trusted: Sequence[Verifier] | None, mirrored: bool, findings: Findings
) -> list[Head]:
    """The heads of the trusted registry in files of evidence, for its mirror's tree to be compared with.

    `trusted` are the logs that the audit was told to believe, None for nobody said; `mirrored` says that
    there is a mirror to settle what is no proof.
    """
    return [head for path in paths for head in _read(path, trusted, mirrored, findings)]


def _read(path: Path, trusted: Sequence[Verifier] | None, mirrored: bool, findings: Findings) -> list[Head]:
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
    ours = trusted is None or evidence.log in trusted
    if not ours:
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
    return [Head(small, place), Head(large, place)]
