"""The pages' words: every language that is offered has them all, and no page has words of its own."""

from __future__ import annotations

import ast
import inspect
import re
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from indai.desk import acts as acts_in_words
from indai.desk import goals, names, show, spending
from indai.desk.auditor import script_words
from indai.desk.day import CHANGES
from indai.desk.frame import PLACES
from indai.desk.logs import LEAVES, NEXT_KEY, OPERATIONS
from indai.desk.memory import TRUSTS
from indai.desk.settings import TONES
from indai.desk.tenant_board import COLUMNS
from indai.desk.tenant_frame import PLACES as TENANTS_PLACES
from indai.desk.tenant_numbers import GROUPS
from indai.node import desk_service
from indai.node.tenancy import servicer
from indai.runtime.turn import perceive, pipeline, supervisor
from indai.runtime.turn.trace import STAGES
from indai.web.accounts import TENANT_ROLES
from indai.web.catalog import BUTTONS_ALONE, DRAFTS, ENGLISH, NAMES, known, wanted, words_in
from indai.web.failures import GENERAL
from indai.web.visit import NOTICES

PACKAGES = ("indai.web", "indai.desk", "indai.page")
CALL = re.compile(r"""\b_\(\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""")
HOLES = re.compile(r"\{(\w+)\}")


def _folder(package: str) -> Path:
    return Path(str(files(package)))


def _said() -> set[str]:
    """Every sentence of the templates and of the code, in English."""
    found: set[str] = set()
    for package in PACKAGES:
        for template in _folder(package).joinpath("templates").glob("*.html"):
            found |= {ast.literal_eval(text) for text in CALL.findall(template.read_text("utf-8"))}
        for module in _folder(package).glob("*.py"):
            for node in ast.walk(ast.parse(module.read_text("utf-8"))):
                if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("words") and node.args:
                    first = node.args[0]
                    if isinstance(first, ast.Constant) and isinstance(first.value, str):
                        found.add(first.value)
    tables = (show.STATES, show.LIVES, show.ANSWERS, show.OUTCOMES, goals.DID)
    found |= {tag.text for table in tables for tag in table.values()}
    found |= {*show.KINDS.values(), *show.MONTHS, *show.DAYS, *NOTICES.values(), *TRUSTS.values()}
    found |= {*goals.WHY.values(), *(name for _, name in (*goals.KINDS, *CHANGES))}
    found |= {name for _, name in goals.UNITS}
    found |= {*spending.WHOSE.values(), *spending.PERIODS.values(), *spending.RHYTHMS.values()}
    found |= {name for _, name, _ in TENANTS_PLACES} | {name for _, name in (*COLUMNS, *GROUPS)}
    found |= {*names.TOPICS.values(), *names.MOODS.values(), *names.ENDINGS.values(), *names.STAGES.values()}
    found |= {*names.CHANNELS.values(), *names.SEVERITIES.values(), *names.OUTCOMES.values()}
    found |= {*acts_in_words.CALLS.values(), *acts_in_words.PATHS.values(), *acts_in_words.WAYS.values()}
    found |= {acts_in_words.NO_DEVICE, acts_in_words.A_PROGRAM, *GENERAL.values()}
    found |= {*OPERATIONS.values(), *LEAVES.values(), NEXT_KEY}
    found |= {*TENANT_ROLES, *script_words(), *(name for _, name in TONES)}
    return found | {name for _, name in PLACES} | {"More", "unknown", "not asked", "a stranger said so"}


@pytest.mark.parametrize("language", [name for name in NAMES if name != ENGLISH])
def test_a_language_that_is_offered_is_whole_and_keeps_what_is_filled_in(language: str) -> None:
    translated, said = known(language), _said()
    assert len(said) > 150
    assert sorted(said - set(translated)) == []
    assert sorted(set(translated) - said) == []
    for english, words in translated.items():
        assert set(HOLES.findall(words)) == set(HOLES.findall(english)), english


