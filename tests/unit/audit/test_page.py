"""The HTML report: everything in it, nothing to fetch, and nothing out of a file is markup."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

from indai.client.audit import CommitmentVerdict, Finding, Place, Report, Severity, Verdict
from indai.client.audit.page import html_page
from indai.client.audit.report import Counts

from .worlds import Deal, World

VOID = {"meta", "br"}
HOSTILE = "<script>alert(1)</script>\u202e\x1b[31m\"'&"


class Reader(HTMLParser):
    """Checks that elements close as they open; collects tags, attributes and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return reader


def test_an_honest_audit_reads_well(tmp_path: Path) -> None:
    world = World()
    Deal(world).run()
    seen = read(html_page(world.audit(tmp_path), ["a.jsonl", "b.jsonl"]))
    for said in (
        "a.jsonl, b.jsonl",
        "Everything supplied is consistent",
        "VALID",
        "ind.ai/bob and ind.ai/alice",
    ):
        assert said in seen.text
    assert "Findings" not in seen.text


def test_what_a_file_says_is_never_markup() -> None:
    place = Place(HOSTILE, 3, 1)
    report = Report(
        (CommitmentVerdict(HOSTILE, Verdict.INVALID, (HOSTILE,), HOSTILE, (HOSTILE,), (place,)),),
        (Finding(Severity.FRAUD, "split-view", place, HOSTILE),),
        Counts(),
    )
    page = html_page(report, [HOSTILE])
    seen = read(page)
    assert "script" not in seen.tags
    assert not {"\x1b", "\u202e"} & set(seen.text)
    assert seen.text.count("<script>alert(1)</script>") >= 6
    assert "FRAUD" in seen.text


def test_the_page_fetches_nothing() -> None:
    page = html_page(Report((), (), Counts()), ["a.jsonl"])
    seen = read(page)
    assert not seen.attributes & {"src", "href", "onload", "onclick", "action"}
    assert not seen.tags & {"script", "link", "img", "iframe", "form"}
    for elsewhere in ("http://", "https://", "url(", "@import"):
        assert elsewhere not in page
