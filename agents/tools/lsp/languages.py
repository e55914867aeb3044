"""Determines the language of a file by its name. Pure.

Language names are the identifiers of the protocol. A configured file type is an
extension or such an identifier.
"""

from __future__ import annotations

from pathlib import PurePath

_EXTENSIONS: dict[str, tuple[str, ...]] = {
    "c": ("c", "h"),
    "clojure": ("clj", "cljs", "cljc"),
    "cpp": ("cc", "cpp", "cxx", "hh", "hpp", "hxx", "ipp"),
    "csharp": ("cs",),
    "css": ("css",),
    "cuda": ("cu", "cuh"),
    "dart": ("dart",),
    "elixir": ("ex", "exs"),
    "elm": ("elm",),
    "erlang": ("erl", "hrl"),
    "fsharp": ("fs", "fsi", "fsx"),
    "gleam": ("gleam",),
    "go": ("go",),
    "go.mod": (),
    "haskell": ("hs", "lhs"),
    "html": ("htm", "html"),
    "java": ("java",),
    "javascript": ("cjs", "js", "mjs"),
    "javascriptreact": ("jsx",),
    "json": ("json",),
    "jsonc": ("jsonc",),
    "julia": ("jl",),
    "kotlin": ("kt", "kts"),
    "less": ("less",),
    "lua": ("lua",),
    "markdown": ("markdown", "md"),
    "nix": ("nix",),
    "objective-c": ("m",),
    "objective-cpp": ("mm",),
    "ocaml": ("ml", "mli"),
    "odin": ("odin",),
    "perl": ("pl", "pm"),
    "php": ("php",),
    "proto": ("proto",),
    "python": ("py", "pyi"),
    "r": ("r",),
    "ruby": ("gemspec", "rake", "rb"),
    "rust": ("rs",),
    "scala": ("sbt", "sc", "scala"),
    "scss": ("scss",),
    "shellscript": ("bash", "sh"),
    "sql": ("sql",),
    "svelte": ("svelte",),
    "swift": ("swift",),
    "terraform": ("tf", "tfvars"),
    "toml": ("toml",),
    "typescript": ("cts", "mts", "ts"),
    "typescriptreact": ("tsx",),
    "vue": ("vue",),
    "xml": ("xml", "xsd"),
    "yaml": ("yaml", "yml"),
    "zig": ("zig", "zon"),
}
_NAMES = {
    "cmakelists.txt": "cmake",
    "dockerfile": "dockerfile",
    "gemfile": "ruby",
    "go.mod": "go.mod",
    "makefile": "makefile",
    "rakefile": "ruby",
}
_BY_EXTENSION = {
    extension: language for language, several in _EXTENSIONS.items() for extension in several
}
_OTHER_NAMES = {"sh": "shellscript", "bash": "shellscript", "golang": "go", "docker": "dockerfile"}


def extension_of(path: str) -> str:
    return PurePath(path).suffix.removeprefix(".").lower()


def language_of(path: str) -> str:
    """Returns the protocol's identifier of the language; ``plaintext`` if it is unknown."""
    name = PurePath(path).name.lower()
    return _NAMES.get(name) or _BY_EXTENSION.get(extension_of(path), "plaintext")


def fits(path: str, filetypes: tuple[str, ...]) -> bool:
    """Returns whether a file has one of the types; without types every file fits."""
    if not filetypes:
        return True
    language, extension = language_of(path), extension_of(path)
    return any(
        kind in (language, extension) or _OTHER_NAMES.get(kind) == language for kind in filetypes
    )


def languages_in(filetypes: tuple[str, ...]) -> frozenset[str]:
    """Returns the languages of these file types."""
    return frozenset(
        kind if kind in _EXTENSIONS else _OTHER_NAMES.get(kind) or _BY_EXTENSION.get(kind, kind)
        for kind in filetypes
    )
