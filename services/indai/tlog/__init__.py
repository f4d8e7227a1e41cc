"""The append-only transparency log that ledger and registry both use."""
