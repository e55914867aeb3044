"""What is known of a model that no file lists: window, prices, reasoning.

Prices and windows come from ``model_facts.json``, made by ``distil_catalogue``; a price is only
taken from the provider that charges it. What the data does not say comes from the model's family.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TypeAlias

from agents.config.model_families import Family, base_name, family_of
from agents.config.settings import ModelInfo

FACTS_FILE = Path(__file__).with_name("model_facts.json")
# A provider's id here, and where its prices stand in the data; several are tried in order.
SOURCES: Mapping[str, tuple[str, ...]] = {
    "anthropic": ("anthropic",),
    "avian": ("avian",),
    "azure": ("azure", "openai"),
    "baseten": ("baseten",),
    "bedrock": ("aws",),
    "bedrock-europe": ("aws",),
    "cerebras": ("cerebras",),
    "deepseek": ("deepseek",),
    "fireworks": ("fireworks",),
    "gemini": ("google",),
    "groq": ("groq",),
    "minimax": ("minimax",),
    "minimax-china": ("minimax",),
    "moonshot": ("moonshotai",),
    "openai": ("openai",),
    "openrouter": ("openrouter",),
    "vertex": ("google", "anthropic"),
    "vertexai": ("google", "anthropic"),
    "xai": ("x-ai",),
    "zai": ("zai",),
    "zhipu": ("zhipuai",),
}
_DATED = re.compile(r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2})(?:-v\d+(?::\d+)?)?$|-latest$")
# window, then the price of a million tokens: read, written, written to and read from the cache
Row: TypeAlias = tuple[int, float, float, float, float]


def known_model(provider_id: str, model_id: str) -> ModelInfo | None:
    """``None`` when neither the data nor the model's name says anything."""
    row = _row(provider_id, model_id)
    family = family_of(model_id)
    if row is None and family is None:
        return None
    family = family or Family(window=128_000, max_tokens=8_192)
    window = row[0] if row is not None and row[0] else family.window
    model = ModelInfo(
        id=model_id,
        name=model_id.rsplit("/", 1)[-1],
        context_window=window,
        default_max_tokens=min(family.max_tokens, max(1_024, window // 2)),
        can_reason=family.reasons,
        supports_attachments=family.sees,
        reasoning_levels=family.levels,
        default_reasoning_effort=family.default_level,
    )
    if row is None:
        return model
    return replace(
        model,
        cost_per_1m_in=row[1],
        cost_per_1m_out=row[2],
        cost_per_1m_in_cached=row[3],
        cost_per_1m_out_cached=row[4],
    )


def _row(provider_id: str, model_id: str) -> Row | None:
    names = dict.fromkeys(
        (
            model_id,
            model_id.lower(),
            _DATED.sub("", model_id.lower()),
            base_name(model_id),
            _DATED.sub("", base_name(model_id)),
        )
    )
    for source in SOURCES.get(provider_id, ()):
        rows = _facts().get(source) or {}
        for name in names:
            if name in rows:
                return rows[name]
    return None


@cache
def _facts() -> Mapping[str, Mapping[str, Row]]:
    """By source and by name in lower case as well: providers spell names in both ways."""
    data = json.loads(FACTS_FILE.read_text(encoding="utf-8"))
    return {
        source: {
            key: row
            for name, (window, read, written, stored, hit) in models.items()
            for row in [(int(window), float(read), float(written), float(stored), float(hit))]
            for key in (name.lower(), name)
        }
        for source, models in data.items()
    }