def test_hindi_is_written_in_its_own_script() -> None:
    latin = [
        words
        for words in known("hi").values()
        if not re.search(r"[ऀ-ॿ]", HOLES.sub("", words)) and re.search(r"[a-z]", words)
    ]
    assert latin == []


SCRIPTS = {
    "as bn": "\u0980-\u09ff",
    "brx doi kok mai mr ne sa": "\u0900-\u097f",
    "gu": "\u0a80-\u0aff",
    "kn": "\u0c80-\u0cff",
    "ks sd ur": "\u0600-\u06ff",
    "ml": "\u0d00-\u0d7f",
    "mni": "\uabc0-\uabff",
    "or": "\u0b00-\u0b7f",
    "pa": "\u0a00-\u0a7f",
    "sat": "\u1c50-\u1c7f",
    "ta": "\u0b80-\u0bff",
    "te": "\u0c00-\u0c7f",
}


DAILY = {
    "indai.desk": (
        "desk",
        "inbox",
        "parts",
        "thread",
        "threads",
        "settings",
        "pause",
        "counter",
        "tool_done",
    ),
    "indai.page": ("agent", "chat", "meeting", "page", "widget"),
    "indai.web": ("asking", "base", "sorry"),
}
"""What owners and their visitors see every day: drafts have every sentence of it."""
SET_ONCE = re.compile(r'<section class="card" id="(?:meetings|quiet)">.*?</section>', re.DOTALL)
NAMES_OF_THINGS = re.compile(r"WhatsApp|unlink")


def _daily() -> set[str]:
    found = {name for _, name in PLACES} | {"More", *show.KINDS.values(), *(name for _, name in TONES)}
    for package, templates in DAILY.items():
        for name in templates:
            text = _folder(package).joinpath("templates", f"{name}.html").read_text("utf-8")
            # Of the settings: the language, the tone, and the zone; the rest is set once.
            text = SET_ONCE.sub("", text)
            found |= {ast.literal_eval(said) for said in CALL.findall(text)}
    return found | {
        tag.text for table in (show.STATES, show.ANSWERS, show.OUTCOMES) for tag in table.values()
    }


def test_drafts_are_all_other_scheduled_languages_in_their_own_script() -> None:
    assert {language for languages in SCRIPTS for language in languages.split()} == set(DRAFTS)
    assert len(NAMES) + len(DRAFTS) == 23  # the 22 of the schedule, and English
    for languages, letters in SCRIPTS.items():
        for language in languages.split():
            for english, words in (*known(language).items(), (DRAFTS[language], DRAFTS[language])):
                assert re.search(f"[{letters}]", words), (language, words)
                rest = NAMES_OF_THINGS.sub("", HOLES.sub("", words))
                assert not re.search(r"[A-Za-z{}]", rest), (language, words)
                assert set(HOLES.findall(words)) == set(HOLES.findall(english)), (language, words)


@pytest.mark.parametrize("language", sorted(DRAFTS))
def test_a_draft_has_every_sentence_of_the_daily_pages_or_buttons_alone(language: str) -> None:
    words = set(known(language))
    assert words <= _said()
    if language in BUTTONS_ALONE:
        assert {"Inbox", "More", "Approve", "Decline", "agreed", "refused", "waits for you"} <= words
    else:
        assert sorted(_daily() - words) == []
    (buttons,) = {frozenset(known(each)) for each in BUTTONS_ALONE}
    assert buttons <= words


@pytest.mark.parametrize("language", ["bn", "gu", "kn", "mr", "ta", "te"])
def test_the_most_spoken_drafts_have_the_rarer_rooms_too(language: str) -> None:
    rooms = ["commitments", "calendar", "more", "spend", "memory", "people", "shared", "rules", "preview"]
    said: set[str] = set()
    for package, names_of in (("indai.desk", rooms), ("indai.web", ["sign_in"])):
        for name in names_of:
            text = _folder(package).joinpath("templates", f"{name}.html").read_text("utf-8")
            said |= {ast.literal_eval(one) for one in CALL.findall(text)}
    assert sorted(said - set(known(language))) == []


