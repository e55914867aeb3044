"""The flags and options that the builtins of a ``crushrc`` take, and the JSON keys that they set. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

TRUE = frozenset({"true", "1", "yes"})
FALSE = frozenset({"false", "0", "no"})


class Mistake(Exception):
    """What is wrong with one call; the rest of the file counts."""


@dataclass(frozen=True, slots=True)
class Flag:
    key: str  # dotted: where the value stands in the entry
    read: Callable[[str], Any] = str
    words: int = 1  # how many words it takes; 2 are a name and a value
    repeats: bool = False
    is_switch: bool = False  # its value may be left out: true


FlagTable: TypeAlias = Mapping[str, Flag]


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


def _switch(key: str) -> Flag:
    return Flag(key, read_flag, is_switch=True)


def _list(key: str) -> Flag:
    return Flag(key, repeats=True)


def _pairs(key: str) -> Flag:
    return Flag(key, words=2, repeats=True)


PROVIDER: FlagTable = {
    "--name": Flag("name"),
    "--type": Flag("type"),
    "--api-key": Flag("api_key"),
    "--base-url": Flag("base_url"),
    "--disable": _switch("disable"),
    "--flat-rate": _switch("flat_rate"),
    "--discover-models": _switch("discover_models"),
    "--system-prompt-prefix": Flag("system_prompt_prefix"),
    "--extra-header": _pairs("extra_headers"),
    "--extra-body": Flag("extra_body", _object),
    "--provider-options": Flag("provider_options", _object),
}
MODEL: FlagTable = {
    "--name": Flag("name"),
    "--context-window": Flag("context_window", _whole),
    "--default-max-tokens": Flag("default_max_tokens", _whole),
    "--can-reason": _switch("can_reason"),
    "--supports-images": _switch("supports_attachments"),
    "--price-input": Flag("cost_per_1m_in", _number),
    "--price-output": Flag("cost_per_1m_out", _number),
    "--price-cache-create": Flag("cost_per_1m_in_cached", _number),
    "--price-cache-hit": Flag("cost_per_1m_out_cached", _number),
    "--reasoning-effort": Flag("default_reasoning_effort"),
}
CHOICE: FlagTable = {
    "--think": _switch("think"),
    "--reasoning-effort": Flag("reasoning_effort"),
    "--max-tokens": Flag("max_tokens", _whole),
    "--temperature": Flag("temperature", _number),
    "--top-p": Flag("top_p", _number),
    "--top-k": Flag("top_k", _whole),
    "--frequency-penalty": Flag("frequency_penalty", _number),
    "--presence-penalty": Flag("presence_penalty", _number),
    "--provider-options": Flag("provider_options", _object),
}
MCP: FlagTable = {
    "--type": Flag("type"),
    "--command": Flag("command"),
    "--args": _list("args"),
    "--env": _pairs("env"),
    "--url": Flag("url"),
    "--header": _pairs("headers"),
    "--timeout": Flag("timeout", _whole),
    "--disabled": _switch("disabled"),
    "--disabled-tools": _list("disabled_tools"),
    "--enabled-tools": _list("enabled_tools"),
    "--oauth": _switch("oauth"),
    "--oauth-client-id": Flag("oauth_client_id"),
    "--oauth-client-secret": Flag("oauth_client_secret"),
    "--oauth-callback-port": Flag("oauth_callback_port", _whole),
}
LSP: FlagTable = {
    "--command": Flag("command"),
    "--args": _list("args"),
    "--env": _pairs("env"),
    "--filetypes": _list("filetypes"),
    "--root-markers": _list("root_markers"),
    "--timeout": Flag("timeout", _whole),
    "--disabled": _switch("disabled"),
    "--init-options": Flag("init_options", _object),
    "--options": Flag("options", _object),
}
HOOK: FlagTable = {
    "--command": Flag("command"),
    "--name": Flag("name"),
    "--matcher": Flag("matcher"),
    "--timeout": Flag("timeout", _whole),
}
# An option's key in JSON, how its value is read, and whether JSON says the opposite.
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
