"""A real model in the server itself: no key, no network, nothing but a line of configuration."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents.config.providers.built_in import LOCAL_MODEL, is_installed
from tests.acceptance.conversation import (
    CANCELLED_PAIR,
    Seat,
    roles_and_finishes,
    take_seat,
    text_of,
)
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.shapes import Server, Shape

pytestmark = [
    pytest.mark.skipif(
        not is_installed(), reason="the local model is not installed: bin/serve --local-model"
    ),
    pytest.mark.timeout(900),  # it computes, and a slow machine takes minutes for a sentence
]

Connect = Callable[[Server], Client]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project that has chosen the local model."""
    folder = tmp_path / "small"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "one.py").write_text("print('one')\n")
    choice = {"provider": "local", "model": LOCAL_MODEL}
    config = {
        "providers": {"local": {"type": "local"}},
        "models": {"large": {**choice, "max_tokens": 60}, "small": choice},
    }
    (folder / "crush.json").write_text(json.dumps(config))
    return folder


async def ask(seat: Seat, text: str) -> tuple[str, dict[str, Any]]:
    session = await seat.workspace.session()
    start = seat.stream.mark()
    await seat.workspace.prompt(session, text, f"{session} {start}")
    return session, await seat.stream.run_complete(session, f"{session} {start}", 240)


@pytest.mark.parametrize(("setting", "works"), [("1", "local"), ("0", "offline")])
async def test_it_serves_unconfigured_workspaces_when_the_server_was_started_for_it(
    make_a_server: Callable[..., Server], connect: Connect, tmp_path: Path, setting: str, works: str
) -> None:
    server = make_a_server(Shape.EMBEDDED, env={"CRUSH_LOCAL_MODEL": setting})
    server.start()
    (tmp_path / "bare").mkdir()
    workspace = await connect(server).workspace(tmp_path / "bare")
    config = await workspace.config()
    assert config["models"]["large"]["provider"] == works
    # It can be chosen in any case.
    assert config["providers"]["local"]["models"][0]["id"] == LOCAL_MODEL


async def test_it_answers_a_prompt_word_by_word(
    shared_server: Server, connect: Connect, folder: Path
) -> None:
    seat = await take_seat(connect(shared_server), folder)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, "Tell me about the sea.", "r1")
    await seat.stream.words(session, 3, 240)
    complete = await seat.stream.run_complete(session, "r1", 240)
    assert "error" not in complete
    messages = await seat.workspace.messages(session)
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert messages[1]["provider"] == "local"
    assert len(text_of(messages[1]).split()) > 5
    session_row = await seat.workspace.get_session(session)
    assert session_row["prompt_tokens"] > 0
    assert session_row["completion_tokens"] > 0
    assert session_row["cost"] == 0


async def test_it_calls_a_tool_within_its_schema_and_continues_with_the_result(
    shared_server: Server, connect: Connect, folder: Path
) -> None:
    seat = await take_seat(connect(shared_server), folder)
    await seat.workspace.skip_permissions(True)
    session, complete = await ask(seat, "Use the ls tool to list the folder src")
    assert "error" not in complete
    messages = await seat.workspace.messages(session)
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
    (call,) = [part["data"] for part in messages[1]["parts"] if part["type"] == "tool_call"]
    assert call["name"] == "ls"
    assert call["finished"] is True
    assert set(json.loads(call["input"])) == {"path"}
    assert isinstance(json.loads(call["input"])["path"], str)
    assert text_of(messages[3])


async def test_a_cancel_in_the_middle_stops_it(
    shared_server: Server, connect: Connect, folder: Path
) -> None:
    config = json.loads((folder / "crush.json").read_text())
    config["models"]["large"]["max_tokens"] = 1_000
    (folder / "crush.json").write_text(json.dumps(config))
    seat = await take_seat(connect(shared_server), folder)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, "Count from one to one thousand, in words.", "r1")
    await seat.stream.words(session, 3, 240)
    await seat.workspace.cancel(session)
    complete = await seat.stream.run_complete(session, "r1")
    assert complete["cancelled"] is True
    messages = await seat.workspace.messages(session)
    assert roles_and_finishes(messages) == CANCELLED_PAIR
    # It is free again: the next is not behind the rest of a thousand numbers.
    _, complete = await ask(seat, "Hello")
    assert "error" not in complete


@pytest.mark.parametrize("words", [0, 3])
async def test_a_server_stops_in_order_while_the_model_computes(
    make_a_server: Callable[..., Server], connect: Connect, folder: Path, words: int
) -> None:
    server = make_a_server(Shape.EMBEDDED)
    server.start()
    seat = await take_seat(connect(server), folder)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, "Tell me about the sea. " * 40, "r1")
    await seat.stream.words(session, words, 240)
    await asyncio.to_thread(server.stop)  # asserts that it ends with 0, and soon
