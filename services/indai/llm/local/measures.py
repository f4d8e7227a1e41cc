"""Reads days, times of day, durations, amounts of money and counts out of tokens. Pure: no clock, so a day
stays a word ("tomorrow", "next monday", "25 august", "25"). What each word means is in the word lists.

An hour without morning or evening is the one people meet at: 1 to 7 are in the afternoon, 8 to 12 as said.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from indai.llm.local.words import Token

_ON_A_CLOCK = 12
_DIGIT_ENDS = 10
_GIVE = ("do", "दो")  # "two" as well: "assi do" is eighty that somebody shall be given
_FIRSTS = ("first", "second", "third")
# What a number before it counts, dates or times instead of being money.
_NO_MONEY = {"unit", "oclock", "meridiem", "people", "item", "month", "ordinal", "day", "noun"}
_LATE = ("afternoon", "evening", "night", "pm")
_NOTHING = Token("", "", {})


@dataclass(slots=True)
class Measures:
    """What was found: days and times with the index of their token, and the sums of the rest."""

    days: list[tuple[int, str]] = field(default_factory=list)
    times: list[tuple[int, float, str]] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    minutes: float = 0
    amount: int = 0
    quantity: int = 0
    loose: list[float] = field(default_factory=list)

    def clock(self, position: int) -> str:
        """A time as HH:MM, by the part of the day that was said."""
        _, hour, half = self.times[position]
        part = half or (self.parts[-1] if self.parts else "")
        if (part in _LATE and hour < 12) or (not part and hour < 8):
            hour += 12
        elif part in ("am", "morning") and hour >= 12:
            hour -= 12
        return f"{int(hour):02}:{round(hour % 1 * 60):02}"

    def moment(self) -> str:
        """The last time, or else the part of the day; "" if neither was said."""
        return self.clock(-1) if self.times else (self.parts[-1] if self.parts else "")


def measure(said: Sequence[Token]) -> Measures:
    """Everything that can be measured in a message."""
    found = Measures()
    at = 0
    while at < len(said):
        at += _first(said, at, found)
    return found


def _first(said: Sequence[Token], at: int, found: Measures) -> int:
    for rule in _RULES:
        if taken := rule(said, at, found):
            return taken
    return 1


def _token(said: Sequence[Token], at: int) -> Token:
    return said[at] if 0 <= at < len(said) else _NOTHING


def _number(said: Sequence[Token], at: int) -> tuple[float, int]:
    """The number that begins here and how many tokens it takes; 0 tokens if none."""
    token = _token(said, at)
    if token.number:
        return float(token.number.replace(":", ".")), 1
    if quarter := token.means.get("quarter"):
        base, taken = _number(said, at + 1)
        return (base if taken else 1) + float(quarter), 1 + taken
    if fraction := token.means.get("fraction"):
        return float(fraction), 1
    if "number" not in token.means:
        return 0, 0
    value, second = float(token.means["number"]), _token(said, at + 1)
    taken, after = 1, second.means.get("number", "")
    if value >= 20 and value % 10 == 0 and after and int(after) < 10 and second.said not in _GIVE:
        value, taken = value + int(after), 2
    if "plus" in _token(said, at + taken).means and "scale" in _token(said, at + taken + 1).means:
        return value + 0.5, taken + 1
    return value, taken


def _day(said: Sequence[Token], at: int, found: Measures) -> int:
    """ "tomorrow", "next Monday", "इस हफ्ते", "tonight", "noon"."""
    means, after = said[at].means, _token(said, at + 1).means
    if hour := means.get("midday"):
        found.times.append((at, float(hour), "pm"))
        return 1
    if tonight := means.get("tonight"):
        found.days.append((at, "today"))
        found.parts.append(tonight)
        return 1
    beside = means.get("beside", "")
    if beside and (period := after.get("period")):
        found.days.append((at + 1, f"{beside} {period}"))
        return 2
    if beside and (day := after.get("day")):
        found.days.append((at + 1, f"next {day}" if beside == "next" and day.endswith("day") else day))
        return 2
    if day := means.get("day"):
        found.days.append((at, day))
    elif means.get("period") == "weekend":
        found.days.append((at, "this weekend"))
    elif part := means.get("part"):
        found.parts.append(part)
    else:
        return 0
    return 1


def _date(said: Sequence[Token], at: int, found: Measures) -> int:
    """ "25 August", "3rd of March", "August 25", "the 12th", "25 तारीख"."""
    if month := said[at].means.get("month"):
        number, taken = _day_of_month(said, at + 1)
        if not taken:
            return 0
        found.days.append((at + taken, f"{number} {month}"))
        return 1 + taken + ("ordinal" in _token(said, at + 1 + taken).means)
    number, taken = _day_of_month(said, at)
    if not taken:
        return 0
    ordinal = "ordinal" in _token(said, at + taken).means
    after = at + taken + ordinal + (_token(said, at + taken + ordinal).said == "of")
    if month := _token(said, after).means.get("month"):
        found.days.append((after, f"{number} {month}"))
        return after + 1 - at
    if ordinal:
        found.days.append((at + taken, str(number)))
        return taken + 1
    return 0


def _day_of_month(said: Sequence[Token], at: int) -> tuple[int, int]:
    """A number that can be a day of a month and how many tokens it takes; 0 tokens if there is none."""
    number, taken = _number(said, at)
    right = taken and 1 <= number <= 31 and number.is_integer() and ":" not in _token(said, at).number
    return (int(number), taken) if right else (0, 0)


def _time(said: Sequence[Token], at: int, found: Measures) -> int:
    """ "half past ten", "3:30 pm", "साढ़े दस बजे", "at 4", "shaam 6"."""
    if shift := said[at].means.get("clock"):
        hour, taken = _number(said, at + 1)
        return _keep_time(said, at, 1 + taken, hour + float(shift), found) if taken else 0
    hour, taken = _number(said, at)
    if not taken:
        return 0
    if any(mark in said[at].number for mark in ":."):
        whole, _, part = said[at].number.replace(":", ".").partition(".")
        hour = int(whole) + int(part) / 60 if len(part) == 2 else hour
    after, before = _token(said, at + taken).means, _token(said, at - 1).means
    marked = "oclock" in after or "meridiem" in after or ":" in said[at].number or "quarter" in said[at].means
    marked = marked or ("swapped" in after and hour <= _ON_A_CLOCK)
    if "quarter" in said[at].means and {"unit", "scale", "money", "length"} & after.keys():
        return 0
    loose = (
        hour <= _ON_A_CLOCK
        and ("at" in before or "part" in before or "tonight" in before)
        and not ({"unit", "scale", "money", "month", "ordinal", "people", "item"} & after.keys())
    )
    if not (marked or loose) or not 0 < hour < 24:
        return 0
    return _keep_time(said, at, taken, hour, found)


def _keep_time(said: Sequence[Token], at: int, taken: int, hour: float, found: Measures) -> int:
    after = _token(said, at + taken).means
    half = after.get("meridiem", "")
    found.times.append((at + taken - 1 + bool(half or "oclock" in after), hour, half))
    return taken + bool(half or "oclock" in after)


def _length(said: Sequence[Token], at: int, found: Measures) -> int:
    """ "30 min", "an hour and a half", "डेढ़ घंटा"."""
    if length := said[at].means.get("length"):
        found.minutes += int(length)
        return 1
    number, taken = _number(said, at)
    unit = _token(said, at + taken).means.get("unit") if taken else None
    if unit is None:
        return 0
    more = "plus" in _token(said, at + taken + 1).means
    found.minutes += (number + 0.5 * more) * int(unit)
    return taken + 1 + more


def _amount(said: Sequence[Token], at: int, found: Measures) -> int:
    """ "₹2,000", "1.5 lakh", "ढाई सौ रुपये", "5k", "four hundred and eighty", "do hazaar paanch sau"."""
    money = "money" in said[at].means
    number, taken = _number(said, at + money)
    if not taken:
        return 0
    end = at + money + taken
    scale = int(_token(said, end).means.get("scale", "1"))
    end += scale > 1
    value = number * scale
    while scale > 1 and (more := _smaller(said, end, scale)):
        part, scale, taken = more
        value, end = value + part, end + taken
    after = "money" in _token(said, end).means
    if not (money or value != number or after):
        return 0
    found.amount = round(value * 100)
    return end + after - at


def _smaller(said: Sequence[Token], at: int, than: int) -> tuple[float, int, int] | None:
    """What follows "two thousand": its value, its scale, its tokens. None for a time or a count."""
    start, at = at, at + (_token(said, at).said == "and")
    number, taken = _number(said, at)
    scale = int(_token(said, at + taken).means.get("scale", "1")) if taken else 1
    value, end = number * scale, at + taken + (scale > 1)
    if not taken or said[at].number or scale >= than or not 0 < value < than or not value.is_integer():
        return None
    follows, after = _token(said, end), _token(said, end).means.keys()
    if _NO_MONEY & after or follows.said in _FIRSTS or follows.said.endswith("th"):
        return None
    if scale == 1 and follows.said not in _GIVE and _number(said, end)[1]:  # "eleven thirty"
        return None
    # A single digit is "two" or "one time", and "do" is "give", unless money follows.
    if value < _DIGIT_ENDS and "money" not in after:
        return None
    return value, scale, end - start


def _count(said: Sequence[Token], at: int, found: Measures) -> int:
    """ "two rooms", "4 logon ke liye", "for six"; a number alone is kept as loose."""
    number, taken = _number(said, at)
    if not taken:
        return 0
    near = [_token(said, at + taken + step).means for step in (0, 1)]
    counted = any({"item", "people"} & means.keys() for means in near)
    said_for = _token(said, at - 1).said == "for"
    if (counted or said_for) and said[at].said not in ("a", "an"):
        found.quantity = int(number)
    elif said[at].number:
        found.loose.append(number)
    return taken


_RULES: tuple[Callable[[Sequence[Token], int, Measures], int], ...] = (
    _length,
    _date,
    _amount,
    _time,
    _day,
    _count,
)
