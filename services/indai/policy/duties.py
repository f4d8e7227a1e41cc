"""The obligations that a rule may carry: how each is written, for which kinds, and how it is said."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from indai.policy.kinds import ASK, KINDS, MEET, SHARE
from indai.policy.report import Report, count, one_of, printable
from indai.policy.source import Tree
from indai.policy.values import Problem, duration, parse_duration

MAX_PREFIX, MAX_BUFFER, MAX_DELAY = 40, 480, 1440
_FIELD = re.compile(r"[A-Za-z0-9_.*/-]{1,100}")


@dataclass(frozen=True, slots=True)
class Duty:
    """`read` gives the value as it stands in a decision, `write` turns that back into YAML."""

    kinds: tuple[str, ...]
    form: str
    read: Callable[[str], str]
    write: Callable[[str], str | bool | int]
    said: str
    many: bool = False


def _minutes(most: int) -> Callable[[str], str]:
    def read_one(text: str) -> str:
        minutes = parse_duration(text)
        if 1 <= minutes <= most:
            return f"{minutes}m"
        raise Problem(f"must be 1m to {duration(most)}; leave it out for none")

    return read_one


def _yes(text: str) -> str:
    if text == "true":
        return "yes"
    raise Problem(f"`{text[:20]}` is not known here; write true, or leave it out")


def _field(text: str) -> str:
    if _FIELD.fullmatch(text):
        return text
    raise Problem(f"`{text[:20]}` is no name of a field; write one like phone or address/street")


def _windows(text: str) -> str:
    return str(count(1, 20, "leave it out for no limit")(text))


def _kept(text: str) -> str:
    minutes = parse_duration(text)
    if minutes % 1440 or not 1 <= minutes // 1440 <= 3660:
        raise Problem(f"`{text[:20]}` is no number of days; write it like 30d")
    return f"{minutes // 1440}d"


def _length(value: str) -> str:
    return duration(int(value[:-1]))


def _true(value: str) -> bool:
    return value == "yes"


DUTIES: Mapping[str, Duty] = {
    "buffer": Duty((MEET,), "`1m` to `8h`", _minutes(MAX_BUFFER), _length, "with {} free around"),
    "title_prefix": Duty(
        (MEET,), f"at most {MAX_PREFIX} characters", printable(MAX_PREFIX), str, "titled '{} …'"
    ),
    "reveal_windows": Duty((MEET,), "1 to 20", _windows, int, "revealing at most {} windows"),
    "redact": Duty((SHARE, ASK), "a field or a list", _field, str, "without {}", many=True),
    "keep_at_most": Duty((SHARE,), "days: `30d`", _kept, str, "to be kept {}"),
    "cite_sources": Duty((ASK,), "`true`", _yes, _true, "naming the sources"),
    "require_receipt": Duty(KINDS, "`true`", _yes, _true, "with a receipt"),
    "tell_owner": Duty(KINDS, "`now` or `quietly`", one_of(("now", "quietly")), str, "and I am told {}"),
    "delay": Duty(KINDS, "`1m` to `24h`", _minutes(MAX_DELAY), _length, "answered {} later"),
}


def read_duties(
    report: Report, found: Mapping[str, Tree], path: str, kinds: tuple[str, ...]
) -> dict[str, str]:
    """The obligations of one rule, as they stand in a decision."""
    given: dict[str, str] = {}
    for name, duty in DUTIES.items():
        if name not in found:
            continue
        if not set(kinds) <= set(duty.kinds):
            report.add(found[name].line, f"{path}.{name}", f"has no meaning for {' and '.join(kinds)}")
        elif duty.many:
            given[name] = ",".join(sorted(set(report.values(found[name], f"{path}.{name}", duty.read))))
        else:
            given[name] = report.value(found[name], f"{path}.{name}", duty.read, "")
    return {name: value for name, value in given.items() if value}


def write_duties(obligations: Mapping[str, str]) -> dict[str, object]:
    """The inverse."""
    return {
        name: value.split(",") if DUTIES[name].many else DUTIES[name].write(value)
        for name, value in obligations.items()
    }
