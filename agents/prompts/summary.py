"""What a model is told that summarises a conversation; the text lies beside this file."""

from __future__ import annotations

from collections.abc import Sequence

from agents.prompts.template import template
from agents.tools.contract import Todo


def summary_prompt(todos: Sequence[Todo] = ()) -> str:
    """``todos``: the session's list, which the agent goes on with. Pure."""
    if not todos:
        return template("summary")
    listed = "\n".join(f"- [{todo.status}] {todo.content}" for todo in todos)
    return (
        f"{template('summary')}\n\nThe agent keeps this list of what is to be done, and goes on with"
        f" it. Under State, say of each item how far it is:\n<todos>\n{listed}\n</todos>"
    )
