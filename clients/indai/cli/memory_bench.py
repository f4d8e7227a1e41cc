"""`indai memory bench`: how much of what answers a question is found, on a set of conversations."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from indai.cli.framework import command, run
from indai.cli.output import Page, emit, wants_json
from indai.memory.bench import Outcome, bench
from indai.memory.bench_format import Conversation, load
from indai.memory.bench_run import CUTS, Answer, Summary, groups, summarise
from indai.memory.embedding import LocalEmbedder

_TITLES = {"words": "words alone", "vectors": "vectors alone", "ours": "ours"}


@command(
    "bench", "indai memory bench bench/memory/set.json", "indai memory bench locomo10.json --tune --json"
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--tune", is_flag=True, help="Tune weights on the other conversations.")
@click.option("--group", metavar="NAME", default="", help="Only conversations of this group.")
@click.option("--words-only", is_flag=True, help="Without the embedding model.")
@click.option("--cache", metavar="DIR", type=click.Path(path_type=Path), help="Where vectors are kept.")
@click.option("--no-cache", is_flag=True, help="Keep no vectors on disk.")
def bench_command(
    file: Path, tune: bool, group: str, words_only: bool, cache: Path | None, no_cache: bool
) -> None:
    """How much of what answers a question is found.

    FILE holds conversations, questions and the turns that answer them: see docs/memory-bench.md. LoCoMo's
    own file is read as it is.
    """
    everything = load(file)
    embedder = None if words_only else LocalEmbedder()
    kept = None if no_cache else cache or _cache()
    outcome = run(bench(everything, embedder, kept, tune, _progress))
    if embedder is not None:
        embedder.close()
    shown = [conversation for conversation in everything if group in ("", conversation.group)]
    asked = {id(question) for conversation in shown for question in conversation.questions}
    found = {
        name: groups([answer for answer in given if id(answer.question) in asked])
        for name, given in outcome.answers.items()
    }
    _emit(shown, outcome, found)


def _emit(
    conversations: Sequence[Conversation], outcome: Outcome, found: Mapping[str, Mapping[str, list[Answer]]]
) -> None:
    table = {
        name: {group: summarise(given) for group, given in parts.items() if given}
        for name, parts in found.items()
    }
    turns = sum(len(conversation.turns) for conversation in conversations)
    skipped = sum(conversation.skipped for conversation in conversations)

    def show(page: Page) -> None:
        counts = f"{len(conversations)} conversations, {turns} turns"
        page.fields(
            [
                ("set", counts),
                ("model", outcome.model or "none"),
                ("left out", f"{skipped} questions without evidence" if skipped else ""),
                ("note", f"vectors are missing: {outcome.note}" if outcome.note else ""),
            ]
        )
        for name, parts in table.items():
            page.line()
            page.line(_TITLES[name], "bold")
            header = ("", "asked", *(f"@{cut}" for cut in CUTS), "MRR", "p50 ms", "p95 ms")
            page.table(header, [_row(group, summary) for group, summary in parts.items()])
        page.line()
        page.line("@N: of the turns that answer, how many of 100 are among the first N.", "dim")

    emit(
        {
            "conversations": len(conversations),
            "turns": turns,
            "skipped": skipped,
            "model": outcome.model,
            "note": outcome.note,
            "methods": {
                name: {group: _values(summary) for group, summary in parts.items()}
                for name, parts in table.items()
            },
        },
        show,
    )


def _row(group: str, summary: Summary) -> tuple[str, ...]:
    shares = (*(summary.recall[cut] for cut in CUTS), summary.mrr)
    times = (summary.p50_ms, summary.p95_ms)
    return (
        group,
        str(summary.questions),
        *(f"{100 * share:.1f}" for share in shares),
        *(f"{taken:.1f}" for taken in times),
    )


def _values(summary: Summary) -> dict[str, Any]:
    return {
        "questions": summary.questions,
        **{f"recall@{cut}": round(summary.recall[cut], 4) for cut in CUTS},
        "mrr": round(summary.mrr, 4),
        "p50_ms": round(summary.p50_ms, 3),
        "p95_ms": round(summary.p95_ms, 3),
    }


def _progress(what: str, done: int, of: int) -> None:
    if wants_json() or not sys.stderr.isatty():
        return
    click.echo(f"\r{done} of {of} {what}" + (" " * 20 if done < of else " " * 20 + "\n"), err=True, nl=False)


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "indai"
