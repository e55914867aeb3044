"""Every provider behind a real server: it thinks, calls a tool, hears the result, and is paid for."""

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conversation import take_seat, text_of
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.shapes import Server
from tests.doubles.recorded_provider import RecordedProvider
from tests.integration.llm.subjects import KEY, SUBJECTS, Subject

Connect = Callable[[Server], Client]


@pytest.fixture
async def provider() -> AsyncIterator[RecordedProvider]:
    async with RecordedProvider() as provider:
        yield provider


def configured(folder: Path, subject: Subject, provider: RecordedProvider) -> Path:
    model = {
        "id": subject.model,
        "can_reason": True,
        "cost_per_1m_in": 3.0,
        "cost_per_1m_out": 15.0,
        "cost_per_1m_in_cached": 3.75,
        "cost_per_1m_out_cached": 0.3,
    }
    entry = {
        "type": subject.kind,
        "base_url": provider.url + subject.base,
        "api_key": KEY,
        "models": [model],
    }
    choice = {"provider": subject.id, "model": subject.model, "think": True}
    config = {
        "providers": {subject.id: entry},
        # Titles come from elsewhere: what was recorded is for the conversation.
        "models": {"large": choice, "small": {"provider": "offline", "model": "offline-small"}},
    }
    folder.mkdir()
    (folder / "crush.json").write_text(json.dumps(config))
    return folder


async def talk(client: Client, folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    seat = await take_seat(client, folder)
    await seat.workspace.skip_permissions(True)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, "What is 27 * 453?", "r1")
    complete = await seat.stream.run_complete(session, "r1", 60)
    assert "error" not in complete
    messages = await seat.workspace.messages(session)
    session_row = await seat.workspace.get_session(session)
    await seat.workspace.release()
    return messages, session_row


async def test_a_conversation_with_a_tool_and_reasoning(
    shared_server: Server, connect: Connect, tmp_path: Path, provider: RecordedProvider
) -> None:
    client = connect(shared_server)
    for subject in SUBJECTS:
        provider.answers = [subject.recorded("reasoning"), subject.recorded("words")]
        provider.requests.clear()
        messages, session_row = await talk(
            client, configured(tmp_path / subject.id, subject, provider)
        )
        assert [message["role"] for message in messages] == [
            *("user", "assistant", "tool", "assistant"),
        ], subject.id
        thought, words = subject.expected("reasoning"), subject.expected("words")
        (reasoning,) = [part for part in messages[1]["parts"] if part["type"] == "reasoning"][:1]
        assert reasoning["data"]["thinking"] == thought["thinking"]
        assert text_of(messages[3]) == words["text"]
        spent = float(thought["cost"]) + float(words["cost"])
        assert session_row["cost"] == pytest.approx(spent, rel=1e-12), subject.id
        # What the provider wants back of its reasoning came with the tool's result.
        assert len(provider.requests) == 2
        assert (kept := thought.get("kept", "")) in provider.requests[1].raw.decode(), kept
