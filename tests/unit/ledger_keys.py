"""A ledger's keys in memory, for tests and benchmarks that bring the first one along."""

from __future__ import annotations

from dataclasses import dataclass, field

from indai.ledger.keys import LedgerKeys
from indai.protocol.keys import SigningKey
from indai.tlog.signer import LogKeys


@dataclass
class Held:
    """As the node's keyring, without files."""

    first: LogKeys
    later: list[SigningKey] = field(default_factory=list)
    prepared: SigningKey | None = None

    def log_keys(self, origin: str, time_name: str) -> LogKeys:
        return self.first

    def has_log_keys(self, origin: str) -> bool:
        return origin == self.first.origin

    def later_log_keys(self, origin: str) -> list[SigningKey]:
        return list(self.later)

    def prepared_log_key(self, origin: str) -> SigningKey | None:
        return self.prepared

    def prepare_log_key(self, origin: str) -> SigningKey:
        self.prepared = self.prepared or SigningKey.generate()
        return self.prepared

    def release_log_key(self, origin: str) -> SigningKey:
        key, self.prepared = self.prepared, None
        assert key is not None
        self.later.append(key)
        return key


def held(first: LogKeys) -> LedgerKeys:
    """The keys of a ledger that has had this one alone."""
    return LedgerKeys(Held(first), first.origin)
