"""A session's memory of files and its list of things to do, held in memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from agents.tools.contract import FileMark, Todo


@dataclass
class MemoryFileTracker:
    """Keeps what was read and each version, in order, as the stored one does."""

    marks: dict[str, FileMark] = field(default_factory=dict)
    reads: list[str] = field(default_factory=list)
    versions: list[tuple[str, str | None, str]] = field(default_factory=list)

    @property
    def fresh_reads(self) -> dict[str, FileMark]:
        return {path: self.marks[path] for path in self.reads}

    async def read_mark(self, path: str) -> FileMark | None:
        return self.marks.get(path)

    async def record_read(self, path: str, mark: FileMark) -> None:
        self.reads.append(path)
        self.marks[path] = mark

    async def record_change(
        self, path: str, *, before: str | None, after: str, mark: FileMark
    ) -> None:
        """What a session wrote it knows: the new state counts as read."""
        self.versions.append((path, before, after))
        self.marks[path] = mark


@dataclass
class MemoryTodoList:
    todos: tuple[Todo, ...] = ()

    async def read(self) -> tuple[Todo, ...]:
        return self.todos

    async def replace(self, todos: tuple[Todo, ...]) -> None:
        self.todos = todos
