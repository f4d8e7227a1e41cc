"""From YAML to the sections of a policy: visibility, budgets, tone, escalation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from indai.policy.conditions import Amount, Below, Cap, Pattern, Words
from indai.policy.fields import FIELDS, fields_of
from indai.policy.kinds import BOOK, KINDS, PAY, SHARE
from indai.policy.money import parse_amount
from indai.policy.report import MAX_NAME, Report, one_of, printable
from indai.policy.rule import Effect
from indai.policy.ruletext import Circles, read_hours, read_id, read_kinds, read_peers, read_where
from indai.policy.sections import CALENDAR_LEVELS, LIMITS, Budget, Escalation, Section, Tone, Visibility
from indai.policy.source import Fields, Items, Tree
from indai.policy.values import Problem, duration, parse_duration

SECTIONS = ("visibility", "budgets", "tone", "escalation")
_COMMON = tuple(name for name in fields_of(KINDS) if not FIELDS[name].counts)
_SHARED = tuple(name for name in fields_of((SHARE,)) if name != "items" and not FIELDS[name].counts)
SECTION_FIELDS: Mapping[str, tuple[str, ...]] = {
    "visibility": ("id", "to", "profile", "documents", "memories", "calendar", "redact", *_SHARED),
    "budgets": ("id", "for", "with", *LIMITS, "beyond"),
    "tone": ("id", "with", "style", "language", *_COMMON),
    "escalation": ("id", "for", "with", "deadline", "quiet_hours", "notify", "via", *_COMMON),
}
_MAX_STYLE, _MAX_DEADLINE = 200, 14 * 1440
_NAMES = Pattern("item", "", wild=True)

S = TypeVar("S")


def read_sections(report: Report, top: Mapping[str, Tree], circles: Circles) -> tuple[Section, ...]:
    """All entries of all sections, in the order of SECTIONS; an escalation may be written without a list."""
    readers: dict[str, Callable[[Report, Tree, str, int, Circles], Section | None]] = {
        "visibility": _visibility,
        "budgets": _budget,
        "tone": _tone,
        "escalation": _escalation,
    }
    found: list[Section] = []
    for name, read_one in readers.items():
        tree = top.get(name)
        if tree is None:
            continue
        items = tree.items if isinstance(tree, Items) else (tree,) if isinstance(tree, Fields) else ()
        if not items:
            report.add(tree.line, name, "must be a list of entries, each with its fields")
        for number, item in enumerate(items, start=1):
            entry = read_one(report, item, f"{name}[{number}]", number, circles)
            if entry is not None:
                found.append(entry)
    return tuple(found)


def language_tag(text: str) -> str:
    """RFC 5646, as far as the form of a subtag goes. Raises Problem."""
    head, *rest = text.split("-")
    well_formed = head.isascii() and head.isalpha() and head.islower() and 2 <= len(head) <= 3
    if well_formed and all(part.isascii() and part.isalnum() and 2 <= len(part) <= 8 for part in rest):
        return text
    raise Problem(f"`{text[:MAX_NAME]}` is no language tag; write one like en, hi or en-IN")


def _visibility(report: Report, tree: Tree, path: str, number: int, circles: Circles) -> Section | None:
    found = report.fields(tree, path, SECTION_FIELDS["visibility"])
    names = {
        part: read.words if (read := _names(report, found.get(part), f"{path}.{part}")) else ()
        for part in ("profile", "documents", "memories", "redact")
    }
    level = report.value(found.get("calendar"), f"{path}.calendar", one_of(CALENDAR_LEVELS), "")
    peers = read_peers(report, tree.line, found, path, circles, needed=True, name="to")
    if not level and not any(names[part] for part in ("profile", "documents", "memories")):
        report.add(tree.line, path, "shows nothing; write profile, documents, memories or calendar")
        return None
    where = read_where(report, found, path, (SHARE,))
    return Visibility(
        read_id(report, found, path, f"visibility-{number}"),
        peers,
        **names,
        calendar=level,
        where=where,
        line=tree.line,
    )


def _names(report: Report, tree: Tree | None, path: str) -> Words | None:
    return None if tree is None else _NAMES.read(report, tree, path)


def _budget(report: Report, tree: Tree, path: str, number: int, circles: Circles) -> Section | None:
    found = report.fields(tree, path, SECTION_FIELDS["budgets"])
    kinds = read_kinds(report, found.get("for"), f"{path}.for") or (PAY, BOOK)
    if not set(kinds) <= {PAY, BOOK}:
        report.add(found["for"].line, f"{path}.for", "must be pay, book or both")
        kinds = (PAY,)
    limits: dict[str, Amount | Cap | Below] = {}
    for name in LIMITS:
        if name in found and (limit := _limit(report, found[name], f"{path}.{name}", name)):
            limits[name] = limit
        if name in ("per_payee", "payments") and name in found and PAY not in kinds:
            report.add(found[name].line, f"{path}.{name}", "has no meaning for bookings")
    if not limits:
        report.add(tree.line, path, f"has no limit; write one of {', '.join(LIMITS)}")
    beyond = report.value(found.get("beyond"), f"{path}.beyond", one_of(("refuse", "ask")), "refuse")
    return Budget(
        read_id(report, found, path, f"budget-{number}"),
        kinds,
        limits,
        Effect.ASK if beyond == "ask" else Effect.DENY,
        read_peers(report, tree.line, found, path, circles, needed=False),
        line=tree.line,
    )


def _limit(report: Report, tree: Tree, path: str, name: str) -> Amount | Cap | Below | None:
    if name == "payments":
        below = FIELDS[name].notation.read(report, tree, path)
        return Below(below.most, over=True) if below else None
    none: tuple[int, str] = 0, ""
    minor, currency = report.value(tree, path, lambda text: parse_amount(text, report.currency), none)
    if not currency:
        return None
    return Amount(currency, min=minor + 1) if name == "per_payment" else Cap(currency, minor, over=True)


def _tone(report: Report, tree: Tree, path: str, number: int, circles: Circles) -> Section | None:
    found = report.fields(tree, path, SECTION_FIELDS["tone"])
    if "style" not in found and "language" not in found:
        report.add(tree.line, path, "says nothing; write style or language")
    return Tone(
        read_id(report, found, path, f"tone-{number}"),
        read_peers(report, tree.line, found, path, circles, needed=False),
        report.value(found.get("style"), f"{path}.style", printable(_MAX_STYLE), ""),
        report.value(found.get("language"), f"{path}.language", language_tag, ""),
        read_where(report, found, path, KINDS),
        line=tree.line,
    )


def _escalation(report: Report, tree: Tree, path: str, number: int, circles: Circles) -> Section | None:
    found = report.fields(tree, path, SECTION_FIELDS["escalation"])
    if not {"deadline", "quiet_hours", "notify", "via"} & set(found):
        report.add(tree.line, path, "says nothing; write deadline, quiet_hours, notify or via")
    return Escalation(
        read_id(report, found, path, f"escalation-{number}"),
        read_peers(report, tree.line, found, path, circles, needed=False),
        read_kinds(report, found.get("for"), f"{path}.for") or KINDS,
        report.value(found.get("deadline"), f"{path}.deadline", _deadline, 0),
        read_hours(report, found.get("quiet_hours"), f"{path}.quiet_hours"),
        report.value(found.get("notify"), f"{path}.notify", one_of(("now", "quietly")), ""),
        report.value(found.get("via"), f"{path}.via", _channel, ""),
        read_where(report, found, path, KINDS),
        line=tree.line,
    )


def _deadline(text: str) -> int:
    minutes = parse_duration(text)
    if 1 <= minutes <= _MAX_DEADLINE:
        return minutes
    raise Problem(f"must be 1m to {duration(_MAX_DEADLINE)}")


def _channel(text: str) -> str:
    if 0 < len(text) <= MAX_NAME and all(one.islower() or one.isdigit() or one == "-" for one in text):
        return text
    raise Problem(f"`{text[:MAX_NAME]}` is no channel; write one like whatsapp or web")
