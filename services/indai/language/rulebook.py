"""Rules and their reasons, as `indai.policy.sentences` and `indai.policy.explain` word them in English, said
again in another language.

A sentence of theirs is put together from parts: kinds, people, lengths, days, amounts. It is taken apart the
same way, each part is said by `rulewords/<language>.yaml`, and a sentence with a part that is not known is
none of theirs. What an owner has written (`say`) is nobody's to translate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Final

import yaml
from indai.language.formats import day_of_year

_NOUN: Final = "(?:meetings|sharing|questions|payments|bookings|anything)"
_NOUNS: Final = f"{_NOUN}(?:, {_NOUN})*(?: and {_NOUN})?"
_ONE: Final = r"(?:\d+ days?|\d+ h|\d+ min)(?: \d+ h)?(?: \d+ min)?"
_LENGTH: Final = f"(?:up to |at least )?{_ONE}(?: to {_ONE})?"
_SPAN: Final = r"(?=\d)(?:\d+d)?(?:\d+h)?(?:\d+m)?"
_AMOUNT: Final = r"[A-Z]{3} [\d,]+(?:\.\d+)?"
_MONEY: Final = f"(?:up to |at least |exactly )?{_AMOUNT}(?: to {_AMOUNT})?"
_COUNT: Final = r"(?:up to |at least |exactly )?\d+(?: to \d+)?"
_WORDS: Final = r"[^\s,]+(?: or [^\s,]+)*"
_DAY: Final = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_RUN: Final = f"{_DAY}(?: to {_DAY})?"
_DAYS: Final = f"{_RUN}(?:, {_RUN})*(?: and {_RUN})?"
_CLOCKS: Final = r"\d\d:\d\d-\d\d:\d\d"
_HOURS: Final = f"{_CLOCKS}(?: (?:and|or) {_CLOCKS})*"
_TIME: Final = rf"{_DAY} \d{{1,2}} \w{{3}} \d{{4}} \d\d:\d\d to \d\d:\d\d(?: on {_DAY})?"
_PEERS: Final = r"(?:verified peers|\d+ more|[^\s,]+)(?: or (?:verified peers|\d+ more|[^\s,]+))*"
_HOLES: Final = {
    "x": _COUNT,
    "m": f"{_AMOUNT}|\\d+",
    "n": r"\d+",
    "money": _MONEY,
    "w": _WORDS,
    "names": r"[^\s,]+(?:,[^\s,]+)*",
    "rest": ".+",
    "span": _SPAN,
    "length": _LENGTH,
    "hours": _HOURS,
    "days": _DAYS,
    "peers": _PEERS,
    "what": _NOUNS,
    "whom": r"an anonymous visitor|\S+",
    "thing": ".+",
    "time": _TIME,
    "condition": ".+",
}
_PLACE: Final = re.compile(r"\{(\w+)\}")
_HEAD: Final = re.compile(f"({_NOUNS})(?: of ({_LENGTH}))? with (anyone|{_PEERS})")
_RULE: Final = re.compile(r"'([^']+)' \((.*?)\)(?= and '|$)", re.DOTALL)
_WHEN: Final = re.compile(f"({_DAYS})?(?:(?:^| )({_HOURS}))?")
_MOST_PARTS: Final = 9
"""A condition has so many commas and a few more: seven days of the week."""
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Rulebook:
    """Says parts in one language; each method gives None for what is none of theirs."""

    def __init__(self, language: str, words: Mapping[str, str]) -> None:
        self._language, self._words = language, words
        self._forms = [
            (form, said) for english, said in words.items() if (form := _form(english)) is not None
        ]
        # What is more definite comes first: `of up to INR 5` is money, before it is a word.
        self._forms.sort(key=lambda each: (("<rest>" in each[0].pattern), ("<w>" in each[0].pattern)))

    def rule(self, text: str) -> str | None:
        """`meetings of up to 2 h with friends, Mon to Fri, 1 h ahead`."""
        parts = text.split(", ")
        for end in range(1, min(len(parts), _MOST_PARTS) + 1):
            found = _HEAD.fullmatch(", ".join(parts[:end]))
            if found is not None:
                break
        else:
            return None
        conditions = _all(parts[end:], ", ", self.condition)
        if conditions is None:
            return None
        whom = self._whom(found[3])
        what = self._words["{what} {whom}"].format(what=self._list(found[1]), whom=whom)
        length = [self._range(found[2], self._long)] if found[2] else []
        return ", ".join([what, *length, *conditions])

    def rules(self, text: str) -> str | None:
        """`'short' (meetings with friends) and 'late' (…)`; what its owner has written stays."""
        said, end = [], 0
        for found in _RULE.finditer(text):
            if text[end : found.start()] not in ("", " and "):
                return None
            said.append(f"‘{found[1]}’ ({self.rule(found[2]) or found[2]})")
            end = found.end()
        return f" {self._words['and']} ".join(said) if said and end == len(text) else None

    def wanted(self, text: str) -> str | None:
        """`wants meetings of up to 30 min and is about friends`."""
        said = _all(text.split(" and "), " and ", self._part)
        return f" {self._words['and']} ".join(said) if said else None

    def condition(self, text: str) -> str | None:
        """One of the conditions after people and length."""
        found = _WHEN.fullmatch(text)
        if found is not None and (found[1] or found[2]):
            days = [self._days(found[1])] if found[1] else []
            return " ".join([*days, *([self._hours(found[2])] if found[2] else [])])
        return self._part(text)

    def facts(self, text: str) -> str | None:
        """`a meeting of 2h with ind.ai/alice on Mon 23 Nov 2026 10:30 to 12:30`."""
        return self._part(text)

    def kind(self, text: str) -> str | None:
        """`a meeting`."""
        return self._words.get(text)

    def _part(self, text: str) -> str | None:
        if text in self._words and "{" not in text:
            return self._words[text]
        for form, said in self._forms:
            if found := form.fullmatch(text):
                values = {name: self._value(name, part) for name, part in found.groupdict().items()}
                if None not in values.values():
                    return said.format(**values)
        return None

    def _value(self, name: str, text: str) -> str | None:
        match name:
            case "x":
                return self._range(text, str)
            case "m" | "money":
                return self._range(text, _money)
            case "length":
                return self._range(text, self._long)
            case "span":
                return self._long(re.sub(r"(\d+)([dhm])", r"\1 \2 ", text))
            case "what":
                return self._list(text)
            case "peers":
                return self._peers(text)
            case "days":
                return self._days(text)
            case "hours":
                return self._hours(text)
            case "time":
                return self._time(text)
            case "whom":
                return self._words.get(text, text)
            case "thing":
                return self._part(text)
            case "condition":
                return self.condition(text)
            case "w":
                return text.replace(" or ", f" {self._words['or']} ")
            case _:
                return text

    def _whom(self, peers: str) -> str:
        if peers == "anyone":
            return self._words["with anyone"]
        return self._words["with {peers}"].format(peers=self._peers(peers))

    def _peers(self, text: str) -> str:
        said = [
            self._words["{n} more"].format(n=more[1])
            if (more := re.fullmatch(r"(\d+) more", one))
            else self._words.get(one, one)
            for one in text.split(" or ")
        ]
        return f" {self._words['or']} ".join(said)

    def _list(self, text: str) -> str:
        names = [self._words[name] for name in re.findall(_NOUN, text)]
        return self._joined(names)

    def _joined(self, names: Sequence[str]) -> str:
        last = f" {self._words['and']} "
        return last.join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]

    def _range(self, text: str, one: Callable[[str], str]) -> str:
        for before in ("up to", "at least", "exactly"):
            if text.startswith(f"{before} "):
                return self._words[f"{before} {{a}}"].format(a=one(text.removeprefix(f"{before} ")))
        low, to, high = text.partition(" to ")
        return self._words["{a} to {b}"].format(a=one(low), b=one(high)) if to else one(text)

    def _long(self, text: str) -> str:
        units = {"d": "days", "h": "hours", "m": "minutes"}
        parts = re.findall(r"(\d+) ([dhm])", text)
        return " ".join(f"{number} {self._words[units[unit]]}" for number, unit in parts)

    def _days(self, text: str) -> str:
        def run(days: str) -> str:
            first, to, last = days.partition(" to ")
            both = self._words["{a} to {b}"]
            return both.format(a=self._words[first], b=self._words[last]) if to else self._words[first]

        return self._joined([run(days) for days in re.findall(_RUN, text)])

    def _hours(self, text: str) -> str:
        return re.sub(r" (and|or) ", lambda found: f" {self._words[found[1]]} ", text)

    def _time(self, text: str) -> str | None:
        _, number, month, year, start, _, end, *rest = text.split(" ")
        try:
            day = day_of_year(date(int(year), _MONTHS.index(month) + 1, int(number)), self._language)
        except ValueError:  # no month, or no day of it
            return None
        return f"{day}, {start} – {end} ({self._words[rest[1]]})" if rest else f"{day}, {start} – {end}"


@cache
def rulebook(language: str) -> Rulebook | None:
    """Of a language that has one."""
    file = files("indai.language").joinpath("rulewords", f"{language}.yaml")
    return Rulebook(language, yaml.safe_load(file.read_text("utf-8"))) if file.is_file() else None


def _all(parts: Sequence[str], mark: str, say: Callable[[str], str | None]) -> list[str] | None:
    """What lies between marks, each part said; a part may hold marks itself. None unless all is known."""
    known: dict[int, list[str] | None] = {len(parts): []}
    for at in range(len(parts) - 1, -1, -1):
        known[at] = None
        for end in range(at + 1, min(len(parts), at + _MOST_PARTS) + 1):
            after = known[end]
            if after is not None and (said := say(mark.join(parts[at:end]))) is not None:
                known[at] = [said, *after]
                break
    return known[0]


def _form(english: str) -> re.Pattern[str] | None:
    if "{" not in english or english in ("{a} to {b}", "{what} {whom}"):
        return None
    parts = _PLACE.split(english)
    if any(part not in _HOLES for part in parts[1::2]):
        return None
    return re.compile(
        "".join(
            f"(?P<{part}>{_HOLES[part]})" if at % 2 else re.escape(part) for at, part in enumerate(parts)
        ),
        re.DOTALL,
    )


def _money(text: str) -> str:
    return text.replace("INR ", "₹")
