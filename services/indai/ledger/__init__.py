"""The commitment ledger: events, checkpoints, receipts, export."""
