"""Plans the language servers of a workspace: the configured ones and the installed ones.

It reads the disk (the programs on the workspace's ``PATH``, the project's marker
files): call it in a thread. It starts nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from agents.config.settings import LspSettings
from agents.config.trust.project_code import RUNS_PROJECT_CODE
from agents.tools.lsp.languages import fits, languages_in


@dataclass(frozen=True, slots=True)
class KnownServer:
    name: str
    command: str
    args: tuple[str, ...]
    filetypes: tuple[str, ...]
    root_markers: tuple[str, ...]
    # Of several servers for the same work, the first installed one is started.
    work: str


_JS = ("javascript", "javascriptreact", "typescript", "typescriptreact")
_C = ("c", "cpp", "objective-c", "objective-cpp", "cuda")
_PYTHON = (
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "requirements.txt",
    "Pipfile",
    "pyrightconfig.json",
    "uv.lock",
)
_RUFF = ("pyproject.toml", "ruff.toml", ".ruff.toml")
_NODE = ("package.json", "tsconfig.json", "jsconfig.json")
_CPP = ("compile_commands.json", "compile_flags.txt", ".clangd", "CMakeLists.txt", "meson.build")
_STDIO = ("--stdio",)


def _server(
    name: str,
    filetypes: tuple[str, ...],
    root_markers: tuple[str, ...],
    *,
    command: str = "",
    args: tuple[str, ...] = (),
    work: str = "",
) -> KnownServer:
    return KnownServer(name, command or name, args, filetypes, root_markers, work or filetypes[0])


KNOWN: tuple[KnownServer, ...] = (
    _server("gopls", ("go", "go.mod"), ("go.mod", "go.work")),
    _server("rust-analyzer", ("rust",), ("Cargo.toml", "rust-project.json")),
    _server("basedpyright", ("python",), _PYTHON, command="basedpyright-langserver", args=_STDIO),
    _server("pyright", ("python",), _PYTHON, command="pyright-langserver", args=_STDIO),
    _server("pylsp", ("python",), _PYTHON),
    _server("jedi-language-server", ("python",), _PYTHON),
    _server("ruff", ("python",), _RUFF, args=("server",), work="python style"),
    _server("vtsls", _JS, _NODE, args=_STDIO, work="javascript"),
    _server("typescript-language-server", _JS, _NODE, args=_STDIO, work="javascript"),
    _server("clangd", _C, _CPP),
    _server(
        "lua-language-server",
        ("lua",),
        (".luarc.json", ".luarc.jsonc", ".stylua.toml", "stylua.toml", "selene.toml"),
    ),
    _server(
        "bash-language-server",
        ("shellscript",),
        (".shellcheckrc", ".bashrc", "Makefile", ".git"),
        args=("start",),
    ),
    _server("zls", ("zig",), ("build.zig", "zls.json")),
    _server("ruby-lsp", ("ruby",), ("Gemfile",)),
    _server("solargraph", ("ruby",), ("Gemfile", ".solargraph.yml"), args=("stdio",)),
    _server("jdtls", ("java",), ("pom.xml", "build.gradle", "build.gradle.kts", ".project")),
    _server(
        "kotlin-language-server",
        ("kotlin",),
        ("settings.gradle", "settings.gradle.kts", "build.gradle", "build.gradle.kts", "pom.xml"),
    ),
    _server("metals", ("scala",), ("build.sbt", "build.sc", "build.mill")),
    _server("elixir-ls", ("elixir",), ("mix.exs",)),
    _server("elp", ("erlang",), ("rebar.config", "erlang.mk"), args=("server",)),
    _server("gleam", ("gleam",), ("gleam.toml",), args=("lsp",)),
    _server(
        "haskell-language-server-wrapper",
        ("haskell",),
        ("hie.yaml", "stack.yaml", "cabal.project", "package.yaml"),
        args=("--lsp",),
    ),
    _server("ocamllsp", ("ocaml",), ("dune-project", "dune-workspace", ".ocamlformat")),
    _server("dart", ("dart",), ("pubspec.yaml",), args=("language-server", "--protocol=lsp")),
    _server("intelephense", ("php",), ("composer.json",), args=_STDIO),
    _server("phpactor", ("php",), ("composer.json",), args=("language-server",)),
    _server("sourcekit-lsp", ("swift",), ("Package.swift",)),
    _server("omnisharp", ("csharp",), ("omnisharp.json",), args=("-lsp",)),
    _server("nixd", ("nix",), ("flake.nix", "default.nix")),
    _server("nil", ("nix",), ("flake.nix", "default.nix")),
    _server("terraform-ls", ("terraform",), (".terraform", ".terraform.lock.hcl"), args=("serve",)),
    _server("svelteserver", ("svelte",), ("svelte.config.js", "svelte.config.ts"), args=_STDIO),
    _server("elm-language-server", ("elm",), ("elm.json",)),
    _server("ols", ("odin",), ("ols.json",)),
)


@cache
def known_server(name_or_command: str) -> KnownServer | None:
    """Finds a known server by its name, else by its command."""
    by_name = next((known for known in KNOWN if known.name == name_or_command), None)
    return by_name or next((k for k in KNOWN if k.command == name_or_command), None)


STARTING_SECONDS = 30.0
_FOLDERS_LOOKED_AT = 200
_SHORTEST_SECRET = 6


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """How to start one server. ``argv`` is empty if it cannot be started."""

    name: str
    argv: tuple[str, ...] = field(repr=False)
    filetypes: tuple[str, ...]
    root_markers: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    init_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    seconds: float = STARTING_SECONDS  # for its start and for each response
    is_configured: bool = False
    is_disabled: bool = False
    fault: str = ""  # why it cannot be started; holds no values
    # A marker is in the root or a folder directly below; else it handles only files under one.
    is_at_home: bool = True

    def without_secrets(self, text: str) -> str:
        """Masks the configured values in a server's text, which may be secrets."""
        for secret in (*self.env.values(), *self.argv[1:], *_texts(self.init_options)):
            if len(secret) >= _SHORTEST_SECRET:
                text = text.replace(secret, "********")
        return text

    def may_handle(self, path: Path) -> bool:
        """Returns whether the server handles the file, by its name alone."""
        return not self.is_disabled and fits(path.name, self.filetypes)

    def handles(self, path: Path, root: Path) -> bool:
        if not self.may_handle(path):
            return False
        return self.is_at_home or _has_marker_above(path, root, self.root_markers)


