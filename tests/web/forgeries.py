"""What contradicts itself, as the offline audit proves it, and forgeries of such proofs."""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass, replace
from pathlib import Path

from indai.client.audit import Report, audit
from indai.client.audit.twowords import TwoWords
from indai.client.fraud import Evidence, Prefix
from indai.client.keytie import KeyTie
from indai.protocol.envelope import parse_envelope
from indai.protocol.keys import SigningKey
from indai.protocol.logkeys import announce
from indai.protocol.note import Signer, add_signatures
from indai.v1 import envelope_pb2

from tests.unit.audit.event_lies import two_events_under_one_number
from tests.unit.audit.lies import honest, receipt_and_refusal
from tests.unit.audit.test_proofs import forked, forked_over_a_change_of_keys
from tests.unit.audit.worlds import ALICE, NODE_A, Node, World, key


@dataclass(frozen=True)
class Forged:
    """`cases`: what a file says, what it is looked at with (the mirror, whom to trust), and the step that
    fails. `heads` is a good proof and `known` what proves it; `pair` lacks its hashes; `liar` signs with a
    key that no record of its node names."""

    heads: Evidence
    known: list[Path]
    pair: Evidence
    liar: Node
    cases: tuple[tuple[bytes, list[Path], str], ...]


def claimed(world: World) -> World:
    """Its head by the former key has a line that says it were by the new one, too."""
    later, right = world.a.signer(), world.a.note

    def note(size: int) -> str:
        text = right(size)
        stolen = Signer(later.name, SigningKey.generate())
        line = add_signatures(text.encode(), [stolen]).decode().splitlines()[-1]
        *start, made = line.split(" ")
        raw = later.verifier.key_hash + b64decode(made)[4:]
        return text + (" ".join([*start, b64encode(raw).decode()]) + "\n" if size == 3 else "")

    world.a.note = note  # type: ignore[method-assign]
    return world


def told(
    folder: Path, world: World, names: tuple[str, ...] = ("a", "b")
) -> tuple[list[Path], list[Path], Report]:
    """Exports; the mirror and whom to trust; what the offline audit says, its proofs written beside them."""
    folder.mkdir()
    exports, mirror = world.write(folder, names), folder / "registry.jsonl"
    trust = folder / "network.policy"
    trust.write_text(world.trust.format())
    report = audit(exports, mirror, world.trust)
    for proof in report.proofs:
        (folder / proof.name).write_bytes(proof.content)
    return exports, [mirror, trust], report


def forge(folder: Path) -> Forged:
    """Good proofs, each bent in one place."""
    _, known, report = told(folder / "heads", forked(longer=True))
    heads = Evidence.parse(report.proofs[0].content)
    assert heads.prefix is not None
    _, tied, report = told(folder / "tied", forked_over_a_change_of_keys())
    keys = Evidence.parse(report.proofs[0].content)
    assert keys.tie is not None
    _, said, report = told(folder / "words", receipt_and_refusal())
    words = TwoWords.parse(report.proofs[0].content)
    _, _, report_of_events = told(folder / "events", two_events_under_one_number())
    event = TwoWords.parse(report_of_events.proofs[0].content)
    world = honest()
    liar = Node(NODE_A, ALICE, key("liar"), world.registry.network)
    one, other = (replace(liar, leaves=[leaf]).note(1).encode() for leaf in (b"one", b"other"))
    unsigned = parse_envelope(words.other)
    bent = envelope_pb2.Envelope.FromString(unsigned.raw)
    bent.signatures[0].sig = bytes(64)
    onward = announce(keys.log.name, key("second"), key("third"))
    wrong = Prefix(bytes(32), heads.prefix.hashes)
    pair = Evidence(heads.log, heads.smaller, heads.larger)
    same = Prefix(pair.opened(pair.smaller).root, heads.prefix.hashes)
    cases = (
        (replace(heads, larger=heads.larger[:-9] + b"AAAAAAA=\n").encode(), known, "has signed the head"),
        (replace(heads, prefix=wrong).encode(), known, "The two heads exclude each other"),
        (replace(heads, prefix=same).encode(), known, "The two heads exclude each other"),
        (
            replace(heads, larger=heads.smaller, prefix=None).encode(),
            known,
            "The two heads exclude each other",
        ),
        (Evidence.of(liar.signer().verifier, one, other).encode(), known, "whose keys these are"),
        (replace(keys, tie=replace(keys.tie, announcements=(onward,))).encode(), tied, "Both keys are those"),
        (replace(keys, tie=KeyTie(keys.tie.later)).encode(), tied, "Both keys are those"),
        (replace(keys, larger=keys.smaller).encode(), tied, "Both keys are those"),
        (TwoWords(words.one, words.one).encode(), said, "The two words exclude each other"),
        (TwoWords(words.one, bent.SerializeToString()).encode(), said, "has signed a REJECT"),
        (TwoWords(words.one, event.one).encode(), said, "The two words exclude each other"),
        (report.proofs[0].content + b" ", said, "cannot be read"),
        (heads.encode().replace(b'":"', b'": "', 1), known, "cannot be read"),
    )
    return Forged(heads, known, pair, liar, cases)
