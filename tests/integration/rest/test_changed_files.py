"""The files that a session has changed, with their diffs."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.api.client import Api
from tests.integration.api.conftest import Opened
from workspaces.actions.files import record_change
from workspaces.actions.messages import create_message
from workspaces.actions.sessions import create_session
from workspaces.log.parts import Role, Text
from workspaces.log.writer import writer


async def change(
    workspace: Opened, session_id: str, path: str, before: str | None, after: str
) -> None:
    await writer.write(
        workspace.id,
        lambda tx: record_change(
            tx, workspace.id, session_id, path=path, before=before, after=after
        ),
    )


async def prompt(workspace: Opened, session_id: str) -> None:
    parts = (Text("go"),)
    await writer.write(
        workspace.id,
        lambda tx: create_message(tx, workspace.id, session_id, role=Role.USER, parts=parts),
    )


async def files(rest: Api, workspace: Opened, session_id: str, query: str = "") -> Any:
    return await rest.get(f"/api/workspaces/{workspace.id}/sessions/{session_id}/files{query}")


async def test_diffs_begin_with_the_session_or_its_newest_prompt(
    rest: Api, workspace: Opened
) -> None:
    session_id = await workspace.session()
    await prompt(workspace, session_id)
    await change(workspace, session_id, "/p/a", "one\n", "two\n")
    await change(workspace, session_id, "/p/b", None, "new\n")
    await prompt(workspace, session_id)
    await change(workspace, session_id, "/p/a", "two\n", "three\n")

    page = await files(rest, workspace, session_id)
    assert [(each["path"], each["change"]) for each in page["items"]] == [
        ("/p/a", "modified"),
        ("/p/b", "created"),
    ]
    first = page["items"][0]
    assert (first["additions"], first["removals"], first["is_cut"]) == (1, 1, False)
    assert "-one\n+three\n" in first["diff"]
    assert page["next"] is None

    (only,) = (await files(rest, workspace, session_id, "?since=turn"))["items"]
    assert "-two\n+three\n" in only["diff"]


async def test_a_file_that_is_as_it_was_is_left_out(rest: Api, workspace: Opened) -> None:
    session_id = await workspace.session()
    await change(workspace, session_id, "/p/a", "one\n", "two\n")
    await change(workspace, session_id, "/p/a", "two\n", "one\n")
    assert (await files(rest, workspace, session_id))["items"] == []


async def test_changes_of_child_sessions_are_included(rest: Api, workspace: Opened) -> None:
    session_id = await workspace.session()
    child = await writer.write(
        workspace.id,
        lambda tx: create_session(tx, workspace.id, title="child", parent_session_id=session_id),
    )
    await change(workspace, session_id, "/p/a", "one\n", "two\n")
    await change(workspace, child["id"], "/p/a", "two\n", "three\n")
    (only,) = (await files(rest, workspace, session_id))["items"]
    assert "-one\n+three\n" in only["diff"]


async def test_pages_are_in_the_order_of_paths(rest: Api, workspace: Opened) -> None:
    session_id = await workspace.session()
    for name in ("c", "a", "b"):
        await change(workspace, session_id, f"/p/{name}", "one\n", "two\n")
    page = await files(rest, workspace, session_id, "?limit=2")
    assert [each["path"] for each in page["items"]] == ["/p/a", "/p/b"]
    page = await files(rest, workspace, session_id, f"?limit=2&cursor={page['next']}")
    assert [each["path"] for each in page["items"]] == ["/p/c"]
    assert page["next"] is None


async def test_a_page_ends_before_its_diffs_are_too_long_together(
    rest: Api, workspace: Opened
) -> None:
    session_id = await workspace.session()
    names = [f"/p/{number}" for number in range(5)]
    for name in names:
        await change(workspace, session_id, name, None, "x" * 99 + "\n" * 150_000)
    found: list[str] = []
    cursor = ""
    while cursor is not None:
        page = await files(rest, workspace, session_id, f"?cursor={cursor}")
        assert len(page["items"]) in {1, 2}
        found += [each["path"] for each in page["items"]]
        cursor = page["next"]
    assert found == names


@pytest.mark.parametrize("query", ["?since=ever", "?limit=0", "?limit=51", "?cursor=%00"])
async def test_a_wrong_query_is_refused(rest: Api, workspace: Opened, query: str) -> None:
    session_id = await workspace.session()
    url = f"/api/workspaces/{workspace.id}/sessions/{session_id}/files{query}"
    assert (await rest.call("GET", url)).status == 400


# -- against git


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(folder: Path) -> Path:
    git(folder, "init", "-q")
    for name, text in {"kept": "same\n", "changed": "one\n", "removed": "gone\n"}.items():
        (folder / name).write_text(text)
    (folder / "picture").write_bytes(b"\0\1\2")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


async def test_diffs_against_git_end_with_the_files_on_the_disk(
    rest: Api, repository: Path, workspace: Opened, tmp_path: Path
) -> None:
    session_id = await workspace.session()
    (repository / "changed").write_text("two\n")
    (repository / "new").write_text("made\n")
    (repository / "removed").unlink()
    (repository / "picture").write_bytes(b"\0\3")
    (tmp_path / "outside").write_text("x")
    for name in ("kept", "changed", "new", "removed", "picture", "../outside", "never"):
        path = str((repository / name).resolve())
        await change(workspace, session_id, path, "a\n", "b\n")
    (repository / "changed").write_text("three\n")  # by another program, after the tool

    found = (await files(rest, workspace, session_id, "?since=git"))["items"]
    assert {Path(each["path"]).name: each["change"] for each in found} == {
        "changed": "modified",
        "new": "created",
        "removed": "deleted",
        "picture": "modified",
    }
    shown = {Path(each["path"]).name: each for each in found}
    assert "-one\n+three\n" in shown["changed"]["diff"]
    assert (shown["picture"]["diff"], shown["picture"]["is_cut"]) == ("", True)


async def test_a_repositorys_own_programs_are_not_run(
    rest: Api, repository: Path, workspace: Opened, tmp_path: Path
) -> None:
    """Neither filters, text conversion, external diffs, monitors nor hooks."""
    trap = tmp_path / "trap"
    run = f"sh -c 'touch {trap}; cat'"
    (repository / ".gitattributes").write_text("* filter=f diff=f\n")
    for key in (
        "filter.f.clean",
        "filter.f.smudge",
        "diff.f.textconv",
        "diff.f.command",
        "diff.external",
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
    ):
        git(repository, "config", key, run)
    session_id = await workspace.session()
    (repository / "changed").write_text("two\n")
    trap.unlink(missing_ok=True)
    await change(workspace, session_id, str(repository / "changed"), "one\n", "two\n")
    (item,) = (await files(rest, workspace, session_id, "?since=git"))["items"]
    assert "-one\n+two\n" in item["diff"]
    assert not trap.exists()


async def test_without_a_repository_there_is_no_commit(rest: Api, workspace: Opened) -> None:
    session_id = await workspace.session()
    address = f"/api/workspaces/{workspace.id}/sessions/{session_id}/files?since=git"
    answer = await rest.call("GET", address)
    assert (answer.status, answer.json["code"]) == (409, "no_repository")


async def test_a_link_is_not_followed(
    rest: Api, repository: Path, workspace: Opened, tmp_path: Path
) -> None:
    session_id = await workspace.session()
    (tmp_path / "secret").write_text("SECRET\n")
    await change(workspace, session_id, str(repository / "changed"), "one\n", "two\n")
    (repository / "changed").unlink()
    (repository / "changed").symlink_to(tmp_path / "secret")
    answer = await files(rest, workspace, session_id, "?since=git")
    assert "SECRET" not in str(answer)
