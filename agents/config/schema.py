"""The known keys of a configuration and the types of their values. Pure.

A value of the wrong type is dropped and reported; the rest is used. Clients
decode these objects into fixed types, so with one wrong value they could not
decode the configuration at all. Unknown keys inside a known object are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents.config.parse import Tree
from agents.config.validation import (
    NAME_LIMIT,
    Each,
    Items,
    Leaf,
    Misfit,
    ObjectSpec,
    Spec,
    valid_object,
)
from agents.states import CutRule

_WHOLE_LIMIT = 1 << 53  # up to here JavaScript numbers are exact


def _is_whole(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _WHOLE_LIMIT


def _is_number(value: Any) -> bool:
    return type(value) in {int, float} and abs(value) <= _WHOLE_LIMIT


TEXT = Leaf("text", lambda value: isinstance(value, str))
MODEL_NAME = Leaf(
    f"text of at most {NAME_LIMIT} characters",
    lambda value: isinstance(value, str) and len(value) <= NAME_LIMIT,
)
FLAG = Leaf("true or false", lambda value: isinstance(value, bool))
WHOLE = Leaf("a whole number, 0 or more", _is_whole)
NUMBER = Leaf("a number", _is_number)
PRICE = Leaf("a number, 0 or more", lambda value: _is_number(value) and value >= 0)
PORTION = Leaf("a number from 0 to 1", lambda value: _is_number(value) and 0 <= value <= 1)
WARMTH = Leaf("a number from 0 to 2", lambda value: _is_number(value) and 0 <= value <= 2)
OBJECT = Leaf("an object", lambda value: isinstance(value, dict))
STYLE = Leaf(
    "assisted-by, co-authored-by or none",
    lambda value: value in ("assisted-by", "co-authored-by", "none", ""),
)
CUT_RULE = Leaf(f"one of {', '.join(CutRule)}", lambda value: value in list(CutRule))
TEXTS = Items(TEXT)
TEXT_MAP = Each(TEXT)

_CHOICE = ObjectSpec(
    {
        "model": MODEL_NAME,
        "provider": TEXT,
        "reasoning_effort": TEXT,
        "think": FLAG,
        "max_tokens": WHOLE,
        "temperature": WARMTH,
        "top_p": PORTION,
        "top_k": WHOLE,
        "frequency_penalty": NUMBER,
        "presence_penalty": NUMBER,
        "provider_options": OBJECT,
    }
)
_MODEL = ObjectSpec(
    {
        "id": MODEL_NAME,
        "name": TEXT,
        "context_window": WHOLE,
        "default_max_tokens": WHOLE,
        "can_reason": FLAG,
        "reasoning_levels": TEXTS,
        "default_reasoning_effort": TEXT,
        "supports_attachments": FLAG,
        "cost_per_1m_in": PRICE,
        "cost_per_1m_out": PRICE,
        "cost_per_1m_in_cached": PRICE,
        "cost_per_1m_out_cached": PRICE,
        "options": OBJECT,
    }
)
_PROVIDER = ObjectSpec(
    {
        "id": TEXT,
        "name": TEXT,
        "type": TEXT,
        "base_url": TEXT,
        "api_key": TEXT,
        "oauth": OBJECT,
        "disable": FLAG,
        "system_prompt_prefix": TEXT,
        "extra_headers": TEXT_MAP,
        "extra_body": OBJECT,
        "provider_options": OBJECT,
        "models": Items(_MODEL),
        "flat_rate": FLAG,
        "discover_models": FLAG,
    }
)
_MCP = ObjectSpec(
    {
        "type": TEXT,
        "command": TEXT,
        "args": TEXTS,
        "env": TEXT_MAP,
        "url": TEXT,
        "headers": TEXT_MAP,
        "timeout": WHOLE,
        "disabled": FLAG,
        "disabled_tools": TEXTS,
        "enabled_tools": TEXTS,
        "sessionless": FLAG,
        "oauth": FLAG,
        "oauth_client_id": TEXT,
        "oauth_client_secret": TEXT,
        "oauth_callback_port": WHOLE,
        "channel_enabled": FLAG,
        "channel_reply": OBJECT,
    }
)
_LSP = ObjectSpec(
    {
        "command": TEXT,
        "args": TEXTS,
        "env": TEXT_MAP,
        "filetypes": TEXTS,
        "root_markers": TEXTS,
        "disabled": FLAG,
        "init_options": OBJECT,
        "options": OBJECT,
        "timeout": WHOLE,
    }
)
_TOOLS = ObjectSpec(
    {
        "ls": ObjectSpec({"max_depth": WHOLE, "max_items": WHOLE}),
        "web": ObjectSpec({"allowed_private_hosts": TEXTS}),
    },
    others=OBJECT,
)
_FLEET_ROLE = ObjectSpec(
    {
        "description": TEXT,
        "executor": TEXT,
        "endpoint": TEXT,
        "token": TEXT,
        "found_role": TEXT,
        "provider": TEXT,
        "model": TEXT,
        "disabled_tools": TEXTS,
        "limits": ObjectSpec({"wall_clock": WHOLE, "idle": WHOLE, "steps": WHOLE}),
        "depth": WHOLE,
        "disabled": FLAG,
    }
)
_HOOK = ObjectSpec({"name": TEXT, "matcher": TEXT, "command": TEXT, "timeout": WHOLE})
_TUI = ObjectSpec(
    {
        "compact_mode": FLAG,
        "diff_mode": TEXT,
        "active_theme": TEXT,
        "transparent": FLAG,
        "scrollbar": TEXT,
        "mouse": FLAG,
        "exit_banner": TEXT,
        "completions": ObjectSpec({"max_depth": WHOLE, "max_items": WHOLE}),
    }
)
_OPTION_FLAGS: dict[str, Spec] = dict.fromkeys(
    (
        "debug",
        "debug_lsp",
        "disable_auto_summarize",
        "disable_default_providers",
        "disable_metrics",
        "disable_notifications",
        "disable_provider_auto_update",
        "auto_lsp",
        "progress",
    ),
    FLAG,
)
_OPTIONS = ObjectSpec(
    {
        **_OPTION_FLAGS,
        "context_paths": TEXTS,
        "global_context_paths": TEXTS,
        "skills_paths": TEXTS,
        "disabled_tools": TEXTS,
        "disabled_skills": TEXTS,
        "data_directory": TEXT,
        "initialize_as": TEXT,
        "notifications": TEXT,
        "request_timeout": WHOLE,
        "tui": _TUI,
        "attribution": ObjectSpec(
            {"trailer_style": STYLE, "generated_with": FLAG, "co_authored_by": FLAG}
        ),
    }
)
CONFIG = ObjectSpec(
    {
        "$schema": TEXT,
        "models": Each(_CHOICE),
        "recent_models": Each(Items(_CHOICE)),
        "providers": Each(_PROVIDER),
        "options": _OPTIONS,
        "permissions": ObjectSpec({"allowed_tools": TEXTS, "cut_calls": Each(CUT_RULE)}),
        "mcp": Each(_MCP),
        "lsp": Each(_LSP),
        "fleet": Each(_FLEET_ROLE),
        "hooks": Each(Items(_HOOK)),
        "tools": _TOOLS,
    }
)


def check(tree: Tree) -> tuple[Tree, tuple[Misfit, ...]]:
    """Returns the tree without misfits, and the misfits. ``unknown_keys`` reports unknown keys."""
    known = {key: value for key, value in tree.items() if key in CONFIG.known}
    misfits: list[Misfit] = []
    return valid_object(known, CONFIG, "", misfits), tuple(misfits)


def misfit_at(parts: Sequence[str], value: Any) -> Misfit | None:
    """Returns the error of a value for a dotted key, or ``None``."""
    tree: Any = value
    for part in reversed(parts):
        tree = {part: tree}
    _, misfits = check(tree)
    return misfits[0] if misfits else None
