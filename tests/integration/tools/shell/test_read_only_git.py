"""Git commands that run without a permission request, in repositories that name programs."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agents.tools.shell.bash import Bash
from tests.doubles.tool_context import ToolDoubles, make_tool_doubles

PERSON = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
LINK = "protocol.file.allow=always"


def git(folder: Path, *arguments: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "LC_ALL": "C"}
    done = subprocess.run(
        ["git", "-c", LINK, *PERSON, *arguments],
        cwd=folder,
        env=env,
        check=True,
        capture_output=True,
    )
    return done.stdout.decode()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for text in ("a\n", "b\n"):
        (folder / "a.txt").write_text(text)
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", "Change it")
    (folder / "a.txt").write_text("c\n")
    return folder


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A file that is there once the repository's program has run."""
    return tmp_path / "canary"


@pytest.fixture
def trap(tmp_path: Path, canary: Path) -> str:
    program = tmp_path / "trap"
    program.write_text(f"#!/bin/sh\ntouch {canary}\nexec timeout 1 cat\n")
    program.chmod(0o755)
    return str(program)


Arm = Callable[[Path, str], None]


def configured(*settings: str, attributes: str = "") -> Arm:
    def arm(folder: Path, trap: str) -> None:
        if attributes:
            (folder / ".git" / "info").mkdir(exist_ok=True)
            (folder / ".git" / "info" / "attributes").write_text(attributes + "\n")
        for setting in settings:
            key, _, value = setting.partition(" ")
            git(folder, "config", key, value.replace("TRAP", trap))

    return arm


def signed(folder: Path, _trap: str) -> None:
    """A commit that carries a signature, which nobody can check."""
    raw = git(folder, "cat-file", "commit", "HEAD")
    head, _, body = raw.partition("\n\n")
    text = f"{head}\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n{body}"
    commit = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--stdin", "--literally"],
        cwd=folder, input=text.encode(), capture_output=True, check=True,
    )  # fmt: skip
    git(folder, "reset", "-q", "--soft", commit.stdout.decode().strip())


def both(*arms: Arm) -> Arm:
    def arm(folder: Path, trap: str) -> None:
        for each in arms:
            each(folder, trap)

    return arm


def partial(folder: Path, trap: str) -> None:
    """A clone without some object, whose server is a program."""
    server = folder.parent / "server"
    git(folder.parent, "clone", "-q", "--bare", str(folder), str(server))
    git(folder, "config", "core.repositoryFormatVersion", "1")
    git(folder, "config", "extensions.partialClone", "origin")
    git(folder, "config", "remote.origin.url", str(server))
    git(folder, "config", "remote.origin.promisor", "true")
    git(folder, "config", "remote.origin.uploadpack", trap)
    missing = git(folder, "rev-parse", "HEAD~1:a.txt").strip()
    (folder / ".git" / "objects" / missing[:2] / missing[2:]).unlink()


def watched(folder: Path, trap: str) -> None:
    git(folder, "config", "core.hooksPath", str(folder / "hooks"))
    (folder / "hooks").mkdir()
    (folder / "hooks" / "post-index-change").write_text(f"#!/bin/sh\n{trap}\n")
    (folder / "hooks" / "post-index-change").chmod(0o755)
    (folder / "a.txt").write_text("b\n")  # as in the index, but of another time
    os.utime(folder / "a.txt", (1, 1))


def submodule(folder: Path, trap: str) -> None:
    inner = folder / "sub"
    inner.mkdir()
    git(inner, "init", "-q", "-b", "main")
    (inner / "a.txt").write_text("a\n")
    git(inner, "add", "-A")
    git(inner, "commit", "-q", "-m", "Begin")
    git(folder, "add", "sub")
    git(folder, "commit", "-q", "-m", "Add sub")
    (inner / ".gitattributes").write_text("* filter=x\n")
    git(inner, "config", "filter.x.clean", trap)
    (inner / "a.txt").write_text("b\n")


