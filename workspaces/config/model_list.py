"""A provider's models: from the file's entries to values and back. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

from workspaces.config.settings import ModelInfo

LIMIT = 500  # of models of one provider
_FIELDS = frozenset(field.name for field in fields(ModelInfo))


def models_of(
    entries: Iterable[Mapping[str, Any]], *, known: Iterable[ModelInfo]
) -> tuple[ModelInfo, ...]:
    """The entries' models, each id once. What an entry leaves out comes from ``known``."""
    by_id = {model.id: model for model in known}
    made: dict[str, ModelInfo] = {}
    for entry in entries:
        model_id = entry.get("id") or ""
        if not model_id or model_id in made or len(made) >= LIMIT:
            continue
        base = by_id.get(model_id) or ModelInfo(model_id, model_id)
        # 0 is how other programs write "not known" for a window or a limit.
        told = {
            name: value
            for name, value in entry.items()
            if name in _FIELDS and value is not None and not (_is_size(name) and value == 0)
        }
        made[model_id] = ModelInfo(
            **(asdict(base) | told | {"name": told.get("name") or base.name})
        )
    return tuple(made.values())


def shown_model(model: ModelInfo) -> dict[str, Any]:
    """A model as configuration answers carry it: every field, always."""
    return asdict(model)


def _is_size(name: str) -> bool:
    return name in {"context_window", "default_max_tokens"}
