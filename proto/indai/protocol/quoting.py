"""Untrusted text inside one of our sentences: quoted, escaped to ASCII and cut, so that it stays data."""

from __future__ import annotations

SHOWN = 60


def quoted(value: str | bytes, limit: int = SHOWN) -> str:
    """`value` in quotes, cut to `limit` characters, with everything outside printable ASCII escaped."""
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
    cut = text[:limit].encode("unicode_escape").decode("ascii").replace('"', '\\"')
    return f'"{cut}{"..." if len(text) > limit else ""}"'
