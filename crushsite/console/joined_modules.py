"""The console's modules as browsers get them: several in one file, and without comments.

A request costs as much for 300 bytes as for 20 kB, and what is compressed together is smaller by a
third. `joined` writes each module of a file as a function that is called once, in the order of the
imports, and returns what the module exports: names of different modules cannot meet. Files are exported
as they are called here, so that a module gets `$core_api` of the file that has `core/api.js`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

# The modules of each file, which has the name of its first one; a module belongs to the first line that
# matches it, or is a file of its own. Names have hashes of what a file loads, also on demand: no file
# may load one that loads it in turn.
JOINED_MODULES: dict[str, tuple[str, ...]] = {
    "main.js": ("main.js", "app.js", "find/shortcuts.js"),
    "core/sanitize.js": ("core/sanitize.js",),
    "board/board.js": ("board/*.js", "core/poll.js"),
    "settings/settings.js": ("settings/*.js", "strings/en_settings.js"),
    "usage/usage.js": ("usage/*.js", "strings/en_usage.js"),
    "find/search.js": ("find/search.js", "find/found_session.js", "find/marks.js"),
    "find/palette.js": ("find/*.js",),
    "cards/waiting_count.js": (
        "cards/waiting*.js",
        "cards/notifications.js",
        "cards/answering.js",
        "cards/words.js",
    ),
    "cards/cards.js": ("cards/*.js",),
    "text/diff_view.js": ("text/diff_*.js",),
    "tools/catalogue.js": ("tools/catalogue.js", "tools/arguments.js"),
    "tools/tool_call.js": ("tools/tool_call.js", "tools/call_state.js"),
    "tools/terminal.js": ("tools/terminal.js", "tools/ansi.js"),
    "session/attachment.js": ("session/attachment.js", "tools/picture.js", "text/link.js"),
    "stream/session_feed.js": (
        "stream/*.js",
        "text/markdown*.js",
        "text/code.js",
        "composer/commands.js",
        "composer/attachments.js",
        "core/menu.js",
        "tools/elapsed.js",
    ),
    "tools/bodies.js": ("tools/*.js",),
    "composer/completion.js": ("composer/completion.js",),
    "changes/rewind_dialog.js": ("changes/rewind_dialog.js",),
    "changes/changes.js": ("changes/changes.js", "changes/comments.js"),
    "session/session.js": ("session/*.js", "composer/*.js", "changes/*.js", "core/later.js"),
    "core/element.js": ("core/*.js", "strings/*.js", "text/visible.js"),
}

_IMPORT = re.compile(
    r'^import *(?:(?:(?P<default>\w+)|\{(?P<names>[^}]*)\}) *from *)?"(?P<path>\.[^"]+)";$',
    re.MULTILINE,
)
_EXPORT = re.compile(
    r"^export (?=(?:(?:async )?function\*? ?|class |const )(?P<name>\w+))", re.MULTILINE
)
_ON_DEMAND = re.compile(r'\bimport\("(\.[^"]+)"\)')
_OTHER = re.compile(r"^(?:import|export)\b(?!\()", re.MULTILINE)


class CannotBeJoined(Exception):
    """A module has something that is not understood here."""


def file_of(module: str) -> str:
    """The file that has a module."""
    for file, patterns in JOINED_MODULES.items():
        if any(fnmatchcase(module, pattern) for pattern in patterns):
            return file
    return module


def joined(file: str, modules: Iterable[str], read: Callable[[str], str]) -> str:
    """Returns the content of a file with these modules, whose sources `read` gives."""
    return _JoinedFile(file, read).write(modules)


def _resolved(module: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(module), path))


def _variable(module: str) -> str:
    return "$" + re.sub(r"\W", "_", module.removesuffix(".js"))


class _JoinedFile:
    def __init__(self, file: str, read: Callable[[str], str]) -> None:
        self._file = file
        self._read = read
        self._parts: dict[str, str] = {}  # by module, in the order of their evaluation
        self._imports: dict[
            str, dict[str, None]
        ] = {}  # by path: the variables that come from there

    def write(self, modules: Iterable[str]) -> str:
        for module in sorted(modules):
            self._add(module)
        imports = [self._import(path, list(names)) for path, names in self._imports.items()]
        names = ", ".join(_variable(module) for module in self._parts)
        return "\n".join([*imports, *self._parts.values(), f"export {{ {names} }};", ""])

    def _add(self, module: str) -> None:
        if module in self._parts:
            return
        source = compact(self._read(module))
        exported = [match["name"] for match in _EXPORT.finditer(source)]
        body = _EXPORT.sub("", source)
        body = _IMPORT.sub(lambda match: self._taken(module, match), body)
        body = _ON_DEMAND.sub(lambda match: self._on_demand(module, match[1]), body)
        if _OTHER.search(body):
            raise CannotBeJoined(f"{module} imports or exports in a way that cannot be joined")
        returned = f"return {{ {', '.join(exported)} }};\n" if exported else "return {};\n"
        self._parts[module] = f"const {_variable(module)} = (() => {{\n{body}{returned}}})();"

    def _taken(self, module: str, match: re.Match[str]) -> str:
        """In place of an import: constants of the function."""
        target = _resolved(module, match["path"])
        variable = _variable(target)
        if target.startswith("vendor/"):
            self._from(target, f"* as {variable}")
        elif file_of(target) == self._file:
            self._add(target)
        else:
            self._from(file_of(target), variable)
        if match["default"]:
            return f"const {{ default: {match['default']} }} = {variable};"
        if not match["names"]:
            return ""
        return f"const {{{match['names'].replace(' as ', ': ')}}} = {variable};"

    def _on_demand(self, module: str, path: str) -> str:
        target = _resolved(module, path)
        if target.startswith("vendor/"):
            return f'import("{self._path(target)}")'
        if file_of(target) == self._file:
            self._add(target)
            return f"Promise.resolve({_variable(target)})"
        return f'import("{self._path(file_of(target))}").then((all) => all.{_variable(target)})'

    def _from(self, target: str, name: str) -> None:
        self._imports.setdefault(self._path(target), {})[name] = None

    def _path(self, target: str) -> str:
        path = posixpath.relpath(target, posixpath.dirname(self._file) or ".")
        return path if path.startswith(".") else f"./{path}"

    @staticmethod
    def _import(path: str, names: list[str]) -> str:
        if names[0].startswith("*"):
            return f'import {names[0]} from "{path}";'
        return f'import {{ {", ".join(names)} }} from "{path}";'


# Comments and indentation are a fifth of what is compressed. To leave them out, this reads tokens, because
# `//` may also be a part of a text, a template or a regular expression.

_TOKEN = re.compile(
    r"""
    (?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<template>`)
    |(?P<open>\{)
    |(?P<close>\})
    |(?P<slash>/)
    |(?P<word>[\w$]+)
    |(?P<space>\s+)
    |(?P<other>.)
    """,
    re.DOTALL | re.VERBOSE,
)
# To the template's end, or to a value in it.
_TEMPLATE = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))*(?:(?P<end>`)|\$\{)", re.DOTALL)
_EXPRESSION = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*")
# After these a slash divides; after anything else it begins a regular expression.
_VALUE_ENDS = re.compile(r"[\w$)\]}\"'`]$")
_BEFORE_VALUES = frozenset(
    [
        "return",
        "typeof",
        "case",
        "in",
        "of",
        "delete",
        "void",
        "throw",
        "new",
        "do",
        "else",
        "await",
        "yield",
        "instanceof",
    ]
)
# No blank is needed before and after these.
_CLOSED = frozenset("(){}[];,:?=<>&|!*")


