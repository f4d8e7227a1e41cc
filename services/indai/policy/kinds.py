"""The five kinds of intent and the facts that a host states about each: names, types and defaults.

One table makes the Cedar schema, checks what a host states, and says which conditions a rule may have.
A fact without a default must be stated: a payment whose amount nobody gave is an error, not a small one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from indai.protocol.errors import InvalidInput, Reason

MEET, SHARE, ASK, PAY, BOOK = KINDS = ("meet", "share", "ask", "pay", "book")
NOUNS = {MEET: "meetings", SHARE: "sharing", ASK: "questions", PAY: "payments", BOOK: "bookings"}
TIMED = (MEET, BOOK)  # kinds with a time of their own; the others happen now
Value = int | bool | str | tuple[str, ...]
MAX_INT = 2**53  # what JSON carries exactly; sums of two stay far from overflow
_MAX_TEXT, _MAX_WORDS = 300, 100

# Facts about every request: who asks, from where, and how often.
COMMON: Mapping[str, Value] = MappingProxyType(
    {
        "channel": "agent",
        "door": "agent",
        "outgoing": False,
        "relationship": "",
        "known_days": 0,
        "trust": 0,
        "hops": 0,
        "depth": 0,
        "from_peer_today": 0,
    }
)
# Facts about one kind: a type must be stated, a value is what counts if it is not.
_DETAILS: Mapping[str, Mapping[str, Value | type]] = {
    MEET: {"attendees": 2, "recurring": False},
    SHARE: {"item": str, "tags": (), "purpose": "", "retention_days": 0, "recurring": False},
    ASK: {"topic": str, "is_request": False, "department": ""},
    PAY: {
        "direction": str, "amount_minor": int, "currency": str, "payee": str, "payee_verified": False,
        "spent_today_minor": 0, "spent_month_minor": 0, "spent_payee_minor": 0, "payments_today": 0,
        "mandate": False, "purpose": "",
    },
    BOOK: {
        "sku": str, "quantity": int, "amount_minor": int, "currency": str, "spent_today_minor": 0,
        "spent_month_minor": 0, "stock_left": 0,
    },
}  # fmt: skip
_TYPES = {bool: "Bool", int: "Long", str: "String", tuple: "Set<String>"}


def types_of(kind: str) -> dict[str, type]:
    """Name -> type of every fact of the kind's own."""
    return {name: one if isinstance(one, type) else type(one) for name, one in _DETAILS[kind].items()}


def complete(kind: str, stated: Mapping[str, Value]) -> dict[str, Value]:
    """The kind's own facts with defaults. Raises InvalidInput(INVALID_ARGUMENT) naming every wrong one."""
    known = _DETAILS.get(kind)
    if known is None:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"{kind!r} is no kind of intent.",
            fields={"kind": f"must be one of {', '.join(KINDS)}"},
        )
    wrong = {name: f"is no fact about {NOUNS[kind]}" for name in stated if name not in known}
    found: dict[str, Value] = {}
    for name, default in known.items():
        needed = isinstance(default, type)
        value: Value = stated.get(name, "" if isinstance(default, type) else default)
        problem = _problem(value, default if isinstance(default, type) else type(default), needed=needed)
        found[name] = value
        if problem:
            wrong[name] = problem
    if kind == PAY and found["direction"] not in ("request", "offer"):
        wrong["direction"] = "must be request or offer"
    raise_if(wrong, kind)
    return found


def check_common(stated: Mapping[str, Value]) -> None:
    """Raises InvalidInput(INVALID_ARGUMENT) for a common fact of the wrong type or range."""
    raise_if(
        {
            name: problem
            for name, value in stated.items()
            if (problem := _problem(value, type(COMMON[name]), needed=False))
        },
        "common",
    )


def raise_if(wrong: Mapping[str, str], kind: str) -> None:
    """One error for all wrong facts."""
    if wrong:
        name, why = next(iter(wrong.items()))
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"The fact {kind}.{name} {why}.", fields=dict(wrong))


def schema(shared: Mapping[str, str], days: str) -> str:
    """The Cedar schema: an action for each kind. `shared`: attributes of every context with their types."""
    actions = []
    for kind in KINDS:
        context = dict(shared) | {name: _TYPES[type(default)] for name, default in COMMON.items()}
        context |= {name: _TYPES[one] for name, one in types_of(kind).items()}
        listed = ", ".join(f"{name}: {one}" for name, one in context.items())
        actions.append(
            f"action {kind} appliesTo {{\n  principal: Peer,\n  resource: Agent,\n"
            f"  context: {{ {listed} }},\n}};\n"
        )
    return days + "".join(actions)


def _problem(value: object, wanted: type, *, needed: bool) -> str:
    if type(value) is not wanted:
        return "is missing" if needed and value == "" else f"must be {_TYPES[wanted]}"
    if isinstance(value, bool):
        return ""
    if isinstance(value, int):
        return "" if 0 <= value <= MAX_INT else "must be between 0 and 2^53"
    if isinstance(value, str):
        if needed and not value:
            return "is missing"
        return "" if len(value) <= _MAX_TEXT else f"must have at most {_MAX_TEXT} characters"
    return _words_problem(value) if isinstance(value, tuple) else ""


def _words_problem(words: Sequence[object]) -> str:
    if len(words) > _MAX_WORDS or not all(isinstance(word, str) and len(word) <= _MAX_TEXT for word in words):
        return f"must be at most {_MAX_WORDS} short texts"
    return ""
