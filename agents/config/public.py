"""Builds the ``config`` object of answers, which every client of a workspace may see. Pure.

Made from the text of the files, never from expanded values. ``options``,
``options.tui`` and ``providers`` are always objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agents.config.mask import (
    Scrubber,
    masked_all,
    masked_command,
    masked_within,
    masked_words,
    secrets_in,
    texts_in,
    without_secrets,
)
from agents.config.parse import Tree
from agents.config.providers.choice import ChosenModels
from agents.config.settings import ModelChoice

_SECRET_MAPS = ("env", "headers")


@dataclass(frozen=True, slots=True)
class Places:
    """Folders that appear in answers."""

    workspace: str
    data_directory: str
    home: str
    config_home: str


def public_config(tree: Tree, *, chosen: ChosenModels, options: Tree, places: Places) -> Tree:
    shown: Tree = {}
    if tree.get("$schema"):
        shown["$schema"] = masked_within(tree["$schema"])
    shown["models"] = _models(tree, chosen)
    shown["options"] = without_secrets(options)
    shown["providers"] = {
        provider_id: resolved.shown for provider_id, resolved in chosen.providers.items()
    }
    if tree.get("hooks"):
        shown["hooks"] = _hooks(tree["hooks"])
    if tree.get("permissions"):
        shown["permissions"] = _with_names(tree["permissions"], ("allowed_tools",))
    if tree.get("recent_models"):
        shown["recent_models"] = {
            kind: [_choice(choice) for choice in choices]
            for kind, choices in tree["recent_models"].items()
        }
    for name in ("mcp", "lsp", "fleet"):
        if tree.get(name):
            shown[name] = {key: _server(server) for key, server in tree[name].items()}
    for server in (shown.get("lsp") or {}).values():
        server.setdefault("root_markers", [])
    shown["tools"] = _tools(tree)
    scrubber = Scrubber.of(_secrets(tree, chosen), public=_public_texts(chosen, places))
    scrubbed: Tree = scrubber.scrub(shown)
    return scrubbed


def _models(tree: Tree, chosen: ChosenModels) -> Tree:
    models = {
        kind: _choice(choice) for kind, choice in (tree.get("models") or {}).items() if choice
    }
    for kind, choice in (("large", chosen.large), ("small", chosen.small)):
        written = models.get(kind) or {}
        if (written.get("provider"), written.get("model")) != (choice.provider, choice.model):
            models[kind] = written = shown_choice(choice)
        if not written.get("max_tokens"):
            resolved = chosen.providers.get(choice.provider)
            model = resolved.settings.model(choice.model) if resolved is not None else None
            if model is not None:
                models[kind] = written | {"max_tokens": model.default_max_tokens}
    return models


def _choice(written: Mapping[str, Any]) -> Tree:
    """Returns a choice with its names unmasked: ``token-model:8b`` is a model, not a secret."""
    return _with_names(written, ("model", "provider"))


def _with_names(written: Mapping[str, Any], names: Iterable[str]) -> Tree:
    """Returns the values of ``names`` unchanged, and all other values without secrets."""
    kept = {name: written[name] for name in names if name in written}
    rest: Tree = without_secrets({name: written[name] for name in written if name not in kept})
    return {name: (kept if name in kept else rest)[name] for name in written}


def shown_choice(choice: ModelChoice) -> Tree:
    """Returns the choice for ``model_cfg`` and ``models.large``, without unset values."""
    optional = {
        "max_tokens": choice.max_tokens or None,
        "think": choice.think or None,
        "reasoning_effort": choice.reasoning_effort or None,
        "temperature": choice.temperature,
        "top_p": choice.top_p,
    }
    given = {name: value for name, value in optional.items() if value is not None}
    return {"model": choice.model, "provider": choice.provider} | given


def _server(server: Mapping[str, Any]) -> Tree:
    """Returns a language or MCP server for clients, with its environment and headers masked."""
    secret = {name: masked_all(server[name]) for name in _SECRET_MAPS if server.get(name)}
    rest = {name: value for name, value in server.items() if name not in _SECRET_MAPS}
    shown: Tree = without_secrets(rest)
    if server.get("args"):
        shown["args"] = masked_words(server["args"])
    if server.get("command"):
        shown["command"] = masked_command(server["command"])
    return shown | secret


def _hooks(hooks: Mapping[str, Any]) -> Tree:
    shown: Tree = without_secrets(hooks)
    for entries in shown.values():
        for entry in entries or ():
            if entry.get("command"):
                entry["command"] = masked_command(entry["command"])
    return shown


def _tools(tree: Tree) -> Tree:
    tools: Tree = without_secrets(tree.get("tools") or {})
    return tools | {"ls": {"max_depth": 2, "max_items": 100} | (tools.get("ls") or {})}


def _secrets(tree: Tree, chosen: ChosenModels) -> Iterable[str]:
    for resolved in chosen.providers.values():
        yield from resolved.secrets
    # A disabled or unusable provider still has its key in a file.
    for entry in (tree.get("providers") or {}).values():
        for name in ("api_key", "extra_headers", "oauth"):
            yield from texts_in(entry.get(name))
        yield from secrets_in(entry.get("extra_body"))
    for section in ("mcp", "lsp", "fleet"):
        for server in (tree.get(section) or {}).values():
            for name in _SECRET_MAPS:
                yield from texts_in(server.get(name))
            yield from secrets_in(server)


def _public_texts(chosen: ChosenModels, places: Places) -> Iterable[str]:
    yield from (places.workspace, places.data_directory, places.home, places.config_home)
    for resolved in chosen.providers.values():
        yield resolved.settings.id
        yield resolved.settings.kind
        for model in resolved.settings.models:
            yield model.id
