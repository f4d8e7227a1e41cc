"""The audit as a whole: registry, heads, ledgers and threads, then a verdict for each commitment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from indai.client.audit.commitments import Judge
from indai.client.audit.evidence import Accusations, against_ledgers, against_registry, judge_words
from indai.client.audit.facts import Ledger, Transcripts
from indai.client.audit.findings import Findings
from indai.client.audit.ledgerkeys import LedgerKeys, tied
from indai.client.audit.parts import Assembly, Readers, Scope, versions_in
from indai.client.audit.registry import KeyHistory, Progress, replay_registry
from indai.client.audit.report import CommitmentVerdict, Counts, Place, Proof, Report, Severity
from indai.client.audit.shared import seldom_collecting
from indai.client.audit.signatures import SignatureCheck
from indai.client.audit.trees import Head, TreeReplay, all_verified, contradictions
from indai.client.exports import (
    LEDGER,
    CheckpointLine,
    ErasedLeafLine,
    Header,
    LeafLine,
    OpenLeafLine,
    PeerCheckpointLine,
    ledger_node,
    read_export,
)
from indai.client.exportslices import Slice, cut
from indai.protocol.checkpoint import open_checkpoint, read_checkpoint
from indai.protocol.errors import IndaiError, InvalidInput
from indai.protocol.tlogpolicy import TlogPolicy


@seldom_collecting()
def audit(
    paths: Sequence[Path],
    registry: Path | None,
    trust: TlogPolicy | None = None,
    progress: Progress = lambda file, done: None,
    processes: int = 1,
) -> Report:
    """Judge the ledger exports in `paths` against each other and against a mirror of the registry, offline.

    `registry`: a registry's export, without which no key can be judged (INCONCLUSIVE). `trust`: whose
    registry it must be; without it the file's own key is taken. `progress(file name, records done)` is
    called now and then; with no name, of the commitments that are judged. `processes`: how many read large
    exports; more than one starts fresh interpreters, so the calling program's main module must be safe to
    import. Files of evidence against a log may stand among `paths`. Never raises for what is in a file:
    whatever is wrong with it is in the report.
    """
    findings = Findings()
    accusing, proofs = Accusations.among(paths), list[Proof]()
    paths = [path for path in paths if path not in accusing.files]
    accused = against_registry(
        accusing.registry, trust.logs if trust else None, registry is not None, findings
    )
    history, entries = None, 0
    if registry is not None:
        history, entries = replay_registry(registry, trust, findings, progress, accused, proofs)
    openings = [_open(path, history, findings) for path in paths]
    heads = [head for opening in openings for head in (*opening.heads, *opening.heard)]
    exported = {opening.header.log for opening in openings if opening.header}
    heads += against_ledgers(accusing.ledgers, history, exported, findings)
    judge_words(accusing.words, history, findings)
    proofs += contradictions(heads, findings, tied(history))
    transcripts = Transcripts()
    ledgers = []
    with Readers(_scope(openings, history), processes) as readers:
        for opening in openings:
            if opening.header is None:
                continue
            ledger = Ledger(opening.path.name, opening.header)
            own = [head for head in heads if head.checkpoint.origin == opening.header.log]
            others = [head for head in own if head not in opening.heads]
            tree = TreeReplay(ledger.file, "ledger-tree", opening.heads, others, findings, tied(history))
            assembly = Assembly(ledger, transcripts, findings)
            if _read(opening.path, readers, tree, assembly, findings, progress):
                tree.end()
            proofs += tree.proofs(partial(_leaves, opening.path))
            ledgers.append(ledger)
    signatures = SignatureCheck(history, readers.known)
    judge = Judge(ledgers, transcripts, history, signatures, findings)
    commitments = tuple(_counted(judge.judge(), progress))
    counts = Counts(
        ledgers=len(ledgers),
        leaves=sum(len(ledger.kinds) for ledger in ledgers),
        opened=sum(len(ledger.at) for ledger in ledgers),
        checkpoints=len(heads),
        threads=transcripts.threads,
        messages=transcripts.messages,
        decisions=sum(len(ledger.decided) for ledger in ledgers),
        registry_entries=entries,
    )
    proofs += [words.proof for words in judge.proofs]
    return Report(commitments, tuple(findings.found), counts, tuple(dict.fromkeys(proofs)))


def _counted(judged: Iterable[CommitmentVerdict], progress: Progress) -> Iterator[CommitmentVerdict]:
    for number, one in enumerate(judged, start=1):
        if number % 1000 == 1:
            progress("", number)
        yield one


@dataclass(frozen=True, slots=True)
class _Opening:
    """The first lines of an export: they are read for all files before any leaf is."""

    path: Path
    header: Header | None
    heads: list[Head]
    heard: list[Head] = field(default_factory=list)


def _open(path: Path, history: KeyHistory | None, findings: Findings) -> _Opening:
    header, heads, heard = None, list[Head](), list[Head]()
    try:
        for line, record in read_export(path):
            place = Place(path.name, line)
            if isinstance(record, Header):
                header = record
                keys = LedgerKeys(header, history)
                if not _is_ledger(record, place, history, findings):
                    return _Opening(path, None, [])
                for former, following in keys.unannounced():
                    message = f"The key {former} has not signed that {following} follows it."
                    findings.add(Severity.NOTE, "ledger-identity", place, message)
            elif isinstance(record, CheckpointLine) and header is not None:
                head = _head(record, header, keys, place, findings)
                heads += [head] if head else []
            elif isinstance(record, PeerCheckpointLine):
                peers = _peers_head(record, place, history, findings)
                heard += [peers] if peers else []
            else:
                break
    except IndaiError as error:
        # The lines up to here count; the whole file is read again for its leaves, and the error reported
        # then.
        if header is None:
            findings.add(Severity.UNREADABLE, "file", _place(path, error), error.message)
    for head in keys.relapses(heads) if header else ():
        message = "The head is signed with a key that the ledger had given up before."
        findings.add(Severity.INVALID, "ledger-head", head.place, message)
    return _Opening(path, header, heads, heard)


def _is_ledger(header: Header, place: Place, history: KeyHistory | None, findings: Findings) -> bool:
    if header.of != LEDGER:
        findings.add(
            Severity.UNREADABLE, "file", place, f"This is the export of a {header.of}, not of a ledger."
        )
        return False
    if history is None:
        return True
    if (header.log, header.vkey) not in set(history.ledgers(header.node)):
        message = (
            f"The registry's record of {header.node} names no ledger {header.log} with the key {header.vkey}."
        )
        findings.add(Severity.INVALID, "ledger-identity", place, message)
    if header.network != history.network:
        message = f"The export is of network {header.network}, the registry of {history.network}."
        findings.add(Severity.INVALID, "ledger-identity", place, message)
    if header.owner and header.node not in history.homes(header.owner):
        message = f"{header.owner}, whose export this is, never lived on {header.node}."
        findings.add(Severity.INVALID, "ledger-identity", place, message)
    return True


def _head(
    record: CheckpointLine, header: Header, keys: LedgerKeys, place: Place, findings: Findings
) -> Head | None:
    vkey = keys.of(record.note.encode())
    if not vkey and not keys.published:
        message = "The head is signed with a key that only the registry can vouch for."
        findings.add(Severity.OPEN, "ledger-head", place, message)
        return None
    try:
        checkpoint, cosignatures = open_checkpoint(record.note.encode(), vkey or header.vkey)
    except IndaiError as error:
        findings.add(Severity.INVALID, "ledger-head", place, error.message)
        return None
    if checkpoint.origin != header.log or not all_verified(record.note, len(cosignatures)):
        message = f"The head is not one of {header.log}, or has a signature of a key that is not known."
        findings.add(Severity.INVALID, "ledger-head", place, message)
        return None
    return Head(checkpoint, place, record.note.encode(), vkey)


def _peers_head(
    record: PeerCheckpointLine, place: Place, history: KeyHistory | None, findings: Findings
) -> Head | None:
    """A head that the exporting node heard of another one: signed by a key that one's record has named."""
    if history is None:
        return None
    note = record.note.encode()
    try:
        origin = read_checkpoint(note).origin
    except IndaiError as error:
        findings.add(Severity.INVALID, "ledger-head", place, error.message)
        return None
    for _, vkey in history.ledgers(ledger_node(origin)):
        with suppress(IndaiError):
            return Head(open_checkpoint(note, vkey)[0], place, note, vkey)
    message = f"No key that the registry shows for {origin} has signed this head."
    findings.add(Severity.INVALID, "ledger-head", place, message)
    return None


