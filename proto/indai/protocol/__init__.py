"""The pure protocol: handles, envelopes, negotiation, Merkle proofs and notes. No I/O, no clock."""
