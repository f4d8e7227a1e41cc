"""Our own messages in every language."""

from __future__ import annotations

import re

import pytest
from indai.language import detect, say
from indai.language.catalogue import CATALOGUES, catalogue, keys, places
from indai.language.scripts import LATIN, SCRIPT_OF, script_of

SCHEDULED = {
    *("as", "bn", "brx", "doi", "gu", "hi", "kn", "kok", "ks", "mai", "ml"),
    *("mni", "mr", "ne", "or", "pa", "sa", "sat", "sd", "ta", "te", "ur"),
}
# What stands in Latin letters in every language: the answers people type, a unit, what machines like us are
# called.
_LATIN_WORDS = re.compile(r"\{\w+\}|YES|NO|MB|AI")


def test_the_scheduled_languages_and_english_are_there() -> None:
    assert {language for language in CATALOGUES if language in SCRIPT_OF} == SCHEDULED | {"en"}
    assert len(SCHEDULED) == 22


@pytest.mark.parametrize("language", CATALOGUES)
def test_every_message_is_complete_and_in_the_script_of_its_language(language: str) -> None:
    messages, english = catalogue(language).messages, catalogue("en").messages
    assert list(messages) == list(english)
    script = SCRIPT_OF.get(language, LATIN)
    for key, text in messages.items():
        assert places(text) == places(english[key]), key
        scripts = {script_of(letter) for letter in _LATIN_WORDS.sub("", text)} - {""}
        assert scripts == {script}, (key, text)


def test_no_message_is_left_in_another_language() -> None:
    seen: dict[str, str] = {}
    long = [key for key in keys() if len(catalogue("en").messages[key]) > 40]
    for language in CATALOGUES:
        for key in long:
            text = catalogue(language).messages[key]
            assert seen.setdefault(text, language) == language, (key, language, seen[text])


def test_messages_are_recognised_as_the_language_they_are_in() -> None:
    for language in CATALOGUES:
        text = " ".join(catalogue(language).messages.values())
        assert detect(re.sub(r"\{\w+\}", "", text)).language == language.split("-")[0]


def test_nothing_is_called_reviewed_that_nobody_has_reviewed() -> None:
    assert not any(catalogue(language).reviewed for language in CATALOGUES)


def test_what_binds_is_said_in_english_as_well_where_the_message_is_a_draft() -> None:
    assert catalogue("sat").draft
    told = say("sign_in_code", "sat", code="482913", minutes=10)
    assert told.splitlines()[1] == say("sign_in_code", "en", code="482913", minutes=10)
    assert "\n" not in say("sign_in_code", "ta", code="482913", minutes=10)
    assert "\n" not in say("thinking", "sat")


def test_what_is_filled_in_is_text() -> None:
    told = say("no_such_handle", "en", handle="{handle} {0.__class__} <b>&")
    assert told == "There is nobody here by the name {handle} {0.__class__} <b>&."


def test_a_name_cannot_turn_the_direction_of_a_sentence() -> None:
    told = say("paused", "ur", name="Ali\u202e\u2069\u0007")
    assert told.startswith("\u2068Ali\u2069 ")
    assert say("paused", "en", name="\u202eAli") == say("paused", "en", name="Ali")


def test_the_nearest_language_is_taken() -> None:
    assert say("yes", "hi-IN") == say("yes", "hi") == "हाँ"
    assert say("yes", "hi-Latn") == "Haan"
    assert say("yes", "ta-Latn") == say("yes", "ta")
    assert say("yes", "gom") == say("yes", "kok")
    assert say("yes", "de") == say("yes", "und") == say("yes", "") == "Yes"


def test_a_missing_message_or_value_is_an_error() -> None:
    with pytest.raises(KeyError):
        say("no_such_message", "hi")
    with pytest.raises(KeyError):
        say("paused", "hi")
    with pytest.raises(KeyError):
        catalogue("../../etc/passwd")
