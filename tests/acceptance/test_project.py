"""Project initialisation through a running server: whether it is needed, its prompt, its mark."""

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.harness.client import Client, Workspace
from tests.acceptance.harness.http import UnexpectedStatus
from tests.acceptance.harness.shapes import Server

Open = Callable[..., Any]


@pytest.fixture
def open_project(
    shared_server: Server, connect: Callable[[Server], Client], project: Callable[..., Path]
) -> Open:
    async def opened(**configuration: Any) -> Workspace:
        folder = project(uuid.uuid4().hex, **configuration)
        return await connect(shared_server).workspace(folder)

    return opened


async def needed(workspace: Workspace) -> bool:
    answer = await workspace.call("GET", "/project/needs-init")
    assert set(answer) == {"needs_init"}
    return bool(answer["needs_init"])


async def test_a_project_is_marked_once_and_for_all(open_project: Open) -> None:
    workspace = await open_project()
    assert await needed(workspace)
    for _ in range(2):
        assert await workspace.call("POST", "/project/init") is None
        assert not await needed(workspace)
    data_dir = Path(workspace.answer["data_dir"])
    assert (data_dir / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize(
    "name", ["AGENTS.md", "CLAUDE.md", ".cursorrules", ".cursor/rules/a.md", "docs/own.md"]
)
async def test_a_context_file_says_that_it_is_done(open_project: Open, name: str) -> None:
    workspace = await open_project(options={"context_paths": ["docs/own.md"]})
    file = workspace.path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    if file.parent == workspace.path:
        assert await needed(workspace)  # an empty one says nothing
    file.write_text("Be kind.")
    assert not await needed(workspace)


async def test_the_configured_context_file_ends_the_need_to_initialize(open_project: Open) -> None:
    workspace = await open_project(options={"initialize_as": "NOTES.md"})
    prompt = (await workspace.call("GET", "/project/init-prompt"))["prompt"]
    assert "`NOTES.md`" in prompt
    assert "{{" not in prompt
    (workspace.path / "NOTES.md").write_text("Be kind.")
    assert not await needed(workspace)


async def test_an_empty_folder_has_nothing_to_describe(open_project: Open) -> None:
    workspace = await open_project()
    (workspace.path / "crush.json").unlink()
    (workspace.path / ".hidden").touch()
    assert not await needed(workspace)


async def test_an_unwritable_data_directory_is_reported(open_project: Open) -> None:
    workspace = await open_project()
    data_dir = Path(workspace.answer["data_dir"])
    shutil.rmtree(data_dir, ignore_errors=True)
    data_dir.write_text("a file")
    with pytest.raises(UnexpectedStatus) as refused:
        await workspace.call("POST", "/project/init")
    assert refused.value.status == 409
    assert refused.value.message == f"{data_dir} cannot be written: file exists"


async def test_an_unknown_workspace_is_404(open_project: Open) -> None:
    workspace = await open_project()
    await workspace.release()
    for method, path in (
        ("GET", "/project/needs-init"),
        ("POST", "/project/init"),
        ("GET", "/project/init-prompt"),
    ):
        with pytest.raises(UnexpectedStatus) as refused:
            await workspace.call(method, path)
        assert refused.value.status == 404
