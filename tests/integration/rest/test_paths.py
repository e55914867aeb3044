"""Completion of the paths of files and folders."""

import os
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from agents.tools.search.completion import complete_folder, rank_of
from tests.integration.api.client import Api
from tests.integration.api.conftest import Opened


@pytest.fixture
def filled(folder: Path) -> Path:
    subprocess.run(["git", "-C", str(folder), "init", "-q"], check=True)
    for name in (
        "readme.md",
        "src/main.py",
        "src/model.py",
        "src/deep/domain.py",
        "tests/test_main.py",
        "build/main.py",
        ".github/main.yml",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    (folder / ".gitignore").write_text("build/\n")
    return folder


async def paths(rest: Api, workspace: Opened, q: str = "", more: str = "") -> list[str]:
    found = await rest.get(f"/api/workspaces/{workspace.id}/paths?q={quote(q)}{more}")
    assert found["is_complete"]
    return [each["path"] for each in found["items"]]


async def test_the_best_match_comes_first(rest: Api, filled: Path, workspace: Opened) -> None:
    found = await paths(rest, workspace, "main")
    assert found[:2] == ["src/main.py", ".github/main.yml"]
    assert set(found[2:]) == {"src/deep/domain.py", "tests/test_main.py"}
    assert await paths(rest, workspace, "SRC/mo") == ["src/model.py"]
    assert await paths(rest, workspace, "sdd") == ["src/deep/domain.py"]
    assert await paths(rest, workspace, "main", "&limit=1") == ["src/main.py"]
    assert await paths(rest, workspace, "nothing") == []


async def test_folders_are_found_too(rest: Api, filled: Path, workspace: Opened) -> None:
    address = f"/api/workspaces/{workspace.id}/paths?q=deep"
    assert (await rest.get(address))["items"] == [
        {"path": "src/deep", "is_folder": True},
        {"path": "src/deep/domain.py", "is_folder": False},
    ]
    top = await paths(rest, workspace)
    assert top[:5] == [".github", ".gitignore", "readme.md", "src", "tests"]


async def test_odd_names_and_links_are_left_out(
    rest: Api, filled: Path, workspace: Opened, tmp_path: Path
) -> None:
    (filled / "odd\x1b[31m").write_text("x")
    (filled / "odd\nname").write_text("x")
    Path(os.fsdecode(os.fsencode(filled) + b"/odd\xff")).write_text("x")
    (filled / "odd é").write_text("x")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "odd").write_text("x")
    (filled / "link").symlink_to(tmp_path / "outside")
    assert await paths(rest, workspace, "odd") == ["odd é"]


async def test_a_folder_that_a_link_has_replaced_is_empty(
    rest: Api, folder: Path, workspace: Opened, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("x")
    folder.rmdir()
    folder.symlink_to(tmp_path / "outside")
    assert await paths(rest, workspace, "secret") == []


@pytest.mark.parametrize("query", ["?limit=0", "?limit=101", f"?q={'x' * 201}", "?q=%00"])
async def test_a_wrong_query_is_refused(rest: Api, workspace: Opened, query: str) -> None:
    address = f"/api/workspaces/{workspace.id}/paths{query}"
    assert (await rest.call("GET", address)).status == 400


# -- folders


async def folders(rest: Api, path: Path | str) -> Any:
    return (await rest.get(f"/api/folders?path={quote(str(path))}"))["items"]


async def test_folders_that_can_be_opened(rest: Api, workspace: Opened, tmp_path: Path) -> None:
    for name in ("projects", "Program", "old project", ".hidden", "odd\nname"):
        (tmp_path / name).mkdir()
    (tmp_path / "profile").write_text("a file")
    found = await folders(rest, tmp_path / "pro")
    assert [each["name"] for each in found] == ["Program", "project", "projects", "old project"]
    known = {each["name"]: each["workspace_id"] for each in found}
    assert known["project"] == workspace.id
    assert known["projects"] is None
    assert [each["name"] for each in await folders(rest, f"{tmp_path}/.h")] == [".hidden"]
    within = await folders(rest, f"{tmp_path}/")
    assert [each["path"] for each in within][:2] == [
        f"{tmp_path}/old project",
        f"{tmp_path}/Program",
    ]


@pytest.mark.parametrize("path", ["relative", "/missing/folder/", "/etc/passwd/", "/x\x01/"])
async def test_other_paths_have_no_folders(rest: Api, path: str) -> None:
    assert await folders(rest, path) == []


def test_the_home_folder_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    for written in ("", "~/", "~/wo"):
        assert complete_folder(written, limit=5) == ([f"{tmp_path}/work"], True)


def test_a_long_query_takes_little_time() -> None:
    assert rank_of("a" * 199 + "b", "a" * 4_000) is None
