"""Prompting, queueing, cancelling and answering through the API, without a worker."""

import base64
import uuid

import pytest
from pytest_django.fixtures import Settings

from agents.models import Run
from permissions.models import PermissionRequest
from tests.integration.api.conftest import Opened
from workspaces.log.reader import read
from workspaces.log.writer import writer


async def prompt(workspace: Opened, session_id: str, text: str = "hello", **more: object) -> None:
    body = {"session_id": session_id, "prompt": text, **more}
    await workspace.api.post(f"{workspace.url}/agent", body)


def runs() -> list[Run]:
    return list(Run.objects.order_by("accept_number"))


async def test_a_prompt_is_durable_when_it_is_answered(workspace: Opened) -> None:
    session_id = await workspace.session()
    await prompt(workspace, session_id, run_id="r1")
    (run,) = await read(runs)
    assert (run.prompt, run.run_id, run.state) == ("hello", "r1", "accepted")


@pytest.mark.parametrize("run_id", [None, ""])
async def test_an_empty_run_id_is_none(workspace: Opened, run_id: str | None) -> None:
    await prompt(workspace, await workspace.session(), run_id=run_id)
    (run,) = await read(runs)
    assert run.run_id is None


async def test_a_retry_is_the_same_run(workspace: Opened) -> None:
    session_id = await workspace.session()
    for _ in range(3):
        await prompt(workspace, session_id, run_id="r1")
    assert len(await read(runs)) == 1
    body = {"session_id": session_id, "prompt": "another", "run_id": "r1"}
    answer = await workspace.api.call("POST", f"{workspace.url}/agent", body)
    assert answer.status == 409
    assert "run_id" in answer.message


async def test_attachments_are_kept(workspace: Opened) -> None:
    sent = {
        "file_path": "/a/notes.md",
        "file_name": "notes.md",
        "mime_type": "text/markdown",
        "content": base64.b64encode(b"# hi").decode(),
    }
    await prompt(workspace, await workspace.session(), "", attachments=[sent])
    (run,) = await read(runs)
    assert sent["content"] in run.attachments
    assert "notes.md" in run.attachments


@pytest.mark.parametrize("attachments", [None, []])
async def test_no_attachments(workspace: Opened, attachments: object) -> None:
    await prompt(workspace, await workspace.session(), attachments=attachments)
    (run,) = await read(runs)
    assert run.attachments == "[]"


async def test_prompts_wait_in_order_and_are_cleared(workspace: Opened) -> None:
    session_id = await workspace.session()
    for text in ("one", "two", "three"):
        await prompt(workspace, session_id, text)
    url = f"{workspace.url}/agent/sessions/{session_id}/prompts"
    assert await workspace.api.get(f"{url}/queued") == 2
    assert await workspace.api.get(f"{url}/list") == ["two", "three"]
    assert (await workspace.api.call("POST", f"{url}/clear")).status == 200
    assert await workspace.api.get(f"{url}/queued") == 0
    assert await workspace.api.get(f"{url}/list") is None


async def test_a_cancel_ends_what_was_accepted(workspace: Opened) -> None:
    session_id = await workspace.session()
    await prompt(workspace, session_id)
    url = f"{workspace.url}/agent/sessions/{session_id}"
    assert (await workspace.api.get(url))["is_busy"] is True
    answer = await workspace.api.call("POST", f"{url}/cancel")
    assert (answer.status, answer.body) == (200, b"")
    assert (await workspace.api.get(url))["is_busy"] is False
    messages = await workspace.api.get(f"{workspace.url}/sessions/{session_id}/messages")
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert (await workspace.api.get(f"{workspace.url}/agent"))["is_busy"] is False


async def ask(workspace: Opened, session_id: str) -> PermissionRequest:
    request = PermissionRequest(
        workspace_id=workspace.id,
        session_id=session_id,
        run_key=(await read(runs))[0].pk,
        tool_call_id="call_1",
        tool_name="bash",
        action="execute",
        path=str(workspace.path),
    )
    await writer.write(workspace.id, lambda tx: request.save(force_insert=True))
    return request


@pytest.mark.parametrize("action", ["allow", "allow_session", "deny"])
async def test_the_first_answer_wins(workspace: Opened, action: str) -> None:
    session_id = await workspace.session()
    await prompt(workspace, session_id)
    request = await ask(workspace, session_id)
    shown = {"id": request.pk, "tool_call_id": "call_1", "params": {"command": "x"}, "path": "/"}
    url = f"{workspace.url}/permissions/grant"
    body = {"permission": shown, "action": action}
    assert await workspace.api.post(url, body) == {"resolved": True}
    assert await workspace.api.post(url, body) == {"resolved": False}


async def test_an_answer_to_nothing_resolves_nothing(workspace: Opened) -> None:
    body = {"permission": {"id": str(uuid.uuid4())}, "action": "allow"}
    answer = await workspace.api.post(f"{workspace.url}/permissions/grant", body)
    assert answer == {"resolved": False}


async def refusal_of(workspace: Opened, session_id: str, text: str, **more: object) -> str:
    body = {"session_id": session_id, "prompt": text, **more}
    answer = await workspace.api.call("POST", f"{workspace.url}/agent", body)
    assert answer.status == 429
    return answer.message


async def test_a_session_takes_only_so_many_prompts_that_wait(
    workspace: Opened, settings: Settings
) -> None:
    settings.CRUSH_MAX_QUEUED_PROMPTS = 3
    session_id, other = await workspace.session(), await workspace.session()
    for number in range(3):
        await prompt(workspace, session_id, run_id=f"r{number}")
    said = await refusal_of(workspace, session_id, "one more")
    assert "3 prompts" in said
    await prompt(workspace, session_id, run_id="r1")  # a retry is no further prompt
    await prompt(workspace, other)  # a queue is a session's own
    answer = await workspace.api.call("POST", f"{workspace.url}/agent/sessions/{session_id}/cancel")
    assert answer.status == 200
    await prompt(workspace, session_id)
    assert len(await read(runs)) == 5


async def test_a_session_takes_only_so_many_bytes_that_wait(
    workspace: Opened, settings: Settings
) -> None:
    settings.CRUSH_MAX_QUEUED_BYTES = 10_000
    session_id = await workspace.session()
    picture = {"mime_type": "image/png", "content": base64.b64encode(b"x" * 6_000).decode()}
    await prompt(workspace, session_id, "ä" * 8_000)  # one may always wait
    assert "10000 bytes" in await refusal_of(workspace, session_id, "x")
    other = await workspace.session()
    await prompt(workspace, other, attachments=[picture])
    await prompt(workspace, other, "b" * 1_900)
    await refusal_of(workspace, other, "c" * 200)
    await prompt(workspace, other, "d")
