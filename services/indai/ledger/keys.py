"""The keys of a ledger: the one that signs, those before it, and the next one on its way.

Which key is the ledger's, its node's record in the registry says. So a key is changed in three steps, and
each may be the last before a crash:

1. the next key is made and kept, and signs nothing but its announcement, beside the key so far;
2. the node's record names it, with that announcement: an operation signed by the node's rotation key;
3. whoever reads that record has the ledger take it. The key is durably the ledger's before it signs a head.

After step 2 the change is settled: a node that was killed before step 3 takes it when it starts, or when it
reads the registry the next time.
"""

from __future__ import annotations

from typing import Protocol

from indai.protocol.errors import NotFound, Reason
from indai.protocol.keys import SigningKey
from indai.protocol.logkeys import announce
from indai.protocol.note import Signer, Verifier
from indai.tlog.signer import LogKeys


class Keeper(Protocol):
    """Keeps signing keys, so that they survive a power cut; `indai.node.keyring` does."""

    def log_keys(self, origin: str, time_name: str) -> LogKeys:
        """The first key of a log, and that of its time."""

    def has_log_keys(self, origin: str) -> bool:
        """Whether they were ever made; nothing is made by asking."""

    def later_log_keys(self, origin: str) -> list[SigningKey]:
        """Those after the first, in their order."""

    def prepared_log_key(self, origin: str) -> SigningKey | None:
        """The next one, if it was made; none of the above."""

    def prepare_log_key(self, origin: str) -> SigningKey:
        """The next one, made at the first call."""

    def release_log_key(self, origin: str) -> SigningKey:
        """Put the next one behind the others; raises NotFound."""


class LedgerKeys:
    """The keys of the ledger `origin`."""

    def __init__(self, keeper: Keeper, origin: str) -> None:
        self._keeper, self._origin = keeper, origin

    @property
    def current(self) -> LogKeys:
        """What signs."""
        return self._all()[-1]

    @property
    def former(self) -> tuple[Verifier, ...]:
        """What signed before, newest first."""
        return tuple(keys.verifier for keys in self._all()[-2::-1])

    @property
    def change(self) -> bytes:
        """The announcement of the current key by the one before it; empty for the first."""
        *_, before, now = (None, *self._all())
        return announce(self._origin, before.key, now.key) if before and now else b""

    @property
    def next(self) -> SigningKey | None:
        """The next key, if it was made."""
        return self._keeper.prepared_log_key(self._origin)

    def of_earlier(self, origin: str) -> LedgerKeys | None:
        """Those of another ledger of this node, if they are still here."""
        return LedgerKeys(self._keeper, origin) if self._keeper.has_log_keys(origin) else None

    def prepare(self) -> tuple[SigningKey, bytes]:
        """The next key, made at the first call, and its announcement."""
        key = self._keeper.prepare_log_key(self._origin)
        return key, announce(self._origin, self.current.key, key)

    def take(self, vkey: str) -> LogKeys:
        """Make the next key, which must be this one, the ledger's; durable when this returns; NotFound."""
        if self.current.verifier.vkey != vkey:
            if self.next is None or Signer(self._origin, self.next).verifier.vkey != vkey:
                raise NotFound(
                    Reason.NOT_FOUND,
                    f"{vkey} is neither the key of this ledger nor the next one that was made for it.",
                    hint="restore the directory `keys`, or make the next key: indai ledger rotate-key",
                )
            self._keeper.release_log_key(self._origin)
        return self.current

    def _all(self) -> list[LogKeys]:
        first = self._keeper.log_keys(self._origin, f"{self._origin}/clock")
        later = self._keeper.later_log_keys(self._origin)
        return [first, *(LogKeys(first.origin, key, first.time_name, first.time_key) for key in later)]
