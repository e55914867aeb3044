"""What is attached to a prompt is stored with it and reaches the model as far as it can see."""

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.attaching import PNG, attached, with_sight
from tests.acceptance.conversation import SHORT, roles_and_finishes, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server
from tests.acceptance.transcripts import requests_sent, user_texts

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]


async def test_an_attached_text_is_stored_and_sent_to_the_model(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    seat = await take_seat(connect(shared_server), project())
    session, mark = await seat.workspace.session(), uuid.uuid4().hex
    words = "Füße auf dem Tisch\n```\nfenced\n```\n"
    note = attached("note.txt", "text/plain", words.encode())
    await seat.workspace.prompt(session, f"{mark} {SHORT}", "one", attachments=[note])
    await seat.stream.run_complete(session, "one")
    user = (await seat.workspace.messages(session))[0]
    assert [part["type"] for part in user["parts"]] == ["text", "binary", "finish"]
    assert user["parts"][1]["data"] == {
        "Path": "/somewhere/note.txt",
        "MIMEType": "text/plain",
        "Data": note["content"],
    }
    payload = seat.stream.of("message", session)[0].payload
    assert payload["parts"] == user["parts"]
    (body,) = requests_sent(model, mark)
    (text,) = user_texts(body)
    assert text.startswith(f"{mark} {SHORT}\n\n")
    assert "note.txt" in text
    assert words.strip() in text
    # It is remembered in the next turn.
    await seat.workspace.prompt(session, f"{mark} again {SHORT}", "two")
    await seat.stream.run_complete(session, "two")
    assert words.strip() in user_texts(requests_sent(model, mark)[1])[0]


@pytest.mark.parametrize("sees", [True, False], ids=["a model that sees", "a blind model"])
async def test_an_image_reaches_a_model_that_supports_images_and_is_mentioned_to_others(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel, sees: bool
) -> None:
    path = project(providers=with_sight(model.base_url, sees))
    seat = await take_seat(connect(shared_server), path)
    session, mark = await seat.workspace.session(), uuid.uuid4().hex
    image = attached("shot.png", "image/png", PNG)
    await seat.workspace.prompt(session, f"{mark} {SHORT}", "one", attachments=[image])
    complete = await seat.stream.run_complete(session, "one")
    assert "error" not in complete
    (body,) = requests_sent(model, mark)
    content = body["messages"][-1]["content"]
    if sees:
        images = [item["image_url"]["url"] for item in content if item["type"] == "image_url"]
        assert images == [f"data:image/png;base64,{PNG}"]
    else:
        assert "shot.png" in content
        assert "cannot see" in content
        assert PNG[:40] not in str(body)


async def test_an_empty_prompt_needs_an_attached_text(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    seat = await take_seat(connect(shared_server), project())
    session, mark = await seat.workspace.session(), uuid.uuid4().hex
    image = attached("shot.png", "image/png", PNG)
    for files in (None, [], [image]):
        await seat.workspace.prompt(session, "", "one", attachments=files, expect=400)
    assert await seat.workspace.messages(session) == []
    note = attached("note.md", "text/markdown", f"{mark} {SHORT}".encode())
    await seat.workspace.prompt(session, "", "one", attachments=[note, image])
    complete = await seat.stream.run_complete(session, "one")
    assert "error" not in complete
    assert roles_and_finishes(await seat.workspace.messages(session)) == [
        ("user", "stop"),
        ("assistant", "end_turn"),
    ]
    (body,) = requests_sent(model, mark)
    assert user_texts(body)[0].count(mark) == 1


async def test_a_queued_prompt_keeps_its_attachments_when_it_joins(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    seat = await take_seat(connect(shared_server), project())
    session, gate, mark = await seat.workspace.session(), model.new_gate(), uuid.uuid4().hex
    await seat.workspace.prompt(session, f"[[gate={gate}]] [[tool=ls {{}}]]", "one")
    await model.wait_at_gate(gate)
    note = attached("note.txt", "text/plain", b"joined words")
    await seat.workspace.prompt(session, f"{mark} {SHORT}", attachments=[note])
    model.open_gate(gate)
    await seat.stream.run_complete(session, "one")
    (body,) = requests_sent(model, mark)
    assert "joined words" in user_texts(body)[-1]


@pytest.mark.parametrize("content", ["not base64!", "QUJ"], ids=["letters", "length"])
async def test_an_attachment_that_is_no_base64_is_refused(
    shared_server: Server, connect: Connect, project: MakeProject, content: str
) -> None:
    workspace = await connect(shared_server).workspace(project())
    session = await workspace.session()
    broken = attached("a.txt", "text/plain", content)
    await workspace.prompt(session, "hello", attachments=[broken], expect=400)
    assert (await workspace.get_session(session))["is_busy"] is False
