"""From a provider's settings to its wire.

The wires are imported on first use: aiohttp alone costs 0.4 s, and a server
that has just started has nobody to talk to yet. Two of them need packages that
are only installed as extras.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping

from agents.config.providers.kinds import BY_NAME, SERVED, Package
from agents.config.settings import ProviderSettings
from agents.llm.addresses import is_openai
from agents.llm.contract import SILENCE_SECONDS, Provider
from agents.llm.errors import MissingPackage, UnknownProviderKind

PACE_SECONDS = 0.005


def provider_for(
    settings: ProviderSettings, env: Mapping[str, str], *, silence_seconds: float = SILENCE_SECONDS
) -> Provider:
    """Raises ``ModelError``. ``env`` is the workspace's: proxies are read from it."""
    match settings.kind:
        case "offline":
            from agents.llm.wires.offline import OfflineModel  # noqa: PLC0415  few ever ask for it

            return OfflineModel(pace_seconds=_pace(env))
        case "local":
            from agents.llm.wires.local.provider import LocalModel  # noqa: PLC0415  few ever ask for it

            return LocalModel(settings)
        case "openai":
            # OpenAI itself keeps its reasoning only there; compatible servers rarely know it.
            kind = "openai-responses" if is_openai(settings.base_url) else "openai-compat"
        case _:
            kind = settings.kind
    served = BY_NAME.get(kind)
    if served is None or served.wire is None:
        raise UnknownProviderKind(
            f"Provider '{settings.id}' has the type '{settings.kind[:100]}', which this server "
            f"does not know. The types that work are {', '.join(SERVED[:-1])} and {SERVED[-1]}."
        )
    wire = _imported_wire(served.name, served.wire, served.package, settings)
    return wire(settings, env=env, silence_seconds=silence_seconds)


def _imported_wire(
    kind: str, name: tuple[str, str], package: Package | None, settings: ProviderSettings
) -> Callable[..., Provider]:
    try:
        wire: Callable[..., Provider] = getattr(importlib.import_module(name[0]), name[1])
    except ModuleNotFoundError as error:
        if package is None or (error.name or "").partition(".")[0] != package.module:
            raise
        raise MissingPackage(
            f"Provider '{settings.id}' has the type '{kind}', which needs a package that is not "
            f"installed (the extra '{package.extra}'): "
            f".venv/bin/python -m pip install {package.project}"
        ) from None
    return wire


def _pace(env: Mapping[str, str]) -> float:
    """``CRUSH_OFFLINE_PACE``: milliseconds for each word of the offline model."""
    raw = env.get("CRUSH_OFFLINE_PACE", "")
    return min(int(raw), 1_000) / 1_000 if raw.isdecimal() else PACE_SECONDS
