"""What an owner may write, and what they are told when it is wrong."""

from __future__ import annotations

import contextlib
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.client.decisions import Outcome
from indai.policy.compiled import cautious_policy, compile_policy
from indai.policy.language import parse
from indai.policy.rules import Effect, Limits
from indai.policy.values import (
    Hours,
    Problem,
    duration,
    merge_hours,
    parse_duration,
    parse_hours,
    parse_weekdays,
    spoken,
)
from indai.protocol.errors import InvalidInput, Reason

HEAD = "version: 1\ntimezone: Asia/Kolkata\ncircles: { friends: [ind.ai/bob] }\nrules:\n"
RULE = "  - allow: meet\n    with: friends\n"


def problems(text: str) -> dict[str, str]:
    with pytest.raises(InvalidInput) as raised:
        compile_policy(text)
    assert raised.value.reason is Reason.INVALID_POLICY
    return raised.value.fields


def test_every_field_is_read() -> None:
    rules = parse(
        HEAD.replace("rules:", "language: en-IN\ndefaults: { unmatched: ask }\nrules:")
        + "  - id: short\n    say: Short ones\n    allow: [meet]\n    with: [friends, acme.com/*, verified]\n"
        "    duration: { min: 5m, max: 1h30m }\n    hours: ['10:00-12:00', 12:00-14:00, 20:00 to 24:00]\n"
        "    weekdays: [Monday, fri-sun]\n    notice: { min: 2h, max: 30d }\n    daily_limit: 4\n"
        "    buffer: 10m\n    title_prefix: 'Ind: '\n"
    )
    (rule,) = rules.rules
    assert (rules.time_zone, rules.language, rules.unmatched) == ("Asia/Kolkata", "en-IN", Outcome.ASK)
    assert (rule.id, rule.say, rule.effect) == ("short", "Short ones", Effect.ALLOW)
    assert rule.peers == ("friends", "acme.com/*", "verified")
    assert (rule.duration, rule.notice) == (Limits(5, 90), Limits(120, 43200))
    assert rule.hours == (Hours(600, 840), Hours(1200, 1440))
    assert rule.weekdays == ("mon", "fri", "sat", "sun")
    assert rule.daily_limit == 4
    assert rule.obligations == {"buffer": "10m", "title_prefix": "Ind: "}


def test_all_problems_are_told_at_once_with_their_lines() -> None:
    found = problems(
        "version: 2\ntimezone: Asia/Kolkatta\ncircles: { friends: [bob] }\ndefaults: { unmatched: permit }\n"
        "rules:\n  - allow: meet\n    wiht: friends\n    hours: 18:00-10:00\n"
        "  - id: rule-1\n    deny: meet\n    duration: { min: 1h, max: 10m }\n"
    )
    assert found == {
        "version": "line 1: `2` is not known here; write 1",
        "timezone": "line 2: `Asia/Kolkatta` is no time zone; did you mean `Asia/Kolkata`?",
        "circles.friends": 'line 3: "bob" is no handle: "bob" is not a domain name such as ind.ai;'
        " write one like ind.ai/bob, or acme.com/*",
        "defaults.unmatched": "line 4: `permit` is not known here; write refuse or ask",
        "rules[1].with": "line 6: missing; write a circle or a handle,"
        " or `with: anyone` if you mean everybody",
        "rules[1].wiht": "line 7: unknown field `wiht`; did you mean `with`?",
        "rules[1].hours": "line 8: 18:00-10:00 ends before it starts; for hours over midnight write"
        ' ["18:00-24:00", "00:00-10:00"]',
        "rules[2].id": "line 9: `rule-1` is the id of rule 1 too",
        "rules[2].duration": "line 11: max 10m is less than min 1h; swap them",
    }


