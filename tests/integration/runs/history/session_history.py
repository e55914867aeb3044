"""Turns, files and rewinds of a session, for the tests of its history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
from asgiref.sync import async_to_sync

from agents.runs.file_tracker import DatabaseFileTracker
from agents.runs.history.rewind import (
    begin_rewind,
    rewind,
    undo_rewind,
)
from agents.runs.lease import Lease
from agents.tools.contract import FileMark
from tests.integration.runs.ground import (
    Ground,
    begin,
    claim,
    end,
    held_by,
    say,
    write,
)
from workspaces.access import Actor, IdentityKind
from workspaces.models import (
    Message,
    Session,
)
from workspaces.queries.messages import list_messages

ACTOR = Actor(IdentityKind.USER, "ada")


def turn(ground: Ground, prompt: str, reply: str = "", *, session_id: str = "") -> list[str]:
    """A whole turn; returns the ids of its prompt and its reply."""
    held = ground.start(prompt, session_id=session_id)
    reply_id = say(held, reply or f"{prompt}: done")
    end(held)
    prompt_row = Message.objects.get(run_key=held.key, role="user")
    return [prompt_row.pk, reply_id]


def change(ground: Ground, path: Path, after: str, *, session_id: str = "") -> None:
    """Writes a file as a tool does."""
    before = path.read_text() if path.exists() else None
    path.write_text(after)
    status = path.stat()
    tracker = DatabaseFileTracker(ground.workspace_id, session_id or ground.session_id)
    mark = FileMark(status.st_mtime_ns, status.st_size)
    async_to_sync(tracker.record_change)(str(path), before=before, after=after, mark=mark)


def next_run() -> Lease:
    (claimed,) = claim()
    return begin(held_by(claimed.key, claimed))


def begin_with_files(ground: Ground, message_id: str) -> str:
    return write(
        lambda tx: begin_rewind(
            tx, ground.workspace_id, ground.session_id, message_id=message_id, with_files=True
        )
    )


def go_back(ground: Ground, message_id: str = "", **more: Any) -> dict[str, Any]:
    rewound = async_to_sync(rewind)(
        ground.workspace_id, ground.session_id, message_id=message_id, actor=ACTOR, **more
    )
    return dict(rewound)


def undo(ground: Ground, rewind_id: str) -> dict[str, Any]:
    undone = async_to_sync(undo_rewind)(
        ground.workspace_id, ground.session_id, rewind_id, actor=ACTOR
    )
    return dict(undone)


def messages(ground: Ground) -> list[Any]:
    found = list_messages(ground.workspace_id, ground.session_id)
    return [orjson.loads(orjson.dumps(message)) for message in found]


def ids(ground: Ground) -> list[str]:
    return [message["id"] for message in messages(ground)]


def session(ground: Ground) -> Session:
    return Session.objects.get(pk=ground.session_id)


def results(files: list[dict[str, str]]) -> dict[str, str]:
    return {Path(file["path"]).name: file["reason"] or file["result"] for file in files}
