"""Conditions on facts as values: ranges, words, yes or no, money, budgets, counts.

Each kind of condition has one notation, which reads it, writes it back, says it, compiles it to Cedar, tests
it in Python (for explanations and windows; Cedar decides), and compares two of them (for the linter).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from indai.policy.kinds import Value
from indai.policy.money import amount, parse_amount, spoken_amount
from indai.policy.report import MAX_NAME, Report, count, one_of
from indai.policy.source import Tree
from indai.policy.values import Problem

_MAX_WORDS = 50
_WORD = re.compile(r"[^\s,\"\\]{1,100}")
_DAYS = re.compile(r"(\d{1,5})d")


@dataclass(frozen=True, slots=True)
class Limits:
    """A range, both ends included; None is no limit."""

    min: int | None = None
    max: int | None = None


@dataclass(frozen=True, slots=True)
class Words:
    """Any of these; `*` stands for any text."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Flag:
    """Yes or no."""

    on: bool


@dataclass(frozen=True, slots=True)
class Amount:
    """A range of money in one currency, minor units; another currency never matches."""

    currency: str
    min: int | None = None
    max: int | None = None


@dataclass(frozen=True, slots=True)
class Cap:
    """What was spent before and this together stay within `most` minor units; with `over`, go beyond."""

    currency: str
    most: int
    over: bool = False


@dataclass(frozen=True, slots=True)
class Below:
    """Fewer than `most` so far; with `over`, that many or more."""

    most: int
    over: bool = False


Condition = Limits | Words | Flag | Amount | Cap | Below
C = TypeVar("C", Limits, Words, Flag, Amount, Cap, Below)
Facts = Mapping[str, Value]


class Notation(Generic[C]):
    """How a condition on one fact is written, said, compiled and compared. `attribute`: the fact's name."""

    form = ""  # for the reference table

    def __init__(self, attribute: str, spoken: str) -> None:
        self.attribute = attribute
        self._spoken = spoken

    def read(self, report: Report, tree: Tree, path: str) -> C | None:
        """From YAML; None if it was reported."""
        raise NotImplementedError

    def write(self, value: C) -> Any:
        """What YAML is written from."""
        raise NotImplementedError

    def cedar(self, value: C) -> str:
        """A condition in Cedar."""
        raise NotImplementedError

    def holds(self, value: C, facts: Facts) -> bool:
        """The same in Python."""
        raise NotImplementedError

    def words(self, value: C) -> str:
        """Part of a sentence."""
        raise NotImplementedError

    def covers(self, wide: C, narrow: C) -> bool:
        """Whether all that matches `narrow` matches `wide`."""
        raise NotImplementedError

    def empty(self, value: C) -> bool:
        """Whether nothing can match."""
        return False


class Number(Notation[Limits]):
    """`{ min: 1, max: 8 }`; with `days`, `{ max: 30d }`; with `less`, this fact is taken off first."""

    form = "`{ min, max }`"

    def __init__(self, attribute: str, spoken: str, *, days: bool = False, less: str = "") -> None:
        super().__init__(attribute, spoken)
        self._days, self._less = days, less

    def read(self, report: Report, tree: Tree, path: str) -> Limits | None:
        found = report.fields(tree, path, ("min", "max"))
        reader = _days if self._days else count(0, 999_999_999, "write it in digits")
        low: int | None = report.value(found.get("min"), f"{path}.min", reader, None)
        high: int | None = report.value(found.get("max"), f"{path}.max", reader, None)
        return _ordered(report, tree, path, low, high) and Limits(low, high)

    def write(self, value: Limits) -> Any:
        unit = "d" if self._days else ""
        return _range({"min": value.min, "max": value.max}, lambda one: f"{one}{unit}" if unit else one)

    def cedar(self, value: Limits) -> str:
        left, less = f"context.{self.attribute}", f" - context.{self._less}" if self._less else ""
        low = [] if value.min is None else [f"{left}{less} >= {value.min}"]
        high = [] if value.max is None else [f"{left}{less} <= {value.max}"]
        return " && ".join([*low, *high])

    def holds(self, value: Limits, facts: Facts) -> bool:
        at = _int(facts, self.attribute) - (_int(facts, self._less) if self._less else 0)
        return within(at, value.min, value.max)

    def words(self, value: Limits) -> str:
        unit = " days" if self._days else ""
        return self._spoken.format(said_range(value.min, value.max, str) + unit)

    def covers(self, wide: Limits, narrow: Limits) -> bool:
        if self._less and wide.min is not None and narrow.min is None:
            return False  # a difference may be negative, so even `min: 0` is a limit
        return covers_range(wide.min, wide.max, narrow.min, narrow.max)


