"""Stores the choices of clients: ``config/set`` and its siblings.

Scope 0 is the user's stored file, 1 the workspace's. A value is checked before it is written, so
that no client can break another's configuration. Blocks on the disk.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any

from agents.config.crushrc.programs import LastTrees
from agents.config.edits.file import (
    InvalidKey,
    InvalidScope,
    InvalidValue,
    NotWritable,
    change_stored_file,
)
from agents.config.find import stored_for_user, stored_for_workspace
from agents.config.mask import MASK, texts_in
from agents.config.parse import Tree, parse_file
from agents.config.read_files import merged_tree
from agents.config.schema import check, misfit_at
from agents.config.validation import NAME_LIMIT

KEY_LIMIT = 1_000
PARTS_LIMIT = 16
TEXT_LIMIT = 64 << 10
RECENT_LIMIT = 5
_REFERENCE = re.compile(r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\})")
_PART = re.compile(r"(?:[^.\\]|\\.)+")


class StoredScope(IntEnum):
    USER = 0
    WORKSPACE = 1

    @classmethod
    def of(cls, value: object) -> StoredScope:
        if type(value) is int and value in {0, 1}:
            return cls(value)
        raise InvalidScope("scope must be 0 (user) or 1 (workspace)")


def stored_file(
    scope: StoredScope, *, data_dir: str, server_env: Mapping[str, str] | None = None
) -> str:
    if scope is StoredScope.USER:
        return stored_for_user(os.environ if server_env is None else server_env)
    if not data_dir.startswith("/"):
        raise NotWritable("the workspace has no absolute data directory")
    return stored_for_workspace(data_dir)


def set_value(
    scope: StoredScope,
    key: str,
    value: object,
    *,
    data_dir: str,
    server_env: Mapping[str, str] | None = None,
) -> None:
    """Stores a value, also ``null``, which hides the values of files with lower precedence."""
    parts = parse_key(key)
    _set(scope, parts, value, data_dir=data_dir, server_env=server_env)


def remove_value(
    scope: StoredScope, key: str, *, data_dir: str, server_env: Mapping[str, str] | None = None
) -> None:
    """Removes a stored value, if there is one."""
    parts = parse_key(key)
    file = stored_file(scope, data_dir=data_dir, server_env=server_env)
    if not Path(file).exists():
        return
    change_stored_file(file, lambda tree: _remove(tree, parts))


def set_model(
    scope: StoredScope,
    model_type: str,
    model: Mapping[str, Any],
    *,
    path: str,
    data_dir: str,
    ran: LastTrees | None = None,
    server_env: Mapping[str, str] | None = None,
) -> None:
    """Chooses the large or the small model, and makes the choice take effect.

    A choice for the user is stored with the lowest precedence. If another file names a model,
    the choice is stored for this workspace as well, because it would have no effect otherwise.
    """
    if model_type not in {"large", "small"}:
        raise InvalidKey("model_type must be large or small")
    for name in ("provider", "model"):
        if not isinstance(model.get(name), str) or not model[name]:
            raise InvalidValue(f"model.{name} is missing")
    choice = {name: value for name, value in model.items() if value is not None}
    _check(("models", model_type), choice)

    def store(where: StoredScope) -> None:
        file = stored_file(where, data_dir=data_dir, server_env=server_env)
        _prepare(where, data_dir)
        change_stored_file(file, lambda tree: _choose(tree, model_type, choice))

    store(scope)
    if scope is StoredScope.USER:
        tree = merged_tree(path, data_dir=data_dir, ran=ran, server_env=server_env)
        if (tree.get("models") or {}).get(model_type) != choice:
            store(StoredScope.WORKSPACE)


def set_provider_key(
    scope: StoredScope,
    provider_id: str,
    *,
    kind: str,
    api_key: object,
    data_dir: str,
    server_env: Mapping[str, str] | None = None,
) -> None:
    """Stores a provider's key. ``kind`` is ``string``, or ``oauth`` with a token object."""
    if not _is_name(provider_id):
        raise InvalidKey("provider_id must be a plain name")
    if kind == "string":
        entry: Tree = {"api_key": _escaped(_text(api_key, "api_key")), "oauth": None}
    elif kind == "oauth":
        token = api_key if isinstance(api_key, dict) else {}
        access = _text(token.get("access_token"), "api_key.access_token")
        entry = {"api_key": _escaped(access), "oauth": token}
    else:
        raise InvalidValue("kind must be string or oauth")
    parts = ("providers", provider_id)
    _check(parts, entry)

    def change(tree: Tree) -> None:
        stored = _folder_of(tree, (*parts, "api_key"))
        stored.update(entry)
        if stored["oauth"] is None:
            del stored["oauth"]  # a new key replaces a token

    file = stored_file(scope, data_dir=data_dir, server_env=server_env)
    _prepare(scope, data_dir)
    change_stored_file(file, change)


