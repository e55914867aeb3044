"""Lists the files of a workspace's configuration in their order.

It handles paths, never contents. The server's own environment decides where the files are: a
client's variables provide values, never paths.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TypeAlias

FILE_NAME = "crush.json"
SYSTEM_FILE = "/etc/crush/crush.json"  # an administrator's, for every user of the machine
SHELL_NAME = "crushrc"  # a program of bash that configures
PROJECT_NAMES = ("crush.json", ".crush.json", "crushrc", ".crushrc")  # lowest precedence first
LEVELS_LIMIT = 64

Fingerprint: TypeAlias = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class Candidates:
    """Files that may exist, lowest precedence first; each path once, with its highest precedence.

    The workspace's stored file comes after all of them. It is in the data directory, which
    these files may name.
    """

    files: tuple[str, ...]
    users: frozenset[str]  # the machine's, the user's own, and what is stored for the user
    project: frozenset[str]


def find_candidates(path: str, *, server_env: Mapping[str, str]) -> Candidates:
    # A workspace on another machine has no files here, and a path that is not absolute.
    project = tuple(_project_files(path)) if path.startswith("/") else ()
    own = users_own(server_env)
    shell = f"{os.path.dirname(own)}/{SHELL_NAME}"  # noqa: PTH120  as written
    users = (SYSTEM_FILE, own, shell, stored_for_user(server_env))
    files = tuple(reversed(dict.fromkeys(reversed((*users, *project)))))
    return Candidates(files, frozenset(users), frozenset(project) - frozenset(users))


def is_shell_file(file: str) -> bool:
    return file.endswith(("/crushrc", "/.crushrc"))


def home(server_env: Mapping[str, str]) -> str:
    given = server_env.get("HOME", "")
    if PurePath(given).is_absolute():
        return given
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"  # a user without a name, as in some containers


def config_home(server_env: Mapping[str, str]) -> str:
    """Returns the folder of the user's own configuration: ``~/.config`` or that of XDG."""
    return _xdg(server_env, "XDG_CONFIG_HOME", ".config")


def users_own(server_env: Mapping[str, str]) -> str:
    given = server_env.get("CRUSH_GLOBAL_CONFIG", "")
    if given:
        given = _absolute(given, server_env)
        # A path that does not exist yet is a file when its name ends in .json.
        is_file = os.path.isfile(given) or (  # noqa: PTH113  pathlib's raises where it may not look
            given.endswith(".json") and not os.path.isdir(given)  # noqa: PTH112  and here
        )
        return given if is_file else f"{given}/{FILE_NAME}"
    return f"{config_home(server_env)}/crush/{FILE_NAME}"


def stored_for_user(server_env: Mapping[str, str]) -> str:
    given = server_env.get("CRUSH_GLOBAL_DATA", "")
    if given:
        return f"{_absolute(given, server_env)}/{FILE_NAME}"
    return f"{_xdg(server_env, 'XDG_DATA_HOME', '.local/share')}/crush/{FILE_NAME}"


def stored_for_workspace(data_dir: str) -> str:
    return f"{data_dir.rstrip('/')}/{FILE_NAME}"


def fingerprint(files: Iterable[str]) -> Fingerprint:
    """Returns a value that changes if a file is written, replaced, created or removed.

    It takes one stat for each file.
    """
    return tuple(_mark(file) for file in files)


def _mark(file: str) -> tuple[int, int, int] | None:
    try:
        status = Path(file).stat()
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _project_files(path: str) -> Iterable[str]:
    """Yields the files from the root of the git work tree down to the workspace, nearest last.

    Without a work tree it yields only the workspace's own files: a file in ``/tmp`` or in a
    folder that several projects share belongs to none of them.
    """
    for folder in reversed(_folders_of_project(path)):
        for name in PROJECT_NAMES:
            yield f"{folder.rstrip('/')}/{name}"


def work_tree_of(path: str) -> str:
    """Returns the root of the git work tree that contains the workspace, else the workspace."""
    return _folders_of_project(path)[-1]


def _folders_of_project(path: str) -> list[str]:
    """Returns the folders from the workspace up to the root of its work tree."""
    folders = [path, *(str(parent) for parent in PurePath(path).parents)][:LEVELS_LIMIT]
    root = next((index for index, folder in enumerate(folders) if _is_work_tree(folder)), 0)
    return folders[: root + 1]


def _is_work_tree(folder: str) -> bool:
    """Whether the folder contains ``.git``, which is a file in linked trees and submodules."""
    return os.path.lexists(f"{folder.rstrip('/')}/.git")


def _xdg(server_env: Mapping[str, str], name: str, default: str) -> str:
    given = server_env.get(name, "")
    # The XDG specification requires that relative paths are ignored.
    if PurePath(given).is_absolute():
        return given.rstrip("/")
    return f"{home(server_env).rstrip('/')}/{default}"


def _absolute(path: str, server_env: Mapping[str, str]) -> str:
    if path == "~" or path.startswith("~/"):
        path = home(server_env) + path[1:]
    return os.path.abspath(path).rstrip("/")  # noqa: PTH100  pathlib would keep ".."
