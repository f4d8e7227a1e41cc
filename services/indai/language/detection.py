"""Which language a message is in: by script, by marking words, or by the classifier for Latin letters."""

from __future__ import annotations

from dataclasses import dataclass

from indai.language import classifier, shared_scripts
from indai.language.ngrams import words
from indai.language.scripts import BY_SCRIPT, LATIN, SCRIPT_OF, UNKNOWN, base, dominant, is_latin

# From here on a guess stands against what is known of the contact. Measured: see docs/languages.md.
_SURE = 0.85
# Two words or fewer say little ("ok", "thank you", "haan ji"): people mix these into any language.
_SHORT, _SURE_IF_SHORT = 2, 0.97
# How much the contact's own language counts for in a doubtful text.
_PRIOR = 3.0


@dataclass(frozen=True, slots=True)
class Detected:
    """`language` is BCP 47 without script ("hi"), `script` ISO 15924 ("Latn"), `confidence` 0 to 1.

    A text that nothing is known of (no letters, a foreign script) has language "und".
    """

    language: str
    script: str
    confidence: float

    @property
    def tag(self) -> str:
        """BCP 47: "hi", or "hi-Latn" for Hindi in Latin letters; "und" if it is not known."""
        if self.language not in SCRIPT_OF or self.script in ("", UNKNOWN, SCRIPT_OF[self.language]):
            return self.language
        return f"{self.language}-{self.script}"


def detect(text: str, hint: str = "") -> Detected:
    """The language of a message.

    `hint` is the BCP 47 tag of the contact's language, as the last `tag` said it. A short or doubtful text
    inherits it.
    """
    script = dominant(text)
    if script in BY_SCRIPT:
        return _indic(text, script, base(hint))
    if script == LATIN:
        return _latin(text, hint)
    return _inherited(hint, 0.0) or Detected("und", script or UNKNOWN, 0.0)


def _indic(text: str, script: str, known: str) -> Detected:
    language, sure = shared_scripts.tell_apart(text, script)
    if known in BY_SCRIPT[script] and known != language and sure < 0.5:
        return Detected(known, script, 0.5)
    # The first language of a script is by far the most written one.
    return Detected(language, script, max(sure, 0.5))


def _latin(text: str, hint: str) -> Detected:
    found = classifier.probabilities(text)
    known = base(hint)
    if not found:
        return _inherited(hint, 0.0) or Detected("und", LATIN, 0.0)
    best = max(found, key=lambda each: found[each])
    sure = _SURE_IF_SHORT if len(words(text)) <= _SHORT else _SURE
    if not known or found[best] >= sure:
        return Detected(best, LATIN, found[best])
    if len(words(text)) <= _SHORT or known not in found:
        return _inherited(hint, found[best]) or Detected(best, LATIN, found[best])
    weighed = {each: chance * (_PRIOR if each == known else 1.0) for each, chance in found.items()}
    best = max(weighed, key=lambda each: weighed[each])
    return Detected(best, LATIN, weighed[best] / sum(weighed.values()))


def _inherited(hint: str, confidence: float) -> Detected | None:
    if not (known := base(hint)):
        return None
    return Detected(known, LATIN if is_latin(hint) else SCRIPT_OF[known], confidence)
