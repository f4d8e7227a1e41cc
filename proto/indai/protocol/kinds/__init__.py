"""The kinds of intent: one module each, with what it may say, what it reserves, and how it lives on."""
