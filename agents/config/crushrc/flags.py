"""The flags and options of a ``crushrc``'s builtins, and the JSON keys that they set. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

TRUE = frozenset({"true", "1", "yes"})
FALSE = frozenset({"false", "0", "no"})


class Mistake(Exception):
    """An error in one call of a builtin; the other calls of the file are used."""


@dataclass(frozen=True, slots=True)
class FlagSpec:
    key: str  # the dotted key of the value in the entry
    read: Callable[[str], Any] = str
    words: int = 1  # the number of its words; 2 are a name and a value
    repeats: bool = False
    is_switch: bool = False  # a missing value means true


FlagTable: TypeAlias = Mapping[str, FlagSpec]


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise Mistake(f"{text!r} is not a whole number")
    return int(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Mistake(f"{text!r} is not a number") from None


def read_flag(text: str) -> bool:
    word = text.lower()
    if word in TRUE or word in FALSE:
        return word in TRUE
    raise Mistake(f"{text!r} is not true or false")


def _object(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise Mistake("the value is not JSON") from None
    if not isinstance(value, dict):
        raise Mistake("the value must be a JSON object")
    return value


def _switch(key: str) -> FlagSpec:
    return FlagSpec(key, read_flag, is_switch=True)


def _list(key: str) -> FlagSpec:
    return FlagSpec(key, repeats=True)


def _pairs(key: str) -> FlagSpec:
    return FlagSpec(key, words=2, repeats=True)


PROVIDER: FlagTable = {
    "--name": FlagSpec("name"),
    "--type": FlagSpec("type"),
    "--api-key": FlagSpec("api_key"),
    "--base-url": FlagSpec("base_url"),
    "--disable": _switch("disable"),
    "--flat-rate": _switch("flat_rate"),
    "--discover-models": _switch("discover_models"),
    "--system-prompt-prefix": FlagSpec("system_prompt_prefix"),
    "--extra-header": _pairs("extra_headers"),
    "--extra-body": FlagSpec("extra_body", _object),
    "--provider-options": FlagSpec("provider_options", _object),
}
MODEL: FlagTable = {
    "--name": FlagSpec("name"),
    "--context-window": FlagSpec("context_window", _whole),
    "--default-max-tokens": FlagSpec("default_max_tokens", _whole),
    "--can-reason": _switch("can_reason"),
    "--supports-images": _switch("supports_attachments"),
    "--price-input": FlagSpec("cost_per_1m_in", _number),
    "--price-output": FlagSpec("cost_per_1m_out", _number),
    "--price-cache-create": FlagSpec("cost_per_1m_in_cached", _number),
    "--price-cache-hit": FlagSpec("cost_per_1m_out_cached", _number),
    "--reasoning-effort": FlagSpec("default_reasoning_effort"),
}
CHOICE: FlagTable = {
    "--think": _switch("think"),
    "--reasoning-effort": FlagSpec("reasoning_effort"),
    "--max-tokens": FlagSpec("max_tokens", _whole),
    "--temperature": FlagSpec("temperature", _number),
    "--top-p": FlagSpec("top_p", _number),
    "--top-k": FlagSpec("top_k", _whole),
    "--frequency-penalty": FlagSpec("frequency_penalty", _number),
    "--presence-penalty": FlagSpec("presence_penalty", _number),
    "--provider-options": FlagSpec("provider_options", _object),
}
MCP: FlagTable = {
    "--type": FlagSpec("type"),
    "--command": FlagSpec("command"),
    "--args": _list("args"),
    "--env": _pairs("env"),
    "--url": FlagSpec("url"),
    "--header": _pairs("headers"),
    "--timeout": FlagSpec("timeout", _whole),
    "--disabled": _switch("disabled"),
    "--disabled-tools": _list("disabled_tools"),
    "--enabled-tools": _list("enabled_tools"),
    "--oauth": _switch("oauth"),
    "--oauth-client-id": FlagSpec("oauth_client_id"),
    "--oauth-client-secret": FlagSpec("oauth_client_secret"),
    "--oauth-callback-port": FlagSpec("oauth_callback_port", _whole),
}
LSP: FlagTable = {
    "--command": FlagSpec("command"),
    "--args": _list("args"),
    "--env": _pairs("env"),
    "--filetypes": _list("filetypes"),
    "--root-markers": _list("root_markers"),
    "--timeout": FlagSpec("timeout", _whole),
    "--disabled": _switch("disabled"),
    "--init-options": FlagSpec("init_options", _object),
    "--options": FlagSpec("options", _object),
}
HOOK: FlagTable = {
    "--command": FlagSpec("command"),
    "--name": FlagSpec("name"),
    "--matcher": FlagSpec("matcher"),
    "--timeout": FlagSpec("timeout", _whole),
}
# An option's key in JSON, how its value is read, and whether JSON has the opposite flag.
OPTION_FLAGS: Mapping[str, tuple[str, bool]] = {
    "debug": ("debug", True),
    "debug-lsp": ("debug_lsp", True),
    "auto-lsp": ("auto_lsp", True),
    "progress": ("progress", True),
    "metrics": ("disable_metrics", False),
    "auto-summarize": ("disable_auto_summarize", False),
    "provider-auto-update": ("disable_provider_auto_update", False),
    "default-providers": ("disable_default_providers", False),
    "attribution-generated-with": ("attribution.generated_with", True),
}
OPTION_TEXTS: Mapping[str, str] = {
    "data-directory": "data_directory",
    "initialize-as": "initialize_as",
    "notifications": "notifications",
    "attribution-trailer-style": "attribution.trailer_style",
}
OPTION_LISTS: Mapping[str, str] = {
    "context-path": "context_paths",
    "global-context-path": "global_context_paths",
    "skill-path": "skills_paths",
    "disable-skill": "disabled_skills",
}
UI_OPTIONS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "compact": ("tui.compact_mode", read_flag),
    "diff": ("tui.diff_mode", str),
    "transparent": ("tui.transparent", read_flag),
    "scrollbar": ("tui.scrollbar", str),
    "completions-max-depth": ("tui.completions.max_depth", _whole),
    "completions-max-items": ("tui.completions.max_items", _whole),
}
