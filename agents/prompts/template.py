"""Loads the Markdown beside this file and fills in its places, once each.

What is filled in is never looked through again: a value that looks like a place stays
as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from agents.tools.contract import Todo

_PLACE = re.compile(r"\{\{(\w+)\}\}")


@cache
def template(name: str) -> str:
    return Path(__file__).with_name(f"{name}.md").read_text(encoding="utf-8").strip()


def filled(name: str, **values: str) -> str:
    """Raises ``KeyError`` for a place that is not given: a mistake of ours."""
    return _PLACE.sub(lambda place: values[place[1]], template(name))


NAME_LIMIT = 200


def init_prompt(initialize_as: str) -> str:
    """``initialize_as``: the file to write. Pure."""
    name = " ".join(initialize_as.replace("`", "").split())[:NAME_LIMIT]
    return filled("init", file=name or "AGENTS.md")


def summary_prompt(todos: Sequence[Todo] = ()) -> str:
    """``todos``: the session's list, which the agent goes on with. Pure."""
    if not todos:
        return template("summary")
    listed = "\n".join(f"- [{todo.status}] {todo.content}" for todo in todos)
    return (
        f"{template('summary')}\n\nThe agent keeps this list of what is to be done, and goes on with"
        f" it. Under State, say of each item how far it is:\n<todos>\n{listed}\n</todos>"
    )


def title_prompt() -> str:
    return template("title")
