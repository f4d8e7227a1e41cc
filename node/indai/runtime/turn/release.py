"""Releases an answer sentence by sentence, each after the guardrails have seen it; never a token ahead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from indai.runtime.checks import Facts
from indai.runtime.composed import Composed
from indai.runtime.conversations.values import Breach
from indai.runtime.guardrails import check
from indai.runtime.patterns import SENTENCE_END as _END
from indai.runtime.turn.consistent import Stand
from indai.runtime.words import deflection, say

_MOST: Final = 600
"""A sentence without an end is cut here, at a space."""
# Rules about what the agent is: the persona has words of its own for them.
_ABOUT_SELF: Final = frozenset({"no_model", "no_prompt", "no_internals"})
# Rules about who the agent is: it says what it is.
_AS_ANOTHER: Final = frozenset({"never_human", "persona_lock", "no_impersonation"})


class Release:
    """One answer. `facts` may be replaced while tools return something to talk about, `stand` when it is
    known what was said before."""

    def __init__(self, composed: Composed, facts: Facts, language: str, tell: Callable[[str], None]) -> None:
        self._composed, self._language, self._tell = composed, language, tell
        self._rest = ""
        self._blocked = False
        self.facts = facts
        self.stand = Stand(language)
        self.sentences: list[str] = []
        self.breaches: list[Breach] = []
        self.tells_price = False

    def add(self, text: str) -> None:
        """More of the answer; whole sentences go out."""
        self._rest += text
        *whole, self._rest = _END.split(self._rest)
        while len(self._rest) > _MOST and " " in self._rest[:_MOST]:
            head, _, tail = self._rest[:_MOST].rpartition(" ")
            whole.append(head)
            self._rest = tail + self._rest[_MOST:]
        for sentence in whole:
            self._check(self._in_line(sentence))

    def end(self) -> str:
        """What is left goes out too; gives the whole answer."""
        rest, self._rest = self._rest, ""
        self._check(self._in_line(rest))
        return " ".join(self.sentences)

    def drop(self) -> None:
        """Forget what has not gone out: the answer takes another course."""
        self._rest = ""

    def say(self, text: str) -> None:
        """A sentence of ours, which stands by itself."""
        self.end()
        for sentence in _END.split(text):
            self._check(sentence)

    def _in_line(self, sentence: str) -> str:
        """With what was said before; after that the guardrails see it."""
        return self.stand.check(sentence.strip()) if sentence.strip() else ""

    def _check(self, sentence: str) -> None:
        if not sentence.strip():
            return
        checked = check(sentence.strip(), self._composed.rules, self.facts)
        for hit in checked.hits:
            blocked = hit.rule.severity == "block"
            self.breaches.append(Breach(hit.tier, hit.rule.id, hit.rule.severity, blocked, hit.sentence))
        if checked.tells_price:
            self.tells_price = True
        if checked.text:
            self._out(checked.text)
        elif checked.blocked and not self._blocked:
            self._blocked = True
            self._out(self._instead({hit.rule.check for hit in checked.hits}))

    def _instead(self, checks: set[str]) -> str:
        """The persona's own words, once for an answer."""
        if checks & _AS_ANOTHER:
            return say("am_agent", self._language)
        if checks & _ABOUT_SELF:
            return deflection(self._composed.human, self._language)
        return say("blocked", self._language)

    def _out(self, text: str) -> None:
        self.sentences.append(text)
        self._tell(text)
