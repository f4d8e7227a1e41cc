"""The bench: forgiving of files, exact in counting, and our ranking above both of its legs."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from indai.cli.memory_bench import bench_command
from indai.memory.bench import bench
from indai.memory.bench_format import Question, load
from indai.memory.bench_run import Answer, groups, summarise
from indai.memory.bench_vectors import VectorFile
from indai.memory.embedding import LocalEmbedder
from indai.protocol.errors import InvalidInput

from bench.memory.generate import document, read

ROOT = Path(__file__).parents[3]
SET = ROOT / "bench" / "memory" / "set.json"
LOCOMO = [
    {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ana",
            "speaker_b": "Ben",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ana", "dia_id": "D1:1", "text": "Hi!"},
                {"speaker": "Ben", "dia_id": "D1:2", "text": "Look", "blip_caption": "a red kite"},
            ],
            "session_2": [{"speaker": "Ana", "dia_id": "D2:1", "text": "Bye"}],
        },
        "qa": [
            {"question": "What flew?", "answer": "a kite", "evidence": ["D1:2"], "category": 4},
            {"question": "When?", "evidence": ["D1:1; D2:1"], "category": 2},
            {"question": "Whose?", "evidence": ["D9:9"], "category": 1},
            {"question": "Never?", "evidence": [], "category": 5},
        ],
    }
]


def written(tmp_path: Path, content: Any) -> Path:
    path = tmp_path / "set.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def test_locomos_own_file_is_read(tmp_path: Path) -> None:
    (talk,) = load(written(tmp_path, LOCOMO))
    assert [(turn.id, turn.session, turn.place) for turn in talk.turns] == [
        ("D1:1", "1", 1),
        ("D1:2", "1", 2),
        ("D2:1", "2", 1),
    ]
    assert talk.turns[1].text == "Look [shares a red kite]"
    assert talk.turns[0].said_ms // 86_400_000 == 19_485  # 8 May 2023
    assert [(q.category, q.evidence) for q in talk.questions] == [
        ("single-hop", ("D1:2",)),
        ("temporal", ("D1:1", "D2:1")),
    ]
    assert talk.skipped == 2


def test_missing_fields_get_plain_defaults(tmp_path: Path) -> None:
    (talk,) = load(
        written(
            tmp_path,
            {
                "conversations": [
                    {"turns": [{"text": "a"}, {}], "questions": [{"question": "a?", "evidence": [1]}]}
                ]
            },
        )
    )
    assert [turn.id for turn in talk.turns] == ["1", "2"]
    assert talk.turns[0].said_ms < talk.turns[1].said_ms
    assert talk.questions == (Question("a?", ("1",), "all"),)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"conversations": []}', '[{"turns": 3}]', "7"])
def test_a_file_without_conversations_is_refused_in_words(tmp_path: Path, content: str) -> None:
    with pytest.raises(InvalidInput):
        load(written(tmp_path, content))


def test_counting_is_exact() -> None:
    question = Question("?", ("a", "b"), "single")
    early, late = (
        Answer(question, (2, 7), 2, 1.0),
        Answer(replace(question, category="adversarial"), (), 2, 3.0),
    )
    assert (early.recall(5), early.recall(10), early.reciprocal, late.reciprocal) == (0.5, 1.0, 0.5, 0.0)
    found = groups([early, late])
    assert found == {"all": [early], "single": [early], "adversarial": [late]}
    assert summarise([early, late]).recall == {5: 0.25, 10: 0.5, 20: 0.5}


async def test_vectors_are_kept_on_disk_and_not_computed_again(tmp_path: Path) -> None:
    class Counting:
        model, width, asked = "counting", 1, 0

        async def embed(self, texts: Any, *, query: bool) -> list[list[float]]:
            self.asked += len(texts)
            return [[float(len(text))] for text in texts]

    embedder = Counting()
    for _ in range(2):
        with contextlib.closing(VectorFile(embedder, tmp_path)) as file:
            found = await file.vectors(["a", "bb", "a"], query=False, progress=lambda done, of: None)
            assert found == {"a": [1.0], "bb": [2.0]}
    assert embedder.asked == 2


async def test_ours_is_above_both_legs_alone() -> None:
    talk = next(one for one in load(SET) if one.id == "score-2")
    with contextlib.closing(LocalEmbedder()) as embedder:
        outcome = await bench([talk], embedder, None, False, lambda what, done, of: None)
    scores = {name: summarise(given) for name, given in outcome.answers.items()}
    for cut in (5, 10):
        assert scores["ours"].recall[cut] > scores["words"].recall[cut] + 0.1
        assert scores["ours"].recall[cut] > scores["vectors"].recall[cut] + 0.03


def test_the_command_prints_every_method_and_says_what_is_missing(tmp_path: Path) -> None:
    path = written(tmp_path, LOCOMO)
    result = CliRunner().invoke(bench_command, [str(path), "--words-only", "--tune", "--json"])
    shown = json.loads(result.output)
    assert set(shown["methods"]) == {"words", "ours"}
    assert shown["skipped"] == 2
    assert shown["methods"]["words"]["all"]["questions"] == 2
    page = CliRunner().invoke(bench_command, [str(path), "--words-only"]).output
    assert "2 questions without evidence" in page


def test_the_generated_set_is_what_its_script_writes() -> None:
    topics, fill = read(ROOT / "bench" / "memory" / "topics.txt")
    splits = {
        split: {topic.name for topic in topics if topic.split == split}
        for split in ("tune", "score", "fresh")
    }
    assert sum(map(len, splits.values())) == len(set.union(*splits.values()))
    assert set(fill) == {"en", "hi", "hg"}
    assert document() == SET.read_text("utf-8")
