"""Sentences that our own code has rendered in English, said in the language of the one who reads them.

Terms, reasons and errors are rendered once, in English, where they arise: what is bound is a hash over bytes,
never over words. Here their lines are recognised by the forms in `phrases/<language>.yaml` and said again. A
form's holes take only what that place can hold, so that nothing a peer has written is ever taken for a
sentence of ours; a line that is none of the forms stays as it is.

    {who}    handles                {n} {m}   numbers          {amount}   money
    {q} {p}  a peer's own words, quoted (`indai.protocol.quoting`); their letters are shown as letters
    {when}   a span of time         {at} {to} moments          {rest}     whatever is left of the line
    {rule} {rules} {facts} {wanted} {akind}  parts of a rule (see `indai.language.rulebook`)
    {noun} {kept} {event} {layer}   words of ours            {problem}  what is wrong with a rule's text
    {tick}   code                   {example}, {other_example}  code to write, without its marks
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Final

import yaml
from indai.language.catalogue import catalogue, chosen, filled
from indai.language.formats import day_of_year
from indai.language.rulebook import rulebook
from indai.language.scripts import RIGHT_TO_LEFT

ENGLISH: Final = "en"
MAX_LINE: Final = 3_000
"""Characters; what is longer is none of our lines, and is not taken apart."""
_QUOTED: Final = r'"(?:[^"\\]|\\.)*"'
_DAY: Final = r"\w{3} \d{1,2} \w{3}(?: \d{4})?"
_HOLES: Final = {
    "who": r"[\w./@+-]+(?:, [\w./@+-]+)*",
    "n": r"[\d,.]+",
    "m": r"[\d,.]+",
    "amount": r"[^\w\s]{0,3}[A-Z]{0,3}[ \u00a0]?[\d,]+(?:\.\d+)?(?: [A-Z]{3})?|free of charge",
    "q": _QUOTED,
    "p": _QUOTED,
    "when": rf"{_DAY}, \d\d:\d\d to (?:{_DAY}, )?\d\d:\d\d \([\w/+-]+\)",
    "at": rf"{_DAY}, \d\d:\d\d",
    "to": rf"{_DAY}, \d\d:\d\d",
    "rest": r"\S.*",
    "j": r"[\d,.]+",
    "k": r"[\d,.]+",
    "id": r"[^'\n]+",
    "tick": r"`[^`]*`",
    "example": r"\S[^;]*",
    "other_example": r"\S[^;]*",
    "noun": "meeting|consent|answer|request|payment|booking|matter",
    "kept": "took place|was kept to its end|was given|was resolved|was made|was provided",
    "event": "FULFIL|CANCEL|SUPERSEDE|EXPIRE|OVERDUE|DISPUTE|POST|VOID|OMIT",
    "said": rf"[A-Z_]+(?:: {_QUOTED})?|{_QUOTED}",
    "layer": "platform|organisation|owner",
    "akind": "a meeting|sharing|a question|a payment|a booking",
    **dict.fromkeys(("rule", "rules", "facts", "wanted", "problem"), r"\S.*"),
}
_OURS: Final = frozenset({"amount", "mode", "unit", "noun", "kept", "event", "layer"})
"""Holes with a word of ours, which has a form of its own."""
_TIMES: Final = ("{when}", "{when}, {q}", "{at}")
"""The same in all languages, but for the names of days and months."""
_WORD: Final = r"\w+"
_PLACE: Final = re.compile(r"\{(\w+)\}")
_DATE: Final = re.compile(r"\b\w{3} (\d{1,2}) (\w{3})(?: (\d{4}))?(?=,)")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ESCAPED: Final = re.compile(r"\\(?:\\|u([0-9a-f]{4})|U([0-9a-f]{8})|x([0-9a-f]{2}))")
_JOINERS: Final = "\u200c\u200d"  # what Indic letters are joined by, and parted
_SENTENCE: Final = re.compile(r"(?<=[.?!]) ")


def in_language(text: str, language: str) -> str:
    """`text` of ours, line by line, in the language of a BCP 47 tag; English where that has no such form."""
    known = chosen(language)
    return "\n".join(_line(line, known) for line in text.split("\n"))


def bound(text: str, language: str) -> str:
    """As `in_language`, for what binds: in a language that is a draft the English follows."""
    told, english = in_language(text, language), in_language(text, ENGLISH)
    is_draft = catalogue(chosen(language)).draft
    return f"{told}\n{english}" if is_draft and told != english else told


def phrase(english: str, language: str, **values: object) -> str:
    """One form by its English, with its places filled in; English where the language has none."""
    known = chosen(language)
    return filled(_read(known).get(english, english), values, isolate=known in RIGHT_TO_LEFT)


def forms(language: str) -> Mapping[str, str]:
    """All forms of a language that has some, by the English ones; nothing for others."""
    return _read(chosen(language))


def _line(line: str, language: str) -> str:
    body = line.lstrip(" ")
    if language == ENGLISH or not body or len(body) > MAX_LINE:
        return _letters(line)
    indent = line[: len(line) - len(body)]
    if (said := _said(body, language)) is not None:
        return indent + said
    parts = _SENTENCE.split(body)
    if len(parts) == 1:
        return _letters(line)
    said_parts = [_said(part, language) for part in parts]
    # Half in one language and half in another is worse than either.
    whole = [part for part in said_parts if part is not None]
    return indent + " ".join(whole) if len(whole) == len(parts) else _letters(line)


def _said(body: str, language: str) -> str | None:
    for prefix, form, said in _forms(language):
        if body.startswith(prefix) and (match := form.fullmatch(body)):
            values = {name: _value(name, text, language) for name, text in match.groupdict().items()}
            if None not in values.values():
                return filled(said, values, isolate=language in RIGHT_TO_LEFT)
    return None


def _value(name: str, text: str, language: str) -> str | None:
    """What is filled in; None where that place can't hold it."""
    if name in ("q", "p", "rest", "said"):
        return _letters(text)
    if name in ("when", "at", "to"):
        return _DATE.sub(lambda day: _day(day, language), text).replace(" to ", " – ")
    if name in ("example", "other_example"):
        return _examples(text, language)
    if name in ("rule", "rules", "facts", "wanted", "akind"):
        return _of_a_rule(name, text, language)
    if name == "problem":
        if text.startswith("line "):
            return None  # it is one of those already
        parts = [_said(part, language) for part in text.split("; ")]
        whole = [part for part in parts if part is not None]
        return "; ".join(whole) if len(whole) == len(parts) else None
    return (_said(text, language) if name in _OURS else None) or text


