"""Providers that are known without configuration: their addresses, key variables and models.

The catalogue is read from ``catalogue.json`` on first use; ``generate`` makes that file. Clouds
and programs on this machine follow: their addresses contain variables, because they depend on an
account's region or project. Last come hosted services that only need a key. They list no models:
a client chooses one from its own catalogue, and ``model_facts`` has the facts about it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from agents.config.providers.kinds import (
    AZURE_ADDRESS,
    BEDROCK_ADDRESS,
    LMSTUDIO_ADDRESS,
    VERTEX_ADDRESS,
)
from agents.config.providers.model_facts import family_of
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
    default_headers: Mapping[str, str] = field(
        default_factory=dict
    )  # sent unless a file overrides them


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


BEDROCK_EUROPE_ADDRESS = (
    "https://bedrock-runtime.${AWS_REGION:-${AWS_DEFAULT_REGION:-eu-west-1}}.amazonaws.com"
)

# The maker's name of a model, and the cloud's name.
_BEDROCK = {
    "claude-sonnet-4-6": "global.anthropic.claude-sonnet-4-6",
    "claude-sonnet-4-5": "global.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "claude-opus-4-5": "global.anthropic.claude-opus-4-5-20251101-v1:0",
    "claude-haiku-4-5": "global.anthropic.claude-haiku-4-5-20251001-v1:0",
}
_BEDROCK_EUROPE = {name: model.replace("global.", "eu.", 1) for name, model in _BEDROCK.items()}
_VERTEX = {
    "claude-sonnet-4-6": "claude-sonnet-4-6",
    "claude-sonnet-4-5": "claude-sonnet-4-5@20250929",
    "claude-opus-4-5": "claude-opus-4-5@20251101",
    "claude-haiku-4-5": "claude-haiku-4-5@20251001",
}


@cache
def known_clouds() -> Mapping[str, KnownProvider]:
    clouds = (
        KnownProvider(
            "azure",
            "Azure OpenAI",
            "azure",
            AZURE_ADDRESS,
            ("AZURE_OPENAI_API_KEY",),
            large="",
            small="",
            models=(),
        ),
        _of_anthropic(
            "bedrock",
            "Amazon Bedrock",
            BEDROCK_ADDRESS,
            _BEDROCK,
            key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
        ),
        _of_anthropic(
            "bedrock-europe",
            "Amazon Bedrock (Europe)",
            BEDROCK_EUROPE_ADDRESS,
            _BEDROCK_EUROPE,
            kind="bedrock",
            key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
        ),
        _of_anthropic("vertex", "Google Vertex AI", VERTEX_ADDRESS, _VERTEX),
        # The name that other programs use.
        _of_anthropic("vertexai", "Google Vertex AI", VERTEX_ADDRESS, _VERTEX, kind="vertex"),
        KnownProvider(
            "lmstudio",
            "LM Studio",
            "openai-compat",
            LMSTUDIO_ADDRESS,
            (),
            large="",
            small="",
            models=(),
        ),
    )
    return {cloud.id: cloud for cloud in clouds}


def _of_anthropic(
    cloud_id: str,
    name: str,
    address: str,
    names: Mapping[str, str],
    *,
    kind: str = "",
    key_variables: tuple[str, ...] = (),
) -> KnownProvider:
    models = tuple(
        replace(model, id=names[model.id])
        for model in known_providers()["anthropic"].models
        if model.id in names
    )
    return KnownProvider(
        cloud_id,
        name,
        kind or cloud_id,
        address,
        key_variables,
        large=names["claude-sonnet-4-6"],
        small=names["claude-haiku-4-5"],
        models=models,
    )


_CHAT = "openai-compat"
_MESSAGES = "anthropic"
# id, name, wire, address, variable of its key
_SERVICES = (
    ("aihubmix", "AIHubMix", _CHAT, "https://aihubmix.com/v1", "AIHUBMIX_API_KEY"),
    (
        *("alibaba-singapore", "Alibaba (Singapore)", _CHAT),
        *("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "ALIBABA_SINGAPORE_API_KEY"),
    ),
    (
        *("alibaba-us", "Alibaba (US)", _CHAT),
        *("https://dashscope-us.aliyuncs.com/compatible-mode/v1", "ALIBABA_US_API_KEY"),
    ),
    ("atlascloud", "Atlas Cloud", _CHAT, "https://api.atlascloud.ai/v1", "ATLASCLOUD_API_KEY"),
    ("avian", "Avian", _CHAT, "https://api.avian.io/v1", "AVIAN_API_KEY"),
    ("baseten", "Baseten", _CHAT, "https://inference.baseten.co/v1", "BASETEN_API_KEY"),
    ("cerebras", "Cerebras", _CHAT, "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    ("chutes", "Chutes", _CHAT, "https://llm.chutes.ai/v1", "CHUTES_API_KEY"),
    ("cortecs", "Cortecs", _CHAT, "https://api.cortecs.ai/v1", "CORTECS_API_KEY"),
    (
        *("fireworks", "Fireworks", _CHAT),
        *("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    ),
    ("huggingface", "Hugging Face", _CHAT, "https://router.huggingface.co/v1", "HF_TOKEN"),
    (
        *("ionet", "io.net", _CHAT),
        *("https://api.intelligence.io.solutions/api/v1", "IONET_API_KEY"),
    ),
    (
        *("kimi-coding", "Kimi for Coding", _MESSAGES),
        *("https://api.kimi.com/coding", "KIMI_CODING_API_KEY"),
    ),
    ("minimax", "MiniMax", _MESSAGES, "https://api.minimax.io/anthropic", "MINIMAX_API_KEY"),
    (
        *("minimax-china", "MiniMax (China)", _MESSAGES),
        *("https://api.minimaxi.com/anthropic", "MINIMAX_CHINA_API_KEY"),
    ),
    ("moonshot", "Moonshot AI", _CHAT, "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
    ("nebius", "Nebius", _CHAT, "https://api.tokenfactory.nebius.com/v1", "NEBIUS_API_KEY"),
    ("neuralwatt", "Neuralwatt", _CHAT, "https://api.neuralwatt.com/v1", "NEURALWATT_API_KEY"),
    ("opencode-go", "OpenCode Go", _CHAT, "https://opencode.ai/zen/go/v1", "OPENCODE_API_KEY"),
    ("opencode-zen", "OpenCode Zen", _CHAT, "https://opencode.ai/zen/v1", "OPENCODE_API_KEY"),
    ("qiniucloud", "Qiniu Cloud", _CHAT, "https://api.qnaigc.com/v1", "QINIUCLOUD_API_KEY"),
    ("scaleway", "Scaleway", _CHAT, "https://api.scaleway.ai/v1", "SCALEWAY_API_KEY"),
    (
        *("synthetic", "Synthetic", _CHAT),
        *("https://api.synthetic.new/openai/v1", "SYNTHETIC_API_KEY"),
    ),
    ("venice", "Venice", _CHAT, "https://api.venice.ai/api/v1", "VENICE_API_KEY"),
    ("vercel", "Vercel AI Gateway", _CHAT, "https://ai-gateway.vercel.sh/v1", "VERCEL_API_KEY"),
    ("zai", "Z.AI", _CHAT, "https://api.z.ai/api/coding/paas/v4", "ZAI_API_KEY"),
    ("zhipu", "Zhipu AI", _CHAT, "https://open.bigmodel.cn/api/paas/v4", "ZHIPU_API_KEY"),
    (
        *("zhipu-coding", "Zhipu AI (Coding Plan)", _CHAT),
        *("https://open.bigmodel.cn/api/coding/paas/v4", "ZHIPU_API_KEY"),
    ),
)
# Providers that need more than a key, and what to do instead.
UNSUPPORTED: Mapping[str, str] = {
    "copilot": "GitHub Copilot needs a login that this server does not offer. Choose another"
    " provider.",
    "hyper": "Hyper has a protocol of its own that this server does not support. Choose another"
    " provider.",
}


@cache
def known_services() -> Mapping[str, KnownProvider]:
    return {
        provider_id: KnownProvider(
            provider_id, name, kind, address, (variable,), large="", small="", models=()
        )
        for provider_id, name, kind, address, variable in _SERVICES
    }
