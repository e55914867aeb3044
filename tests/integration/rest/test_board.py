"""The board: all workspaces, with what their newest sessions are doing, and their state in git."""

import asyncio
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from agents.tools.files.uncommitted import Uncommitted, UncommittedCache, read_uncommitted
from tests.integration.api.client import Api
from tests.integration.api.conftest import Opened
from workspaces.access import OWNER, Caller, Identity, IdentityKind, MemberRole
from workspaces.models import Workspace


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"]
    command = ["git", "-C", str(folder), *who, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(folder: Path) -> Path:
    git(folder, "init", "-q")
    (folder / "a").write_text("one\ntwo\n")
    (folder / "sub").mkdir()
    (folder / "sub" / "b").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


async def test_it_shows_open_and_closed_workspaces(rest: Api, workspace: Opened) -> None:
    session_id = await workspace.session("a title")
    (shown,) = (await rest.get("/api/board"))["items"]
    assert (shown["id"], shown["path"]) == (workspace.id, str(workspace.path))
    assert (shown["name"], shown["is_open"], shown["git"]) == ("project", True, None)
    (session,) = shown["sessions"]
    assert (session["id"], session["title"], session["state"]) == (session_id, "a title", "idle")

    await Workspace.objects.filter(pk=workspace.id).aupdate(is_open=False)
    (shown,) = (await rest.get("/api/board"))["items"]
    assert (shown["is_open"], len(shown["sessions"])) == (False, 1)
    assert (await rest.get("/api/board?is_open=true"))["items"] == []


async def test_it_has_an_entity_tag_and_pages(rest: Api, workspace: Opened) -> None:
    answer = await rest.call("GET", "/api/board")
    tag = answer.headers["etag"].encode()
    again = await rest.call("GET", "/api/board", headers=[(b"if-none-match", tag)])
    assert again.status == 304
    await workspace.session("new")
    again = await rest.call("GET", "/api/board", headers=[(b"if-none-match", tag)])
    assert again.status == 200

    await Workspace.objects.acreate(path="/another", data_dir="/d", opened_at=1)
    page = await rest.get("/api/board?limit=1")
    assert [each["id"] for each in page["items"]] == [workspace.id]
    page = await rest.get(f"/api/board?limit=1&cursor={page['next']}")
    assert ([each["path"] for each in page["items"]], page["next"]) == (["/another"], None)


async def test_it_shows_what_the_caller_may_do(rest: Api, workspace: Opened) -> None:
    async def can(caller: Caller) -> list[Any]:
        rest.caller = caller
        return [each["can"] for each in (await rest.get("/api/board"))["items"]]

    viewer = Identity(IdentityKind.USER, user_id=5, roles={workspace.id: MemberRole.VIEWER})
    assert await can(Caller(viewer)) == [["read", "open"]]
    assert await can(Caller(Identity(IdentityKind.USER, user_id=5))) == []
    (everything,) = await can(Caller(OWNER))
    assert {"read", "prompt", "answer", "shell", "administer"} <= set(everything)

    async def yes() -> bool:
        return True

    assert await can(Caller(OWNER, is_tool=yes)) == [["read", "open", "prompt"]]


@pytest.mark.parametrize("query", ["?sessions=0", "?sessions=51", "?is_open=maybe", "?cursor=x"])
async def test_a_wrong_query_is_refused(rest: Api, query: str) -> None:
    assert (await rest.call("GET", f"/api/board{query}")).status == 400


async def test_it_compares_with_git(rest: Api, repository: Path, workspace: Opened) -> None:
    (repository / "a").write_text("one\nthree\nfour\n")
    deadline = time.monotonic() + 20
    while (git_of := (await rest.get("/api/board"))["items"][0]["git"]) is None:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    assert git_of == {"branch": "main", "added": 2, "removed": 1}


# -- git


def test_only_the_folder_counts(repository: Path) -> None:
    (repository / "a").write_text("")
    (repository / "sub" / "b").write_text("one\nmore\n")
    assert read_uncommitted(repository / "sub") == Uncommitted("main", 1, 0)
    assert read_uncommitted(repository) == Uncommitted("main", 1, 2)


def test_staged_lines_count_and_new_files_do_not(repository: Path) -> None:
    (repository / "a").write_text("one\ntwo\nthree\n")
    git(repository, "add", "a")
    (repository / "new").write_text("x\n")
    assert read_uncommitted(repository) == Uncommitted("main", 1, 0)


def test_without_a_branch_the_commit_is_shown(repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD").strip()
    git(repository, "checkout", "-q", "--detach")
    assert read_uncommitted(repository) == Uncommitted(commit[:8], 0, 0)


def test_there_is_none_without_a_commit(tmp_path: Path) -> None:
    assert read_uncommitted(tmp_path) is None
    assert read_uncommitted(tmp_path / "missing") is None
    git(tmp_path, "init", "-q")
    assert read_uncommitted(tmp_path) is None


def test_a_linked_work_tree_and_the_other_hash_work(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    (tmp_path / "side" / "a").write_text("one\n")
    assert read_uncommitted(tmp_path / "side") == Uncommitted("side", 0, 1)
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q", "--object-format=sha256")
    (other / "a").write_text("one\n")
    git(other, "add", ".")
    git(other, "commit", "-q", "-m", "first")
    (other / "a").write_text("two\nthree\n")
    assert read_uncommitted(other) == Uncommitted("main", 2, 1)


def test_programs_of_the_repository_are_not_run(repository: Path, tmp_path: Path) -> None:
    """Neither filters, text conversion, external diffs, monitors, hooks nor submodules."""
    trap = tmp_path / "trap"
    run = f"sh -c 'touch {trap}; cat'"
    (repository / ".gitattributes").write_text("* filter=f diff=f\n")
    (repository / ".git" / "info" / "attributes").write_text("* filter=f diff=f\n")
    hook = repository / ".git" / "hooks" / "post-index-change"
    hook.write_text(f"#!/bin/sh\ntouch {trap}\n")
    hook.chmod(0o755)
    for key in (
        "filter.f.clean",
        "filter.f.smudge",
        "filter.f.process",
        "diff.f.textconv",
        "diff.f.command",
        "diff.external",
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
        "interactive.diffFilter",
    ):
        git(repository, "config", key, run)
    (repository / "a").write_text("one\ntwo\nthree\n")
    trap.unlink(missing_ok=True)
    assert read_uncommitted(repository) == Uncommitted("main", 1, 0)
    assert not trap.exists()


def test_a_hostile_repository_is_bounded(repository: Path) -> None:
    """A named pipe instead of a file, and a file that is too large to compare."""
    (repository / "a").unlink()
    os.mkfifo(repository / "a")
    with (repository / "sub" / "b").open("wb") as file:
        file.truncate(1 << 30)
    began = time.monotonic()
    found = read_uncommitted(repository)
    assert found is not None
    assert found.branch == "main"
    assert time.monotonic() - began < 20
    (repository / ".git" / "HEAD").write_text("ref: refs/heads/\x1b[31m\n")
    assert read_uncommitted(repository) is None


def test_a_known_value_is_there_at_once(repository: Path) -> None:
    cache = UncommittedCache()
    found = cache.get([str(repository)], at_most_seconds=20)
    assert found == {str(repository): Uncommitted("main", 0, 0)}
    (repository / "a").write_text("")
    assert cache.get([str(repository)], at_most_seconds=0) == found
