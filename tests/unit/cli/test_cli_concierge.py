"""Seven files at the command line, without a node."""

from __future__ import annotations

from pathlib import Path

from indai.runtime.tiers import Kind, read_files

from tests.unit.cli.runs import run, run_json


def test_the_example_is_written_and_read_again(tmp_path: Path) -> None:
    place = tmp_path / "desk"
    assert len(run_json("agent", "example", str(place))["files"]) == 7
    made = run_json("agent", "import", str(place), "--yaml")["yaml"]
    assert [(kind, slug) for kind, slug, _ in read_files(made, "made")] == [
        (kind, "desk") for kind in (Kind.HUMAN, Kind.TEAM, Kind.AGENT, Kind.BINDING)
    ]
    assert run_json("agent", "import", str(place), "--flat")["flat"].startswith("# Where it answers")
    assert run("agent", "example", str(place)).exit_code == 2
    (place / "soul.md").rename(place / "ghost.md")
    refused = run("agent", "import", str(place), "--yaml")
    assert (refused.exit_code, "none of the seven files" in refused.stderr) == (2, True)
    assert run("agent", "import", str(tmp_path / "nowhere")).exit_code == 2
