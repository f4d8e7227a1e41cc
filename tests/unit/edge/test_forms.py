"""Markdown in each channel's form: no limit is broken, nothing goes out unescaped, no word is lost."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from indai.edge.forms import plain, slack, telegram, whatsapp
from indai.edge.forms.document import Block, parse
from indai.edge.forms.splitting import size, split

FORMS: dict[str, Callable[[Sequence[Block]], str]] = {
    "whatsapp": whatsapp.render,
    "slack": slack.render,
    "telegram": telegram.render,
    "plain": plain.render,
}
ANSWER = """\
# Slots for **Bob**

He is free:

1. Monday, *10:00*
2. Tuesday, ~~11:00~~ 12:00
   - online

> a quote

Use `indai_meet` or [the page](https://ind.ai/bob?a=1&b=2).

```
a*b*c < d
```
"""
_PIECES = st.sampled_from(
    [
        "**",
        "*",
        "_",
        "~~",
        "`",
        "```",
        "\n",
        "\n\n",
        "- ",
        "1. ",
        "> ",
        "# ",
        "<b>",
        "<script>alert(1)</script>",
        "[x](javascript:alert(1))",
        "[x](https://a.b/?q=1&r=2)",
        "[y](https://a.b/" + "z" * 500 + ")",
        "<!channel>",
        "<@U1>",
        "&amp;",
        "|",
        " ",
        ". ",
        "नमस्ते। ",
        "مرحبا؟ ",
        "👩‍👩‍👧‍👦",
        "word",
        "snake_case",
        "2*3*4",
        "\x00",
        "\u202e",
        "x" * 30,
    ]
)
MARKDOWN = st.lists(_PIECES | st.text(max_size=8), max_size=60).map("".join)


class _Tags(HTMLParser):
    """What a reader of Telegram's style sees: tags, and words."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ("b", "i", "s", "code", "pre", "a", "blockquote")
        assert tag == "a" or not attrs
        assert all(
            name == "href" and str(value).startswith(("http", "mailto", "tel")) for name, value in attrs
        )
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def test_an_answer_in_whatsapps_form() -> None:
    assert whatsapp.render(parse(ANSWER)) == (
        "*Slots for* *Bob*\n\nHe is free:\n\n1. Monday, _10:00_\n2. Tuesday, ~11:00~ 12:00\n  - online\n\n"
        "> a quote\n\nUse `indai_meet` or the page (https://ind.ai/bob?a=1&b=2).\n\n```a*b*c < d```"
    )


def test_an_answer_in_slacks_form() -> None:
    assert slack.render(parse(ANSWER)) == (
        "*Slots for* *Bob*\n\nHe is free:\n\n1. Monday, _10:00_\n2. Tuesday, ~11:00~ 12:00\n    • online\n\n"
        "> a quote\n\nUse `indai_meet` or <https://ind.ai/bob?a=1&amp;b=2|the page>.\n\n```a*b*c &lt; d```"
    )


def test_an_answer_in_telegrams_form() -> None:
    assert telegram.render(parse(ANSWER)) == (
        "<b>Slots for Bob</b>\n\nHe is free:\n\n1. Monday, <i>10:00</i>\n2. Tuesday, <s>11:00</s> 12:00\n"
        "  • online\n\n<blockquote>a quote</blockquote>\n\nUse <code>indai_meet</code> or "
        '<a href="https://ind.ai/bob?a=1&amp;b=2">the page</a>.\n\n<pre>a*b*c &lt; d</pre>'
    )


def test_what_is_spoken_has_no_marks_addresses_or_pictures() -> None:
    assert plain.spoken("**Hello** 👋! See https://ind.ai/bob:\n\n- one\n- दो। तीन") == [
        "Hello!",
        "See.",
        "one.",
        "दो।",
        "तीन.",
    ]


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("See {}.", "https://node.example/bob/-/meetings/_x-_y__z-_q_"),
        ("**{}**", "https://node.example/_a_/-_b_-?c=1&d=~e"),
        ("_{}_ (it)", "http://127.0.0.1:8080/channels/-/files/a-_b_.c/meeting.ics"),
        ("(see {})", "https://node.example/a_b"),
        ("[{0}]({0})", "https://node.example/-_a_-"),
        ("<{}>", "https://node.example/_a_-"),
    ],
)
@pytest.mark.parametrize("form", ["whatsapp", "slack", "telegram", "plain"])
def test_an_address_in_a_text_stays_whole_whatever_stands_in_it(
    form: str, written: str, address: str
) -> None:
    blocks = parse(written.format(address))
    assert address in unescape(FORMS[form](blocks))
    assert [span.link for block in blocks for span in block.spans if span.link] == [address]


def test_what_only_looks_like_an_address_is_words() -> None:
    for text in ("http:// and https://", "xhttp://a", "`http://a_b_`", "javascript://a"):
        assert [span.link for span in parse(text)[0].spans if span.link] == []
    (span,) = [each for each in parse(r"https://node.example/a\_b&amp;c=1")[0].spans if each.link]
    assert span.link == "https://node.example/a_b&c=1"


@pytest.mark.parametrize("form", ["whatsapp", "slack"])
def test_literal_stars_are_no_marks_and_prices_stay(form: str) -> None:
    rendered = FORMS[form](parse(r"\*not bold\* and 2\*3\*4 and my_file_name"))
    assert rendered == "∗not bold∗ and 2*3*4 and my_file_name"


@given(MARKDOWN)
def test_telegram_gets_only_its_own_tags_balanced(markdown: str) -> None:
    for part in split(parse(markdown), telegram.render, 90):
        reader = _Tags()
        reader.feed(part)
        reader.close()
        assert not reader.open
        assert not re.search(r"<(?!/?(?:b|i|s|code|pre|a|blockquote)[ >])", part)


@given(MARKDOWN)
def test_no_text_is_a_mention_or_a_link_in_slack(markdown: str) -> None:
    for part in split(parse(markdown), slack.render, 90):
        without_links = re.sub(r"<(?:https?|mailto|tel):[^<>|]+\|[^<>|]*>", "", part)
        assert "<" not in without_links
        assert ">" not in re.sub(r"^> ", "", without_links, flags=re.MULTILINE)


@given(MARKDOWN, st.sampled_from(sorted(FORMS)), st.integers(60, 400))
def test_no_part_is_longer_than_the_limit_and_no_word_is_lost(markdown: str, form: str, limit: int) -> None:
    blocks = parse(markdown)
    parts = split(blocks, FORMS[form], limit)
    assert all(0 < size(part) <= limit for part in parts)
    assert not any(set(part) & {"\x00", "\x1b", "\x7f"} for part in parts)
    if form == "plain":
        wanted = [char for char in "".join(block.text for block in blocks) if char.isalpha()]
        rest = iter("".join(parts))
        assert all(char in rest for char in wanted)  # in their order


def test_long_text_is_cut_where_a_sentence_ends() -> None:
    text = "This is the first sentence. " * 3 + "पहला वाक्य। " * 10
    parts = split(parse(text), plain.render, 90)
    assert len(parts) == 3
    assert all(part.rstrip()[-1] in ".।" for part in parts)


def test_a_letter_is_never_cut_from_its_signs() -> None:
    parts = split(parse("क्षि" * 40), plain.render, 61)
    assert all(part.startswith("क") and len(part) % 4 == 0 for part in parts)
    family = "👩‍👩‍👧‍👦"
    assert all(
        part == family * (len(part) // len(family)) for part in split(parse(family * 9), plain.render, 60)
    )
