"""What a model is told that summarises a conversation; the text lies beside this file."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def summary_prompt() -> str:
    return Path(__file__).with_name("summary.md").read_text(encoding="utf-8").strip()