def plans_of(
    root: Path,
    *,
    configured: Mapping[str, LspSettings],
    starts_known: bool,
    env: Mapping[str, str],
    runs_project_code: bool = True,
) -> tuple[ServerPlan, ...]:
    """Returns the configured servers, then installed ones for languages not covered by them.

    Without ``runs_project_code`` no server that may run the project's code starts automatically.
    """
    folders = _folders(root)
    path = env.get("PATH", "")
    plans = [_configured(settings, folders, path) for settings in configured.values()]
    if starts_known:
        covered = {
            language
            for plan in plans
            if not plan.is_disabled
            for language in languages_in(plan.filetypes)
        }
        named = {known.name for name in configured if (known := known_server(name))}
        if not runs_project_code:
            named |= set(RUNS_PROJECT_CODE)
        plans += _installed(folders, path, covered=covered, named=named)
    return tuple(plans)


def program(name: str, path: str) -> str | None:
    """Finds a program on the workspace's ``PATH``, never relative to a project's folder."""
    if name.startswith("/"):
        return name if _is_program(name) else None
    if "/" in name:
        return None
    for folder in path.split(os.pathsep):
        # Files of a project must not decide which program starts automatically.
        if folder.startswith("/") and _is_program(found := f"{folder.rstrip('/')}/{name}"):
            return found
    return None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def _configured(settings: LspSettings, folders: Sequence[Path], path: str) -> ServerPlan:
    known = known_server(settings.name) or known_server(settings.command.rpartition("/")[2])
    command = settings.command or (known.command if known else "")
    found = program(os.path.expanduser(command), path) if command else None  # noqa: PTH111  pathlib's raises without a home
    fault = settings.fault
    if not fault and not settings.is_disabled:
        if not command:
            fault = "command: is missing, and this is not the name of a known server"
        elif found is None:
            fault = "command: the program is not on the workspace's PATH"
    args = settings.args or (known.args if known and not settings.command else ())
    markers = settings.root_markers
    return ServerPlan(
        name=settings.name,
        argv=(found, *args) if found else (),
        filetypes=settings.filetypes or (known.filetypes if known else ()),
        root_markers=markers,
        env=settings.env,
        init_options=settings.init_options,
        options=settings.options,
        seconds=settings.timeout_seconds,
        is_configured=True,
        is_disabled=settings.is_disabled and not settings.fault,
        fault=fault,
        is_at_home=not markers or _has_marker(folders, markers),
    )


def _installed(
    folders: Sequence[Path], path: str, *, covered: set[str], named: set[str]
) -> Iterator[ServerPlan]:
    done: set[str] = set()
    for known in KNOWN:
        if known.name in named or known.work in done or covered & set(known.filetypes):
            continue
        found = program(known.command, path)
        if found is not None:
            done.add(known.work)
            yield _plan(known, found, is_at_home=_has_marker(folders, known.root_markers))


def _plan(known: KnownServer, found: str, *, is_at_home: bool) -> ServerPlan:
    return ServerPlan(
        name=known.name,
        argv=(found, *known.args),
        filetypes=known.filetypes,
        root_markers=known.root_markers,
        is_at_home=is_at_home,
    )


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)  # noqa: PTH113  pathlib's raises without permission


def _folders(root: Path) -> tuple[Path, ...]:
    """Returns the root and the folders directly below it: many projects are one folder deep."""
    try:
        with os.scandir(root) as entries:
            below = [
                Path(entry.path)
                for entry in islice(entries, _FOLDERS_LOOKED_AT)
                if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
            ]
    except OSError:
        below = []
    return (root, *below)


def _has_marker(folders: Sequence[Path], markers: Sequence[str]) -> bool:
    return any(_holds(folder, marker) for folder in folders for marker in markers)


def _has_marker_above(path: Path, root: Path, markers: Sequence[str]) -> bool:
    above = [parent for parent in path.parents if parent == root or root in parent.parents]
    return _has_marker(above, markers)


def _holds(folder: Path, marker: str) -> bool:
    try:
        if any(letter in marker for letter in "*?["):
            return next(folder.glob(marker), None) is not None
        return (folder / marker).exists()
    except (OSError, ValueError, NotImplementedError):
        return False  # not a valid file name
