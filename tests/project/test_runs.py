"""How the suite is run: a test that hangs ends its worker, and a test that failed once is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import structlog
from click.testing import CliRunner

from tests.ports import free_port

ROOT = Path(__file__).parents[2]
SETTINGS = "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
WATCHED = """
from tests.watchdog import Watchdog
def pytest_configure(config):
    config.pluginmanager.register(Watchdog(config, 2.0))
"""
FILES = """
from tests.scheduling import Files
def pytest_xdist_make_scheduler(config, log):
    return Files(config, log)
"""
ENDS = """
import os
def test_before():
    pass
def test_ends():
    os._exit(1)
def test_after():
    pass
"""
HANGS = """
import asyncio, pytest
async def what_is_never_over():
    await asyncio.get_running_loop().create_future()
@pytest.fixture
async def held():
    yield
    await what_is_never_over()
async def test_fails(held):
    assert False
def test_after_it():
    pass
"""
COUNTED = """
from pathlib import Path
import pytest
def times(name):
    with open(name, "a") as file:
        file.write(".")
    return len(Path(name).read_text())
{}
"""
FAILS_ONCE = "def test_{0}():\n    assert times('{0}') > 1\n"
FAILS = "def test_{0}():\n    assert not times('{0}')\n"


def run(directory: Path, module: str, *arguments: str, conftest: str = "") -> tuple[int, str]:
    """Run a file of tests in a directory of its own; the exit status and what was shown."""
    (directory / "conftest.py").write_text(conftest)
    (directory / "test_it.py").write_text(module)
    (directory / "pytest.ini").write_text(SETTINGS)
    hidden = ("PYTEST_", "INDAI_TESTS_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    command = [sys.executable, "-m", *arguments]
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_fixture_that_never_ends_ends_its_worker_and_is_shown(tmp_path: Path, workers: str) -> None:
    status, shown = run(tmp_path, HANGS, "pytest", "-q", "-n", workers, conftest=WATCHED)
    assert status == 1, shown
    assert "FAILED test_it.py::test_fails (call)" in shown
    assert "test_it.py::test_fails did not end within 2 s" in shown
    assert " what_is_never_over\n" in shown
    if workers == "1":
        assert "1 passed" in shown


@pytest.mark.parametrize("workers", ["1", "2"])
def test_what_an_ended_worker_had_not_run_is_run_and_what_ended_it_is_not_run_again(
    tmp_path: Path, workers: str
) -> None:
    for name in ("test_1.py", "test_2.py", "test_3.py"):
        (tmp_path / name).write_text("def test_one():\n    pass\n")
    (tmp_path / "test_last.py").write_text("def test_alone():\n    pass\n")
    status, shown = run(tmp_path, ENDS, "pytest", "-q", "-n", workers, "--dist", "loadfile", conftest=FILES)
    assert status == 1
    assert "1 failed, 6 passed" in shown, shown


def test_what_fails_once_is_named_and_what_fails_twice_fails(tmp_path: Path) -> None:
    module = COUNTED.format(FAILS_ONCE.format("once"))
    status, shown = run(tmp_path, module, "tests", "-q", "-n", "1")
    assert status == 0, shown
    assert shown.endswith("UNSTEADY, failed beside the others and passed alone:\n  test_it.py::test_once\n")
    assert (tmp_path / "once").read_text() == ".."
    module += FAILS.format("always")
    status, shown = run(tmp_path, module, "tests", "-q", "-n", "1")
    assert status == 1
    assert "UNSTEADY" not in shown
    assert (tmp_path / "always").read_text() == ".."


def test_what_many_fail_is_not_tried_again(tmp_path: Path) -> None:
    module = COUNTED.format("\n".join(FAILS_ONCE.format(name) for name in "abcd"))
    status, shown = run(tmp_path, module, "tests", "-q", "-n", "1")
    assert status == 1, shown
    assert [(tmp_path / name).read_text() for name in "abcd"] == ["."] * 4


def test_what_passes_is_run_once(tmp_path: Path) -> None:
    module = COUNTED.format("def test_a():\n    assert times('a')\n")
    status, shown = run(tmp_path, module, "tests", "-q", "-n", "1")
    assert (status, (tmp_path / "a").read_text()) == (0, "."), shown


def test_another_run_is_given_none_of_our_ports() -> None:
    ours = {free_port() for _ in range(50)}
    many = f"from tests.ports import free_port; print(*(free_port() for _ in range({2_000 - 50})))"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", many], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    theirs = set(map(int, done.stdout.split()))
    assert len(theirs) > 1_000
    assert not theirs & ours


def test_what_is_logged_beside_a_command_is_no_part_of_what_it_prints() -> None:
    with CliRunner().isolation() as (out, _, _):
        structlog.get_logger().warning("said beside it")
        print("said by it", flush=True)
        printed = out.getvalue().decode()
    assert printed == "said by it\n"
