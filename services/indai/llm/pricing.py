"""What tokens cost, exactly: integers all the way, in millionths of the currency's unit.

A price is in millionths for a million tokens, so that "0.075 USD per million tokens" is the integer 75,000. A
cost is rounded up to the next millionth once, at the end of a call.
"""

from __future__ import annotations

from dataclasses import dataclass

from indai.llm.values import Usage

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """Millionths of the currency for a million tokens, by what the tokens are."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def cost(self, usage: Usage) -> int:
        """Millionths. Cached tokens are part of the input and priced as what they are."""
        fresh = max(0, usage.input_tokens - usage.cache_hit_tokens - usage.cache_write_tokens)
        total = (
            fresh * self.input
            + usage.cache_hit_tokens * self.cache_read
            + usage.cache_write_tokens * self.cache_write
            + usage.output_tokens * self.output
        )
        return -(-total // _MILLION)

    def ceiling(self, input_tokens: int, output_tokens: int) -> int:
        """The most that a call of this size can cost."""
        dearest = max(self.input, self.cache_read, self.cache_write)
        return -(-(input_tokens * dearest + output_tokens * self.output) // _MILLION)


def estimate_tokens(text: str) -> int:
    """A count that is rarely too low: about three ASCII characters a token, and one character of any other
    script, as tokenisers cut Indic scripts finely."""
    if text.isascii():
        return len(text) // 3 + 1
    ascii_count = len(text.encode("ascii", "ignore"))
    return ascii_count // 3 + (len(text) - ascii_count) + 1
