"""Plots as SVG, drawn here: bars by day, stacked by part. Colours are the stylesheet's, by class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from markupsafe import Markup

WIDTH: Final = 640.0
HEIGHT: Final = 120.0
FOOT: Final = 2.0
HEAD: Final = 4.0
COLOURS: Final = 6
"""Classes `c0` to `c5` of the stylesheet; further parts share the last one."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One day: what each part adds, in the order of the plot's parts."""

    name: str
    parts: Mapping[str, float]

    @property
    def total(self) -> float:
        """All parts together."""
        return sum(self.parts.values())


def stacked(bars: Sequence[Bar], parts: Sequence[str], label: str, unit: str = "") -> Markup:
    """Bars from left to right, each stacked from `parts`; `label` is what a screen reader says first. The
    numbers stand in each bar's title, and in the table that the page offers. The drawing is stretched to the
    page's width, so words stand beside it and keep their size."""
    most = max((bar.total for bar in bars), default=0.0)
    if not bars or most <= 0:
        return Markup()
    step, room = WIDTH / len(bars), HEIGHT - FOOT - HEAD
    drawn = [_bar(bar, parts, at * step, step, room / most, unit) for at, bar in enumerate(bars)]
    top, ends = escape(f"{amount(most)} {unit}".strip()), [escape(bar.name) for bar in (bars[0], bars[-1])]
    foot = "".join(f"<span>{name}</span>" for name in (ends if len(bars) > 1 else ends[:1]))
    line = f'<line x1="0" y1="{HEAD}" x2="{WIDTH:.0f}" y2="{HEAD}"/>'
    name = escape(label, quote=True)
    return Markup(  # noqa: S704 - every word in it is escaped above
        f'<div class="plotted"><p>{top}</p>'
        f'<svg class="plot" viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" preserveAspectRatio="none" role="img"'
        f' aria-label="{name}">{line}{"".join(drawn)}</svg><p class="row spread">{foot}</p></div>'
    )


def share(value: float, most: float, ceiling: float = 0.0) -> Markup:
    """One bar in a row of a table, beside its number; with a mark at `ceiling` and its own colour above."""
    top = max(most, ceiling, value, 1e-9)
    look = " over" if ceiling and value > ceiling else ""
    at = max(0.0, 100 * ceiling / top - 0.6)
    mark = f'<rect class="mark" x="{at:.1f}" width="1.2" height="8"/>' if ceiling else ""
    return Markup(  # noqa: S704 - numbers alone
        '<svg class="share" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="c0{look}" width="{100 * value / top:.1f}" height="8" rx="1"/>{mark}</svg>'
    )


def amount(value: float) -> str:
    """A number as short as it can be read."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def _bar(bar: Bar, parts: Sequence[str], x: float, step: float, scale: float, unit: str) -> str:
    gap, base, drawn = min(step * 0.15, 4.0), HEIGHT - FOOT, []
    for at, part in enumerate(parts):
        value = bar.parts.get(part, 0.0)
        if value <= 0:
            continue
        tall = value * scale
        base -= tall
        title = escape(f"{bar.name}, {part}: {amount(value)} {unit}".strip())
        drawn.append(
            f'<rect class="c{min(at, COLOURS - 1)}" x="{x + gap:.1f}" y="{base:.1f}"'
            f' width="{step - 2 * gap:.1f}" height="{tall:.1f}"><title>{title}</title></rect>'
        )
    return "".join(drawn)
