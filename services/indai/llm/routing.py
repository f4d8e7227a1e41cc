"""Which class an answer belongs to, and which models are tried for it, with the reason in words. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from indai.llm.config import Config, ModelConfig
from indai.llm.pricing import Price
from indai.llm.values import Message, ModelClass, Role, Strategy

LABELS = ("simple", "complex")
"""What the classifier answers with."""

_SHORT = 40
_LONG = 400
# Blocks of the nine scripts of India, from Devanagari to Malayalam.
_INDIC = re.compile(r"[\u0900-\u0d7f]")
_ESCALATION = re.compile(
    r"\b(complain\w*|refund|lawyer|legal|court|police|manager|supervisor|urgent|emergency|fraud|cheat\w*|angry"
    r"|unacceptable|shikayat|dhokha|vakil|turant)\b|शिकायत|धोखा|वकील|तुरंत|புகார்|ఫిర్యాదు|ದೂರು",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Choice:
    """A class, and why. `ask`: a call of the cheap class should decide instead."""

    model_class: ModelClass
    why: str
    ask: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model that may be tried."""

    name: str
    config: ModelConfig
    price: Price
    abroad: bool
    why: str

    @property
    def provider(self) -> str:
        """Configured name of its provider."""
        return self.config.provider


def last_words(messages: Sequence[Message]) -> str:
    """What the person said last."""
    return next((each.text for each in reversed(messages) if each.role is Role.USER and each.text), "")


def choose_class(
    asked: ModelClass | None, strategy: Strategy, messages: Sequence[Message], *, has_tools: bool
) -> Choice:
    """The class that was asked for, or the one that the strategy finds."""
    if asked is not None:
        return Choice(asked, f"class {asked} was asked for")
    words = last_words(messages)
    found = _by_rule(words, has_tools)
    if strategy is Strategy.RULE:
        return found
    if strategy is Strategy.CLASSIFIER:
        return Choice(found.model_class, found.why, ask=True)
    if len(words) <= _SHORT or _ESCALATION.search(words):
        return Choice(found.model_class, found.why, ask=True)
    return found


def classified(found: Choice, label: str) -> Choice:
    """The choice after the classifier's word; its silence or nonsense leaves the rule's."""
    if label == "complex":
        return Choice(ModelClass.DEFAULT, "class default (classifier: complex)")
    if label == "simple":
        simple = ModelClass.MULTILINGUAL if found.model_class is ModelClass.MULTILINGUAL else ModelClass.CHEAP
        return Choice(simple, f"class {simple} (classifier: simple)")
    return Choice(found.model_class, f"{found.why}; the classifier gave no answer")


def candidates(
    config: Config, choice: Choice, wanted: str, keep: Callable[[Price], bool] = lambda _: True
) -> list[Candidate]:
    """The models to try, best first: the one that was named, then the class's route. `keep` leaves out
    those that can't be paid."""
    route = config.route(choice.model_class)
    names = [wanted, *(name for name in route if name != wanted)] if wanted else route
    made = [_candidate(config, choice, name, place, name == wanted) for place, name in enumerate(names)]
    return [each for each in made if keep(each.price)]


def _by_rule(words: str, has_tools: bool) -> Choice:
    if has_tools:
        return Choice(ModelClass.DEFAULT, "class default (rule: there are tools)")
    if _INDIC.search(words):
        return Choice(ModelClass.MULTILINGUAL, "class multilingual (rule: an Indian script)")
    if len(words) > _LONG or words.count("?") > 1 or _ESCALATION.search(words):
        return Choice(ModelClass.DEFAULT, "class default (rule: long or difficult)")
    return Choice(ModelClass.CHEAP, "class cheap (rule: short and plain)")


def _candidate(config: Config, choice: Choice, name: str, place: int, named: bool) -> Candidate:
    model = config.models[name]
    position = "named in the request" if named else "first of its route" if not place else f"fallback {place}"
    return Candidate(
        name, model, config.price(name), config.leaves_country(model.provider), f"{choice.why}; {position}"
    )
