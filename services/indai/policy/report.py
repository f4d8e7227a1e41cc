"""Collects every problem of a text while reading goes on, each with its line and what to write instead."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import TypeVar

from indai.policy.source import Fields, Items, Text, Tree
from indai.policy.values import Problem
from indai.protocol.errors import InvalidInput, Reason

MAX_NAME = 40

T = TypeVar("T")


class Report:
    """Collects problems while reading goes on with harmless stand-ins. `subject`: e.g. `the policy is`."""

    def __init__(self, subject: str = "the policy is") -> None:
        self._subject = subject
        self.currency = ""  # of amounts that name none
        self._problems: list[tuple[int, str, str]] = []

    def add(self, line: int, path: str, problem: str) -> None:
        self._problems.append((line, path, problem))

    def raise_if_any(self) -> None:
        if not self._problems:
            return
        fields: dict[str, str] = {}
        for line, path, problem in sorted(self._problems):
            said = f"line {line}: {problem}"
            fields[path] = f"{fields[path]}; {said}" if path in fields else said
        line, path, problem = min(self._problems)
        more = f", and {len(self._problems) - 1} more" if len(self._problems) > 1 else ""
        message = f"{self._subject} invalid at line {line}, {path}: {problem}{more}"
        raise InvalidInput(Reason.INVALID_POLICY, message, hint="see docs/policy-language.md", fields=fields)

    def fields(self, tree: Tree, path: str, known: Iterable[str]) -> dict[str, Tree]:
        """The known fields of a mapping; the others are reported with the nearest known name."""
        if not isinstance(tree, Fields):
            self.add(tree.line, path or "policy", f"must have fields: {', '.join(known)}")
            return {}
        found: dict[str, Tree] = {}
        for key, value in tree.entries:
            if key.value in known:
                found[key.value] = value
            else:
                where = f"{path}.{key.value[:MAX_NAME]}".lstrip(".")
                self.add(
                    key.line, where, f"unknown field `{key.value[:MAX_NAME]}`{nearest(key.value, known)}"
                )
        return found

    def texts(self, tree: Tree | None, path: str) -> list[Text]:
        """One word, or a list of words."""
        items = tree.items if isinstance(tree, Items) else () if tree is None else (tree,)
        for item in items:
            if not isinstance(item, Text) or not item.value:
                self.add(item.line, path, "must be a word or a list of words")
        if isinstance(tree, Items) and not items:
            self.add(tree.line, path, "is empty; leave the field out, or write a value")
        return [item for item in items if isinstance(item, Text) and item.value]

    def value(self, tree: Tree | None, path: str, read_one: Callable[[str], T], default: T) -> T:
        """One scalar through its parser."""
        if tree is None:
            return default
        if not isinstance(tree, Text):
            self.add(tree.line, path, "must be a single value")
            return default
        try:
            return read_one(tree.value)
        except Problem as problem:
            self.add(tree.line, path, str(problem))
            return default

    def values(self, tree: Tree | None, path: str, read_one: Callable[[str], T]) -> list[T]:
        """One or several scalars through their parser."""
        found = []
        for item in self.texts(tree, path):
            try:
                found.append(read_one(item.value))
            except Problem as problem:
                self.add(item.line, path, str(problem))
        return found


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean …` or the list of what is known."""
    close = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.6)
    return f"; did you mean `{close[0]}`?" if close else f"; known here: {', '.join(known)}"


def one_of(known: tuple[str, ...]) -> Callable[[str], str]:
    """A parser for one of a few words."""

    def read_one(text: str) -> str:
        if text in known:
            return text
        raise Problem(f"`{text[:MAX_NAME]}` is not known here; write {' or '.join(known)}")

    return read_one


def printable(limit: int) -> Callable[[str], str]:
    """A parser for one line of text."""

    def read_one(text: str) -> str:
        if text.isprintable() and 0 < len(text) <= limit:
            return text
        raise Problem(f"must be 1 to {limit} characters on one line")

    return read_one


def count(least: int, most: int, instead: str) -> Callable[[str], int]:
    """A parser for a whole number; `instead`: what to do about one that is out of range."""

    def read_one(text: str) -> int:
        if text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= most:
            return int(text)
        raise Problem(f"`{text[:MAX_NAME]}` is no count from {least} to {most}; {instead}")

    return read_one
