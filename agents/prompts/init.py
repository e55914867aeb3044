"""What an agent is asked that describes a project to later ones; the text lies beside this file."""

from __future__ import annotations

from agents.prompts.template import filled

NAME_LIMIT = 200


def init_prompt(initialize_as: str) -> str:
    """``initialize_as``: the file to write. Pure."""
    name = " ".join(initialize_as.replace("`", "").split())[:NAME_LIMIT]
    return filled("init", file=name or "AGENTS.md")
