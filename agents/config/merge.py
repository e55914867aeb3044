"""Merges one file's tree over another's. Pure.

Objects merge key by key, a few lists are joined, everything else is replaced.
``null`` removes the value below it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agents.config.parse import Tree

# Lists that grow with every file. Hooks are among them, so that a project cannot remove a hook
# of its user.
_JOINED = {
    ("permissions", "allowed_tools"),
    ("options", "context_paths"),
    ("options", "global_context_paths"),
    ("options", "skills_paths"),
    ("options", "disabled_tools"),
    ("options", "disabled_skills"),
    ("hooks", "*"),
}


def merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> Tree:
    """Returns ``over`` merged over ``under``; neither is changed."""
    return _merge(under, over, ())


def _merge(under: Mapping[str, Any], over: Mapping[str, Any], path: tuple[str, ...]) -> Tree:
    merged: Tree = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        here = (*path, key)
        if value is None:
            if here[0] != "hooks":  # hooks are only joined: see above
                merged.pop(key, None)
        elif isinstance(value, dict):
            # A chosen model is one decision: the effort and limits of another model
            # must not stick to it.
            whole = path == ("models",) and ("model" in value or "provider" in value)
            base = below if isinstance(below, dict) and not whole else {}
            merged[key] = _merge(base, value, here)
        elif isinstance(value, list) and isinstance(below, list) and _is_joined(here):
            merged[key] = _joined(below, value)
        else:
            merged[key] = value
    return merged


def _joined(below: list[Any], value: list[Any]) -> list[Any]:
    # By a text of each: comparing every pair would be slow for very long lists.
    seen = {json.dumps(item, sort_keys=True) for item in below}
    return below + [item for item in value if json.dumps(item, sort_keys=True) not in seen]


def _is_joined(path: tuple[str, ...]) -> bool:
    return path in _JOINED or (*path[:-1], "*") in _JOINED