def _scope(openings: Sequence[_Opening], history: KeyHistory | None) -> Scope:
    headers = {str(opening.path): opening.header for opening in openings if opening.header}
    versions = {path: versions_in(Path(path), header) for path, header in headers.items()}
    return Scope(history, headers, versions)


def _read(
    path: Path,
    readers: Readers,
    tree: TreeReplay,
    assembly: Assembly,
    findings: Findings,
    progress: Progress,
) -> bool:
    """Read the leaves and threads; whether the file could be read to its end. What a cut-off file lacks was
    perhaps there: its heads are not held against it."""
    try:
        slices = (piece for piece in cut(path) if isinstance(piece, Slice))
        for slice_, part in readers.parts(slices):
            again = None if assembly.fits(part) else readers.again(slice_, assembly.newest_ms)
            for hashed in assembly.add(again or part):
                tree.add(hashed)
            progress(path.name, slice_.line + part.lines - 1)
    except InvalidInput as error:
        findings.add(Severity.UNREADABLE, "file", _place(path, error), error.message)
        return False
    return True


def _leaves(path: Path) -> Iterator[bytes]:
    """Every leaf once more, as far as the file can be read."""
    with suppress(IndaiError):
        for _, record in read_export(path):
            if isinstance(record, LeafLine | ErasedLeafLine | OpenLeafLine):
                yield record.leaf


def _place(path: Path, error: IndaiError) -> Place:
    return Place(path.name, int(error.metadata.get("line", "0")))
