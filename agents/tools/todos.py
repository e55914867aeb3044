"""The session's list of things to do, replaced whole by each call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.llm.contract import ToolSpec
from agents.tools import arguments
from agents.tools.contract import (
    BadArguments,
    Repetition,
    RequiredPermission,
    Todo,
    ToolContext,
    ToolOutcome,
    load_description,
)
from agents.tools.limits import MAX_TODO_CHARS, MAX_TODOS

STATUSES = ("pending", "in_progress", "completed")


@dataclass(frozen=True, slots=True)
class TodosArgs:
    todos: tuple[Todo, ...]


class Todos:
    repetition = Repetition.IDEMPOTENT
    spec = ToolSpec(
        name="todos",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {
                "todos": {
                    "type": "array",
                    "maxItems": MAX_TODOS,
                    "description": "The whole new list.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "content": {"type": "string", "description": "The task."},
                            "status": {"type": "string", "enum": list(STATUSES)},
                            "active_form": {
                                "type": "string",
                                "description": "The task while it is in progress: 'Running tests'.",
                            },
                        },
                        "required": ["content", "status", "active_form"],
                    },
                }
            },
            "required": ["todos"],
        },
    )

    def parse(self, given: Mapping[str, Any]) -> TodosArgs:
        return TodosArgs(
            tuple(
                _todo(label, item)
                for label, item in arguments.objects(given, "todos", max_items=MAX_TODOS)
            )
        )

    async def required_permission(
        self, _args: TodosArgs, _context: ToolContext
    ) -> RequiredPermission | None:
        return None  # the list is the session's own

    async def run(self, args: TodosArgs, context: ToolContext) -> ToolOutcome:
        before = await context.todos.read()
        await context.todos.replace(args.todos)
        earlier = {todo.content: todo.status for todo in before}
        done = [todo for todo in args.todos if todo.status == "completed"]
        active = [todo for todo in args.todos if todo.status == "in_progress"]
        metadata: dict[str, Any] = {
            "is_new": not before,
            "todos": [
                {"content": t.content, "status": t.status, "active_form": t.active_form}
                for t in args.todos
            ],
            "completed": len(done),
            "total": len(args.todos),
        }
        finished = [t.content for t in done if earlier.get(t.content, "completed") != "completed"]
        if finished:
            metadata["just_completed"] = finished
        started = [t for t in active if earlier.get(t.content) != "in_progress"]
        if started:
            metadata["just_started"] = started[0].active_form or started[0].content
        pending = len(args.todos) - len(done) - len(active)
        return ToolOutcome(
            f"The list is updated: {pending} pending, {len(active)} in progress, {len(done)} completed.",
            metadata=metadata,
        )


def _todo(label: str, item: Mapping[str, Any]) -> Todo:
    most = MAX_TODO_CHARS
    content = arguments.text(item, "content", max_bytes=most, blank=False, within=label)
    status = arguments.text(item, "status", max_bytes=most, within=label)
    if status not in STATUSES:
        raise BadArguments(
            f"{label}status must be one of {', '.join(STATUSES)}, not {status!r:.80}."
        )
    form = arguments.text(item, "active_form", default="", max_bytes=most, within=label)
    return Todo(content=content, status=status, active_form=form)
