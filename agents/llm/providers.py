"""From a provider's settings to its wire.

The wires are imported on first use: aiohttp alone costs 0.4 s, and a server
that has just started has nobody to talk to yet.
"""

from __future__ import annotations

from collections.abc import Mapping

from agents.llm.contract import SILENCE_SECONDS, Provider
from agents.llm.errors import UnknownProviderKind
from workspaces.config.settings import ProviderSettings

PACE_SECONDS = 0.005
KINDS = ("openai", "openai-compat", "anthropic", "offline")


def provider_for(
    settings: ProviderSettings, env: Mapping[str, str], *, silence_seconds: float = SILENCE_SECONDS
) -> Provider:
    """Raises ``ModelError``. ``env`` is the workspace's: proxies are read from it."""
    match settings.kind:
        case "openai" | "openai-compat":
            from agents.llm.openai import OpenAIWire  # noqa: PLC0415

            return OpenAIWire(settings, env=env, silence_seconds=silence_seconds)
        case "anthropic":
            from agents.llm.anthropic import AnthropicWire  # noqa: PLC0415

            return AnthropicWire(settings, env=env, silence_seconds=silence_seconds)
        case "offline":
            from agents.llm.offline import OfflineModel  # noqa: PLC0415

            return OfflineModel(pace_seconds=_pace(env))
        case _:
            raise UnknownProviderKind(
                f"Provider '{settings.id}' has the type '{settings.kind[:100]}', which is not "
                f"spoken here. The types that work are {', '.join(KINDS[:-1])} and {KINDS[-1]}."
            )


def _pace(env: Mapping[str, str]) -> float:
    """``CRUSH_OFFLINE_PACE``: milliseconds for each word of the offline model."""
    raw = env.get("CRUSH_OFFLINE_PACE", "")
    return min(int(raw), 1_000) / 1_000 if raw.isdecimal() else PACE_SECONDS
