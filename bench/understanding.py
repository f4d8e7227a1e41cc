"""How well the built-in provider understands requests: by intent, slot and language.

`python -m bench.understanding [held_out|challenge|fresh|roundabout|development|train]`. A slot counts as
right when its value is the annotated one; an answer as whole when the intent and every slot are. The rules
and the model of intents are made with `development`; the others were frozen in commits before the work that
they measure, and are shown only as figures. One author wrote both, so strangers' wordings will fare worse.
`train` learns the model anew.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from indai.llm.local.understanding import understand

from bench import understanding_training as training

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
        """The share of the annotated that is right; of a slot that is its recall."""
        wanted = self.wanted[what, language]
        return self.right[what, language] / wanted if wanted else 1.0

    def precision(self, what: str, language: str = "all") -> float:
        """The share of a slot's values given that are right."""
        given = self.given[what, language]
        return self.right[what, language] / given if given else 1.0


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
    """The figures as lines of a Markdown table; of slots precision and recall."""
    languages = ("en", "hi", "hinglish", "all")
    rows = [
        "| what | requests | " + " | ".join(languages) + " |",
        "| --- | --- |" + " --- |" * len(languages),
    ]
    for what in sorted(
        {what for what, _ in scores.wanted}, key=lambda each: (each != "whole", ":" in each, each)
    ):
        shown = " | ".join(_cell(scores, what, each) for each in languages)
        rows.append(f"| {what} | {scores.wanted[what, 'all']} | {shown} |")
    return "\n".join(rows)


def _cell(scores: Scores, what: str, language: str) -> str:
    if not scores.wanted[what, language]:
        return "-"
    recall = f"{scores.share(what, language):.2f}"
    if what in ("whole", "intent") or ":" in what:
        return recall
    return f"{scores.precision(what, language):.2f} / {recall}"


def main(what: str) -> None:
    """Prints the figures of a set, or trains the model of intents with the development requests."""
    if what == "train":
        examples = [(training.seen(each.text), each.intent) for each in read("development")]
        print(f"right in cross-validation: {training.crossed(examples):.3f}")
        training.write(training.train(examples), training.digest(examples))
        return
    scores = score(read(what))
    print(table(scores))
    if what == "development":
        print("\n".join(scores.wrong))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "held_out")
