"""Plots and tables of the desks: right in size, and nobody's words are markup or a formula in them."""

from __future__ import annotations

import csv as reader
import io
import xml.etree.ElementTree as ET

from indai.desk.plots import HEAD, HEIGHT, Bar, amount, share, stacked
from indai.desk.tenant_files import csv

EVIL = '"><script>alert(1)</script>'


def test_bars_are_as_tall_as_their_numbers() -> None:
    bars = [Bar("mon", {"a": 1, "b": 3}), Bar("tue", {"a": 2})]
    drawn = ET.fromstring(str(stacked(bars, ["a", "b"], "Cost", "INR")))  # noqa: S314 - our own
    rects = [(rect.get("class"), float(rect.get("height", "0"))) for rect in drawn.iter("rect")]
    (_, a), (_, b), (_, c) = rects
    assert [name for name, _ in rects] == ["c0", "c1", "c0"]
    assert round(b / a, 1) == 3.0
    assert round(c / a, 1) == 2.0
    assert min(float(rect.get("y", "0")) for rect in drawn.iter("rect")) == HEAD
    assert (
        max(float(rect.get("y", "0")) + float(rect.get("height", "0")) for rect in drawn.iter("rect"))
        < HEIGHT
    )
    assert stacked([Bar("mon", {})], ["a"], "Cost") == ""


def test_names_are_no_markup() -> None:
    drawn = stacked([Bar(EVIL, {EVIL: 1})], [EVIL], EVIL, EVIL)
    assert "<script" not in drawn
    assert len(list(ET.fromstring(str(drawn)).iter("rect"))) == 1  # noqa: S314 - our own


def test_a_share_above_its_ceiling_says_so() -> None:
    assert "over" in share(900, 1000, 800)
    assert "over" not in share(700, 1000, 800)
    assert "mark" not in share(700, 1000)
    assert amount(1_234_567) == "1.23M"
    assert amount(0.5) == "0.5"


def test_a_table_runs_nothing_in_a_spreadsheet() -> None:
    table = csv("a,b", [("=1+1", 'x,"y"'), ("-3", "@SUM(A1)"), ("- a", -2)])
    rows = list(reader.reader(io.StringIO(table.decode())))
    assert rows == [["a", "b"], ["'=1+1", 'x,"y"'], ["-3", "'@SUM(A1)"], ["'- a", "-2"]]
