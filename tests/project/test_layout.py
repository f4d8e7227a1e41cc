"""The layout that the build, the type checker and the imports rely on.

One import package `indai` grows out of several roots (PEP 420), which a single stray file can break silently.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((PROJECT / "pyproject.toml").read_text())
ROOTS = SETTINGS["tool"]["hatch"]["build"]["dev-mode-dirs"]
PACKAGES = sorted(
    path for root in ROOTS for path in (PROJECT / root / "indai").iterdir() if path.name != "__pycache__"
)


@pytest.mark.parametrize("root", ROOTS)
def test_no_root_has_an_indai_init_file_which_would_hide_the_others(root: str) -> None:
    assert (PROJECT / root / "indai").is_dir()
    assert not list((PROJECT / root / "indai").glob("__init__.py*"))
    assert not list((PROJECT / root).glob("__init__.py*"))


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(PROJECT)))
def test_every_package_is_one_and_says_that_it_is_typed(package: Path) -> None:
    assert (package / "__init__.py").is_file()
    assert (package / "py.typed").is_file()
    for inner in package.rglob("*.py"):
        assert (inner.parent / "__init__.py").is_file(), f"{inner.parent} has no __init__.py"


def test_no_package_stands_in_two_roots() -> None:
    names = [path.name for path in PACKAGES]
    assert len(names) == len(set(names))


def test_every_tool_knows_every_root() -> None:
    tool = SETTINGS["tool"]
    assert tool["hatch"]["build"]["targets"]["wheel"]["packages"] == [f"{root}/indai" for root in ROOTS]
    assert set(ROOTS) <= set(tool["pytest"]["ini_options"]["pythonpath"])
    assert set(tool["mypy"]["mypy_path"].split(":")) == set(ROOTS)
    assert set(tool["mypy"]["files"]) == {*ROOTS, "tests", "bench"}


def test_every_package_has_its_place_in_the_layers() -> None:
    linter = SETTINGS["tool"]["importlinter"]
    names = {f"indai.{path.name}" for path in PACKAGES}
    layers = next(each for each in linter["contracts"] if each["id"] == "layers")["layers"]
    assert set(linter["root_packages"]) == names
    assert {name.strip() for layer in layers for name in layer.split("|")} == names


def test_every_dependency_is_pinned_and_nothing_else_stands_in_the_constraints() -> None:
    lines = (PROJECT / "constraints.txt").read_text().split()
    pins = {line.partition("==")[0].lower().replace("_", "-") for line in lines}
    project = SETTINGS["project"]
    asked = [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
    ]
    names = {re.split("[=>;]", each)[0].strip().lower().replace("_", "-") for each in asked}
    assert all("==" in line for line in lines), "a line that is no pin"
    assert names <= pins, "a dependency without a pin"


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's shape with a type error and a forbidden import in each root."""
    copy = tmp_path_factory.mktemp("planted")
    shutil.copy(PROJECT / "pyproject.toml", copy)
    for root in SETTINGS["tool"]["mypy"]["files"]:
        place = copy / root / "indai" / f"in_{root}" if root in ROOTS else copy / root
        place.mkdir(parents=True)
        (place / "__init__.py").touch()
        (place / "planted.py").write_text("def wrong(number: int) -> str:\n    return number\n")
    return copy


def test_the_type_checker_finds_an_error_in_every_root(planted: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(planted / "cache")],
        cwd=planted,
        capture_output=True,
        text=True,
        timeout=120,
    )
    found = {line.split("/")[0] for line in run.stdout.splitlines() if "[return-value]" in line}
    assert run.returncode == 1, run.stdout + run.stderr
    assert found == set(SETTINGS["tool"]["mypy"]["files"]), run.stdout


def test_the_protocol_may_not_import_a_transport_a_clock_or_a_database(tmp_path: Path) -> None:
    place = tmp_path / "indai"
    shutil.copytree(
        PROJECT / "proto" / "indai" / "protocol",
        place / "protocol",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    contract = next(
        each for each in SETTINGS["tool"]["importlinter"]["contracts"] if each["id"] == "pure-protocol"
    )
    names = ", ".join(f'"{name}"' for name in contract["forbidden_modules"])
    (tmp_path / "pyproject.toml").write_text(
        "[tool.importlinter]\ninclude_external_packages = true\nroot_packages = ['indai.protocol']\n"
        "[[tool.importlinter.contracts]]\nid = 'pure'\nname = 'pure'\ntype = 'forbidden'\n"
        f"source_modules = ['indai.protocol']\nforbidden_modules = [{names}]\nallow_indirect_imports = true\n"
    )
    assert _lint_imports(tmp_path) == 0
    with (place / "protocol" / "handles.py").open("a") as module:
        module.write("\nimport time\n")
    assert _lint_imports(tmp_path) == 1


def _lint_imports(at: Path) -> int:
    code = "from importlinter.cli import lint_imports; import sys; sys.exit(lint_imports(no_cache=True))"
    return subprocess.run(
        [sys.executable, "-c", code], cwd=at, env={"PYTHONPATH": str(at)}, capture_output=True, timeout=60
    ).returncode
