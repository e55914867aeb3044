"""Splits an error's text into a title of one line and details. Pure.

Terminal clients cut a finish's message to one line and wrap its details, so the remedy,
which comes last in our error texts, must never be in the title alone.
"""

from __future__ import annotations

import re

TITLE_CHARS = 80  # what a terminal shows on one line

# The end of the first statement. Addresses and times contain colons without a space after them.
_BREAK = re.compile(r"[.!?…](?=\s)|[:;](?=\s)")


def split_error(text: str) -> tuple[str, str]:
    """Returns title and details; the details are empty if the title is the whole text."""
    text = text.strip()
    first, _, _ = text.partition("\n")
    found = _BREAK.search(first)
    head = first if found is None else first[: found.end()]
    title = " ".join(head.rstrip(":;").split())
    if len(title) > TITLE_CHARS:
        # The details repeat the whole text: a statement that is cut in two is hard to read.
        return f"{title[: TITLE_CHARS - 1].rsplit(' ', 1)[0]}…", text
    return title, text[len(head) :].strip()
