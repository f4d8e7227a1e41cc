"""`indai voice`: what the engines of a data directory say and hear."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.unit.cli.runs import run, run_json

needs_espeak = pytest.mark.skipif(
    shutil.which("espeak-ng") is None, reason="espeak-ng is not installed: apt-get install espeak-ng"
)


@needs_espeak
def test_what_it_says_it_hears(tmp_path: Path) -> None:
    data, sound = ("--data", str(tmp_path)), str(tmp_path / "said.wav")
    said = run_json("voice", "say", "What can you do", "--to", sound, *data)
    assert (said["language"], said["seconds"] > 0.5) == ("en", True)
    assert run_json("voice", "hear", sound, *data)["text"] == "what can you do"
    hindi = run_json("voice", "say", "नमस्ते, आप कैसे हैं?", "--to", sound, *data)
    assert hindi["language"] == "hi"
    refused = run("voice", "hear", sound, "--language", "hi", *data)
    assert refused.exit_code == 3
    assert "docs/voice.md" in refused.stderr


@needs_espeak
def test_each_engine_is_checked(tmp_path: Path) -> None:
    (tmp_path / "speech.yaml").write_text(
        'version: 1\nengines: [{kind: sarvam, api_key: "vault:env/INDAI_TEST_KEY", base_url: "http://127.0.0.1:9"}]\n'
    )
    assert run("secret", "list", "--data", str(tmp_path)).exit_code == 0
    found = run_json("voice", "check", "--data", str(tmp_path), INDAI_TEST_KEY="sk-1")
    assert [(each["engine"], each["usable"]) for each in found["engines"]] == [
        ("sarvam", False),
        ("local", True),
    ]
    assert found["usable"]


def test_a_wrong_configuration_is_named(tmp_path: Path) -> None:
    (tmp_path / "speech.yaml").write_text("version: 1\nengines: [{kind: parrot}]\n")
    refused = run("voice", "check", "--data", str(tmp_path))
    assert refused.exit_code == 2
    assert "engines.0" in refused.stderr