CASES: dict[str, tuple[Arm, str]] = {
    "a file system monitor": (configured("core.fsmonitor TRAP"), "git status"),
    "a filter": (configured("filter.x.clean TRAP", attributes="* filter=x"), "git diff"),
    "a filter's process": (configured("filter.x.process TRAP", attributes="* filter=x"), "git status"),
    "a signature that is shown": (
        both(signed, configured("log.showSignature true", "gpg.program TRAP")), "git log -1"),
    "a signature in a format": (
        both(signed, configured("format.pretty %G?", "gpg.program TRAP")), "git log -1"),
    "a signature of another kind": (
        both(signed, configured("format.pretty %G?", "gpg.openpgp.program TRAP")), "git log -1"),
    "a server that has the missing objects": (partial, "git cat-file -p HEAD~1:a.txt"),
    "a hook": (watched, "git diff"),
    "a submodule's filter": (submodule, "git status"),
}  # fmt: skip
ASKED: dict[str, tuple[Arm, str]] = {
    "a program that compares": (configured("diff.external TRAP"), "git diff"),
    "a driver that compares": (configured("diff.x.command TRAP", attributes="* diff=x"), "git diff"),
    "a conversion": (configured("diff.x.textconv TRAP", attributes="* diff=x"), "git log -p"),
    "a conversion of an old file": (
        configured("diff.x.textconv TRAP", attributes="* diff=x"), "git blame a.txt"),
    "a viewer of manuals": (configured("man.x.cmd TRAP", "man.viewer x"), "git ls-files --help"),
    "a viewer of manuals, by a variable": (
        configured("man.x.cmd TRAP", "man.viewer x"), "x=--help; git rev-parse $x"),
    "a submodule's program, by an option": (
        both(submodule, lambda folder, trap: git(folder / "sub", "config", "diff.external", trap) and None),
        "git diff --submodule=diff --ignore-submodules=none"),
}  # fmt: skip


async def attempt(doubles: ToolDoubles, command: str) -> str | None:
    """What it printed; ``None`` where a person must be asked."""
    tool = Bash()
    args = tool.parse({"command": command, "description": ""})
    if await tool.required_permission(args, doubles.context) is not None:
        return None
    return (await tool.run(args, doubles.context)).content


