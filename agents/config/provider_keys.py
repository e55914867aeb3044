"""Whether a key makes a provider usable: asked before a client's key is stored.

A client expects the provider in the configuration after it has given a key. One that cannot be
used would make it ask for the key again, for ever.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from agents.config.crushrc.programs import LastTrees
from agents.config.environment import variables
from agents.config.errors import ProviderRefused
from agents.config.known_services import UNSUPPORTED
from agents.config.load import merged_tree
from agents.config.problem import Problem
from agents.config.providers.discovery import Discovery
from agents.config.providers.resolve import resolve_provider

_ANY_KEY = "any-key"


def require_usable(
    provider_id: str,
    *,
    path: str,
    data_dir: str,
    env: Mapping[str, str],
    ran: LastTrees | None = None,
    server_env: Mapping[str, str] | None = None,
) -> None:
    """Raises ``ProviderRefused`` with what is missing. Reads files."""
    server = os.environ if server_env is None else server_env
    tree = merged_tree(path, data_dir=data_dir, ran=ran, server_env=server)
    entry = (tree.get("providers") or {}).get(provider_id) or {}
    if provider_id in UNSUPPORTED and not entry.get("base_url"):
        raise ProviderRefused(UNSUPPORTED[provider_id])
    discovery = Discovery(variables(env, server), asks_ollama=False)
    alone = bool((tree.get("options") or {}).get("disable_default_providers"))
    known = None if alone else discovery.known(provider_id)
    if known is None and not entry.get("base_url"):
        raise ProviderRefused(
            f"The provider {provider_id} is not known here. Give it a type, a base_url and models"
            " in crush.json first."
        )
    problems: list[Problem] = []
    resolved = resolve_provider(
        provider_id,
        {**entry, "api_key": _ANY_KEY, "disable": False},
        known=known,
        needs_models=False,
        lookup=discovery.lookup,
        problems=problems,
    )
    if resolved is None:
        reasons = "; ".join(f"{problem.key} {problem.message}" for problem in problems)
        name = known.name if known is not None else provider_id
        raise ProviderRefused(f"A key alone does not make {name} usable: {reasons}.")
