"""Rules and their reasons in another language: every part of them, and nothing that is none of theirs."""

from __future__ import annotations

import re

import pytest
from indai.language.phrasebook import in_language
from indai.language.rulebook import rulebook
from indai.policy.compiled import compile_policy, decide
from indai.policy.explain import explain
from indai.policy.facts import Facts
from indai.policy.fields import FIELDS
from indai.policy.kinds import Value
from indai.policy.language import parse
from indai.policy.sentences import sentence, sentences
from indai.policy.templates import templates

EVERYTHING = """\
version: 1
timezone: Asia/Kolkata
currency: INR
circles: { kin: [ind.ai/bob], club: [ind.ai/eve] }
relationships: { client: [ind.ai/eve] }
rules:
  - { id: m, allow: meet, with: [kin, verified], duration: { min: 15m, max: 1h30m },
      weekdays: [mon, wed, thu-sat], hours: ["09:00-12:00", "14:00-17:30"], notice: { min: 1d },
      daily_limit: 3, attendees: { max: 8 },
      recurring: false, buffer: 10m, title_prefix: "Call, short",
      reveal_windows: 3, tell_owner: quietly }
  - { id: n, deny: [meet, share, ask], with: [kin, club, ind.ai/ann, ind.ai/ben, ind.ai/cat, ind.ai/dan],
      known: { max: 30d }, trust: { min: 2, max: 2 }, hops: { max: 2 }, depth: { min: 1 },
      channel: [web, whatsapp],
      door: public }
  - { id: s, allow: share, with: anyone, items: ["profile/*", "tag/press"], purpose: care,
      retention: { max: 30d }, recurring: true, redact: [phone, street], keep_at_most: 30d,
      require_receipt: true, relationship: client }
  - { id: q, allow: ask, with: club, topic: "tax/*", request: true, department: water, cite_sources: true,
      delay: 2h }
  - { id: r, ask: ask, with: club, request: false, started_by: them, peer_limit: 4 }
  - { id: p, allow: pay, with: anyone, direction: request, amount: { min: 10 INR, max: 2000 INR },
      per_day: 5000 INR, per_month: 9000 INR, per_payee: 7000 INR, payments: 4, payee: ["*@okbank"],
      payee_verified: true, mandate: false }
  - { id: o, ask: pay, with: anyone, direction: offer, payee_verified: false, mandate: true, started_by: me }
  - { id: b, allow: book, with: anyone, sku: ["table/*", room], quantity: { min: 1, max: 4 },
      stock: { min: 2 } }
  - { id: all, ask: anything, with: club }
budgets:
  - { id: purse, per_payment: 5000 INR, per_day: 8000 INR, payments: 9 }
tone:
  - { id: warm, with: club, style: "warm, and short", language: hi }
escalation: { deadline: 2h, quiet_hours: "22:00-24:00", notify: now, via: whatsapp }
"""
NAMES = re.compile(
    r"ind\.ai/\w+|‘[^’]*’|kin|club|profile/\*|tag/press|care|phone,street|tax/\*|water|\*@okbank|table/\*|room"
    r"|client|public|whatsapp|web|warm, and short|\bhi\b|\bnow\b"
)


def _latin(text: str) -> str:
    return "".join(re.findall("[A-Za-z]+", NAMES.sub("", text)))


def test_every_rule_is_told_in_hindi() -> None:
    rules = parse(EVERYTHING)
    assert {name for rule in rules.every for name in rule.where} == set(FIELDS)
    for rule in rules.every:
        english = sentence(rule).partition(": ")[2]
        told = in_language(english, "hi")
        assert _latin(told) == "", (english, told)
        for number in re.findall(r"\d+", english):
            assert number in told, (english, told)


def test_every_rule_of_every_template_is_told_in_hindi_or_is_its_own_words() -> None:
    for template in templates():
        for english in sentences(parse(template.text, template.layer)):
            _, _, words = english.partition(": ")
            told = in_language(words, "hi")
            assert re.search("[ऀ-ॿ]", told) or told == words, told
            made = re.match("(?:Allow|Ask me about|Never) (?:meetings|sharing|questions|pay|book|any)", words)
            assert told != words or not made, words


def test_why_something_is_decided_is_told_in_hindi() -> None:
    policy = compile_policy(EVERYTHING)
    hour, now = 3_600_000, 1_763_960_400_000
    pays: dict[str, Value] = {
        "direction": "request",
        "amount_minor": 1,
        "currency": "INR",
        "payee": "a@okbank",
    }
    asked = [
        Facts("ind.ai/bob", now + 30 * hour, now + 33 * hour, now),
        Facts("ind.ai/zoe", now + hour, now + 2 * hour, now, already_that_day=9),
        Facts("", now + 40 * hour, now + 60 * hour, now),
        Facts("ind.ai/eve", now, now, now, kind="ask", details={"topic": "tax/x", "is_request": False}),
        Facts("ind.ai/zoe", now, now, now, kind="pay", details=pays),
    ]
    for facts in asked:
        english = explain(policy, decide(policy, "ind.ai/me", facts))
        told = in_language(english, "hi")
        assert _latin(told).replace("INR", "") == "", (english, told)


@pytest.mark.parametrize(
    "words",
    [
        "Allow whatever I say",
        "Never on Sundays, please",
        "Ask me about meetings with friends, unless it rains",
        "Refused: no rule covers my friend; the closest rule, 'x', wants peace.",
    ],
)
def test_what_is_no_rule_of_the_program_s_wording_stays_as_its_owner_wrote_it(words: str) -> None:
    assert in_language(words, "hi") == words


def test_a_language_without_words_for_rules_has_none() -> None:
    assert rulebook("sat") is None
    assert in_language("Allow meetings with anyone", "sat") == "Allow meetings with anyone"
