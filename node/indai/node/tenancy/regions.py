"""From which region somebody writes: that of the binding they reached, else the country of their time zone.

Nobody is asked where they are. A binding may say whom it is for (`region`, a ward or a district); otherwise
the zone that the visitor's browser or channel named tells the country, by the IANA database's own tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

UNKNOWN: Final = "unknown"


def region_of(binding: str, zone: str, regions: Mapping[str, str]) -> str:
    """`regions`: of bindings that have one."""
    return regions.get(binding) or countries().get(zone, UNKNOWN)


@cache
def countries() -> Mapping[str, str]:
    """The country's English name by time zone, older names of zones included."""
    names = dict(_rows("iso3166.tab"))
    found = {row[2]: names[row[0]] for row in _rows("zone.tab")}
    links = [line.split() for line in _text("tzdata.zi").splitlines() if line.startswith("L ")]
    return found | {old: found[now] for _, now, old in links if now in found and old not in found}


def _rows(name: str) -> list[list[str]]:
    return [line.split("\t") for line in _text(name).splitlines() if line and not line.startswith("#")]


def _text(name: str) -> str:
    return files("tzdata.zoneinfo").joinpath(name).read_text("utf-8")
