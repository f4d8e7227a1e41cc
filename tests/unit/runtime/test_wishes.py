"""What people say of how a persona speaks."""

from __future__ import annotations

import pytest
from indai.runtime.proposals.wishes import change_of, wish_of


@pytest.mark.parametrize(
    ("text", "wish"),
    [
        ("Please keep your answers short", "brief"),
        ("your replies are way too long", "brief"),
        ("छोटा जवाब दीजिए", "brief"),
        ("bhai short answer do", "brief"),
        ("please don't use emojis", "no-emoji"),
        ("इमोजी मत लगाइए", "no-emoji"),
        ("emoji mat use karo", "no-emoji"),
        ("be a bit more formal please", "formal"),
        ("आप कहकर बात कीजिए", "formal"),
        ("izzat se baat karo", "formal"),
        ("you sound too stiff", "casual"),
        ("itna formal mat bano", "casual"),
        ("use simpler words please", "simple"),
        ("आसान भाषा में बताइए", "simple"),
        ("aasan bhasha mein batao", "simple"),
        # About something else, or about two things at once.
        ("keep it short with bob tomorrow at five and then book the cab for nine, then tell ravi", ""),
        ("set up a short meeting with bob", ""),
        ("is the dress code formal?", ""),
        ("send bob an emoji", ""),
        ("be more formal but keep it short", ""),
        ("", ""),
    ],
)
def test_a_wish_is_told_by_its_words(text: str, wish: str) -> None:
    assert wish_of(text) == wish


def test_what_is_asked_for_is_added_to_what_the_voice_avoids_once() -> None:
    once = change_of("brief", {"voice": {"tone": "warm", "avoid": ["slang"]}})
    assert once == {"voice": {"avoid": ["slang", "long answers"]}}
    assert change_of("brief", once) == once
    assert change_of("no-emoji", {}) == {"voice": {"emoji": False}}
