"""What the small model is told that names a session; the text lies beside this file."""

from __future__ import annotations

from agents.prompts.template import template


def title_prompt() -> str:
    return template("title")