class Pattern(Notation[Words]):
    """One word or a list; `known` limits which, `wild` lets `*` stand for any text; `tags`: `tag/x` is looked
    up in that set of words.
    """

    form = "a word or a list"

    def __init__(
        self, attribute: str, spoken: str, *, known: Sequence[str] = (), wild: bool = False, tags: str = ""
    ) -> None:
        super().__init__(attribute, spoken)
        self._known, self._wild, self._tags = tuple(known), wild, tags

    def read(self, report: Report, tree: Tree, path: str) -> Words | None:
        words = report.values(tree, path, one_of(self._known) if self._known else self._word)
        if len(words) > _MAX_WORDS:
            report.add(tree.line, path, f"has {len(words)} words; at most {_MAX_WORDS}, so use a pattern")
        return Words(tuple(dict.fromkeys(words))) if words else None

    def write(self, value: Words) -> Any:
        return value.words[0] if len(value.words) == 1 else list(value.words)

    def cedar(self, value: Words) -> str:
        plain = [word for word in value.words if not self._special(word)]
        parts = [f"{_listed(plain)}.contains(context.{self.attribute})"] if plain else []
        parts += [self._one(word) for word in value.words if self._special(word)]
        return parts[0] if len(parts) == 1 else f"({' || '.join(parts)})"

    def holds(self, value: Words, facts: Facts) -> bool:
        text = str(facts[self.attribute])
        return any(self._holds(word, text, facts) for word in value.words)

    def words(self, value: Words) -> str:
        return self._spoken.format(" or ".join(value.words))

    def covers(self, wide: Words, narrow: Words) -> bool:
        return all(any(_wider(one, word) for one in wide.words) for word in narrow.words)

    def _special(self, word: str) -> bool:
        return bool(self._tags and word.startswith("tag/")) or (self._wild and "*" in word)

    def _one(self, word: str) -> str:
        if self._tags and word.startswith("tag/"):
            return f"context.{self._tags}.contains({_quoted(word.removeprefix('tag/'))})"
        return f"context.{self.attribute} like {_quoted(word)}"

    def _holds(self, word: str, text: str, facts: Facts) -> bool:
        if self._tags and word.startswith("tag/"):
            tags = facts[self._tags]
            return isinstance(tags, tuple) and word.removeprefix("tag/") in tags
        return _wider(word, text) if self._wild else word == text

    def _word(self, text: str) -> str:
        if not _WORD.fullmatch(text) or not text.isprintable():
            raise Problem(f"`{text[:MAX_NAME]}` is no word; write up to 100 characters without spaces")
        if "*" in text and (not self._wild or text.startswith("tag/")):
            raise Problem(f"`{text[:MAX_NAME]}`: * has no meaning here; write each word")
        return text


class Truth(Notation[Flag]):
    """`true` or `false`, or two words that mean them."""

    form = "`true` or `false`"

    def __init__(
        self, attribute: str, spoken: tuple[str, str], names: tuple[str, str] = ("true", "false")
    ) -> None:
        super().__init__(attribute, "")
        self._said, self._names = spoken, names
        self.form = f"`{names[0]}` or `{names[1]}`"

    def read(self, report: Report, tree: Tree, path: str) -> Flag | None:
        return Flag(report.value(tree, path, one_of(self._names), self._names[1]) == self._names[0])

    def write(self, value: Flag) -> Any:
        name = self._names[0 if value.on else 1]
        return value.on if name in ("true", "false") else name

    def cedar(self, value: Flag) -> str:
        return f"context.{self.attribute}" if value.on else f"!context.{self.attribute}"

    def holds(self, value: Flag, facts: Facts) -> bool:
        return facts[self.attribute] is value.on

    def words(self, value: Flag) -> str:
        return self._said[0 if value.on else 1]

    def covers(self, wide: Flag, narrow: Flag) -> bool:
        return wide == narrow


class Money(Notation[Amount]):
    """`{ min: 100 INR, max: 2000 INR }`."""

    form = "`{ min, max }` of money: `2000 INR`"

    def read(self, report: Report, tree: Tree, path: str) -> Amount | None:
        found = report.fields(tree, path, ("min", "max"))
        none: tuple[int | None, str] = None, ""
        low, first = report.value(found.get("min"), f"{path}.min", _money(report), none)
        high, second = report.value(found.get("max"), f"{path}.max", _money(report), none)
        if first and second and first != second:
            report.add(tree.line, path, f"min is in {first} and max in {second}; write one currency")
        if low is None and high is None and not found:
            report.add(tree.line, path, "needs min or max, like `{ max: 2000 INR }`")
            return None
        return _ordered(report, tree, path, low, high) and Amount(first or second, low, high)

    def write(self, value: Amount) -> Any:
        return _range({"min": value.min, "max": value.max}, lambda one: amount(one, value.currency))

    def cedar(self, value: Amount) -> str:
        at = f"context.{self.attribute}"
        low = [] if value.min is None else [f"{at} >= {value.min}"]
        high = [] if value.max is None else [f"{at} <= {value.max}"]
        return " && ".join([_currency(value.currency), *low, *high])

    def holds(self, value: Amount, facts: Facts) -> bool:
        same = facts["currency"] == value.currency
        return same and within(_int(facts, self.attribute), value.min, value.max)

    def words(self, value: Amount) -> str:
        said = said_range(value.min, value.max, lambda one: spoken_amount(one, value.currency))
        return self._spoken.format(said)

    def covers(self, wide: Amount, narrow: Amount) -> bool:
        same = wide.currency == narrow.currency
        return same and covers_range(wide.min, wide.max, narrow.min, narrow.max)


