"""What waits in a row for somebody's word or for a worker, and may stand there only sealed.

A question or a job has to keep the arguments that will run. Those that a schema marks `x-secret` or
`x-unkept` are in its row under the node key alone, bound to that row, and only until it has ended.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from indai.protocol.errors import Reason, Refused


@dataclass(frozen=True, slots=True)
class Sealer:
    """Seals bytes under the node key for a context, and opens them for the same one alone."""

    seal: Callable[[bytes, str], bytes]
    unseal: Callable[[bytes, str], bytes]


class Sealed:
    """The sealed column of one table. Without a `sealer` nothing secret can wait."""

    def __init__(self, table: str, sealer: Sealer | None) -> None:
        self._table, self._sealer = table, sealer

    def close(self, row: object, whole: Mapping[str, Any]) -> bytes:
        """Plain data, sealed for a row. Raises Refused(UNSUPPORTED) where there is no key."""
        if self._sealer is None:
            raise Refused(Reason.UNSUPPORTED, "What is secret in this call can't be kept until it runs.")
        return self._sealer.seal(json.dumps(whole).encode(), f"tools {self._table} {row}")

    def open(self, row: object, sealed: bytes) -> Mapping[str, Any]:
        """What was closed for this row. Raises IndaiError(NODE_KEY) for anything else."""
        if self._sealer is None:
            raise Refused(Reason.UNSUPPORTED, "What is secret in this call can't be read here.")
        opened: Mapping[str, Any] = json.loads(
            self._sealer.unseal(sealed, f"tools {self._table} {row}").decode()
        )
        return opened
