"""What is attached to a prompt is stored once, and read whole wherever it is shown."""

import base64
import uuid
from typing import Any

import orjson
from django.db import connection

from agents.models import Run
from agents.runs.conversation import read_transcript
from agents.runs.lease import Lease
from agents.runs.prompting.begin import begin_run
from agents.runs.transitions import claim_runs
from tests.integration.api.conftest import Opened
from tests.integration.api.test_prompts import prompt
from tests.integration.log.writing import in_thread
from tests.integration.runs.ground import register_worker
from workspaces.actions.messages import create_message
from workspaces.delivery.event_log import read_events
from workspaces.log.parts import Binary, Role, Text
from workspaces.log.reader import read
from workspaces.log.writer import writer
from workspaces.models import Attachment, Message

PICTURE = base64.b64encode(uuid.uuid4().bytes * 3_000).decode()
PART = {"type": "binary", "data": {"Path": "/p.png", "MIMEType": "image/png", "Data": PICTURE}}
# A person may write what a reference looks like; it stays what they wrote.
LIKE_A_REFERENCE = '"Data":{"attachment":"' + "0" * 64 + '"}'


def attached(content: str = PICTURE) -> list[dict[str, str]]:
    return [{"file_path": "/p.png", "file_name": "p", "mime_type": "image/png", "content": content}]


async def run_begins(workspace: Opened) -> None:
    def job(tx: Any) -> None:
        for run in claim_runs(tx, worker="w", limit=10):
            begin_run(tx, Lease(run.key, run.fence, run.workspace_id, run.session_id))

    await in_thread(register_worker, "w")
    await writer.write(workspace.id, job)


def stored_bytes() -> int:
    """Of everything that can hold a message, an event or a prompt."""
    columns = {
        "workspaces_attachment": "content",
        "workspaces_message": "parts",
        "workspaces_event": "payload",
        "agents_run": "attachments",
    }
    with connection.cursor() as cursor:
        total = 0
        for table, column in columns.items():
            cursor.execute(f"SELECT COALESCE(SUM(LENGTH({column})), 0) FROM {table}")
            total += cursor.fetchone()[0]
    return total


async def test_an_attachment_is_stored_once_and_read_whole_everywhere(workspace: Opened) -> None:
    session_id = await workspace.session()
    before = await read(stored_bytes)
    await prompt(workspace, session_id, LIKE_A_REFERENCE, attachments=attached(), run_id="r")
    await run_begins(workspace)
    assert await read(stored_bytes) - before < len(PICTURE) + 5_000

    text = {"type": "text", "data": {"text": LIKE_A_REFERENCE}}
    (message,) = await workspace.api.get(f"{workspace.url}/sessions/{session_id}/messages")
    assert message["parts"][:2] == [text, PART]
    for listed in ("messages/user", f"sessions/{session_id}/messages/user"):
        assert (await workspace.api.get(f"{workspace.url}/{listed}"))[0] == message
    snapshot = await workspace.api.get(
        f"/api/workspaces/{workspace.id}/snapshot?session={session_id}"
    )
    native = message | {"author": {"kind": "owner", "name": "owner", "user_id": None}}
    assert snapshot["messages"] == [native]
    events = await read(read_events, workspace.id, after=0)
    (event,) = [event for event in events if event.kind == "message.created"]
    assert orjson.loads(event.payload_json) == {"message": native}
    run_key = (await read(lambda: Run.objects.get())).pk
    (own,) = (await read(read_transcript, session_id, run_key)).own
    assert own.parts[1] == Binary("/p.png", "image/png", PICTURE)


async def test_the_live_event_is_the_one_that_is_read_later(workspace: Opened) -> None:
    session_id = await workspace.session()
    recorded: list[Any] = []

    def job(tx: Any) -> None:
        parts = (Text("look"), Binary("/p.png", "image/png", PICTURE))
        create_message(tx, workspace.id, session_id, role=Role.USER, parts=parts)
        recorded.extend(tx.recorded)

    await writer.write(workspace.id, job)
    (live,) = recorded
    (stored,) = await read(read_events, workspace.id, after=live.number - 1, limit=1)
    assert stored.payload_json == live.payload_json
    assert live.payload["message"]["parts"][1] == PART


async def test_the_same_file_is_stored_once_for_a_workspace(workspace: Opened) -> None:
    for _ in range(2):
        await prompt(workspace, await workspace.session(), attachments=attached())
    small = base64.b64encode(b"x" * 90).decode()
    await prompt(workspace, await workspace.session(), attachments=attached(small))
    assert await read(lambda: list(Attachment.objects.values_list("content", flat=True))) == [
        PICTURE
    ]


async def test_messages_that_were_stored_with_their_attachments_are_read(
    workspace: Opened,
) -> None:
    session_id = await workspace.session()
    await prompt(workspace, session_id, attachments=attached())
    await run_begins(workspace)
    (message,) = await workspace.api.get(f"{workspace.url}/sessions/{session_id}/messages")

    def job(_tx: Any) -> None:
        Message.objects.update(parts=orjson.dumps(message["parts"]).decode())
        Attachment.objects.all().delete()

    await writer.write(workspace.id, job)
    (again,) = await workspace.api.get(f"{workspace.url}/sessions/{session_id}/messages")
    assert again == message
