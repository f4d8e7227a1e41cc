"""The gateway to language models: providers, routing, fallback, budgets, and a row for every call."""
