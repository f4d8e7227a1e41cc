"""Plots and tables of the desks: right in size, and nobody's words are markup or a formula in them."""

from __future__ import annotations

import csv as reader
import io
import xml.etree.ElementTree as ET

from google.protobuf.timestamp_pb2 import Timestamp
from indai.desk.plots import HEAD, HEIGHT, Bar, amount, share, stacked
from indai.desk.tenant_files import csv
from indai.desk.tenant_work import SLOW_MS, health
from indai.v1 import channels_pb2
from indai.web.catalog import words_in

NOW_MS = 1_795_408_200_000
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


def test_a_channel_says_how_it_stands_the_worst_first() -> None:
    def told(*, trouble: str = "", waits_ms: int = 0, dead: int = 0, heard: bool = True) -> list[str]:
        status = channels_pb2.GetChannelStatusResponse(
            channel=channels_pb2.Channel(trouble=trouble), waiting=1 if waits_ms else 0, dead=dead
        )
        if waits_ms:
            status.oldest_waiting_time.CopyFrom(Timestamp(seconds=(NOW_MS - waits_ms) // 1000))
        if heard:
            status.last_in_time.CopyFrom(Timestamp(seconds=1))
        return [tag.text for tag in health(status, NOW_MS, words_in("en"))]

    assert told() == told(waits_ms=SLOW_MS - 1000) == ["well"]
    assert told(heard=False) == ["nothing came yet"]
    assert told(waits_ms=SLOW_MS) == ["sends too slowly"]  # a provider that takes it and never answers
    assert told(trouble="whatsapp-190", waits_ms=SLOW_MS, dead=2) == ["cannot send", "2 not sent"]
    assert told(dead=1, heard=False) == ["1 not sent"]
