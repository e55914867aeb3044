"""Charts as SVG, drawn on the server: no script and no style attribute. Pure.

The classes get their colours from a style sheet, for light and dark. Each chart is an image with a
sentence for screen readers, and its page has a table with the same figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

WIDTH, HEIGHT = 360, 120  # of the drawing; the page scales it
LEFT, BOTTOM, TOP = 44, 16, 8  # for labels
GAP = 0.2  # of a bar's width


@dataclass(frozen=True, slots=True)
class Bar:
    label: str  # of the axis
    value: float
    shown: str  # the value with its unit
    second: float = 0.0  # stacked on the first, for instance errors on successes


def bar_chart(title: str, bars: Sequence[Bar], *, top_label: str) -> SafeString:
    """Returns bars with the highest value at the left, and the first and last label below."""
    highest = max((bar.value + bar.second for bar in bars), default=0) or 1
    room = (WIDTH - LEFT) / max(1, len(bars))
    floor, reach = HEIGHT - BOTTOM, HEIGHT - BOTTOM - TOP
    shapes: list[tuple[str, str, str, str, str, str]] = []
    for number, bar in enumerate(bars):
        left, width = LEFT + room * (number + GAP / 2), room * (1 - GAP)
        base = float(floor)
        for css, value in (("bar", bar.value), ("bar-second", bar.second)):
            if value <= 0:
                continue
            tall = max(1.0, value / highest * reach)  # what is not nothing can be seen
            base -= tall
            hint = f"{bar.label}: {bar.shown}"
            shapes.append((css, f"{left:.1f}", f"{base:.1f}", f"{width:.1f}", f"{tall:.1f}", hint))
    drawn = format_html_join(
        "",
        '<rect class="{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>',
        shapes,
    )
    ends = (bars[0].label, bars[-1].label) if bars else ("", "")
    return format_html(
        '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">'
        '<line class="axis" x1="{}" y1="{}" x2="{}" y2="{}"></line>'
        '<line class="grid" x1="{}" y1="{}" x2="{}" y2="{}"></line>'
        '<text class="label end" x="{}" y="{}">{}</text><text class="label end" x="{}" y="{}">0</text>'
        '<text class="label" x="{}" y="{}">{}</text><text class="label end" x="{}" y="{}">{}</text>'
        "{}</svg>",
        *(WIDTH, HEIGHT, title),
        *(LEFT, floor, WIDTH, floor),
        *(LEFT, TOP, WIDTH, TOP),
        *(LEFT - 4, TOP + 4, top_label),
        *(LEFT - 4, floor),
        *(LEFT, HEIGHT - 3, ends[0]),
        *(WIDTH, HEIGHT - 3, ends[1]),
        drawn,
    )


def share_bar(value: float, whole: float) -> SafeString:
    """Returns one horizontal bar: a share of the whole, for a row of a table."""
    share = min(1.0, value / whole) if whole > 0 else 0.0
    return format_html(
        '<svg class="share" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="track" x="0" y="0" width="100" height="8"></rect>'
        '<rect class="bar" x="0" y="0" width="{}" height="8"></rect></svg>',
        f"{share * 100:.1f}",
    )
