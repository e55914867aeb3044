"""A tool's context over in-memory doubles, for a folder of the test's own."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agents.tools.contract import ToolContext
from tests.doubles.file_tracker import MemoryFileTracker, MemoryTodoList


@dataclass
class ToolDoubles:
    """The context, with the doubles that it contains."""

    context: ToolContext
    files: MemoryFileTracker
    todos: MemoryTodoList
    progress: list[str]


def make_tool_doubles(
    folder: Path,
    *,
    env: Mapping[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> ToolDoubles:
    files, todos, progress_texts = MemoryFileTracker(), MemoryTodoList(), list[str]()
    context = ToolContext(
        working_dir=folder.resolve(),
        session_id=str(uuid.uuid4()),
        message_id="message",
        call_id="call",
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **(env or {})},
        process_mark=str(uuid.uuid4()),
        files=files,
        todos=todos,
        progress=progress or progress_texts.append,
    )
    return ToolDoubles(context, files, todos, progress_texts)
