"""Where people reach agents: every channel's messages in one conversation, and the answers back on it."""