def stored_token(
    scope: StoredScope,
    provider_id: str,
    *,
    data_dir: str,
    server_env: Mapping[str, str] | None = None,
) -> Tree | None:
    """Returns the stored OAuth token of a provider.

    It is read only from the stored file: a project's file must not choose where a user's token
    is sent.
    """
    tree = parse_file(stored_file(scope, data_dir=data_dir, server_env=server_env)).tree
    entry = (check(tree)[0].get("providers") or {}).get(provider_id) or {}
    return entry.get("oauth")


def parse_key(key: str) -> tuple[str, ...]:
    """Returns the names of a dotted key; a dot within a name is written ``\\.``."""
    if not key or len(key) > KEY_LIMIT:
        raise InvalidKey(f"key must have 1 to {KEY_LIMIT} characters")
    found = _PART.findall(key)
    if ".".join(found) != key:
        raise InvalidKey("key has an empty part")
    parts = tuple(re.sub(r"\\(.)", r"\1", part) for part in found)
    if len(parts) > PARTS_LIMIT:
        raise InvalidKey(f"key has more than {PARTS_LIMIT} parts")
    if not all(_is_name(part) for part in parts):
        raise InvalidKey("key has a part that is not a plain name")
    return parts


def _set(
    scope: StoredScope,
    parts: Sequence[str],
    value: object,
    *,
    data_dir: str,
    server_env: Mapping[str, str] | None,
) -> None:
    _check(parts, value)
    file = stored_file(scope, data_dir=data_dir, server_env=server_env)
    _prepare(scope, data_dir)

    def change(tree: Tree) -> None:
        _folder_of(tree, parts)[parts[-1]] = value

    change_stored_file(file, change)


def _choose(tree: Tree, model_type: str, choice: Tree) -> None:
    """Stores the choice, and puts it first among the recent models, which clients offer again."""
    _folder_of(tree, ("models", model_type))[model_type] = choice
    chosen = {"model": choice["model"], "provider": choice["provider"]}
    lists = _folder_of(tree, ("recent_models", model_type))
    written = lists.get(model_type)
    before = [one for one in written if isinstance(one, dict)] if isinstance(written, list) else []
    others = [one for one in before if any(one.get(name) != chosen[name] for name in chosen)]
    lists[model_type] = [chosen, *others][:RECENT_LIMIT]


def _check(parts: Sequence[str], value: object) -> None:
    if value is None:
        return
    try:
        misfit = misfit_at(parts, value)
        is_masked = MASK in texts_in(value)
    except RecursionError:
        raise InvalidValue("the value is nested too deeply") from None
    if is_masked:
        # A client that sends a masked value back would overwrite the secret with stars.
        raise InvalidValue(
            f"the value contains {MASK}, which replaces secrets in answers; send the secret itself"
        )
    if misfit is not None:
        raise InvalidValue(f"{misfit.key}: {misfit.message}")


def _folder_of(tree: Tree, parts: Sequence[str]) -> Tree:
    """Returns the object that contains the last part, and creates it if it is missing."""
    here = tree
    for index, part in enumerate(parts[:-1]):
        below = here.get(part)
        if below is None:
            below = here[part] = {}
        if not isinstance(below, dict):
            raise InvalidKey(f"{'.'.join(parts[: index + 1])} is not an object")
        here = below
    return here


def _remove(tree: Tree, parts: Sequence[str]) -> None:
    here: Any = tree
    trail: list[Tree] = []
    for part in parts[:-1]:
        trail.append(here)
        here = here.get(part)
        if not isinstance(here, dict):
            return
    here.pop(parts[-1], None)
    # Removes objects that became empty, because "providers.x: {}" would be reported as a problem.
    for above, part in zip(reversed(trail), reversed(parts[:-1]), strict=True):
        if above[part]:
            return
        del above[part]


def _prepare(scope: StoredScope, data_dir: str) -> None:
    """Keeps the workspace's data directory, and keys in it, out of version control."""
    if scope is not StoredScope.WORKSPACE:
        return
    ignore = Path(data_dir, ".gitignore")
    try:
        ignore.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with ignore.open("x", encoding="utf-8") as stream:
            stream.write("*\n")
    except (OSError, ValueError):
        return  # it exists, or the write that follows reports the error


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidValue(f"{name} must be text")
    if len(value) > TEXT_LIMIT or not value.strip().isprintable():
        raise InvalidValue(f"{name} is too long or not printable")
    return value.strip()


def _escaped(key: str) -> str:
    """Escapes a typed key, unless all of it is a variable."""
    return key if _REFERENCE.fullmatch(key) else key.replace("$", "$$")


def _is_name(text: object) -> bool:
    return isinstance(text, str) and 0 < len(text) <= NAME_LIMIT and text.isprintable()