def plainly(folder: Path, command: str) -> None:
    """As a person would run it: everything is armed."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder.parent)}
    subprocess.run(["bash", "-c", command], cwd=folder, env=env, capture_output=True, check=False)


@pytest.mark.parametrize("case", list(CASES))
async def test_it_runs_without_what_the_repository_names(
    case: str, repository: Path, canary: Path, trap: str
) -> None:
    arm, command = CASES[case]
    arm(repository, trap)
    assert await attempt(make_tool_doubles(repository), command) is not None
    assert not canary.exists()
    plainly(repository, command)
    assert canary.exists()  # the trap was armed


@pytest.mark.parametrize("case", list(ASKED))
async def test_what_cannot_be_switched_off_needs_permission(
    case: str, repository: Path, canary: Path, trap: str
) -> None:
    arm, command = ASKED[case]
    arm(repository, trap)
    assert await attempt(make_tool_doubles(repository), command) is None
    assert not canary.exists()


async def test_a_bare_repository_among_the_files_of_a_clone(
    tmp_path: Path, canary: Path, trap: str
) -> None:
    """``git clone`` carries it, with a configuration of its own."""
    source = tmp_path / "source"
    docs = source / "docs"
    docs.mkdir(parents=True)
    git(source, "init", "-q", "-b", "main")
    git(docs, "init", "-q", "-b", "main", "--bare", ".")
    git(docs, "config", "core.fsmonitor", trap)
    git(docs, "config", "core.worktree", str(tmp_path / "clone" / "docs"))
    git(source, "config", "--file", str(docs / "config"), "core.bare", "false")
    for empty in ("objects", "refs"):
        (docs / empty / "kept").touch()
    git(source, "add", "-A")
    git(source, "commit", "-q", "-m", "Docs")
    git(tmp_path, "clone", "-q", str(source), "clone")
    docs = tmp_path / "clone" / "docs"
    assert await attempt(make_tool_doubles(docs), "git status") is None
    assert not canary.exists()
    plainly(docs, "git status")
    assert canary.exists()


async def test_a_subfolder_with_a_bare_repository_above_it(tmp_path: Path, trap: str) -> None:
    git(tmp_path, "init", "-q", "--bare", ".")
    git(tmp_path, "config", "core.fsmonitor", trap)
    (tmp_path / "inner").mkdir()
    assert await attempt(make_tool_doubles(tmp_path / "inner"), "git log") is None


async def test_more_filters_than_are_switched_off_need_permission(
    repository: Path, canary: Path, trap: str
) -> None:
    many = "".join(f'[filter "f{n}"]\n\tclean = cat\n' for n in range(230))
    config = repository / ".git" / "config"
    config.write_text(config.read_text() + many + f'[filter "x"]\n\tclean = {trap}\n')
    (repository / ".git" / "info" / "attributes").write_text("* filter=x\n")
    assert await attempt(make_tool_doubles(repository), "git diff") is None
    assert not canary.exists()


async def test_more_configuration_than_is_read_needs_permission(repository: Path) -> None:
    config = repository / ".git" / "config"
    config.write_text(config.read_text() + "".join(f"[user]\n\tk{n} = x\n" for n in range(40_000)))
    assert await attempt(make_tool_doubles(repository), "git status") is None


async def test_sections_that_are_not_known_need_permission(repository: Path) -> None:
    git(repository, "config", "hook.x.command", "id")
    assert await attempt(make_tool_doubles(repository), "git status") is None


async def test_an_ordinary_repository_needs_no_permission(repository: Path) -> None:
    git(repository, "config", "user.name", "me")
    git(repository, "config", "remote.origin.url", "https://example.org/x.git")
    git(repository, "config", "branch.main.remote", "origin")
    git(repository, "config", "alias.st", "status")
    doubles = make_tool_doubles(repository)
    assert " M a.txt" in (await attempt(doubles, "git status --short") or "")
    assert "+c" in (await attempt(doubles, "git diff") or "")
    assert "Change it" in (await attempt(doubles, "git log --oneline | head -n 1") or "")


async def test_a_subfolder_sees_its_repository(repository: Path) -> None:
    (repository / "inner").mkdir()
    (repository / "inner" / "new.txt").touch()
    found = await attempt(make_tool_doubles(repository / "inner"), "git status --short")
    assert found is not None
    assert "M ../a.txt" in found


async def test_settings_that_the_environment_holds_stay(repository: Path) -> None:
    given = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "Me"}
    doubles = make_tool_doubles(repository, env=given)
    assert await attempt(doubles, "git config --get user.name") == "Me"


async def test_a_permitted_command_runs_as_a_person_would_run_it(
    repository: Path, canary: Path, trap: str
) -> None:
    git(repository, "config", "diff.external", trap)
    doubles = make_tool_doubles(repository)
    tool = Bash()
    args = tool.parse({"command": "git diff", "description": ""})
    assert await tool.required_permission(args, doubles.context) is not None
    await tool.run(args, doubles.context)  # after the person allowed it
    assert canary.exists()


async def test_a_repository_that_changes_between_request_and_run_is_judged_again(
    repository: Path, canary: Path, trap: str
) -> None:
    doubles = make_tool_doubles(repository)
    tool = Bash()
    args = tool.parse({"command": "git diff", "description": ""})
    assert await tool.required_permission(args, doubles.context) is None
    git(repository, "config", "diff.external", trap)
    with pytest.raises(Exception, match="path or the file has changed"):
        await tool.run(args, doubles.context)
    assert not canary.exists()
