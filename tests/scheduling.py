"""Files of tests for pytest-xdist's workers, so that a worker that ends early holds up nobody.

xdist 3.8 gives the files of such a worker back whole: the test that ended it runs again, until no worker may
be started anew, and a file that was done is a task without tests, after which a worker hears no more and
waits for ever (https://github.com/pytest-dev/pytest-xdist/issues/1378, 1327).
"""

from __future__ import annotations

from contextlib import suppress

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController


class Files(LoadFileScheduling):
    """`--dist loadfile`. What an ended worker had not run is run by the others, but for what ended it."""

    def remove_node(self, node: WorkerController) -> str | None:
        """The test that ended the worker; None if it had nothing left to do."""
        files = self.assigned_work[node].items()
        self.assigned_work[node] = {}
        super().remove_node(node)
        left = {name: [test for test, done in tests.items() if not done] for name, tests in files}
        ended = next((tests.pop(0) for tests in left.values() if tests), None)
        for name in reversed([name for name, tests in left.items() if tests]):
            self.workqueue[name] = dict.fromkeys(left[name], False)
            self.workqueue.move_to_end(name, last=False)
        for other in self.nodes:
            self._reschedule(other)
        return ended

    def _assign_work_unit(self, node: WorkerController) -> None:
        # A worker that has ended just now takes nothing; what it was given comes back when that is heard.
        with suppress(OSError):
            super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        """A worker runs a test when it has been given the next one: with a single one it would wait."""
        if node not in self.registered_collections:
            return  # it took the place of another and is still looking for tests
        super()._reschedule(node)
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)
