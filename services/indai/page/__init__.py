"""The public page of a handle: who it is, what it can do, a chat, and asking for a meeting."""
