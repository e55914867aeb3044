"""Language servers that are known by name: how they are run, for which files and projects. Pure.

A project's markers must be there before one is started by itself: files alone
say little about whether somebody wants a server for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class KnownServer:
    name: str
    command: str
    args: tuple[str, ...]
    filetypes: tuple[str, ...]
    root_markers: tuple[str, ...]
    # Of several that do the same work the first that is installed is started.
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
    """By its name, else by its command."""
    by_name = next((known for known in KNOWN if known.name == name_or_command), None)
    return by_name or next((k for k in KNOWN if k.command == name_or_command), None)
