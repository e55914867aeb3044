"""With nothing configured the server does its main job all the same, with its built-in model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conversation import Seat, roles_and_finishes, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]

ONE_TOOL = [
    ("user", "stop"),
    ("assistant", "tool_use"),
    ("tool", "stop"),
    ("assistant", "end_turn"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project that nobody has configured."""
    folder = tmp_path / "bare"
    (folder / "src").mkdir(parents=True)
    (folder / "README.md").write_text("# Bare\n\nHello there.\n")
    (folder / "src" / "one.py").write_text("print('one')  # TODO: two\n")
    return folder


async def ask(seat: Seat, text: str, session: str | None = None) -> tuple[str, dict[str, Any]]:
    """Prompt without waiting for anybody; the session and how the run ended."""
    session = session or await seat.workspace.session()
    start = seat.stream.mark()
    await seat.workspace.prompt(session, text, f"{session} {start}")
    return session, await seat.stream.run_complete(session, f"{session} {start}")


async def ask_and_answer(
    seat: Seat, text: str, action: str, session: str | None = None
) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Prompt, and answer the one question that comes of it; also the question."""
    session = session or await seat.workspace.session()
    start = seat.stream.mark()
    await seat.workspace.prompt(session, text, f"{session} {start}")
    question = await seat.stream.wait_for(lambda e: e.type == "permission_request", start=start)
    assert question.session == session
    assert await seat.workspace.grant(question.payload, action) is True
    complete = await seat.stream.run_complete(session, f"{session} {start}")
    return session, complete, question.payload


async def test_an_interactive_client_finds_the_configuration_complete(
    shared_server: Server, connect: Connect, folder: Path
) -> None:
    workspace = await connect(shared_server).workspace(folder)
    config = await workspace.config()
    for kind in ("large", "small"):
        chosen = config["models"][kind]
        assert chosen["provider"] in config["providers"]
        models = config["providers"][chosen["provider"]]["models"]
        assert chosen["model"] in [model["id"] for model in models]
    large = config["models"]["large"]
    agent = await workspace.agent()
    assert agent["is_ready"] is True
    assert agent["model"]["id"] == large["model"]
    assert agent["model_cfg"]["provider"] == large["provider"]


async def test_it_introduces_itself_and_explains_how_to_configure_another(
    shared_server: Server, connect: Connect, folder: Path
) -> None:
    seat = await take_seat(connect(shared_server), folder)
    for _ in range(10):  # words that a busy machine sends late come together
        session, complete = await ask(seat, "What is the meaning of life?")
        assert "offline model" in complete["text"]
        assert "crush.json" in complete["text"]
        assert "OPENAI_API_KEY" in complete["text"]
        # It streams: the words came one after the other.
        replies = [
            e.text
            for e in seat.stream.of("message", session)
            if e.payload["role"] == "assistant" and e.text
        ]
        if len(set(replies)) > 3:
            break
    assert len(set(replies)) > 3
    assert all(complete["text"].startswith(text) for text in replies)
    shown = await seat.stream.wait_for(
        lambda e: (
            e.type == "session"
            and e.payload["title"].startswith("What is the meaning")
            and e.payload["completion_tokens"] > 0
        )
    )
    assert shown.payload["cost"] == 0


@pytest.mark.parametrize(
    ("text", "tool", "found"),
    [
        ("list files", "ls", "README.md"),
        ("read README.md", "view", "Hello there."),
        ("search for TODO in src", "grep", "one.py"),
        ("find files named *.py", "glob", "one.py"),
    ],
)
async def test_it_reads_with_the_real_tools_and_needs_no_permission(
    shared_server: Server, connect: Connect, folder: Path, text: str, tool: str, found: str
) -> None:
    seat = await take_seat(connect(shared_server), folder)
    session, complete = await ask(seat, text)
    assert found in complete["text"]
    messages = await seat.workspace.messages(session)
    assert roles_and_finishes(messages) == ONE_TOOL
    (result,) = [part["data"] for part in messages[2]["parts"] if part["type"] == "tool_result"]
    assert (result["name"], result["is_error"]) == (tool, False)
    assert found in result["content"]
    assert seat.stream.of("permission_request") == []


async def test_it_writes_a_file_when_it_is_allowed(
    shared_server: Server, connect: Connect, folder: Path
) -> None:
    seat = await take_seat(connect(shared_server), folder)
    session, complete, question = await ask_and_answer(
        seat, "write notes.txt containing Hello", "allow"
    )
    assert (question["tool_name"], question["action"]) == ("write", "write")
    assert question["params"]["file_path"] == str(folder / "notes.txt")
    assert question["params"]["new_content"] == "Hello"
    assert "error" not in complete
    assert (folder / "notes.txt").read_text() == "Hello"
    assert "notes.txt" in complete["text"]
    assert roles_and_finishes(await seat.workspace.messages(session)) == ONE_TOOL
    versions = [e.payload for e in seat.stream.of("file")]
    assert {v["path"] for v in versions} == {str(folder / "notes.txt")}


async def test_it_writes_nothing_when_it_is_denied(
    shared_server: Server, connect: Connect, folder: Path
) -> None:
    seat = await take_seat(connect(shared_server), folder)
    session, complete, _ = await ask_and_answer(seat, "write notes.txt containing Hello", "deny")
    assert "error" not in complete
    assert not (folder / "notes.txt").exists()
    messages = await seat.workspace.messages(session)
    assert roles_and_finishes(messages) == [
        ("user", "stop"),
        ("assistant", "end_turn"),
        ("tool", "stop"),
    ]
    assert messages[2]["parts"][0]["data"]["is_error"] is True


async def test_it_runs_a_command_when_it_is_allowed(
    shared_server: Server, connect: Connect, folder: Path
) -> None:
    seat = await take_seat(connect(shared_server), folder)
    _, complete, question = await ask_and_answer(
        seat, "run echo made > made.txt && cat made.txt", "allow"
    )
    assert (question["tool_name"], question["action"]) == ("bash", "execute")
    assert question["params"]["command"] == "echo made > made.txt && cat made.txt"
    assert (folder / "made.txt").read_text() == "made\n"
    assert "made" in complete["text"]
    # What only looks is not asked.
    start = seat.stream.mark()
    _, complete = await ask(seat, "run git --version")
    assert "git version" in complete["text"]
    assert [e for e in seat.stream.events[start:] if e.type == "permission_request"] == []


async def test_it_reads_a_file_and_edits_it_when_it_is_allowed(
    shared_server: Server, connect: Connect, folder: Path
) -> None:
    seat = await take_seat(connect(shared_server), folder)
    session, complete, question = await ask_and_answer(
        seat, "replace Hello with Goodbye in README.md", "allow_session"
    )
    assert question["tool_name"] == "edit"
    assert "Hello there." in question["params"]["old_content"]
    assert "Goodbye there." in question["params"]["new_content"]
    assert (folder / "README.md").read_text() == "# Bare\n\nGoodbye there.\n"
    assert "README.md" in complete["text"]
    assert roles_and_finishes(await seat.workspace.messages(session)) == [
        ("user", "stop"),
        ("assistant", "tool_use"),
        ("tool", "stop"),
        ("assistant", "tool_use"),
        ("tool", "stop"),
        ("assistant", "end_turn"),
    ]
    history = await seat.workspace.history(session)
    assert [v["Content"] for v in sorted(history, key=lambda v: v["Version"])] == [
        "# Bare\n\nHello there.\n",
        "# Bare\n\nGoodbye there.\n",
    ]
    # Allowed for the session: the same is not asked again there.
    start = seat.stream.mark()
    await ask(seat, "replace Goodbye with Farewell in README.md", session)
    assert [e for e in seat.stream.events[start:] if e.type == "permission_request"] == []
    assert (folder / "README.md").read_text() == "# Bare\n\nFarewell there.\n"
