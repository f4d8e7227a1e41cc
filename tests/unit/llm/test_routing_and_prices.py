"""Pure parts of the gateway: configuration, classes and routes, prices, retries, the breaker."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.llm.breaker import OPEN_MS, THRESHOLD, Breaker
from indai.llm.config import BUILT_IN, Limits, parse_config
from indai.llm.pricing import Price, estimate_tokens
from indai.llm.providers.faults import retry_after_ms
from indai.llm.retry import Next, Step, after, fewer
from indai.llm.routing import Choice, candidates, choose_class, classified
from indai.llm.values import Fault, Message, ModelClass, ProviderFault, Role, Strategy, Usage
from indai.protocol.errors import InvalidInput

CONFIG = """\
version: 1
currency: INR
exchange: {USD: 88.5}
providers:
  claude: {kind: anthropic, key: vault:anthropic, country: US, currency: USD}
  sarvam: {kind: sarvam, key: vault:env/SARVAM_KEY, country: IN}
  own: {kind: openai, base_url: "http://127.0.0.1:11434/v1"}
  local: {kind: local}
models:
  big: {provider: claude, model: claude-x, input: 3.00, output: 15, cache_read: 0.3, cache_write: 3.75}
  small: {provider: claude, model: claude-y, input: 0.075, output: 0.3}
  indic: {provider: sarvam, model: sarvam-m}
  llama: {provider: own, model: llama3}
  local: {provider: local, model: local}
  vectors: {provider: own, model: nomic, embeds: true}
routes:
  default: [big, llama, local]
  cheap: [small, local]
  multilingual: [indic, big]
