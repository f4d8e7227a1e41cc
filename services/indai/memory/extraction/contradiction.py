"""Says whether a new fact ends the validity of an old one: one home at a time, and no like beside a
dislike."""

from __future__ import annotations

from collections.abc import Mapping

from indai.memory.extraction.kin import SINGLE
from indai.memory.interfaces import Fact, Json
from indai.memory.lexical import KEY, terms

# Keys under which several facts hold side by side; under any other, the last word counts.
_SEVERAL = ("preference.like", "preference.dislike", "preference.quit", "health.allergy", "language")
_FOR, _AGAINST = "preference.like", ("preference.dislike", "preference.quit")


def contradicts(old: Fact, new: Fact) -> bool:
    """Whether both cannot hold at once, `new` having been said later. The same fact again is no
    contradiction."""
    if old.key == new.key and old.canonical == new.canonical:
        return False
    if old.key == _FOR and new.key in _AGAINST:
        return _same(old.value, new.value)
    if old.key in _AGAINST and new.key == _FOR:
        return _same(old.value, new.value)
    if old.key != new.key:
        return False
    if isinstance(new.value, Mapping) and "not" in new.value:
        return _same(old.value, new.value["not"])
    if old.key == "event":
        return _moved(old.value, new.value)
    return not _several(old.key) and not _same(old.value, new.value)


def _several(key: str) -> bool:
    """Of friends and brothers there may be many, of wives one."""
    relative = key.removeprefix("relation.")
    return key in _SEVERAL or (relative != key and "." not in relative and relative not in SINGLE)


def _same(one: Json, other: Json) -> bool:
    """The same thing in either spelling: "chai" is "चाय"."""
    if not isinstance(one, str) or not isinstance(other, str):
        return one == other
    return _keys(one) == _keys(other)


def _keys(text: str) -> set[str]:
    found = terms(text)
    return {term for term in found if term.startswith(KEY)} or set(found)


def _moved(old: Json, new: Json) -> bool:
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return False
    return old.get("what") == new.get("what") and old.get("date") != new.get("date")
