"""A tool's context over in-memory doubles, for a folder of the test's own."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agents.tools.contract import ToolContext
from tests.doubles.ledger import MemoryFileLedger, MemoryTodoList


@dataclass
class Desk:
    """The context with its doubles at hand."""

    context: ToolContext
    files: MemoryFileLedger
    todos: MemoryTodoList
    progress: list[str]


def make_desk(
    folder: Path,
    *,
    env: Mapping[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Desk:
    files, todos, told = MemoryFileLedger(), MemoryTodoList(), list[str]()
    context = ToolContext(
        working_dir=folder.resolve(),
        session_id=str(uuid.uuid4()),
        message_id="message",
        call_id="call",
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **(env or {})},
        process_mark=str(uuid.uuid4()),
        files=files,
        todos=todos,
        progress=progress or told.append,
    )
    return Desk(context, files, todos, told)
