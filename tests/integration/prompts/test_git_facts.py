"""What git says of real repositories, also of hostile ones, which must not run anything."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from agents.config.settings import ModelChoice, Settings
from agents.prompts.facts import GitFacts, GitMemory, gather_facts, git_facts

ENV = {"PATH": os.environ["PATH"], "GIT_DIR": "/nowhere", "PAGER": "false"}
PERSON = ["-c", "user.name=me", "-c", "user.email=me@example.org"]


def git(folder: Path, *arguments: str) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    subprocess.run(["git", *arguments], cwd=folder, env=env, check=True, capture_output=True)


def commit(folder: Path, message: str) -> None:
    git(folder, "add", "-A")
    git(folder, *PERSON, "commit", "-q", "--allow-empty", "-m", message)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("a\n")
    commit(folder, "Begin it")
    return folder


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A file that is there once anything of the repository was run."""
    return tmp_path / "canary"


async def test_a_folder_outside_of_a_repository_has_no_facts(tmp_path: Path) -> None:
    assert await git_facts(str(tmp_path), ENV) is None


async def test_branch_status_and_commits(repository: Path) -> None:
    commit(repository, "Mend it\n\nwith a body")
    (repository / "a.txt").write_text("b\n")
    (repository / "new.txt").touch()
    (repository / "sub").mkdir()
    for folder in (repository, repository / "sub"):
        facts = await git_facts(str(folder), ENV)
        assert facts is not None
        assert facts.branch == "main"
        assert facts.status == (" M a.txt", "?? new.txt")
        assert [line.split(" ", 1)[1] for line in facts.commits] == ["Mend it", "Begin it"]


async def test_a_repository_without_commits(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    assert await git_facts(str(tmp_path), ENV) == GitFacts("No commits yet on main")


async def test_it_is_bounded(repository: Path) -> None:
    for number in range(30):
        (repository / f"{'n' * 200}-{number}").touch()
    for number in range(8):
        git(repository, *PERSON, "commit", "-q", "--allow-empty", "-m", f"{number} " + "x" * 500)
    facts = await git_facts(str(repository), ENV)
    assert facts is not None
    assert (len(facts.status), facts.more_changes, len(facts.commits)) == (20, 10, 5)
    assert max(len(line) for line in (*facts.status, *facts.commits)) == 160


async def test_a_broken_repository_is_a_repository_of_which_nothing_is_known(
    tmp_path: Path,
) -> None:
    (tmp_path / ".git").write_text("gitdir: /nowhere\n")
    assert await git_facts(str(tmp_path), ENV) == GitFacts()


async def test_without_git_nothing_is_known(repository: Path) -> None:
    assert await git_facts(str(repository), {"PATH": "/nowhere"}) == GitFacts()


async def test_nothing_of_a_hostile_repository_is_run(repository: Path, canary: Path) -> None:
    trap = f"touch {canary}; cat"
    (repository / ".gitattributes").write_text("* filter=evil\n*.txt filter=e=v.il\n")
    for key in (
        "core.fsmonitor",
        "core.pager",
        "pager.log",
        "pager.status",
        "gpg.program",
        "diff.external",
        "filter.evil.clean",
        "filter.evil.process",
        "filter.e=v.il.clean",
        "core.sshCommand",
        "alias.status",
    ):
        git(repository, "config", key, f"!{trap}" if key.startswith("alias") else trap)
    git(repository, "config", "filter.evil.required", "true")
    git(repository, "config", "log.showSignature", "true")
    more = repository / ".git" / "more"
    more.write_text(f'[filter "evil"]\n\tsmudge = {trap}\n\tclean = {trap}\n')
    git(repository, "config", "include.path", "more")
    for name in ("post-index-change", "fsmonitor-watchman"):
        hook = repository / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {canary}\n")
        hook.chmod(0o755)
    # Of the same size and another time: git has to look into it, through the filter.
    (repository / "a.txt").write_text("b\n")
    facts = await git_facts(str(repository), ENV)
    assert facts is not None
    assert facts.status == (" M a.txt", "?? .gitattributes")
    assert not canary.exists()


async def test_git_is_asked_nothing_where_more_filters_are_configured_than_switched_off(
    repository: Path, canary: Path
) -> None:
    many = "".join(f'[filter "f{n}"]\n\tclean = cat\n' for n in range(230))
    config = repository / ".git" / "config"
    config.write_text(config.read_text() + many + f'[filter "x"]\n\tclean = touch {canary}; cat\n')
    (repository / ".gitattributes").write_text("* filter=x\n")
    (repository / "a.txt").write_text("b\n")
    assert await git_facts(str(repository), ENV) == GitFacts()
    assert not canary.exists()


async def test_a_bare_repository_among_the_files_of_a_clone_is_asked_nothing(
    repository: Path, canary: Path
) -> None:
    docs = repository / "docs"
    docs.mkdir()
    git(docs, "init", "-q", "--bare", ".")
    git(docs, "config", "core.fsmonitor", f"touch {canary}")
    git(docs, "config", "core.worktree", str(docs))
    git(repository, "config", "--file", str(docs / "config"), "core.bare", "false")
    for folder in (docs, docs / "refs"):
        assert await git_facts(str(folder), ENV) == GitFacts()
    assert not canary.exists()


async def test_the_trap_of_these_tests_works(repository: Path, canary: Path) -> None:
    (repository / ".gitattributes").write_text("* filter=evil\n")
    git(repository, "config", "filter.evil.clean", f"touch {canary}; cat")
    (repository / "a.txt").write_text("b\n")
    git(repository, "status")
    assert canary.exists()


async def test_a_configured_work_tree_elsewhere_is_not_listed(
    repository: Path, tmp_path: Path
) -> None:
    private = tmp_path / "private"
    private.mkdir()
    (private / "secret-name.txt").touch()
    git(repository, "config", "core.worktree", str(private))
    facts = await git_facts(str(repository), ENV)
    assert facts is not None
    assert "secret-name" not in str(facts)


async def test_a_git_that_hangs_is_ended_in_time(repository: Path, tmp_path: Path) -> None:
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nsleep 60\n")
    slow.chmod(0o755)
    started = time.monotonic()
    env = {"PATH": f"{slow.parent}:{os.environ['PATH']}"}
    assert await git_facts(str(repository), env) == GitFacts()
    assert time.monotonic() - started < 30


async def test_a_session_keeps_what_was_true_when_it_began(repository: Path) -> None:
    memory = GitMemory()
    first = await memory.facts_of("s-1", str(repository), ENV)
    (repository / "new.txt").touch()
    assert await memory.facts_of("s-1", str(repository), ENV) is first
    later = await memory.facts_of("s-2", str(repository), ENV)
    assert later is not None
    assert later.status == ("?? new.txt",)


async def test_facts_are_gathered_from_the_folder_and_the_settings(repository: Path) -> None:
    (repository / "AGENTS.md").write_text("Be kind.")
    settings = Settings({}, ModelChoice("p", "m"), ModelChoice("p", "m"))
    facts = await gather_facts(
        settings,
        workspace=str(repository),
        working_dir=str(repository),
        session_id="gathered",
        env=ENV,
        model_name="Big",
    )
    assert [file.text for file in facts.context] == ["Be kind."]
    assert facts.git is not None
    assert facts.attribution == settings.attribution
    assert facts.model_name == "Big"