def _examples(text: str, language: str) -> str:
    """Things to write: code, with "or" between them in the language."""
    parts = re.split(r",? (?:or|and) (?:like )?", text)
    marked = [part if part.startswith("`") else f"`{part}`" for part in parts]
    return f" {_said('or', language) or 'or'} ".join(marked)


def _of_a_rule(name: str, text: str, language: str) -> str | None:
    book = rulebook(language)
    if book is None:
        return None
    say = {
        "rule": book.rule,
        "rules": book.rules,
        "facts": book.facts,
        "wanted": book.wanted,
        "akind": book.kind,
    }
    found = say[name](text)
    return None if found is None else _letters(found)


def _day(match: re.Match[str], language: str) -> str:
    number, month, year = match.groups()
    if month not in _MONTHS:
        return match[0]
    try:
        # Without a year the day of the week is not known: it is left out.
        return day_of_year(
            date(int(year or 2024), _MONTHS.index(month) + 1, int(number)), language, year=bool(year)
        )
    except ValueError:
        return match[0]


def _letters(text: str) -> str:
    """Letters of all scripts as letters; what is no letter stays escaped."""

    def one(match: re.Match[str]) -> str:
        digits = match[1] or match[2] or match[3]
        if not digits:
            return match[0]
        letter = chr(int(digits, 16))
        return letter if letter in _JOINERS or unicodedata.category(letter)[0] in "LMN" else match[0]

    return _ESCAPED.sub(one, text)


@cache
def _forms(language: str) -> tuple[tuple[str, re.Pattern[str], str], ...]:
    """(what it begins with, the form, how it is said), the longest beginnings first."""
    found = []
    for english, said in [*_read(language).items(), *((form, form) for form in _TIMES)]:
        parts, seen, pattern = _PLACE.split(english), set[str](), ""
        for at, part in enumerate(parts):
            hole = f"(?P={part})" if part in seen else f"(?P<{part}>{_HOLES.get(part, _WORD)})"
            pattern += hole if at % 2 else re.escape(part)
            seen |= {part} if at % 2 else set()
        found.append((parts[0], re.compile(pattern), said))
    # What takes whatever is left comes after what takes less.
    wide = re.compile("<(?:rest|example|problem)>")
    return tuple(sorted(found, key=lambda each: (-len(each[0]), bool(wide.search(each[1].pattern)))))


@cache
def _read(language: str) -> Mapping[str, str]:
    file = files("indai.language").joinpath("phrases", f"{language}.yaml")
    if language == ENGLISH or not file.is_file():
        return {}
    said: dict[str, str] = yaml.safe_load(file.read_text("utf-8"))
    return said
