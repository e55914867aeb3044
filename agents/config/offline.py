"""The built-in provider as an entry of the configuration: always there, free.

How it answers is ``agents.llm``'s; here it only has a name and two models.
"""

from __future__ import annotations

from agents.config.settings import ModelInfo, ProviderSettings

OFFLINE_ID = "offline"
OFFLINE_KIND = "offline"
OFFLINE_LARGE = "offline-large"
OFFLINE_SMALL = "offline-small"


def offline_provider() -> ProviderSettings:
    return ProviderSettings(
        id=OFFLINE_ID,
        name="Offline (built in)",
        kind=OFFLINE_KIND,
        base_url="",
        models=(
            ModelInfo(
                OFFLINE_LARGE, "Offline large", context_window=200_000, default_max_tokens=4_096
            ),
            ModelInfo(
                OFFLINE_SMALL, "Offline small", context_window=200_000, default_max_tokens=4_096
            ),
        ),
    )