"""


def said(*texts: str) -> list[Message]:
    return [Message(Role.USER, text) for text in texts]


def test_prices_are_exact_and_in_the_configurations_currency() -> None:
    config = parse_config(CONFIG)
    assert config.price("big") == Price(265_500_000, 1_327_500_000, 26_550_000, 331_875_000)
    assert config.price("small").cache_read == config.price("small").input == 6_637_500
    assert config.price("local") == Price()


def test_cached_tokens_are_priced_as_what_they_are() -> None:
    price = Price(input=3_000_000, output=15_000_000, cache_read=300_000, cache_write=3_750_000)
    assert price.cost(Usage(1000, 10, 700, 200)) == 100 * 3 + 10 * 15 + 210 + 750
    assert price.cost(Usage()) == 0
    assert Price(input=1).cost(Usage(input_tokens=1)) == 1  # rounded up, never to nothing


@given(*(st.integers(0, 10**6) for _ in range(4)), st.integers(0, 10**9), st.integers(0, 10**9))
@settings(max_examples=60)
def test_what_is_reserved_is_never_less_than_what_is_spent(
    fresh: int, read: int, written: int, out: int, dear: int, cheap: int
) -> None:
    price = Price(dear, dear, cheap, cheap)
    total = fresh + read + written
    assert price.cost(Usage(total, out, read, written)) <= price.ceiling(total, out)


def test_an_estimate_grows_with_the_script() -> None:
    assert estimate_tokens("a" * 300) == 101
    assert estimate_tokens("न" * 300) > 300


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (("version: 1", "version: 2"), "version"),
        (("currency: INR", "colour: red"), "colour"),
        (("kind: sarvam,", "kind: telepathy,"), "providers.sarvam.kind"),
        (("key: vault:anthropic", "key: sk-ant-123"), "providers.claude.key"),
        (("key: vault:anthropic, ", ""), "providers.claude"),
        (("country: US", "country: usa"), "providers.claude.country"),
        (("input: 3.00", "input: -3"), "models.big.input"),
        (("input: 3.00", "input: .nan"), "models.big.input"),
        (("provider: sarvam", "provider: nobody"), "file"),
        (("default: [big", "default: [huge"), "file"),
        (("default: [big", "default: [vectors"), "file"),
        (("  default:", "  voice:"), "file"),
        (("exchange: {USD: 88.5}", ""), "file"),
        (
            ('base_url: "http://127.0.0.1:11434/v1"', 'base_url: "http://ai.example/v1", key: vault:k'),
            "providers.own",
        ),
        (("  cheap: [small, local]", "  cheap: []"), "file"),
        (("  cheap: [small, local]", "  default: [small]"), "yaml"),
        (("providers:", "providers: &a"), ""),
    ],
)
def test_a_wrong_configuration_names_the_field(change: tuple[str, str], path: str) -> None:
    text = CONFIG.replace(*change)
    assert text != CONFIG
    if not path:
        parse_config(text)
        return
    with pytest.raises(InvalidInput) as raised:
        parse_config(text)
    assert list(raised.value.fields) == [path], raised.value.fields
    assert "sk-ant" not in str(raised.value)


def test_what_leaves_the_country_is_known() -> None:
    config = parse_config(CONFIG)
    assert [config.leaves_country(name) for name in config.providers] == [True, False, False, False]


@pytest.mark.parametrize(
    ("text", "has_tools", "expected"),
    [
        ("hi", True, ModelClass.DEFAULT),
        ("hi there", False, ModelClass.CHEAP),
        ("नमस्ते, कैसे हो?", False, ModelClass.MULTILINGUAL),
        ("எப்படி இருக்கீங்க", False, ModelClass.MULTILINGUAL),
        ("I want a refund now", False, ModelClass.DEFAULT),
        ("What is this? And that?", False, ModelClass.DEFAULT),
        ("word " * 100, False, ModelClass.DEFAULT),
    ],
)
def test_the_rule_goes_by_what_is_seen(text: str, has_tools: bool, expected: ModelClass) -> None:
    assert choose_class(None, Strategy.RULE, said(text), has_tools=has_tools).model_class is expected


def test_the_hybrid_asks_only_when_short_or_upset() -> None:
    calm = "Please tell me a little about the history of the city of Madurai."
    asked = [
        choose_class(None, Strategy.HYBRID, said(text), has_tools=False).ask
        for text in ("ok?", calm, f"{calm} This is unacceptable.")
    ]
    assert asked == [True, False, True]
    assert choose_class(None, Strategy.CLASSIFIER, said(calm), has_tools=False).ask
    assert not choose_class(ModelClass.VOICE, Strategy.CLASSIFIER, said(calm), has_tools=False).ask


def test_a_classifier_without_an_answer_leaves_the_rules_word() -> None:
    found = Choice(ModelClass.MULTILINGUAL, "rule", ask=True)
    assert classified(found, "simple").model_class is ModelClass.MULTILINGUAL
    assert classified(found, "complex").model_class is ModelClass.DEFAULT
    assert classified(found, "").model_class is ModelClass.MULTILINGUAL


def test_a_class_without_a_route_has_the_default_one_and_each_candidate_says_why() -> None:
    config = parse_config(CONFIG)
    found = candidates(config, Choice(ModelClass.VOICE, "class voice was asked for"), "")
    assert [each.name for each in found] == ["big", "llama", "local"]
    assert found[1].why == "class voice was asked for; fallback 1"
    assert [each.name for each in candidates(config, Choice(ModelClass.CHEAP, ""), "big")] == [
        "big",
        "small",
        "local",
    ]


def test_the_built_in_configuration_needs_nothing() -> None:
    assert candidates(parse_config(BUILT_IN), Choice(ModelClass.CHEAP, ""), "")[0].name == "local"


def fault(kind: Fault, retry_after: int | None = None) -> ProviderFault:
    return ProviderFault(kind, "x", retry_after_ms=retry_after)


LIMITS = Limits()


@pytest.mark.parametrize(
    ("kind", "retry_after", "attempt", "step"),
    [
        (Fault.SERVER, None, 1, Step(Next.SAME, 300)),
        (Fault.SERVER, None, 2, Step(Next.MODEL)),
        (Fault.TIMEOUT, None, 1, Step(Next.SAME, 300, fewer_tokens=True)),
        (Fault.TIMEOUT, None, 2, Step(Next.MODEL)),
        (Fault.RATE_LIMITED, 1500, 1, Step(Next.SAME, 1500)),
        (Fault.RATE_LIMITED, 60_000, 1, Step(Next.PROVIDER)),
        (Fault.RATE_LIMITED, None, 2, Step(Next.PROVIDER)),
        (Fault.AUTH, None, 1, Step(Next.PROVIDER)),
        (Fault.REJECTED, None, 1, Step(Next.MODEL)),
        (Fault.NOT_FOUND, None, 1, Step(Next.MODEL)),
        (Fault.BROKEN, None, 1, Step(Next.SAME, 300)),
        (Fault.UNREACHABLE, None, 1, Step(Next.SAME, 300)),
    ],
)
def test_what_follows_a_fault(kind: Fault, retry_after: int | None, attempt: int, step: Step) -> None:
    assert after(fault(kind, retry_after), attempt, LIMITS, 0.0) == step


@given(st.floats(0, 1, exclude_max=True))
def test_the_pause_lies_between_300_and_800_ms(chance: float) -> None:
    assert 300 <= after(fault(Fault.SERVER), 1, LIMITS, chance).pause_ms <= 800


def test_fewer_tokens_are_half_of_them_but_never_more_than_before() -> None:
    assert [fewer(tokens) for tokens in (1000, 100, 64, 10)] == [500, 64, 64, 10]


@pytest.mark.parametrize(
    ("headers", "ms"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2000),
        ({"retry-after": "0.25"}, 250),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e99"}, 3_600_000),
        (
            {"retry-after": "Sun, 22 Nov 2026 10:00:30 GMT", "date": "Sun, 22 Nov 2026 10:00:00 GMT"},
            30_000,
        ),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(headers: dict[str, str], ms: int | None) -> None:
    assert retry_after_ms(headers) == ms


def test_the_breaker_opens_after_failures_in_a_row_and_lets_one_attempt_test_the_water() -> None:
    now = 0
    breaker = Breaker(lambda: now)
    for _ in range(THRESHOLD - 1):
        breaker.fail("down")
    breaker.succeed()
    for _ in range(THRESHOLD):
        assert breaker.allow()
        breaker.fail("down")
    assert (breaker.allow(), breaker.problem) == (False, "down")
    now = OPEN_MS
    assert [breaker.allow(), breaker.allow()] == [True, False]
    breaker.fail("still down")
    assert not breaker.allow()
    now += OPEN_MS
    assert breaker.allow()
    breaker.abandon()  # the caller left: it says nothing
    assert breaker.allow()
    breaker.succeed()
    assert [breaker.allow(), breaker.allow()] == [True, True]


def test_the_breaker_waits_as_long_as_the_provider_says() -> None:
    now = 0
    breaker = Breaker(lambda: now)
    breaker.fail("busy", 5_000)
    assert not breaker.allow()
    now = 5_000
    assert breaker.allow()
