"""Finds the programs of a folder that its configuration starts, with their digests.

A trusted command may name a script of the folder. The answer covers only the script's content at
that time. Blocks on the disk, raises nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from agents.config.find import work_tree_of
from agents.config.regular_file import Unreadable, read_regular_file
from agents.config.trust.powers import Power
from agents.config.trust.sources import is_within
from agents.config.trust.words import words_of

FILES_LIMIT = 64
NAMES_LIMIT = 5_000
SIZE_LIMIT = 4 << 20
_SOURCED = re.compile(
    r"(?:^|[;&|({\s])(?:source|\.)[ \t]+(?:\"([^\"\n]+)\"|'([^'\n]+)'|([^\s;&|()<>\"']+))",
    re.MULTILINE,
)
_SOURCED_LIMIT = 64 << 10  # scripts that people write are shorter
# Files that programs write while they run. Without this, each write of a trusted command would
# need a new answer.
_DATA = (".log", ".db", ".sqlite", ".sqlite3", ".pid", ".lock", ".csv", ".jsonl", ".tmp")
# Programs that run their arguments: a word after one of these is never data.
_RUNS_FILES = re.compile(
    r"(?:.*/)?(?:\.|source|eval|exec|env|xargs|parallel|sudo|doas|nohup|time|busybox|\w*sh|python[\w.]*|pypy\w*"
    r"|node|nodejs|deno|bun|npx|bunx|uv|uvx|pipx|tsx|ts-node|ruby|perl|php|lua\w*|java|Rscript|make"
    r"|awk|gawk|mawk|sed|tclsh|osascript|pwsh)"
)
_LOADED = re.compile(r"(?:BASH_ENV|ENV|NODE_OPTIONS|RUBYOPT|PERL\w*|PYTHON\w*|LD_\w+|DYLD_\w+)=")
# ``$PWD/x``, ``${BASH_SOURCE%/*}/x``, and what a split at ``$(dirname "$0")/x`` leaves.
_BEHIND_VARIABLE = re.compile(r"\$(?:\w+|\{[^}]*\})/|/")
_PLAIN_WORD = re.compile(r"[\w./=@%+-]*")


@dataclass(frozen=True, slots=True)
class NamedFiles:
    digests: Mapping[str, str] = field(default_factory=dict)  # by file
    is_complete: bool = True  # else there are too many files to review


@dataclass(frozen=True, slots=True)
class CommandWord:
    """A word of a command that may name a file."""

    text: str
    base: str  # the folder that it may be relative to, besides the workspace
    is_argument: bool  # a program's, as it is; otherwise a word of a shell's text


def words_of_programs(powers: Iterable[Power]) -> Iterator[CommandWord]:
    """Yields every word of every command, also of a command line within an argument.

    Each has the folder that it may be relative to: a program of the folder runs in its own folder.
    """
    for power in powers:
        base = os.path.dirname(power.file) if power.text else ""  # noqa: PTH120  as written
        is_argument = power.key.startswith(("mcp.", "lsp."))
        for word in power.words:
            yield CommandWord(word, base, is_argument)
            if not _PLAIN_WORD.fullmatch(word):
                for each in (*words_of(word), *re.split("[:,]", word)):
                    yield CommandWord(each, base, is_argument=is_argument and each == word)


def folder_programs(words: Iterable[CommandWord], path: str) -> NamedFiles:
    """Returns the files of the work tree that commands name, and the files that these source."""
    root = work_tree_of(path)
    named = list(words)
    data = _data_words(named)
    waiting = deque(dict.fromkeys((each.text, each.base) for each in named))
    seen = set(waiting)
    found: dict[str, str] = {}
    while waiting and len(found) <= FILES_LIMIT and len(seen) <= NAMES_LIMIT:
        word, base = waiting.popleft()
        for file in _candidates(word, dict.fromkeys((path, base or path))):
            # Almost no word names a file, so links are followed only after a file was found.
            if file in found or not os.path.isfile(file) or not is_within(file, root):  # noqa: PTH113  pathlib's raises where it may not look
                continue
            if word in data and not os.access(file, os.X_OK):
                continue
            digest, text = _read(file)
            if not digest:
                continue
            found[file] = digest
            more = [(name, os.path.dirname(file)) for name in _sourced(text)]  # noqa: PTH120  as written
            waiting += [each for each in more if each not in seen]
            seen.update(more)
    if waiting:
        return NamedFiles(dict(list(found.items())[:FILES_LIMIT]), is_complete=False)
    return NamedFiles(found)


def _data_words(words: Sequence[CommandWord]) -> frozenset[str]:
    """Returns the arguments that name files which a command writes, and which no command runs.

    The first argument of an interpreter is a program, whatever its name: ``sh notes.log``. After
    the program's own file follows data: ``node server.js --db data.db``.
    """
    data: set[str] = set()
    code: set[str] = set()
    before = ""
    for word in words:
        if word.text.endswith(_DATA):
            is_run = not word.is_argument or not before or _RUNS_FILES.fullmatch(before)
            (code if is_run or _LOADED.match(word.text) else data).add(word.text)
        if word.is_argument and not word.text.startswith("-"):
            before = word.text
    return frozenset(data - code)


def _candidates(word: str, bases: Iterable[str]) -> Iterator[str]:
    if not word or len(word) > 4_096 or "\0" in word:
        return
    # ``--config=tools/x.py`` and ``BASH_ENV=tools/x`` name a file too.
    names = dict.fromkeys((word, word.rpartition("=")[2]))
    for name in list(names):
        if behind := _BEHIND_VARIABLE.match(name):
            names[name[behind.end() :]] = None
    for base in bases:
        for name in filter(None, names):
            file = os.path.normpath(PurePath(base, name))
            if file != base:
                yield file


def _sourced(text: str) -> Iterator[str]:
    for match in _SOURCED.finditer(text):
        yield next(filter(None, match.groups()))


def _read(file: str) -> tuple[str, str]:
    """Returns the digest of a file, and its text if it may be a script."""
    try:
        content = read_regular_file(file, limit=SIZE_LIMIT)
        digest = hashlib.sha256(content.data).hexdigest()
        if content.truncated:
            # The rest is represented by size and change time. No program can set the change time,
            # and every write updates it.
            status = Path(file).stat()
            digest += f"+{status.st_size}:{status.st_ctime_ns}"
    except (Unreadable, OSError, ValueError):
        return "", ""
    is_script = len(content.data) <= _SOURCED_LIMIT and b"\0" not in content.data
    return digest, content.data.decode("utf-8", "replace") if is_script else ""
