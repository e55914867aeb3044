"""What a model is told before a conversation: the place, git, skills, context files, attribution."""

import os
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server


@pytest.fixture
def folder(project: Callable[..., Path]) -> Path:
    """A repository with a commit, a change, a context file and a skill."""
    folder = project(
        uuid.uuid4().hex,
        options={
            "attribution": {"trailer_style": "co-authored-by", "generated_with": False},
            "disabled_skills": ["crush-hooks"],
        },
    )
    (folder / "AGENTS.md").write_text("Tabs are not used here.")
    skill = folder / ".agents" / "skills" / "mend-it"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: mend-it\ndescription: Use it to mend.\n---\nHow.")
    git(folder, "init", "-q", "-b", "trunk")
    git(folder, "add", "AGENTS.md")
    git(folder, "-c", "user.name=me", "-c", "user.email=me@x.org", "commit", "-q", "-m", "Begin")
    return folder


def git(folder: Path, *arguments: str) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    subprocess.run(["git", *arguments], cwd=folder, env=env, check=True)


async def told(seat: Seat, model: ScriptedModel, session: str) -> str:
    """The system prompt of a new turn."""
    start, word = seat.stream.mark(), uuid.uuid4().hex
    await seat.workspace.prompt(session, f"{word} [[n=1]]")
    await seat.stream.run_complete(session, start=start)
    number = next(e["number"] for e in model.served(word) if not e["title"])
    system = model.request(number)["body"]["messages"][0]
    assert system["role"] == "system"
    return str(system["content"])


async def told_with_git(seat: Seat, model: ScriptedModel) -> str:
    """Git has two seconds; on a busy machine it may miss them, and the session keeps what it got."""
    prompt = ""
    for _ in range(20):
        prompt = await told(seat, model, await seat.workspace.session())
        if "Git branch" in prompt:
            break
    return prompt


async def test_a_model_is_told_of_the_place(
    shared_server: Server,
    connect: Callable[[Server], Client],
    model: ScriptedModel,
    folder: Path,
) -> None:
    seat = await take_seat(connect(shared_server), folder, env=[f"PATH={os.environ['PATH']}"])
    prompt = await told_with_git(seat, model)
    assert f"Working directory: {folder}" in prompt
    assert "Git branch: trunk" in prompt
    assert "?? crush.json" in prompt
    assert " Begin" in prompt
    assert "Tabs are not used here." in prompt
    assert "<name>mend-it</name>\n<description>Use it to mend.</description>" in prompt
    assert f"<location>{folder}/.agents/skills/mend-it/SKILL.md</location>" in prompt
    assert "<name>crush-config</name>" in prompt
    assert "<name>crush-hooks</name>" not in prompt  # disabled
    assert "Co-authored-by: fake-large via Crush <noreply@crush.invalid>" in prompt
    assert "Generated with Crush" not in prompt


async def test_git_is_told_as_it_was_when_the_session_began(
    shared_server: Server,
    connect: Callable[[Server], Client],
    model: ScriptedModel,
    folder: Path,
) -> None:
    seat = await take_seat(connect(shared_server), folder, env=[f"PATH={os.environ['PATH']}"])
    session = await seat.workspace.session()
    first = await told(seat, model, session)
    (folder / "new.txt").touch()
    assert await told(seat, model, session) == first  # a changed beginning would not be cached
    assert "?? new.txt" in await told_with_git(seat, model)


async def test_a_broken_skill_stops_no_turn(
    shared_server: Server,
    connect: Callable[[Server], Client],
    model: ScriptedModel,
    folder: Path,
) -> None:
    file = folder / ".agents" / "skills" / "mend-it" / "SKILL.md"
    file.write_bytes(b"---\nname: \xff\xfe [\n")
    seat = await take_seat(connect(shared_server), folder, env=[f"PATH={os.environ['PATH']}"])
    prompt = await told(seat, model, await seat.workspace.session())
    assert "mend-it" not in prompt
    assert "<name>crush-config</name>" in prompt
