from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents.config.settings import LspSettings
from agents.config.trust.project_code import RUNS_PROJECT_CODE
from agents.tools.lsp.plans import KNOWN, ServerPlan, plans_of

MakePlans = Callable[..., dict[str, ServerPlan]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def install(tmp_path: Path) -> Callable[..., str]:
    """A folder for ``PATH`` that holds these programs."""

    def make(*names: str) -> str:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        for name in names:
            (folder / name).write_text("#!/bin/sh\n")
            (folder / name).chmod(0o755)
        return str(folder)

    return make


def plans(root: Path, path: str, *configured: LspSettings, auto: bool = True) -> dict[str, Any]:
    found = plans_of(
        root,
        configured={settings.name: settings for settings in configured},
        starts_known=auto,
        env={"PATH": path},
    )
    return {plan.name: plan for plan in found}


def test_of_installed_ones_that_do_the_same_the_first_is_taken(
    root: Path, install: Callable[..., str]
) -> None:
    (root / "pyproject.toml").touch()
    path = install("pylsp", "basedpyright-langserver", "ruff", "gopls")
    found = plans(root, path)
    assert set(found) == {"basedpyright", "ruff", "gopls"}
    assert found["basedpyright"].argv == (f"{path}/basedpyright-langserver", "--stdio")
    assert found["basedpyright"].handles(root / "a.py", root)
    assert not found["basedpyright"].handles(root / "a.go", root)
    assert not found["gopls"].handles(root / "a.go", root)  # no marker of it


def test_a_marker_may_lie_one_folder_below_or_above_the_file(
    root: Path, install: Callable[..., str]
) -> None:
    path = install("gopls")
    deep = root / "x" / "y" / "z"
    deep.mkdir(parents=True)
    (deep / "go.mod").touch()
    (plan,) = plans(root, path).values()
    assert not plan.is_at_home
    assert plan.handles(deep / "main.go", root)
    assert not plan.handles(root / "x" / "main.go", root)
    (root / "x" / "go.work").touch()
    (plan,) = plans(root, path).values()
    assert plan.is_at_home


def test_programs_are_never_taken_from_a_relative_folder(
    root: Path, install: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "go.mod").touch()
    program = root / "gopls"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(root)
    assert plans(root, ".::bin") == {}
    named = LspSettings("gopls", command="./gopls")
    assert plans(root, ".", named)["gopls"].fault


def test_what_is_configured_covers_its_languages(root: Path, install: Callable[..., str]) -> None:
    (root / "pyproject.toml").touch()
    path = install("basedpyright-langserver", "ruff", "gopls", "mine")
    (root / "go.mod").touch()
    found = plans(root, path, LspSettings("mine", command="mine", filetypes=("py",)))
    assert set(found) == {"mine", "gopls"}
    assert found["mine"].is_configured


def test_a_known_one_can_be_tuned_or_switched_off(root: Path, install: Callable[..., str]) -> None:
    (root / "pyproject.toml").touch()
    path = install("basedpyright-langserver", "ruff")
    off = plans(root, path, LspSettings("ruff", is_disabled=True))
    assert off["ruff"].is_disabled
    assert not off["ruff"].handles(root / "a.py", root)
    assert "basedpyright" in off
    tuned = plans(root, path, LspSettings("basedpyright", options={"a": 1}))["basedpyright"]
    assert tuned.argv == (f"{path}/basedpyright-langserver", "--stdio")
    assert tuned.filetypes == ("python",)
    assert tuned.options == {"a": 1}


def test_without_file_types_every_file_is_handled(root: Path, install: Callable[..., str]) -> None:
    path = install("mine")
    plan = plans(root, path, LspSettings("mine", command="mine"))["mine"]
    assert plan.handles(root / "anything.xyz", root)
    marked = LspSettings("mine", command="mine", root_markers=("*.toml",))
    assert not plans(root, path, marked)["mine"].handles(root / "a", root)
    (root / "mine.toml").touch()
    assert plans(root, path, marked)["mine"].handles(root / "a", root)


def test_what_cannot_be_started_says_why(root: Path) -> None:
    found = plans(
        root,
        "/nowhere",
        LspSettings("a", command="missing-program"),
        LspSettings("b"),
        LspSettings("c", is_disabled=True, fault="command: $TOKEN is not set"),
        auto=False,
    )
    assert "the program is not on" in found["a"].fault
    assert "is missing" in found["b"].fault
    assert found["c"].fault == "command: $TOKEN is not set"
    assert not found["c"].is_disabled


def test_only_configured_ones_where_none_is_to_start_by_itself(
    root: Path, install: Callable[..., str]
) -> None:
    (root / "go.mod").touch()
    assert plans(root, install("gopls"), auto=False) == {}


def test_every_known_server_has_a_name_of_its_own_and_markers() -> None:
    assert len({known.name for known in KNOWN}) == len(KNOWN)
    assert all(known.root_markers and known.filetypes for known in KNOWN)


def test_servers_that_run_code_of_the_project_do_not_start_by_themselves_without_trust(
    root: Path, install: Callable[..., str]
) -> None:
    path = install("rust-analyzer", "clangd")
    for runs_project_code, names in ((True, {"rust-analyzer", "clangd"}), (False, {"clangd"})):
        found = plans_of(
            root,
            configured={},
            starts_known=True,
            env={"PATH": path},
            runs_project_code=runs_project_code,
        )
        assert {plan.name for plan in found} == names


def test_servers_that_run_code_of_the_project_are_known_by_the_same_command() -> None:
    commands = {known.name: known.command for known in KNOWN}
    for name, (command, _) in RUNS_PROJECT_CODE.items():
        assert commands[name] == command
