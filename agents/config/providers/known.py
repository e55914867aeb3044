"""What is known of providers without any configuration: addresses, keys, models.

Read from ``catalogue.json`` on first use; ``distil_catalogue`` makes that file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from agents.config.model_families import family_of
from agents.config.settings import ModelInfo

_FILE = Path(__file__).with_name("catalogue.json")


@dataclass(frozen=True, slots=True)
class KnownProvider:
    id: str
    name: str
    kind: str
    base_url: str
    key_variables: tuple[str, ...]
    large: str
    small: str
    models: tuple[ModelInfo, ...]
    default_headers: Mapping[str, str] = field(default_factory=dict)  # sent unless a file says else


@cache
def known_providers() -> Mapping[str, KnownProvider]:
    entries = json.loads(_FILE.read_text(encoding="utf-8"))
    return {
        provider_id: KnownProvider(
            id=provider_id,
            name=entry["name"],
            kind=entry["type"],
            base_url=entry["base_url"],
            key_variables=tuple(entry["key_variables"]),
            large=entry["large"],
            small=entry["small"],
            models=tuple(_model(model) for model in entry["models"]),
            default_headers=entry.get("default_headers") or {},
        )
        for provider_id, entry in entries.items()
    }


def _model(entry: Mapping[str, Any]) -> ModelInfo:
    family = family_of(entry["id"])
    levels: Mapping[str, Any] = {}
    if family is not None and entry.get("can_reason"):
        levels = {
            "reasoning_levels": family.levels,
            "default_reasoning_effort": family.default_level,
        }
    return ModelInfo(**entry, **levels)