def compact(source: str) -> str:
    """Returns a module without comments, empty lines and indentation. Lines stay lines, since they may
    end statements."""
    return _ModuleReader(source).read()


class _ModuleReader:
    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._kept: list[str] = []
        self._before = ""  # the last token that is neither blank nor a comment
        self._gap = ""  # what is between it and the next one
        self._values: list[int] = []  # for each open value of a template: its open braces

    def read(self) -> str:
        while self._at < len(self._source):
            match = self._match(_TOKEN)
            if match.lastgroup in {"comment", "space"}:
                has_line_end = "\n" in (self._gap, *match[0])
                self._gap = "\n" if has_line_end else " "
            else:
                self._read_token(str(match.lastgroup), match[0])
        if self._values:
            raise CannotBeJoined("a template has no end")
        return "".join([*self._kept, "\n"])

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        match = pattern.match(self._source, self._at)
        if match is None:
            raise CannotBeJoined(f"at {self._source[self._at : self._at + 40]!r}")
        self._at = match.end()
        return match

    def _keep(self, text: str, last: str) -> None:
        if self._kept and not (self._gap == " " and (self._before in _CLOSED or text in _CLOSED)):
            self._kept.append(self._gap)
        self._gap = ""
        self._kept.append(text)
        self._before = last

    def _read_token(self, kind: str, text: str) -> None:
        before = self._before
        if kind == "slash" and (before in _BEFORE_VALUES or not _VALUE_ENDS.search(before)):
            self._at -= 1
            self._keep(self._match(_EXPRESSION)[0], ")")
            return
        if text in {'"', "'"}:
            raise CannotBeJoined("a text has no end")
        self._keep(text, text)
        if kind == "template":
            self._read_template()
        elif self._values and kind == "open":
            self._values[-1] += 1
        elif self._values and kind == "close":
            self._values[-1] -= 1
            if self._values[-1] < 0:
                self._values.pop()
                self._read_template()

    def _read_template(self) -> None:
        part = self._match(_TEMPLATE)
        self._keep(part[0], part[0][-1])
        if part["end"] is None:
            self._values.append(0)
