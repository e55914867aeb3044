"""Stores which files a session has read and changed, and its list of todos."""

from __future__ import annotations

from agents.tools.contract import FileMark, Todo
from workspaces.actions import files
from workspaces.actions.sessions import replace_todos
from workspaces.log.reader import read
from workspaces.log.statements import statements
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.models import Session


class DatabaseFileTracker:
    """The file tracker of one call. Its reads are written together with its result."""

    def __init__(self, workspace_id: str, session_id: str) -> None:
        self._workspace_id = workspace_id
        self._session_id = session_id
        self.fresh_reads: dict[str, FileMark] = {}

    async def read_mark(self, path: str) -> FileMark | None:
        return self.fresh_reads.get(path) or await read(_read_mark, self._session_id, path)

    async def record_read(self, path: str, mark: FileMark) -> None:
        self.fresh_reads[path] = mark

    async def record_change(
        self, path: str, *, before: str | None, after: str, mark: FileMark
    ) -> None:
        def job(tx: Transaction) -> None:
            files.record_change(
                tx, self._workspace_id, self._session_id, path=path, before=before, after=after
            )
            files.record_read(
                tx, self._session_id, path=path, mtime_ns=mark.mtime_ns, size=mark.size
            )

        self.fresh_reads.pop(path, None)  # that read is older than this write
        await writer.write(self._workspace_id, job)


class DatabaseTodos:
    def __init__(self, workspace_id: str, session_id: str) -> None:
        self._workspace_id = workspace_id
        self._session_id = session_id

    async def read(self) -> tuple[Todo, ...]:
        rows = await read(_read_todos, self._session_id)
        return tuple(Todo(row["content"], row["status"], row["active_form"]) for row in rows)

    async def replace(self, todos: tuple[Todo, ...]) -> None:
        rows = [
            {"content": t.content, "status": t.status, "active_form": t.active_form} for t in todos
        ]
        await writer.write(
            self._workspace_id,
            lambda tx: replace_todos(tx, self._workspace_id, self._session_id, todos=rows),
        )


def _read_mark(session_id: str, path: str) -> FileMark | None:
    with statements() as cursor:
        cursor.execute(
            "SELECT mtime_ns, size FROM workspaces_fileread WHERE session_id = %s AND path = %s",
            [session_id, path],
        )
        row = cursor.fetchone()
    return FileMark(*row) if row is not None else None


def _read_todos(session_id: str) -> list[dict[str, str]]:
    todos = Session.objects.filter(pk=session_id).values_list("todos", flat=True).first()
    return list(todos or [])