@pytest.mark.parametrize(
    ("rule", "path", "told"),
    [
        ("hours: 10:00-10:00", "hours", "for the whole day write"),
        ("hours: 22:00-00:00", "hours", 'write "22:00-24:00"'),
        ("hours: 10:00-24:30", "hours", "a day runs from 00:00 to 24:00"),
        ("hours: 10:60-11:00", "hours", "a day runs from 00:00 to 24:00"),
        ("hours: morning", "hours", 'write it like "10:00-18:00"'),
        ("hours: []", "hours", "is empty"),
        ("hours: { from: 10 }", "hours", "must be a word or a list of words"),
        ("hours: 10:00-10:30\n    duration: { min: 1h }", "hours", "no meeting of at least 1h fits into 30m"),
        ("weekdays: mon-funday", "weekdays", "is not a weekday"),
        ("duration: 30m", "duration", "must have fields: min, max"),
        ("duration: { max: 30 }", "duration.max", "write it like 30m"),
        ("duration: { max: 0m }", "duration", "matches no meeting"),
        ("duration: { most: 30m }", "duration.most", "known here: min, max"),
        ("notice: { min: 9999d }", "notice.min", "longer than ten years"),
        ("daily_limit: 0", "daily_limit", "write a deny rule"),
        ("daily_limit: lots", "daily_limit", "no count"),
        ("buffer: 9h", "buffer", "must be 1m to 8h"),
        ("title_prefix: ''", "title_prefix", "must be 1 to 40 characters"),
        (f"title_prefix: {'x' * 41}", "title_prefix", "must be 1 to 40 characters"),
        ("id: Short Meetings", "id", "like `short-meetings`"),
        ("deny: meet", "", "has allow and deny; keep one"),
    ],
)
def test_a_mistake_is_told_with_what_to_write_instead(rule: str, path: str, told: str) -> None:
    found = problems(f"{HEAD}{RULE}    {rule}\n")
    assert list(found) == [f"rules[1].{path}".rstrip(".")]
    assert told in found[f"rules[1].{path}".rstrip(".")]


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("allow: pay\n    with: anyone\n    duration: { max: 1h }", "has no meaning for payments"),
        ("allow: meet\n    with: anyone\n    amount: { max: 1 INR }", "has no meaning for meetings"),
        ("allow: greet\n    with: anyone", "is no intent"),
        ("with: anyone", "write `allow: meet`"),
        ("allow: meet\n    with: freinds", "did you mean `friends`?"),
        ("allow: meet\n    with: ind.ai/x", "is no handle"),
        ("allow: meet\n    with: ind.ai/*/*", "is no pattern"),
        ("allow: meet\n    with: '*'", "no circle is called `*`"),
        ("allow: meet\n    with: '*.com/bob'", "is no pattern"),
        ("deny: meet\n    buffer: 10m", "has no meaning on a deny rule"),
    ],
)
def test_a_rule_names_one_intent_and_known_peers(rule: str, told: str) -> None:
    assert any(told in problem for problem in problems(f"{HEAD}  - {rule}\n").values())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "start with `version: 1`"),
        ("# nothing\n", "start with `version: 1`"),
        ("version: 1\n\trules: []", "line 2: a tab; indent with spaces"),
        ("a: &x [1]\nb: *x", "line 1: an anchor or alias"),
        ("a: !!python/object:os.system x", "line 1: a tag"),
        ("version: 1\nversion: 1", 'line 2: "version" is written twice'),
        ("version: 1\n---\nversion: 1", "a second document"),
        ("version: [1", "line 1: not YAML"),
        ("a: \x00", "a character that text must not contain"),
        ("[" * 60_000, "nested too deeply"),
        ("? [a]\n: b", "a field's name is a word"),
    ],
)
def test_text_that_is_not_plain_yaml_is_refused(text: str, told: str) -> None:
    assert told in next(iter(problems(text).values()))


def test_a_text_over_64_kib_is_refused_before_it_is_read() -> None:
    with pytest.raises(InvalidInput, match="larger than 64 KiB"):
        compile_policy(HEAD + RULE + "#" * 65_536)


def test_a_whole_day_is_no_limit_and_two_rules_may_share_nothing() -> None:
    rules = parse(f"{HEAD}{RULE}    hours: 00:00-24:00\n{RULE}").rules
    assert rules[0].hours == ()
    assert [rule.id for rule in rules] == ["rule-1", "rule-2"]


def test_too_many_rules_are_refused() -> None:
    assert "at most 200" in problems(HEAD + "  - {deny: meet}\n" * 201)["rules"]


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=300) | st.text(alphabet="abv:-[]{}\n 1&*!|>'\"#?,", max_size=80))
def test_any_text_is_a_policy_or_told_what_is_wrong(text: str) -> None:
    assert problems(text)


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["hours", "weekdays", "duration", "notice", "say", "buffer"]), st.text(max_size=20)
    )
)
def test_any_value_is_read_or_told_what_is_wrong(values: dict[str, str]) -> None:
    quoted = "".join(f"    {name}: {_yaml(value)}\n" for name, value in values.items())
    # Anything but InvalidInput would fail the test.
    with contextlib.suppress(InvalidInput):
        compile_policy(HEAD + RULE + quoted)


def _yaml(text: str) -> str:
    return "'" + "".join(c for c in text if c.isprintable()).replace("'", "''") + "'"


@given(st.integers(0, 3000 * 1440))
def test_a_length_of_time_is_printed_as_it_is_read(minutes: int) -> None:
    assert parse_duration(duration(minutes)) == minutes
    assert spoken(minutes)


@given(
    st.lists(st.tuples(st.integers(0, 1439), st.integers(1, 1440)).filter(lambda w: w[0] < w[1]), max_size=5)
)
def test_merged_hours_hold_the_same_minutes_and_never_touch(windows: list[tuple[int, int]]) -> None:
    merged = merge_hours([Hours(*window) for window in windows])
    minutes = {minute for start, end in windows for minute in range(start, end)}
    assert {minute for start, end in merged for minute in range(start, end)} == minutes
    assert all(before.end < after.start for before, after in pairwise(merged))
    assert all(parse_hours(str(window)) == window for window in merged)


def test_weekdays_wrap_around_the_week() -> None:
    assert parse_weekdays("sat-mon") == ["sat", "sun", "mon"]
    assert parse_weekdays("Wednesday") == ["wed"]
    with pytest.raises(Problem):
        parse_weekdays("mon-tue-wed")


def test_the_cautious_policy_asks_verified_peers_and_refuses_others() -> None:
    rules = parse(cautious_policy("Europe/Berlin"))
    assert [rule.effect for rule in rules.rules] == [Effect.ASK]
    assert (rules.unmatched, rules.time_zone) == (Outcome.REFUSE, "Europe/Berlin")
    with pytest.raises(InvalidInput):
        parse(cautious_policy("Nowhere"))