def test_templates_have_no_words_of_their_own() -> None:
    code = re.compile(r"{%.*?%}|{{.*?}}|{#.*?#}|<(script|code|pre).*?</\1>", re.DOTALL)
    names = {
        "ind",
        "ai",
        "English",
        "tlog",
        "proof",
        "COSE",
        "CSV",
        "JSON",
        "doctype",
        "html",
        "wide",
        "narrow",
        "ms",
    }
    for package in PACKAGES:
        for template in _folder(package).joinpath("templates").glob("*.html"):
            text = re.sub(r'<[^>]*>|[\w-]+="[^"]*"|&\w+;', " ", code.sub(" ", template.read_text("utf-8")))
            assert set(re.findall(r"[A-Za-z]{2,}", text)) <= names, template.name


def test_whatever_a_turn_is_sorted_by_has_words() -> None:
    routes = re.findall(r'Route\("(\w+)"', inspect.getsource(supervisor))
    acts = re.findall(r'note\(post, "(\w+)"', inspect.getsource(servicer))
    acts += re.findall(r'note\(who, [\w.]+, "(\w+)"', inspect.getsource(desk_service))
    parts = re.findall(r'(?:part|stage)\("(\w+)"\)', inspect.getsource(pipeline))
    moods = set(re.findall(r'"(\w+)"', inspect.getsource(perceive._mood)))
    assert {*routes, supervisor.KNOWLEDGE, "greet", "thank"} <= set(names.TOPICS)
    assert "gates" in parts
    assert {*STAGES, *parts, "total"} <= set(names.STAGES)
    assert len(acts) > 9
    assert set(acts) <= set(acts_in_words.CALLS)
    assert {"curt", "plain", "joking", "stressed"} <= moods & set(names.MOODS)


def test_names_days_and_numbers_are_in_the_language_of_the_page() -> None:
    hindi, tamil = names.Names(words_in("hi")), names.Names(words_in("ta"))
    assert hindi.of("topics", "greet") == "अभिवादन"
    assert (hindi.of("languages", "hi-Latn"), tamil.of("languages", "hi")) == ("हिन्दी (लैटिन)", "இந்தி")
    assert (hindi.of("regions", "India"), tamil.of("regions", "Britain (UK)")) == ("भारत", "யுனைடெட் கிங்டம்")
    # What a tenant named itself stands as it is, and so does what is not known.
    assert [hindi.of("regions", "Ward 4"), hindi.of("topics", "x"), hindi.of("bindings", "greet")] == [
        "Ward 4",
        "x",
        "greet",
    ]
    path = "/tenant/{tenant:[a-z0-9][a-z0-9-]{0,62}}/work/replay"
    assert hindi.of("acts", path) == "काम फिर चलाया"
    assert hindi.of("acts", path.replace("work", "other")) == "/tenant/…/other/replay"
    monday = datetime(2026, 11, 23, tzinfo=UTC)
    days = {one: show.Show(words_in(one), ZoneInfo("UTC"), 0).day(monday) for one in ("en", "hi", "ta")}
    assert days == {"en": "Mon 23 November", "hi": "सोम 23 नवंबर", "ta": "திங். 23 நவம்பர்"}
    shown = show.Show(words_in("hi"), ZoneInfo("UTC"), 0)
    assert (shown.number(1234567), shown.cost(12_345_678, "INR"), shown.cost(0, "")) == (
        "12,34,567",
        "₹12.35",
        "0",
    )


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("hi-IN,hi;q=0.9,en;q=0.8", "hi"),
        ("en-GB,hi;q=0.5", "en"),
        ("ta,hi;q=0.3", "hi"),
        ("hi;q=0", "en"),
        ("ta,ur;q=0.9", "en"),
        ("", "en"),
        ("*;;q=x, <script>", "en"),
    ],
)
def test_the_browser_says_which_language_it_wants(header: str, language: str) -> None:
    assert wanted(header) == language
    assert words_in("xx").language == "en"
