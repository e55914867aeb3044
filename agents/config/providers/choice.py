"""Chooses the providers of a workspace, and its large and small model.

A choice that cannot be used is never replaced, neither by another paid provider, which would
cost money and receive data that was not meant for it, nor by the built-in model, whose answers
would be useless. Prompts fail with the reason instead.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.config.parse import Tree
from agents.config.problem import Problem, problem_with_key
from agents.config.providers.built_in import LOCAL_ID, OFFLINE_ID
from agents.config.providers.catalogue import known_services
from agents.config.providers.discovery import DEFAULT_PROVIDERS, Discovery
from agents.config.providers.model_facts import known_model
from agents.config.providers.resolve import (
    PROVIDERS_LIMIT,
    Resolved,
    resolve_known,
    resolve_local,
    resolve_offline,
    resolve_provider,
)
from agents.config.settings import ModelChoice, ModelInfo

DEFAULT_MAX_TOKENS = 8_192
CURE = "Correct the configuration or choose another model; `crush-server doctor` checks all of it."


@dataclass(frozen=True, slots=True)
class ChosenModels:
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
    left_out: Mapping[str, str] | None = None,
    broken: Sequence[Problem] = (),
) -> ChosenModels:
    """Returns the chosen models and the usable providers.

    ``order``: the ids of configured providers, the nearest file's first.
    ``folder_providers``: those whose address the folder chose. ``left_out``: those that are
    left out, with the reason. ``broken``: errors that may hide the choice of a model.
    """
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
        _add_discovered(providers, entries, named=named, discovery=discovery)
    _add_built_in(providers, entries, named=named, discovery=discovery, alone=alone)
    default_provider = next(
        (
            name
            for name in (*configured, *DEFAULT_PROVIDERS, *providers)
            if _has_models(providers, name)
        ),
        "",
    )
    reasons = _reasons(entries, named, providers, left_out or {}, problems)
    choosing = _Choosing(providers, reasons, broken, problems)
    written = (tree.get("models") or {}).get("large")
    large = choosing.large(
        choices.get("large"),
        default_provider,
        is_incomplete=bool(written) and "large" not in choices,
        is_built_in=default_provider in {OFFLINE_ID, LOCAL_ID}
        and default_provider not in configured,
    )
    small = choosing.small(choices.get("small"), large)
    return ChosenModels(providers, large, small, tuple(problems))


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
            # A client that has just stored a key chooses a model next.
            needs_models=provider_id not in named
            and (alone or provider_id not in known_services()),
            lookup=discovery.lookup,
            problems=problems,
            is_folders_address=provider_id in folder_providers,
        )
        if provider is not None:
            resolved[provider_id] = provider
    return resolved


def _add_discovered(
    providers: dict[str, Resolved], entries: Tree, *, named: set[str], discovery: Discovery
) -> None:
    for found in discovery.found(besides=entries):
        providers[found.settings.id] = found
    for name in sorted(named - set(entries) - set(providers)):
        if (program := discovery.known_program(name)) is not None:
            # Chosen, but not running now: a run that needs it fails with the reason.
            providers[name] = resolve_known(program, lookup=discovery.lookup, variable="")
        elif (service := discovery.service_with_key(name)) is not None:
            known, variable = service
            providers[name] = resolve_known(known, lookup=discovery.lookup, variable=variable)


def _add_built_in(
    providers: dict[str, Resolved],
    entries: Tree,
    *,
    named: set[str],
    discovery: Discovery,
    alone: bool,
) -> None:
    """Adds the local and the offline model, the preferred one first."""
    has_local = not alone and LOCAL_ID not in entries and (discovery.has_local or LOCAL_ID in named)
    if has_local and discovery.prefers_local:
        providers[LOCAL_ID] = resolve_local()
    offline_off = alone or bool((entries.get(OFFLINE_ID) or {}).get("disable"))
    if OFFLINE_ID not in providers and (not offline_off or not providers):
        providers[OFFLINE_ID] = resolve_offline()
    if has_local and LOCAL_ID not in providers:
        providers[LOCAL_ID] = resolve_local()


def _has_models(providers: Mapping[str, Resolved], name: str) -> bool:
    return name in providers and bool(providers[name].settings.models)


def _reasons(
    entries: Mapping[str, Any],
    named: Container[str],
    providers: Container[str],
    left_out: Mapping[str, str],
    problems: Sequence[Problem],
) -> dict[str, str]:
    """Returns the reasons why configured providers cannot be used.

    A disabled provider is included only if one of its models is chosen.
    """
    reasons: dict[str, str] = {}
    for name, entry in entries.items():
        if name in providers:
            continue
        key = f"providers.{name}"
        own = [p for p in problems if p.key == key or p.key.startswith(f"{key}.")]
        if own:
            reasons[name] = f"{own[0].key} {own[0].message}"
        elif name in named:
            is_off = (entry or {}).get("disable")
            reasons[name] = f"{key} is disabled" if is_off else f"{key} is not configured"
    kept_out = {name: why for name, why in left_out.items() if name not in providers}
    return reasons | {name: f"providers.{name} {why}" for name, why in kept_out.items()}


@dataclass(slots=True)
class _Choosing:
    providers: dict[str, Resolved]
    reasons: Mapping[str, str]
    broken: Sequence[Problem]
    problems: list[Problem]

    def large(
        self, choice: Tree | None, default_provider: str, *, is_incomplete: bool, is_built_in: bool
    ) -> ModelChoice:
        """Returns the large model. Without any configuration it is the built-in one."""
        if choice is not None:
            return self._usable(choice, "large")
        fault = ""
        if is_incomplete:
            fault = "The configured model cannot be used: models.large lacks its provider or model"
        elif is_built_in and self.broken:
            fault = (
                f"No model can be chosen, because the configuration has an error: {self.broken[0]}"
            )
        elif is_built_in and self.reasons:
            fault = f"No configured provider can be used: {next(iter(self.reasons.values()))}"
        if fault:
            return self._stand_in("large", fault)
        provider = self.providers[default_provider]
        return ModelChoice(default_provider, provider.large or provider.settings.models[0].id)

    def small(self, choice: Tree | None, large: ModelChoice) -> ModelChoice:
        """Returns the small model; without a choice, that of the large model's provider."""
        if choice is not None:
            return self._usable(choice, "small")
        if large.fault:
            return self._stand_in("small", large.fault)
        small = self.providers[large.provider].small
        return ModelChoice(large.provider, small or large.model)

    def _stand_in(self, kind: str, fault: str) -> ModelChoice:
        """Returns a model with a fault: clients need a known model, but prompts to it fail."""
        offline = self.providers.setdefault(OFFLINE_ID, resolve_offline())
        model = offline.large if kind == "large" else offline.small
        ending = "" if fault.endswith((".", CURE)) else "."
        cure = "" if fault.endswith(CURE) else f" {CURE}"
        return ModelChoice(OFFLINE_ID, model, fault=f"{fault}{ending}{cure}")

    def _usable(self, choice: Tree, kind: str) -> ModelChoice:
        provider_id, model_id = str(choice["provider"]), str(choice["model"])
        provider = self.providers.get(provider_id)
        if provider is None:
            reason = self.reasons.get(provider_id, f"providers.{provider_id} is not configured")
            key = f"models.{kind}.provider"
            message = f"names a provider that cannot be used, so prompts fail: {reason}"
            self.problems.append(problem_with_key(key, message))
            named = f"model '{model_id}' of provider '{provider_id}'"
            return self._stand_in(kind, f"The configured {named} cannot be used: {reason}")
        if provider.settings.model(model_id) is None:
            limit = choice.get("max_tokens") or DEFAULT_MAX_TOKENS
            model = known_model(provider_id, model_id) or ModelInfo(
                model_id, model_id, default_max_tokens=limit
            )
            self.providers[provider_id] = provider.with_model(model)
        return ModelChoice(
            provider=provider_id,
            model=model_id,
            max_tokens=choice.get("max_tokens") or 0,
            think=bool(choice.get("think")),
            reasoning_effort=choice.get("reasoning_effort") or "",
            temperature=choice.get("temperature"),
            top_p=choice.get("top_p"),
        )
