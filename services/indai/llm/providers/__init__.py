"""Clients of the providers of language models, each in its own wire format behind one interface."""
