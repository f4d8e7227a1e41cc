"""The intents of the protocol as tools: a model proposes, code validates, sends, and tells the outcome."""
