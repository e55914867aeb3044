"""Hosted providers that a key alone makes usable: where each is asked and how it is spoken to.

None of their models is listed here: a client chooses one from its own catalogue, and
``model_facts`` knows its window, price and reasoning.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from agents.config.providers.known import KnownProvider

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
# What a key alone cannot make usable, and what to do instead.
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
