"""Returns the wire for a provider's settings, and closes what the wires have opened.

Wires are imported on first use: importing aiohttp alone takes 0.4 s, which a
server would pay at every start. Two wires need packages that are only installed
as extras.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping

from agents.config.providers import kinds
from agents.config.providers.kinds import BY_NAME, SERVED, Package
from agents.config.settings import ProviderSettings
from agents.llm.contract import IDLE_SECONDS, Provider
from agents.llm.errors import MissingPackage, UnknownProviderKind
from agents.llm.http_request import is_openai

OFFLINE_WORD_SECONDS = 0.005


def provider_for(
    settings: ProviderSettings, env: Mapping[str, str], *, idle_seconds: float = IDLE_SECONDS
) -> Provider:
    """Returns the wire of a provider. Raises ``ModelError``.

    ``env`` is the workspace's environment, which may name proxies.
    """
    match settings.kind:
        case kinds.OFFLINE_KIND:
            from agents.llm.wires.offline import OfflineModel  # noqa: PLC0415  rarely used

            return OfflineModel(word_seconds=_offline_word_seconds(env))
        case kinds.LOCAL_KIND:
            from agents.llm.wires.local_model import LocalModel  # noqa: PLC0415  rarely used

            return LocalModel(settings)
        case "openai":
            # Only this API of OpenAI keeps reasoning; few compatible servers support it.
            kind = kinds.RESPONSES_KIND if is_openai(settings.base_url) else kinds.COMPATIBLE_KIND
        case _:
            kind = settings.kind
    served = BY_NAME.get(kind)
    if served is None or served.wire is None:
        raise UnknownProviderKind(
            f"Provider '{settings.id}' has the type '{settings.kind[:100]}', which this server "
            f"does not support. Use {', '.join(SERVED[:-1])} or {SERVED[-1]}."
        )
    wire = _imported_wire(served.name, served.wire, served.package, settings)
    return wire(settings, env=env, idle_seconds=idle_seconds)


async def end_connections() -> None:
    """Closes what is open, without importing the HTTP client only to close it."""
    if "agents.llm.connections" in sys.modules:
        from agents.llm.connections import close_connections  # noqa: PLC0415  it is loaded already

        await close_connections()
    if "agents.llm.wires.local_engine" in sys.modules:
        from agents.llm.wires.local_engine import close_engine  # noqa: PLC0415  it is loaded already

        await close_engine()


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


def _offline_word_seconds(env: Mapping[str, str]) -> float:
    """Returns the seconds per word of the offline model, from ``CRUSH_OFFLINE_PACE`` in ms."""
    raw = env.get("CRUSH_OFFLINE_PACE", "")
    return min(int(raw), 1_000) / 1_000 if raw.isdecimal() else OFFLINE_WORD_SECONDS
