"""Loads the Markdown beside this file and fills in its places, once each.

What is filled in is never looked through again: a value that looks like a place stays
as it is.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_PLACE = re.compile(r"\{\{(\w+)\}\}")


@cache
def template(name: str) -> str:
    return Path(__file__).with_name(f"{name}.md").read_text(encoding="utf-8").strip()


def filled(name: str, **values: str) -> str:
    """Raises ``KeyError`` for a place that is not given: a mistake of ours."""
    return _PLACE.sub(lambda place: values[place[1]], template(name))
