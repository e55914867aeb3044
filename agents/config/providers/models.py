"""Converts a provider's models from the file's entries to values and back. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from agents.config.settings import ModelInfo

LIMIT = 500  # of models of one provider
# If a model has these, clients offer a choice of effort, otherwise a switch for thinking.
_LEVELS = frozenset({"reasoning_levels", "default_reasoning_effort"})
_FIELDS = frozenset(field.name for field in fields(ModelInfo))


def models_of(
    entries: Iterable[Mapping[str, Any]], *, known: Iterable[ModelInfo]
) -> tuple[ModelInfo, ...]:
    """Returns the entries' models, each id once. Missing fields come from ``known``."""
    by_id = {model.id: model for model in known}
    made: dict[str, ModelInfo] = {}
    for entry in entries:
        model_id = entry.get("id") or ""
        if not model_id or model_id in made or len(made) >= LIMIT:
            continue
        base = by_id.get(model_id) or ModelInfo(model_id, model_id)
        # Other programs write 0 for an unknown window or limit.
        given = {
            name: value
            for name, value in entry.items()
            if name in _FIELDS and value is not None and not (_is_size(name) and value == 0)
        }
        if "reasoning_levels" in given:
            given["reasoning_levels"] = tuple(given["reasoning_levels"])
        made[model_id] = replace(base, **(given | {"name": given.get("name") or base.name}))
    return tuple(made.values())


def shown_model(model: ModelInfo) -> dict[str, Any]:
    """Returns a model for configuration answers, with levels only if it has some."""
    shown = asdict(model)
    if model.reasoning_levels:
        return shown | {"reasoning_levels": list(model.reasoning_levels)}
    return {name: shown[name] for name in shown if name not in _LEVELS}


def _is_size(name: str) -> bool:
    return name in {"context_window", "default_max_tokens"}