class Budget(Notation[Cap]):
    """`5000 INR`: this and what was spent before stay within it."""

    form = "money: `5000 INR`"

    def read(self, report: Report, tree: Tree, path: str) -> Cap | None:
        minor, currency = report.value(tree, path, _money(report), (0, ""))
        return Cap(currency, minor) if currency else None

    def write(self, value: Cap) -> Any:
        return amount(value.most, value.currency)

    def cedar(self, value: Cap) -> str:
        compare = ">" if value.over else "<="
        spent = f"context.{self.attribute} {compare} {value.most} - context.amount_minor"
        return f"{_currency(value.currency)} && {spent}"

    def holds(self, value: Cap, facts: Facts) -> bool:
        beyond = _int(facts, self.attribute) + _int(facts, "amount_minor") > value.most
        return facts["currency"] == value.currency and beyond is value.over

    def words(self, value: Cap) -> str:
        said = self._spoken.format(spoken_amount(value.most, value.currency))
        return said.replace("at most", "more than") if value.over else said

    def covers(self, wide: Cap, narrow: Cap) -> bool:
        if wide.over is not narrow.over or wide.currency != narrow.currency:
            return False
        return wide.most <= narrow.most if wide.over else wide.most >= narrow.most


class Count(Notation[Below]):
    """`4`: fewer so far."""

    form = "1 to 1000"

    def read(self, report: Report, tree: Tree, path: str) -> Below | None:
        most = report.value(tree, path, count(1, 1000, "to stop them write a deny rule"), 0)
        return Below(most) if most else None

    def write(self, value: Below) -> Any:
        return value.most

    def cedar(self, value: Below) -> str:
        return f"context.{self.attribute} {'>=' if value.over else '<'} {value.most}"

    def holds(self, value: Below, facts: Facts) -> bool:
        return (_int(facts, self.attribute) >= value.most) is value.over

    def words(self, value: Below) -> str:
        said = self._spoken.format(value.most)
        return said.replace("at most", "more than") if value.over else said

    def covers(self, wide: Below, narrow: Below) -> bool:
        if wide.over is not narrow.over:
            return False
        return wide.most <= narrow.most if wide.over else wide.most >= narrow.most


def within(at: int, low: int | None, high: int | None) -> bool:
    """Whether a number lies in a range, both ends included."""
    return (low is None or at >= low) and (high is None or at <= high)


def covers_range(low: int | None, high: int | None, inner_low: int | None, inner_high: int | None) -> bool:
    """Whether one range holds the other."""
    below = low is None or low <= 0 or (inner_low is not None and inner_low >= low)
    return below and (high is None or (inner_high is not None and inner_high <= high))


def said_range(low: int | None, high: int | None, say: Any) -> str:
    """`2 to 8`, `up to 8`, `at least 2`."""
    if low and high is not None:
        return f"{say(low)} to {say(high)}" if low != high else f"exactly {say(low)}"
    return f"up to {say(high)}" if high is not None else f"at least {say(low or 0)}"


def _ordered(report: Report, tree: Tree, path: str, low: int | None, high: int | None) -> Any:
    if low is None and high is None:
        report.add(tree.line, path, "needs min or max")
    elif low is not None and high is not None and high < low:
        report.add(tree.line, path, f"max {high} is less than min {low}; swap them")
    else:
        return True
    return None


def _range(ends: Mapping[str, int | None], show: Any) -> dict[str, Any]:
    return {name: show(value) for name, value in ends.items() if value is not None}


def _money(report: Report) -> Any:
    return lambda text: parse_amount(text, report.currency)


def _days(text: str) -> int:
    match = _DAYS.fullmatch(text.strip())
    if match:
        return int(match[1])
    raise Problem(f"`{text[:MAX_NAME]}` is no number of days; write it like 30d")


def _wider(pattern: str, word: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), word, re.DOTALL) is not None


def _int(facts: Facts, name: str) -> int:
    value = facts[name]
    return value if isinstance(value, int) else 0


def _currency(code: str) -> str:
    return f"context.currency == {_quoted(code)}"


def _listed(words: Iterable[str]) -> str:
    return f"[{', '.join(_quoted(word) for word in words)}]"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
