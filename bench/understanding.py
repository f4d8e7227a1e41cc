"""How well the built-in provider understands requests: by intent, slot and language.

`python -m bench.understanding [held_out|common|development]`. A slot counts as right when its value is the
annotated one; an answer as whole when the intent and every slot are. Only `held_out` (63 requests, written
after the rules were frozen) says something about wordings that the rules have not met. `common` (305) was
written before the rules, but by the same hand minutes earlier, so the word lists hold its wordings: it guards
against regressions. `development` is what the rules are worked on with.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from indai.llm.local.understanding import understand

SETS = Path(__file__).parent / "requests"


@dataclass(frozen=True, slots=True)
class Request:
    """One annotated request; `intent` is `none` for what is no request that the provider knows."""

    language: str
    intent: str
    slots: dict[str, str]
    text: str


@dataclass(slots=True)
class Scores:
    """Counts by (what, language): the right ones, the annotated ones, and the ones given."""

    right: Counter[tuple[str, str]] = field(default_factory=Counter)
    wanted: Counter[tuple[str, str]] = field(default_factory=Counter)
    given: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def share(self, what: str, language: str = "all") -> float:
        """F1 of a slot; for `intent:…` and `whole` the share that is right."""
        right, wanted, given = (each[what, language] for each in (self.right, self.wanted, self.given))
        return 2 * right / (wanted + given) if wanted + given else 1.0


def read(name: str) -> list[Request]:
    """The requests of a set."""
    lines = (SETS / f"{name}.txt").read_text("utf-8").splitlines()
    return [_request(line) for line in lines if line and not line.startswith("#")]


def _request(line: str) -> Request:
    language, intent, slots, text = (part.strip() for part in line.split("|", 3))
    pairs = (pair.split("=", 1) for pair in slots.split(";") if pair.strip())
    return Request(language, intent, {name.strip(): value.strip() for name, value in pairs}, text)


def score(requests: Iterable[Request]) -> Scores:
    """The provider's understanding against the annotations."""
    scores = Scores()
    for request in requests:
        understood = understand(request.text)
        intent = understood.intent if understood else "none"
        slots = {name: str(value) for name, value in understood.slots.items()} if understood else {}
        _count(scores, request, intent, slots)
    return scores


def _count(scores: Scores, request: Request, intent: str, slots: dict[str, str]) -> None:
    same = intent == request.intent
    marks = [("intent", same), (f"intent:{request.intent}", same), ("whole", same and slots == request.slots)]
    for language in ("all", request.language):
        for what, right in marks:
            scores.right[what, language] += right
            scores.wanted[what, language] += 1
            scores.given[what, language] += 1
        for name in {*slots, *request.slots}:
            scores.wanted[name, language] += name in request.slots
            scores.given[name, language] += name in slots
            scores.right[name, language] += name in slots and slots[name] == request.slots.get(name)
    if not (same and slots == request.slots):
        scores.wrong.append(
            f"{request.text}\n    wanted {request.intent} {request.slots}\n    got    {intent} {slots}"
        )


def table(scores: Scores) -> str:
    """The figures as lines of a Markdown table."""
    languages = ("en", "hi", "hinglish", "all")
    rows = [
        "| what | requests | " + " | ".join(languages) + " |",
        "| --- | --- |" + " --- |" * len(languages),
    ]
    for what in sorted(
        {what for what, _ in scores.wanted}, key=lambda each: (each != "whole", ":" in each, each)
    ):
        shown = " | ".join(
            f"{scores.share(what, each):.2f}" if scores.wanted[what, each] else "-" for each in languages
        )
        rows.append(f"| {what} | {scores.wanted[what, 'all']} | {shown} |")
    return "\n".join(rows)


if __name__ == "__main__":
    chosen = sys.argv[1] if len(sys.argv) > 1 else "held_out"
    result = score(read(chosen))
    print(table(result))
    if chosen != "held_out":
        print("\n".join(result.wrong))
