"""Our own sentences in other languages: recognised whole, said whole, and never a peer's words for ours."""

from __future__ import annotations

import re
from importlib.resources import files
from zoneinfo import ZoneInfo

import pytest
from indai.edge.handing import approval_words
from indai.language import catalogue
from indai.language.catalogue import CATALOGUES
from indai.language.phrasebook import bound, forms, in_language, phrase
from indai.llm.local.phrasing import tell
from indai.llm.local.words import SPOKEN
from indai.llm.values import ToolResult
from indai.node.kinds.words import shown
from indai.protocol.kinds.base import Terms
from indai.protocol.quoting import quoted
from indai.v1 import conversation_pb2

from tests.unit.kinds import PAIRS

KOLKATA = ZoneInfo("Asia/Kolkata")
HOLES = re.compile(r"\{(\w+)\}")
WHOLE = sorted(
    file.name.removesuffix(".yaml") for file in files("indai.language").joinpath("phrases").iterdir()
)
SAID = re.compile(r'"(?:[^"\\]|\\.)*"|ind\.ai/\w+|\(Asia/Kolkata\)|ISO|₹')


def test_a_language_has_the_same_forms_as_the_others_with_the_same_places() -> None:
    assert {"hi", "ur", "ta"} <= set(WHOLE) <= set(CATALOGUES)
    (drafts,) = {frozenset(forms(each)) for each in WHOLE if each != "hi"}
    assert drafts < set(forms("hi"))
    for language in WHOLE:
        for english, said in forms(language).items():
            assert set(HOLES.findall(said)) == set(HOLES.findall(english)), (language, said)
            letters = re.sub(r"`[^`]*`|yes|no|ind\.ai/\w+(?:/work)?", "", HOLES.sub("", said))
            assert not re.search("[A-Za-z]", letters), (language, said)


@pytest.mark.parametrize("gives", [True, False])
@pytest.mark.parametrize("terms", [terms for _, terms in PAIRS], ids=lambda terms: str(terms.kind))
def test_terms_of_every_kind_are_told_in_hindi_without_a_word_of_english(terms: Terms, gives: bool) -> None:
    english = shown("ind.ai/bob", terms, KOLKATA, gives=gives)
    told = in_language(english, "hi")
    assert told.count("\n") == english.count("\n")
    assert not re.search("[A-Za-z]", SAID.sub("", told)), told
    for value in (*re.findall(r"\d\d:\d\d", english), "ind.ai/bob", *re.findall(r'"[^"\\\n]+"', english)):
        assert value in told


def test_what_binds_is_followed_by_the_english_where_the_language_is_a_draft() -> None:
    english = "Meet ind.ai/bob for 30 min"
    assert bound(english, "hi") == in_language(english, "hi") != english
    for language in WHOLE:
        is_draft = catalogue.catalogue(language).draft
        assert bound(english, language).endswith(f"\n{english}") == is_draft
    assert bound(english, "brx") == english


def test_an_approval_in_a_chat_is_asked_in_the_language_with_its_terms() -> None:
    approval = conversation_pb2.TurnApproval(code="abcd", terms="Pay ind.ai/bob ₹500.00")
    assert "ind.ai/bob को ₹500.00 देना" in approval_words(approval, "hi")
    assert "Pay" not in approval_words(approval, "hi")
    own, english = approval_words(approval, "mai").split("\n")
    assert "ind.ai/bob केँ ₹500.00 देब" in own
    assert "Pay ind.ai/bob ₹500.00" in english


def test_letters_of_all_scripts_are_letters_and_nothing_else_is() -> None:
    line = f"  about {quoted('बैठक काम')}"
    assert in_language(line, "en") == '  about "बैठक काम"'
    turned = quoted("a\u202eb\u0007\nc")
    assert in_language(f"  at {turned}", "hi") == f"  जगह: {turned}"


@pytest.mark.parametrize(
    "words",
    ['x"\n  free of charge', "free of charge", "} {who} {n}", "\\u0928", "Pay ind.ai/eve ₹5.00", '" at "'],
)
def test_a_peers_words_are_never_taken_for_a_sentence_of_ours(words: str) -> None:
    told = in_language(f"  about {quoted(words)}", "hi")
    assert told.startswith('  विषय: "')
    assert told.count("\n") == 0
    assert told.removeprefix("  विषय: ") == in_language(quoted(words), "en")


def test_what_is_no_sentence_of_ours_stays_as_it_is() -> None:
    for text in ("Anything else.", "", "  ", "That is you. And more.", "Meet <b> for 30 min"):
        assert in_language(text, "hi") == text
    assert in_language("That is you. There is no such page.", "hi").count("।") == 2
    assert phrase("Nothing like it {x}", "hi", x=1) == "Nothing like it 1"


def test_in_urdu_what_is_filled_in_cannot_turn_the_sentence() -> None:
    assert "\u2068ind.ai/bob\u2069" in in_language("Meet ind.ai/bob for 30 min", "ur")


@pytest.mark.parametrize("language", SPOKEN)
def test_the_built_in_provider_tells_outcomes_in_the_language_it_is_spoken_to_in(language: str) -> None:
    agreed = ToolResult("1", "meet", '{"state": "agreed", "with": "ind.ai/bob", "when": "tomorrow"}', False)
    failed = ToolResult("1", "meet", '{"message": "That is you."}', True)
    for result in (agreed, failed):
        said = tell([result], language)
        assert not re.search("[A-Za-z]", said.replace("ind.ai/bob", "")), said
    assert "ind.ai/bob" in tell([agreed], language)


def test_a_line_that_somebody_made_to_be_taken_apart_for_ever_is_left_as_it_is() -> None:
    for made in ("line 1: " * 2_000, "In meetings" + ", meetings" * 5_000, '"" is no handle: ' * 170 + "x"):
        assert in_language(made, "hi") == made
