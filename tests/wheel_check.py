"""Builds the wheel, installs it alone, and looks whether all is there: run by `make wheel-check`.

The test suite runs on the sources, so it cannot notice a file that the wheel lacks. No test for it is in the
suite because a virtual environment and a build cost a quarter of a minute.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PROJECT = Path(__file__).parents[1]
ROOTS = ("proto", "services", "node", "registry", "clients")
DATA = ("*.py", "py.typed", "*.pyi", "*.sql", "*.proto")

_IMPORT_ALL = """
import importlib, pkgutil, sys, indai
broken = []
for module in pkgutil.walk_packages(indai.__path__, "indai.", onerror=broken.append):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
assert not broken, broken
from indai.storage import migrations
assert sys.prefix in migrations.__file__, migrations.__file__
"""


def main() -> int:
    """Print what is wrong, if anything; the exit status says whether."""
    with tempfile.TemporaryDirectory() as scratch:
        wheel = _build(Path(scratch))
        missing = _sources() - set(zipfile.ZipFile(wheel).namelist())
        for name in sorted(missing):
            print(f"the wheel lacks {name}", file=sys.stderr)
        return 1 if missing else _use(Path(scratch) / "venv", wheel)


def _build(into: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", into], cwd=PROJECT, check=True
    )
    return next(into.glob("*.whl"))


def _sources() -> set[str]:
    """Every file that git knows below the roots, by its path inside the wheel."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *(f"{root}/indai/{kind}" for root in ROOTS for kind in DATA)],
        cwd=PROJECT,
        check=True,
        capture_output=True,
        text=True,
    )
    return {name.partition("/")[2] for name in listed.stdout.split("\0") if name}


def _use(venv: Path, wheel: Path) -> int:
    """Import every module of the installed wheel, and run its command, away from the sources."""
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    python, indai = str(venv / "bin/python"), str(venv / "bin/indai")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-c", PROJECT / "constraints.txt", wheel], check=True)
    for what, command in (("importing", [python, "-I", "-c", _IMPORT_ALL]), ("indai", [indai, "--version"])):
        if subprocess.run(command, cwd=venv, stdout=subprocess.DEVNULL).returncode:
            print(f"{what} failed with the wheel alone", file=sys.stderr)
            return 1
    print("the wheel is complete")
    return 0


if __name__ == "__main__":
    sys.exit(main())
