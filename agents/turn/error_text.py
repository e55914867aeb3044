"""An error's text as a title of one line and the details below it. Pure.

Terminal clients cut a finish's message to one line and wrap its details, so the cure,
which comes last in our sentences, must never stand in the title alone.
"""

from __future__ import annotations

import re

TITLE_CHARS = 80  # what a terminal shows on one line

# The end of a first statement. Addresses and times hold colons without a space.
_BREAK = re.compile(r"[.!?…](?=\s)|[:;](?=\s)")


def split_error(text: str) -> tuple[str, str]:
    """Title and details; the details are empty where the title says everything."""
    text = text.strip()
    first, _, _ = text.partition("\n")
    found = _BREAK.search(first)
    head = first if found is None else first[: found.end()]
    title = " ".join(head.rstrip(":;").split())
    if len(title) > TITLE_CHARS:
        # The details begin anew: a statement that is cut in two is hard to read.
        return f"{title[: TITLE_CHARS - 1].rsplit(' ', 1)[0]}…", text
    return title, text[len(head) :].strip()
