"""Markdown for people wraps at 120 columns. Rows of tables and code stay on one line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WIDTH = 120
READMES = (
    "agents",
    "crushclient",
    "crushsite",
    "notifications",
    "people",
    "permissions",
    "tests",
    "workspaces",
)
PAGES = sorted(
    {*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")}
    | {path for folder in READMES for path in (ROOT / folder).rglob("README.md")}
)


def long_lines(page: str) -> Iterator[int]:
    """The numbers of the lines that should have been wrapped."""
    is_code = False
    for number, line in enumerate(page.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        if len(line) > WIDTH and not is_code and not line.startswith("|"):
            yield number


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_wraps(page: Path) -> None:
    assert list(long_lines(page.read_text())) == []


def test_only_lines_of_prose_are_too_long() -> None:
    long = "word " * 30
    assert list(long_lines(f"{long}\n| {long} |\n```\n{long}\n```\n- {long}\nshort")) == [1, 6]
