"""Which language a message is in."""

from __future__ import annotations

import time

import pytest
from indai.language import Detected, classifier, detect
from indai.language.evaluate import held_out, microseconds
from indai.language.ngrams import BUCKETS
from indai.language.train import fit, matrix, read

SENTENCES = {
    "hi": "मुझे कल की बैठक के बारे में बताइए",
    "mr": "मला उद्या भेटायचे आहे, तुम्ही कधी येणार?",
    "ne": "मलाई भोलि भेट्न मन छ, तपाईं कहिले आउनुहुन्छ?",
    "mai": "अहाँ केना छी? हम नीक छी",
    "kok": "म्हाका तुमकां फाल्यां मेळपाचें आसा",
    "sa": "अहं श्वः भवान् सह मिलितुम् इच्छामि",
    "doi": "मिगी तुंदे कन्नै गल्ल करनी ऐ",
    "bn": "আমি কাল আপনার সাথে দেখা করতে চাই",
    "as": "মই কালি আপোনাক লগ কৰিব বিচাৰোঁ",
    "ur": "مجھے کل آپ سے ملنا ہے، آپ کب آئیں گے؟",
    "sd": "مان سڀاڻي توهان سان ملڻ چاهيان ٿو",
    "pa": "ਮੈਂ ਕੱਲ੍ਹ ਤੁਹਾਨੂੰ ਮਿਲਣਾ ਚਾਹੁੰਦਾ ਹਾਂ",
    "gu": "મારે કાલે તમને મળવું છે",
    "or": "ମୁଁ କାଲି ଆପଣଙ୍କୁ ଭେଟିବାକୁ ଚାହେଁ",
    "ta": "நாளை உங்களை சந்திக்க விரும்புகிறேன்",
    "te": "నేను రేపు మిమ్మల్ని కలవాలనుకుంటున్నాను",
    "kn": "ನಾನು ನಾಳೆ ನಿಮ್ಮನ್ನು ಭೇಟಿಯಾಗಬೇಕು",
    "ml": "എനിക്ക് നാളെ നിങ്ങളെ കാണണം",
    "sat": "ᱤᱧ ᱫᱚ ᱟᱢ ᱥᱟᱶ ᱱᱟᱯᱟᱢ ᱥᱟᱱᱟᱭᱮᱫᱤᱧᱟ",
    "mni": "ꯑꯩꯅꯥ ꯅꯍꯥꯛꯀꯥ ꯎꯅꯕꯥ ꯄꯥꯝꯃꯤ",
    "en": "I would like to meet you tomorrow",
}


@pytest.mark.parametrize(("language", "text"), SENTENCES.items())
def test_a_sentence_in_its_own_script_is_recognised(language: str, text: str) -> None:
    assert detect(text).language == language


def test_romanised_sentences_are_recognised_as_well_as_the_documentation_says() -> None:
    alone, known = held_out(), held_out(hinted=True)
    assert alone.accuracy >= 0.90
    assert known.accuracy >= 0.95
    assert all(alone.recall(language) >= 0.75 for language in classifier.LANGUAGES), alone.confusions


def test_hindi_mixed_with_english_is_hindi_in_latin_letters() -> None:
    for text in (
        "kal ka meeting cancel kar do please",
        "mera order abhi tak deliver nahi hua, refund chahiye",
        "bhai location share karo, main cab book kar raha hoon",
    ):
        assert detect(text).tag == "hi-Latn"


def test_a_short_reply_is_in_the_language_of_the_contact() -> None:
    for text in ("ok", "ok done", "5 baje", "👍", "9876543210", "hmm"):
        assert detect(text, "ta-Latn") == Detected("ta", "Latn", detect(text, "ta-Latn").confidence), text
        assert detect(text, "ta").tag == "ta"


def test_a_whole_sentence_in_another_language_stands_against_what_is_known() -> None:
    assert detect("could you please send me the invoice once more", "ta").tag == "en"
    assert detect("எனக்கு உதவி வேண்டும்", "en").tag == "ta"


def test_a_language_that_shares_its_script_is_kept_where_nothing_speaks_against_it() -> None:
    assert detect("धन्यवाद", "ne").language == "ne"
    assert detect("धन्यवाद").language == "hi"
    assert detect("धन्यवाद", "ta").language == "hi"


def test_names_in_latin_letters_do_not_make_a_sentence_english() -> None:
    assert detect("मुझे Bandra से Andheri Station जाना है").tag == "hi"


@pytest.mark.parametrize("text", ["", "   ", "123 456", "🙏🙏", "你好,我想预约", "привет как дела"])
def test_what_is_in_none_of_our_languages_is_undetermined(text: str) -> None:
    assert detect(text).tag == "und"


def test_hostile_text_costs_little_time() -> None:
    detect("warm")
    for text in ("a" * 100_000, "ab " * 33_000, "अ" * 100_000, "".join(map(chr, range(0x20, 0x1FFF))) * 12):
        began = time.process_time()
        detect(text)
        assert time.process_time() - began < 2, "a message must not stop the loop"


def test_the_weights_are_those_of_the_sentences() -> None:
    table = fit(matrix(read("train")))
    scale = abs(table).max() / 127
    kept = classifier.weights()
    assert kept.table.shape == (BUCKETS, len(classifier.LANGUAGES))
    assert (kept.table == (table / scale).round()).all(), "run python -m indai.language.train"


def test_no_held_out_sentence_is_trained_on() -> None:
    trained = {text.lower() for text, _ in read("train")}
    held = read("heldout")
    assert not trained & {text.lower() for text, _ in held}
    assert len(held) >= 20 * len(classifier.LANGUAGES)


def test_the_speed_can_be_measured() -> None:
    assert microseconds() > 0
