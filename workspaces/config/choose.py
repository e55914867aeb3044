"""Which providers a workspace has, and which models it works with.

A choice that cannot be used is never replaced by another paid provider: work and
money would go where nobody sent them. It becomes the built-in model, and a problem.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workspaces.config.defaults import CHOSEN_UNASKED, Discovery
from workspaces.config.known_services import known_services
from workspaces.config.local_model import LOCAL_ID
from workspaces.config.model_facts import known_model
from workspaces.config.offline import OFFLINE_ID
from workspaces.config.parse import Tree
from workspaces.config.problem import Problem, problem_with_key
from workspaces.config.providers import (
    PROVIDERS_LIMIT,
    Resolved,
    resolve_known,
    resolve_local,
    resolve_offline,
    resolve_provider,
)
from workspaces.config.settings import ModelChoice, ModelInfo

DEFAULT_MAX_TOKENS = 8_192


@dataclass(frozen=True, slots=True)
class Chosen:
    providers: Mapping[str, Resolved]
    large: ModelChoice
    small: ModelChoice
    problems: tuple[Problem, ...]


def choose(
    tree: Tree,
    *,
    order: Sequence[str],
    discovery: Discovery,
    folder_providers: Container[str] = (),
) -> Chosen:
    """``order``: the ids of configured providers, the nearest file's first.
    ``folder_providers``: those whose address the folder chose."""
    problems: list[Problem] = []
    alone = bool((tree.get("options") or {}).get("disable_default_providers"))
    choices = _choices(tree, problems)
    named = {str(choice["provider"]) for choice in choices.values()}
    providers = _configured(
        tree,
        order=order,
        named=named,
        discovery=discovery,
        alone=alone,
        folder_providers=folder_providers,
        problems=problems,
    )
    configured = tuple(providers)
    entries = tree.get("providers") or {}
    if not alone:
        for found in discovery.found(besides=entries):
            providers[found.settings.id] = found
        for name in sorted(named - set(entries) - set(providers)):
            if (program := discovery.known_program(name)) is not None:
                # Chosen, and not running now: the run that needs it will say so.
                providers[name] = resolve_known(program, lookup=discovery.lookup, variable="")
            elif (service := discovery.service_with_key(name)) is not None:
                known, variable = service
                providers[name] = resolve_known(known, lookup=discovery.lookup, variable=variable)
    has_local = not alone and LOCAL_ID not in entries and (discovery.has_local or LOCAL_ID in named)
    if has_local and discovery.prefers_local:
        providers[LOCAL_ID] = resolve_local()
    offline_off = alone or bool((entries.get(OFFLINE_ID) or {}).get("disable"))
    if OFFLINE_ID not in providers and (not offline_off or not providers):
        providers[OFFLINE_ID] = resolve_offline()
    if has_local and LOCAL_ID not in providers:
        providers[LOCAL_ID] = resolve_local()
    unasked = next(
        (
            name
            for name in (*configured, *CHOSEN_UNASKED, *providers)
            if _has_models(providers, name)
        ),
        "",
    )
    large = _large(choices.get("large"), unasked, providers, problems)
    small = _small(choices.get("small"), large, providers, problems)
    return Chosen(providers, large, small, tuple(problems))


def _choices(tree: Tree, problems: list[Problem]) -> dict[str, Tree]:
    choices: dict[str, Tree] = {}
    for kind in ("large", "small"):
        choice = (tree.get("models") or {}).get(kind)
        if not choice:
            continue
        missing = [name for name in ("provider", "model") if not choice.get(name)]
        if missing:
            problems.append(problem_with_key(f"models.{kind}.{missing[0]}", "is missing"))
        else:
            choices[kind] = choice
    return choices


def _configured(
    tree: Tree,
    *,
    order: Sequence[str],
    named: set[str],
    discovery: Discovery,
    alone: bool,
    folder_providers: Container[str],
    problems: list[Problem],
) -> dict[str, Resolved]:
    entries: Tree = tree.get("providers") or {}
    if len(entries) > PROVIDERS_LIMIT:
        problems.append(problem_with_key("providers", f"only {PROVIDERS_LIMIT} are used"))
    resolved: dict[str, Resolved] = {}
    for provider_id in [name for name in order if name in entries][:PROVIDERS_LIMIT]:
        entry: Mapping[str, Any] = entries[provider_id]
        if entry.get("disable"):
            continue
        provider = resolve_provider(
            provider_id,
            entry,
            known=None if alone else discovery.known(provider_id),
            # A client that has just given a key chooses a model next.
            needs_models=provider_id not in named
            and (alone or provider_id not in known_services()),
            lookup=discovery.lookup,
            problems=problems,
            is_folders_address=provider_id in folder_providers,
        )
        if provider is not None:
            resolved[provider_id] = provider
    return resolved


def _has_models(providers: Mapping[str, Resolved], name: str) -> bool:
    return name in providers and bool(providers[name].settings.models)


def _large(
    choice: Tree | None,
    unasked: str,
    providers: dict[str, Resolved],
    problems: list[Problem],
) -> ModelChoice:
    if choice is not None:
        return _usable(choice, "large", providers, problems)
    provider = providers[unasked]
    return ModelChoice(unasked, provider.large or provider.settings.models[0].id)


def _small(
    choice: Tree | None,
    large: ModelChoice,
    providers: dict[str, Resolved],
    problems: list[Problem],
) -> ModelChoice:
    """Without a choice: the small model of the large one's provider."""
    if choice is not None:
        return _usable(choice, "small", providers, problems)
    return ModelChoice(large.provider, providers[large.provider].small or large.model)


def _usable(
    choice: Tree, kind: str, providers: dict[str, Resolved], problems: list[Problem]
) -> ModelChoice:
    provider_id, model_id = str(choice["provider"]), str(choice["model"])
    provider = providers.get(provider_id)
    if provider is None:
        message = "names a provider that is not configured; the built-in model answers instead"
        problems.append(problem_with_key(f"models.{kind}.provider", message))
        offline = providers.setdefault(OFFLINE_ID, resolve_offline())
        return ModelChoice(OFFLINE_ID, offline.large if kind == "large" else offline.small)
    if provider.settings.model(model_id) is None:
        limit = choice.get("max_tokens") or DEFAULT_MAX_TOKENS
        model = known_model(provider_id, model_id) or ModelInfo(
            model_id, model_id, default_max_tokens=limit
        )
        providers[provider_id] = provider.with_model(model)
    return ModelChoice(
        provider=provider_id,
        model=model_id,
        max_tokens=choice.get("max_tokens") or 0,
        think=bool(choice.get("think")),
        reasoning_effort=choice.get("reasoning_effort") or "",
        temperature=choice.get("temperature"),
        top_p=choice.get("top_p"),
    )
