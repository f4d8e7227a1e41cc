"""`python -m bench.audits`: the offline audit of very large exports, by one process and by all cores.

python -m bench.audits --leaves 1000000                       makes two exports, audits them, removes them
python -m bench.audits --leaves 1000000 --folder DIR          makes them in DIR once, and leaves them there
python -m bench.audits --folder DIR --processes 2             audits what is there, by two processes alone

The exports are of two nodes whose people have made one deal after the other: real keys, signatures, trees
and policies (`tests.unit.audit.worlds`), four leaves and eight messages a deal. They are written as they are
made, so making them needs no memory. Each audit is a program of its own, so what it held at most is its own.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from indai.client.audit import audit
from indai.client.exports import FORMAT, LEDGER, CheckpointLine, End, Header, OpenLeafLine, encode
from indai.protocol.checkpoint import Checkpoint, sign_checkpoint
from indai.protocol.merkle import CompactRange, leaf_hash

from tests.unit.audit.worlds import HOUR, NOW, Deal, Node, World, write

LEAVES_A_DEAL = 4
_FLUSH = 500  # deals
_AHEAD = 8_000  # hours: a policy permits no meeting further than a year ahead
_COPY = 1 << 20


@dataclass
class _Draft:
    """One export on its way: leaves and messages each in a file of their own until the head is known."""

    node: Node
    leaves: BinaryIO
    messages: BinaryIO
    tree: CompactRange = field(default_factory=CompactRange)
    said: int = 0

    def flush(self) -> None:
        """Write what the node has got since, and forget all of it but the count."""
        node, start = self.node, self.tree.size
        for index, leaf in enumerate(node.leaves[start:], start):
            shown = node.contents[index]
            if shown is None:
                raise RuntimeError(f"leaf {index} has no content")
            line = OpenLeafLine(index, leaf, shown.owner, shown.mid, shown.envelope, shown.opening)
            self.leaves.write(encode(line))
            self.tree.append(leaf_hash(leaf))
            node.contents[index] = None
        self.messages.writelines(encode(message) for message in node.messages)
        self.said += len(node.messages)
        node.messages.clear()

    def write(self, path: Path) -> None:
        """Put it together: the head stands before what it covers."""
        node, size = self.node, self.tree.size
        vkey = node.signer().verifier.vkey
        note = sign_checkpoint(Checkpoint(node.origin, size, self.tree.root()), [node.signer()])
        header = Header(FORMAT, LEDGER, node.handle, "", node.origin, vkey, node.network, NOW)
        hashed = hashlib.sha256()
        with path.open("wb") as file:
            for piece in (encode(header), encode(CheckpointLine(note.decode())), *self._bodies()):
                hashed.update(piece)
                file.write(piece)
            file.write(encode(End(1, size, 0, self.said, hashed.digest())))

    def _bodies(self) -> Iterator[bytes]:
        for body in (self.leaves, self.messages):
            body.seek(0)
            yield from iter(lambda body=body: body.read(_COPY), b"")  # type: ignore[misc]


def make(folder: Path, leaves: int) -> None:
    """Two exports and the registry's mirror, with that many leaves or a few more."""
    folder.mkdir(parents=True, exist_ok=True)
    world = World()
    with (
        tempfile.TemporaryFile(dir=folder) as one,
        tempfile.TemporaryFile(dir=folder) as two,
        tempfile.TemporaryFile(dir=folder) as three,
        tempfile.TemporaryFile(dir=folder) as four,
    ):
        drafts = {"a": _Draft(world.a, one, two), "b": _Draft(world.b, three, four)}
        for number in range(-(-leaves // LEAVES_A_DEAL)):
            start_ms = NOW + (24 + number % _AHEAD) * HOUR
            Deal(world, number=number, start_ms=start_ms, at_ms=NOW + number).run()
            if number % _FLUSH == 0:
                for draft in drafts.values():
                    draft.flush()
        for name, draft in drafts.items():
            draft.flush()
            draft.write(folder / f"{name}.jsonl")
    # Last: whoever finds it finds the others whole.
    write(folder / "registry.jsonl", world.registry.records())


def measure(folder: Path, processes: int) -> dict[str, Any]:
    """One audit in this very process, with `processes` readers; RuntimeError when it finds anything."""
    began = time.perf_counter()
    paths = [folder / "a.jsonl", folder / "b.jsonl"]
    report = audit(paths, folder / "registry.jsonl", World().trust, processes=processes)
    seconds = time.perf_counter() - began
    if report.exit_status or len(report.commitments) * LEAVES_A_DEAL != report.counts.leaves - 2:
        raise RuntimeError(f"the audit found something: {report.findings[:3]}")
    mine, theirs = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {
        "processes": processes,
        "leaves": report.counts.leaves,
        "commitments": len(report.commitments),
        "bytes": sum(path.stat().st_size for path in paths),
        "seconds": round(seconds, 1),
        "minutes_a_million": round(seconds / report.counts.leaves * 1e6 / 60, 2),
        "processor_s": round(sum(one.ru_utime + one.ru_stime for one in (mine, theirs)), 1),
        "mb": round(mine.ru_maxrss / 1000),
        "mb_reader": round(theirs.ru_maxrss / 1000),
    }


def in_a_program_of_its_own(folder: Path, processes: int) -> dict[str, Any]:
    """`measure`, in a fresh interpreter."""
    command = [sys.executable, "-m", "bench.audits", "--folder", str(folder)]
    done = subprocess.run(
        [*command, "--here", "--processes", str(processes)], stdout=subprocess.PIPE, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def render(found: dict[str, Any]) -> str:
    """One line."""
    readers = f", {found['mb_reader']} MB the largest of its readers" if found["processes"] > 1 else ""
    return (
        f"audit, {found['processes']} at once: {found['leaves']:,} leaves,"
        f" {found['commitments']:,} commitments, {found['bytes'] / 1e9:.1f} GB"
        f" in {found['seconds']} s, {found['minutes_a_million']} min a million;"
        f" {found['processor_s']} s of processor; {found['mb']} MB at most{readers}"
    )


def _run(folder: Path, leaves: int, processes: list[int], *, as_json: bool) -> None:
    if not (folder / "registry.jsonl").exists():
        began = time.perf_counter()
        make(folder, leaves)
        print(f"two exports made in {time.perf_counter() - began:.0f} s", file=sys.stderr)
    for count in processes:
        found = in_a_program_of_its_own(folder, count)
        print(json.dumps(found) if as_json else render(found), flush=True)


def main() -> None:
    """Parse the arguments, make what is not there, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m bench.audits")
    parser.add_argument("--leaves", type=int, default=100_000, metavar="N", help="in both exports together")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where the exports are, or shall be left")
    parser.add_argument(
        "--processes", type=int, action="append", metavar="N", help="1 and all cores, if none"
    )
    parser.add_argument("--json", action="store_true", help="an object a line instead of sentences")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    processes = arguments.processes or sorted({1, os.cpu_count() or 1})
    if arguments.here:
        print(json.dumps(measure(arguments.folder, processes[0])))
    elif arguments.folder:
        _run(arguments.folder, arguments.leaves, processes, as_json=arguments.json)
    else:
        with tempfile.TemporaryDirectory(prefix="indai-audit-") as made:
            _run(Path(made) / "exports", arguments.leaves, processes, as_json=arguments.json)


if __name__ == "__main__":
    main()
