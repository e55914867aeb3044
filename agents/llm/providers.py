"""From a provider's settings to its wire.

The wires are imported on first use: aiohttp alone costs 0.4 s, and a server
that has just started has nobody to talk to yet. Two of them need packages that
are only installed as extras.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping

from agents.config.settings import ProviderSettings
from agents.llm.addresses import is_openai
from agents.llm.contract import SILENCE_SECONDS, Provider
from agents.llm.errors import MissingPackage, UnknownProviderKind

PACE_SECONDS = 0.005

# The type of a provider, the module of its wire and its class.
WIRES = {
    "openai-responses": ("agents.llm.responses", "ResponsesWire"),
    "openai-compat": ("agents.llm.openai", "OpenAIWire"),
    "azure": ("agents.llm.openai", "OpenAIWire"),
    "anthropic": ("agents.llm.anthropic", "AnthropicWire"),
    "gemini": ("agents.llm.gemini", "GeminiWire"),
    "bedrock": ("agents.llm.bedrock", "BedrockWire"),
    "vertex": ("agents.llm.vertex", "VertexWire"),
}
# What a wire needs beyond the server itself: the package, its project, and the extra.
EXTRAS = {
    "bedrock": ("botocore", "botocore", "bedrock"),
    "vertex": ("google", "google-auth", "vertex"),
}
KINDS = ("openai", *WIRES, "local", "offline")


def provider_for(
    settings: ProviderSettings, env: Mapping[str, str], *, silence_seconds: float = SILENCE_SECONDS
) -> Provider:
    """Raises ``ModelError``. ``env`` is the workspace's: proxies are read from it."""
    match settings.kind:
        case "offline":
            from agents.llm.offline import OfflineModel  # noqa: PLC0415  few ever ask for it

            return OfflineModel(pace_seconds=_pace(env))
        case "local":
            from agents.llm.local.provider import LocalModel  # noqa: PLC0415  few ever ask for it

            return LocalModel(settings)
        case "openai":
            # OpenAI itself keeps its reasoning only there; compatible servers rarely know it.
            kind = "openai-responses" if is_openai(settings.base_url) else "openai-compat"
        case _:
            kind = settings.kind
    if kind not in WIRES:
        raise UnknownProviderKind(
            f"Provider '{settings.id}' has the type '{settings.kind[:100]}', which this "
            f"server does not know. The types that work are {', '.join(KINDS[:-1])} and {KINDS[-1]}."
        )
    return _wire(kind, settings)(settings, env=env, silence_seconds=silence_seconds)


def _wire(kind: str, settings: ProviderSettings) -> Callable[..., Provider]:
    module, name = WIRES[kind]
    package, project, extra = EXTRAS.get(kind, ("", "", ""))
    try:
        wire: Callable[..., Provider] = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if not package or (error.name or "").partition(".")[0] != package:
            raise
        raise MissingPackage(
            f"Provider '{settings.id}' has the type '{kind}', which needs a package that is not "
            f"installed (the extra '{extra}'): .venv/bin/python -m pip install {project}"
        ) from None
    return wire


def _pace(env: Mapping[str, str]) -> float:
    """``CRUSH_OFFLINE_PACE``: milliseconds for each word of the offline model."""
    raw = env.get("CRUSH_OFFLINE_PACE", "")
    return min(int(raw), 1_000) / 1_000 if raw.isdecimal() else PACE_SECONDS
