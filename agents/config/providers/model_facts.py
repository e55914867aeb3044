"""Looks up the window, prices and reasoning levels of models that no file lists.

Windows and prices come from ``model_facts.json``, made by ``generate``; a price is only taken from
the provider that charges it. Many providers sell the same model under slightly different names,
so all other facts depend on the model's family, which its name shows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TypeAlias

from agents.config.settings import ModelInfo

_LOW_TO_HIGH = ("low", "medium", "high")
_MINIMAL_TO_HIGH = ("minimal", *_LOW_TO_HIGH)
_TO_XHIGH = (*_LOW_TO_HIGH, "xhigh")
_TO_MAX = (*_TO_XHIGH, "max")
_THREE_STEPS = ("low", "high", "max")
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Family:
    window: int
    max_tokens: int
    reasons: bool = False
    sees: bool = False
    levels: tuple[str, ...] = ()  # empty: thinking is only switched on and off
    default_level: str = ""


# The first match counts. Names are compared in lower case, without their maker's name.
_FAMILIES: tuple[tuple[str, Family], ...] = (
    # Anthropic
    (
        r"claude-(fable|mythos|opus-5|sonnet-5|haiku-5|opus-4[-.][78])",
        Family(_MILLION, 128_000, True, True, _TO_MAX, "high"),
    ),
    (
        r"claude-(opus|sonnet)-4[-.]6",
        Family(200_000, 128_000, True, True, (*_LOW_TO_HIGH, "max"), "high"),
    ),
    (r"claude-opus-4[-.]5", Family(200_000, 64_000, True, True, _LOW_TO_HIGH, "high")),
    (r"claude-(opus-4|4-opus)", Family(200_000, 32_000, True, True)),
    (r"claude-((sonnet|haiku)-4|4-|3[-.]7)", Family(200_000, 64_000, True, True)),
    (r"claude", Family(200_000, 8_192, False, True)),
    # OpenAI
    (r"gpt-oss", Family(131_072, 32_768, True, False, _LOW_TO_HIGH, "medium")),
    (
        r"gpt-5(\.1)?(-codex)?-(mini|nano)|codex-mini",
        Family(400_000, 128_000, True, True, _LOW_TO_HIGH, "medium"),
    ),
    (
        r"gpt-5(\.1)?(-codex|-chat|-pro)?($|-\d)",
        Family(400_000, 128_000, True, True, _MINIMAL_TO_HIGH, "medium"),
    ),
    (
        r"gpt-(5\.[2-4]|5\.5)",
        Family(400_000, 128_000, True, True, _TO_XHIGH, "medium"),
    ),
    (r"gpt-(5|[6-9])", Family(1_050_000, 128_000, True, True, _TO_XHIGH, "medium")),
    (r"o[134](-|$)", Family(200_000, 50_000, True, True, _LOW_TO_HIGH, "medium")),
    (r"gpt-4\.1", Family(1_047_576, 16_384, False, True)),
    (r"gpt-4o|gpt-4-turbo", Family(128_000, 8_192, False, True)),
    # Google
    (
        r"gemini-3\.[78]",
        Family(1_048_576, 65_536, True, True, _LOW_TO_HIGH, "medium"),
    ),
    (
        r"gemini-3.*flash",
        Family(1_048_576, 65_536, True, True, _MINIMAL_TO_HIGH, "medium"),
    ),
    (r"gemini-[3-9]", Family(1_048_576, 64_000, True, True, _LOW_TO_HIGH, "medium")),
    (r"gemini-2\.5", Family(1_048_576, 50_000, True, True)),
    (r"gemini", Family(1_048_576, 8_192, False, True)),
    (r"gemma", Family(131_072, 8_192, False, True)),
    # xAI
    (r"grok.*non-reasoning", Family(2_000_000, 32_000, False, True)),
    (r"grok-4\.[5-9]", Family(500_000, 32_000, True, True, _LOW_TO_HIGH, "medium")),
    (r"grok-(build|code)", Family(256_000, 32_000, True, False)),
    (r"grok-4", Family(256_000, 32_000, True, True)),
    (r"grok", Family(131_072, 8_192)),
    # DeepSeek
    (r"deepseek-v4", Family(_MILLION, 128_000, True, False, _THREE_STEPS, "high")),
    (r"deepseek-(r1|reasoner)|deepseek-v3[-.p]\d", Family(163_840, 32_000, True)),
    (r"deepseek", Family(131_072, 8_192)),
    # Moonshot, Z.ai, MiniMax, Alibaba, Xiaomi
    (r"kimi-k3", Family(1_048_576, 128_000, True, True, _THREE_STEPS, "max")),
    (r"kimi-k2(\.[5-9]|p[5-9]|-thinking)|kimi-for-coding", Family(262_144, 64_000, True, True)),
    (r"kimi|moonshot", Family(262_144, 16_000)),
    (r"glm-5(\.|p)[2-9]", Family(_MILLION, 128_000, True, False, _THREE_STEPS, "high")),
    (r"glm-[\d.p]+v", Family(131_072, 32_768, True, True)),
    (r"glm-(5|4(\.|p)[5-9])", Family(202_752, 32_768, True)),
    (r"glm", Family(131_072, 16_384)),
    (r"minimax-m3", Family(_MILLION, 128_000, True)),
    (r"minimax-m", Family(204_800, 64_000, True)),
    (
        r"qwen-?3\.[89]",
        Family(_MILLION, 65_536, True, True, ("none", *_MINIMAL_TO_HIGH), "medium"),
    ),
    (r"qwen-?3(\.|p)[5-7]", Family(262_144, 65_536, True, True)),
    (r"qwen.*(thinking|qwq)|qwq", Family(131_072, 32_768, True)),
    (r"qwen.*vl", Family(131_072, 32_768, False, True)),
    (r"qwen-?3.*coder", Family(262_144, 65_536)),
    (r"qwen", Family(131_072, 16_384)),
    (r"mimo", Family(262_144, 64_000, True, True)),
    # Meta, Mistral, others
    (r"llama-?4", Family(1_000_000, 16_384, False, True)),
    (r"llama", Family(131_072, 16_384)),
    (r"magistral", Family(131_072, 32_768, True)),
    (r"devstral|codestral", Family(262_144, 32_768)),
    (r"pixtral|mistral-(medium|small)", Family(131_072, 16_384, False, True)),
    (r"mistral|mixtral", Family(131_072, 16_384)),
    (r"nemotron", Family(262_144, 32_768, True)),
)
_COMPILED = tuple((re.compile(pattern), family) for pattern, family in _FAMILIES)


def base_name(model_id: str) -> str:
    """Returns the name without maker, path and variant: ``glm-4.6`` for ``x/GLM-4.6:free``."""
    name = model_id.lower().split(":free")[0].rsplit("/", 1)[-1]
    # Bedrock puts a region and the maker before the name, with dots.
    return re.sub(
        r"^(?:[a-z]{2,6}\.)?[a-z0-9]+\.(?=claude|llama|deepseek|qwen|gpt|kimi|glm)", "", name
    )


def family_of(model_id: str) -> Family | None:
    name = base_name(model_id)
    return next((family for pattern, family in _COMPILED if pattern.match(name)), None)


FACTS_FILE = Path(__file__).with_name("model_facts.json")
# A provider's id here, and the ids of its prices in the data, which are tried in order.
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
    """Returns a model's facts; ``None`` if neither the data nor its family is known."""
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
    """Returns the facts by source and name, with each name in lower case too.

    Providers use both spellings.
    """
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
