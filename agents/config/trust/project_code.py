"""Language servers that run code of the project that they analyse, and whether one would start.

They evaluate build scripts, load plugins that the project names, or start its interpreter.
Starting such a server for a folder is therefore a power, independently of its configuration.
Reads the disk within limits; raises nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import islice

from agents.config.trust.powers import Effect, Power

_PYTHON = ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile",
           "pyrightconfig.json", "uv.lock")  # fmt: skip
_NODE = ("package.json", "tsconfig.json", "jsconfig.json")
_GRADLE = ("build.gradle", "build.gradle.kts")
# Their command and the markers that a project of theirs has. Servers that are known and
# missing here only parse.
RUNS_PROJECT_CODE: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "rust-analyzer": ("rust-analyzer", ("Cargo.toml", "rust-project.json")),
    "basedpyright": ("basedpyright-langserver", _PYTHON),
    "pyright": ("pyright-langserver", _PYTHON),
    "vtsls": ("vtsls", _NODE),
    "typescript-language-server": ("typescript-language-server", _NODE),
    "svelteserver": ("svelteserver", ("svelte.config.js", "svelte.config.ts")),
    "lua-language-server": ("lua-language-server", (".luarc.json", ".luarc.jsonc")),
    "zls": ("zls", ("build.zig", "zls.json")),
    "ruby-lsp": ("ruby-lsp", ("Gemfile",)),
    "solargraph": ("solargraph", ("Gemfile", ".solargraph.yml")),
    "jdtls": ("jdtls", ("pom.xml", ".project", *_GRADLE)),
    "kotlin-language-server": (
        "kotlin-language-server",
        ("settings.gradle", "settings.gradle.kts", "pom.xml", *_GRADLE),
    ),
    "metals": ("metals", ("build.sbt", "build.sc", "build.mill")),
    "elixir-ls": ("elixir-ls", ("mix.exs",)),
    "elp": ("elp", ("rebar.config", "erlang.mk")),
    "haskell-language-server-wrapper": (
        "haskell-language-server-wrapper",
        ("hie.yaml", "stack.yaml", "cabal.project", "package.yaml"),
    ),
    "ocamllsp": ("ocamllsp", ("dune-project", "dune-workspace")),
    "dart": ("dart", ("pubspec.yaml",)),
    "phpactor": ("phpactor", ("composer.json",)),  # loads vendor/autoload.php
    "ols": ("ols", ("ols.json",)),  # which may name the compiler that it starts
    "sourcekit-lsp": ("sourcekit-lsp", ("Package.swift",)),
    "omnisharp": ("omnisharp", ("omnisharp.json",)),
    "nixd": ("nixd", ("flake.nix", "default.nix")),
    "nil": ("nil", ("flake.nix", "default.nix")),
    "terraform-ls": ("terraform-ls", (".terraform", ".terraform.lock.hcl")),
    "elm-language-server": ("elm-language-server", ("elm.json",)),
}
DEPTH_LIMIT = 3
FOLDERS_LIMIT = 500
_SKIPPED = frozenset({"node_modules", "__pycache__", "target", "vendor"})


def project_code_powers(path: str, *, search_path: str) -> list[Power]:
    """Returns the servers that would start automatically for files of this folder, as powers.

    ``search_path`` is ``PATH``.
    """
    installed = {
        name: markers
        for name, (command, markers) in RUNS_PROJECT_CODE.items()
        if _is_installed(command, search_path)
    }
    if not installed:
        return []
    names = _names_in(path)
    powers: list[Power] = []
    for name, markers in installed.items():
        marker = next((marker for marker in markers if marker in names), "")
        if marker:
            shown = f"{name}, which may run code of this folder ({marker})"
            value = [name, marker]
            powers.append(Power(Effect.STARTS, "", "language server", shown, value))
    return powers


def _is_installed(command: str, search_path: str) -> bool:
    folders = [folder for folder in search_path.split(os.pathsep) if folder.startswith("/")]
    return any(os.access(f"{folder}/{command}", os.X_OK) for folder in folders)


def _names_in(path: str) -> frozenset[str]:
    """The names of the files and folders in the folder and a few levels below."""
    names: set[str] = set()
    level, left = [path], FOLDERS_LIMIT
    for _ in range(DEPTH_LIMIT):
        below: list[str] = []
        for folder in level[:left]:
            for name, is_folder in _entries(folder):
                names.add(name)
                if is_folder and not name.startswith(".") and name not in _SKIPPED:
                    below.append(f"{folder}/{name}")
        left -= len(level)
        level = below
        if left <= 0:
            break
    return frozenset(names)


def _entries(folder: str) -> Iterator[tuple[str, bool]]:
    try:
        with os.scandir(folder) as entries:
            found = [
                (entry.name, entry.is_dir(follow_symlinks=False))
                for entry in islice(entries, 2_000)
            ]
    except (OSError, ValueError):
        return
    yield from found
