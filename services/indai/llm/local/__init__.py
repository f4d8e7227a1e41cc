"""The built-in provider: no model, no key, no network; the same answer for the same request."""
