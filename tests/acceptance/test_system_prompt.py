"""What a model is told before a conversation: the place, git, skills, context files, attribution."""

import json
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

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]


@pytest.fixture
def folder(project: MakeProject) -> Path:
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


async def system_prompt(seat: Seat, model: ScriptedModel, session: str) -> str:
    """The system prompt of a new turn."""
    start, word = seat.stream.mark(), uuid.uuid4().hex
    await seat.workspace.prompt(session, f"{word} [[n=1]]")
    await seat.stream.run_complete(session, start=start)
    number = next(e["number"] for e in model.served(word) if not e["title"])
    system = model.request(number)["body"]["messages"][0]
    assert system["role"] == "system"
    return str(system["content"])


async def system_prompt_with_git(seat: Seat, model: ScriptedModel) -> str:
    """Git has two seconds; on a busy machine it may miss them, and the session keeps what it got."""
    prompt = ""
    for _ in range(20):
        prompt = await system_prompt(seat, model, await seat.workspace.session())
        if "Git branch" in prompt:
            break
    return prompt


async def test_the_prompt_has_the_folder_git_context_files_skills_and_attribution(
    shared_server: Server,
    connect: Connect,
    model: ScriptedModel,
    folder: Path,
) -> None:
    seat = await take_seat(connect(shared_server), folder, env=[f"PATH={os.environ['PATH']}"])
    prompt = await system_prompt_with_git(seat, model)
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


async def test_the_prompt_has_the_git_state_from_the_sessions_start(
    shared_server: Server,
    connect: Connect,
    model: ScriptedModel,
    folder: Path,
) -> None:
    seat = await take_seat(connect(shared_server), folder, env=[f"PATH={os.environ['PATH']}"])
    session = await seat.workspace.session()
    first = await system_prompt(seat, model, session)
    (folder / "new.txt").touch()
    assert (
        await system_prompt(seat, model, session) == first
    )  # a changed beginning would not be cached
    assert "?? new.txt" in await system_prompt_with_git(seat, model)


async def test_a_broken_skill_stops_no_turn(
    shared_server: Server,
    connect: Connect,
    model: ScriptedModel,
    folder: Path,
) -> None:
    file = folder / ".agents" / "skills" / "mend-it" / "SKILL.md"
    file.write_bytes(b"---\nname: \xff\xfe [\n")
    seat = await take_seat(connect(shared_server), folder, env=[f"PATH={os.environ['PATH']}"])
    prompt = await system_prompt(seat, model, await seat.workspace.session())
    assert "mend-it" not in prompt
    assert "<name>crush-config</name>" in prompt


async def test_the_prompt_has_the_context_files_of_the_user_the_folders_above_and_the_workspace(
    embedded_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    path = project("repository/package")
    (path.parent / "AGENTS.md").write_text("word-of-the-repository")
    (path / "AGENTS.md").write_text("word-of-the-package " + "x" * 100_000 + " word-of-the-end")
    own = Path(embedded_server.env["HOME"], ".config/crush/CRUSH.md")
    own.parent.mkdir(parents=True)
    own.write_text("word-of-the-user")
    seat = await take_seat(connect(embedded_server), path)
    tag = uuid.uuid4().hex
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, tag, tag)
    await seat.stream.run_complete(session, tag)
    bodies = [model.request(entry["number"])["body"] for entry in model.served(tag)]
    sent_body = json.dumps(next(body for body in bodies if body.get("tools")))
    places = [sent_body.find(f"word-of-the-{w}") for w in ("user", "repository", "package")]
    assert -1 not in places
    assert places == sorted(places)
    assert "word-of-the-end" not in sent_body
