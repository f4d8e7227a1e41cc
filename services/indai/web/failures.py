"""What a page says of a failure whose own sentence the visitor's language does not have.

Errors are worded once, in English, where they arise. Those that people meet often have forms in other
languages (`indai.language.phrasebook`); for any other one of these sentences is said, by the status of its
reason, and the words of the program follow for whoever is asked for help.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from indai.language.phrasebook import in_language
from indai.protocol.errors import IndaiError
from indai.web.catalog import ENGLISH, Words

GENERAL: Final = {
    "INVALID_ARGUMENT": "Something that was written is not as it has to be."
    " Go back, change it, and try again.",
    "UNAUTHENTICATED": "It could not be proved who that is.",
    "PERMISSION_DENIED": "That is not allowed here.",
    "NOT_FOUND": "That is not there, or it is not yours.",
    "ALREADY_EXISTS": "That is there already.",
    "FAILED_PRECONDITION": "As things are now, that cannot be done.",
    "ABORTED": "Something else changed it at the same moment. Try again.",
    "RESOURCE_EXHAUSTED": "That is too much or too often. Try again later.",
    "UNAVAILABLE": "Something that is needed for it does not answer. Try again later.",
    "DEADLINE_EXCEEDED": "It took too long. Try again.",
    "DATA_LOSS": "A proof does not hold, so nothing was taken from it.",
    "INTERNAL": "Something went wrong inside the program. Try again.",
}
"""By the gRPC status of the reason."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure in words. `english`: sentences of the program that the language has no form for."""

    message: str
    hint: str
    fields: tuple[tuple[str, str], ...]
    english: tuple[str, ...]
    reason: str


def failure(error: IndaiError, words: Words) -> Failure:
    """Sentence, hint and fields in the visitor's language, as far as it has them."""
    english: list[str] = []

    def told(text: str) -> str:
        said = in_language(text, words.language)
        if not text or words.language == ENGLISH or said != in_language(text, ENGLISH):
            return said
        english.append(text)
        return ""

    message = told(error.message)
    general = GENERAL.get(error.reason.status.grpc, GENERAL["INTERNAL"])
    if not message and words(general) == general and words.language != ENGLISH:
        message = english.pop(0)  # a draft without that sentence: English twice helps nobody
    return Failure(
        message or words(general),
        told(error.hint or ""),
        tuple((name, told(what)) for name, what in error.fields.items()),
        tuple(dict.fromkeys(english)),
        error.reason.name,
    )
