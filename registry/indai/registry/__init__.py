"""The handle registry and its public log."""
