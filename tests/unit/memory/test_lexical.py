"""Terms of any script, and one key for both spellings of an Indian word, measured on a list."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.memory.lexical import KEY, KEY_WEIGHT, MAX_TERM, query_terms, terms
from indai.memory.translit import key

LIST = Path(__file__).parent / "data" / "transliteration.tsv"


def _rows() -> dict[str, list[str]]:
    lines = [line for line in LIST.read_text("utf-8").splitlines() if not line.startswith("#")]
    return {word: spellings.split() for word, spellings in (line.split("\t") for line in lines)}


def test_both_spellings_of_a_word_share_a_key_on_the_list() -> None:
    rows = _rows()
    pairs = [(word, spelling) for word, spellings in rows.items() for spelling in spellings]
    hits = {spelling: [word for word in rows if key(word) == key(spelling)] for _, spelling in pairs}
    found = sum(word in hits[spelling] for word, spelling in pairs)
    right = sum(spelling in rows[word] for spelling in hits for word in hits[spelling])
    assert len(pairs) > 300
    assert found / len(pairs) > 0.88
    assert right / sum(map(len, hits.values())) > 0.97


@pytest.mark.parametrize(
    ("devanagari", "typed"),
    [("मुझे चाय पसंद है", "mujhe chai pasand hai"), ("मेरा भाई पुणे में रहता है", "mera bhai Pune mein rehta hai")],
)
def test_a_sentence_and_its_typed_form_share_every_key(devanagari: str, typed: str) -> None:
    assert {term for term in terms(devanagari) if term.startswith(KEY)} == {
        term for term in terms(typed) if term.startswith(KEY)
    }


def test_a_key_is_never_taken_for_a_word() -> None:
    assert not {term for term in terms("~psnd psnd") if not term.startswith(KEY)} & set(terms("पसंद"))


def test_words_are_folded_whatever_their_form() -> None:
    assert terms("Running RUNS") == ["run", "~runing", "run", "~runs"]
    assert terms("Café") == terms("cafe\u0301") == terms("cafe")
    assert terms("Ｔｏｋｙｏ") == terms("tokyo")
    assert terms("१२ ১২ ௧௨") == ["12", "12", "12"]
    assert terms("Priya's") == terms("priya")
    assert terms("क्‍या हाल") == terms("क्या हाल")


def test_scripts_without_spaces_give_pairs() -> None:
    assert terms("東京タワー") == ["東京", "京タ", "タワ", "ワー"]
    assert terms("茶") == ["茶"]


def test_ten_scripts_in_one_line_are_all_found() -> None:
    words = [
        "hello",
        "नमस्ते",
        "নমস্কার",
        "ਸਤਿ",
        "વડોદરા",
        "ଓଡ଼ିଆ",
        "வணக்கம்",
        "తెలుగు",
        "ಕನ್ನಡ",
        "മലയാളം",
        "你好",
        "привет",
        "שלום",
    ]
    joined = " 🙂 ".join(words)
    for word in words:
        assert set(terms(word)) <= set(terms(joined)), word


def test_stop_words_go_unless_nothing_else_is_there() -> None:
    assert "the" not in terms("the mango")
    assert terms("to be or not to be")
    assert "mujhe" not in terms("mujhe aam pasand hai")


def test_a_query_weighs_its_words_above_their_keys() -> None:
    assert query_terms("mango mango") == {"mango": 1.0, "~mng": KEY_WEIGHT}


def test_a_long_word_and_a_long_text_are_cut() -> None:
    assert max(map(len, terms("x" * 100_000))) <= MAX_TERM + len(KEY)
    assert len(terms("mango " * 50_000)) < 40_000


@settings(max_examples=60, deadline=None)
@given(st.text())
def test_any_text_gives_terms_without_blanks(text: str) -> None:
    for term in terms(text):
        assert term
        assert not any(letter.isspace() for letter in term)
        assert "\0" not in term
