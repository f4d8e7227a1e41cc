"""No test holds up the others for ever, and what fails is told at once.

pytest's own limits (`timeout` in pyproject.toml) end when a test has failed: a fixture that then waits for
what the failed test still holds would wait until somebody ends the whole run. This one ends the worker, with
what every thread and task was waiting for; pytest-xdist reports the test as failed and starts another worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import os
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import psutil
import pytest

LIMIT_S = 420.0  # more than a test and its fixtures are given by pytest-timeout


class Watchdog:
    """A plugin: writes to what was the standard error output before pytest began to capture it."""

    def __init__(self, config: pytest.Config, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._stderr = os.dup(2)
        self._config = config

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """The whole of a test: its fixtures, itself, and what the fixtures do afterwards."""
        with self._watched(item.nodeid):
            return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One line for each failure when it happens: a run that is ended says what it had found."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and reporter is not None and not hasattr(self._config, "workerinput"):
            reporter.ensure_newline()
            reporter.write_line(f"FAILED {report.nodeid} ({report.when})", red=True)

    def pytest_unconfigure(self) -> None:
        """The run is over."""
        os.close(self._stderr)

    @contextmanager
    def _watched(self, name: str) -> Iterator[None]:
        timer = threading.Timer(self._limit_s, self._end, (name,))
        timer.daemon = True
        timer.start()
        # The timer needs the interpreter's lock; what never gives it up is ended without it, a little later.
        faulthandler.dump_traceback_later(self._limit_s + 60, file=self._stderr, exit=True)
        try:
            yield
        finally:
            timer.cancel()
            faulthandler.cancel_dump_traceback_later()

    def _end(self, name: str) -> None:
        try:
            with open(self._stderr, "w", closefd=False) as out:
                self._show(name, out)
        finally:
            with contextlib.suppress(psutil.Error):
                for child in psutil.Process().children(recursive=True):
                    child.kill()
            os._exit(1)

    def _show(self, name: str, out: TextIO) -> None:
        print(f"\n{name} did not end within {self._limit_s:g} s; this process ends.", file=out, flush=True)
        faulthandler.dump_traceback(out, all_threads=True)
        for task in [each for each in gc.get_objects() if isinstance(each, asyncio.Task)]:
            if not task.done():
                # What runs meanwhile may change while it is looked at.
                with contextlib.suppress(Exception):
                    print(
                        f"\n{task.get_name()} waits, outermost first:", *_awaits(task), sep="\n  ", file=out
                    )


def _awaits(task: asyncio.Task[Any]) -> Iterator[str]:
    """Every coroutine down to what is waited for; `Task.print_stack` shows the outermost alone."""
    waits: Any = task.get_coro()
    while waits is not None:
        if type(waits).__name__ == "async_generator_asend":
            waits = next((each for each in gc.get_referents(waits) if hasattr(each, "ag_frame")), waits)
        kind = next((each for each in ("cr", "ag", "gi") if hasattr(waits, f"{each}_frame")), "")
        frame = getattr(waits, f"{kind}_frame", None)
        if frame is None:
            yield repr(waits)
            return
        yield f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_qualname}"
        waits = getattr(waits, "gi_yieldfrom" if kind == "gi" else f"{kind}_await")
