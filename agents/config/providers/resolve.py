"""From the merged files and what is known to providers that can be asked.

Each usable provider comes with what clients are shown of it, made from the text
as it was written: an expanded value never gets there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agents.config.expand import Lookup
from agents.config.masking import (
    masked,
    masked_address,
    masked_all,
    secrets_in,
    texts_in,
    without_secrets,
)
from agents.config.model_list import shown_model
from agents.config.offline import offline_provider
from agents.config.parse import Tree
from agents.config.problem import Problem
from agents.config.provider_entry import ProviderEntry
from agents.config.providers.built_in import local_provider
from agents.config.providers.kinds import BUILT_IN, KEYLESS
from agents.config.providers.known import KnownProvider
from agents.config.settings import ModelInfo, ProviderSettings

PROVIDERS_LIMIT = 100


@dataclass(frozen=True, slots=True)
class Resolved:
    """A provider that can be asked, and how it is shown."""

    settings: ProviderSettings
    shown: Tree
    secrets: tuple[str, ...] = field(default=(), repr=False)
    large: str = ""  # the model to take where none is chosen
    small: str = ""

    def with_model(self, model: ModelInfo) -> Resolved:
        models = (*self.settings.models, model)
        return replace(
            self,
            settings=replace(self.settings, models=models),
            shown=self.shown | {"models": [shown_model(each) for each in models]},
        )


def resolve_provider(
    provider_id: str,
    entry: Mapping[str, Any],
    *,
    known: KnownProvider | None,
    needs_models: bool,
    lookup: Lookup,
    problems: list[Problem],
    is_folders_address: bool = False,
) -> Resolved | None:
    """The provider, or None with problems told that say what it lacks."""
    if is_folders_address and known is not None:
        known = replace(known, key_variables=())  # the user's key stays at home
    reading = ProviderEntry(provider_id, entry, known, lookup, problems)
    kind = reading.kind()
    written_address = reading.text("base_url")
    address = reading.address(written_address, kind=kind)
    needs_key = not written_address and kind not in KEYLESS
    key, written_key = reading.key(needed=needs_key)
    if is_folders_address and not key and kind in KEYLESS - BUILT_IN:
        # Without a key its wire would take the account of this machine.
        reading.fail("is missing, which an address that this folder chose needs", at="api_key")
    headers, header_secrets = reading.headers()
    body = reading.body()
    models = reading.models(kind=kind, needed=needs_models)
    if not reading.usable:
        return None
    name = reading.text("name") or (known.name if known else provider_id)
    settings = ProviderSettings(
        id=provider_id,
        name=name,
        kind=kind,
        base_url=address,
        api_key=key,
        extra_headers=headers,
        extra_body=body,
        models=models,
        prompt_prefix=reading.text("system_prompt_prefix"),
    )
    shown = {
        "id": provider_id,
        "name": name,
        "type": reading.text("type") or kind,
        "base_url": masked_address(written_address or address),
        "models": [shown_model(model) for model in models],
        **_shown_extras(entry),
    }
    if known is not None and known.default_headers:
        shown["default_headers"] = dict(known.default_headers)
    if written_key:
        shown["api_key"] = masked(written_key)
    secrets = (key, written_key, *header_secrets, *texts_in(entry.get("oauth")))
    listed = {model.id for model in models}
    own = entry.get("models")
    return Resolved(
        settings,
        shown,
        (*secrets, *secrets_in(entry.get("extra_body")), *secrets_in(body)),
        large=known.large if known and not own and known.large in listed else "",
        small=known.small if known and known.small in listed else "",
    )


def resolve_known(known: KnownProvider, *, lookup: Lookup, variable: str) -> Resolved:
    """A provider that only its key variable, or its answer, has made known."""
    entry = {"api_key": f"${variable}"} if variable else {}
    resolved = resolve_provider(
        known.id, entry, known=known, needs_models=False, lookup=lookup, problems=[]
    )
    if resolved is None:
        raise ValueError(f"the catalogue's entry of {known.id} is not usable")
    return resolved


def resolve_offline() -> Resolved:
    return _built_in(offline_provider())


def resolve_local() -> Resolved:
    return _built_in(local_provider())


def _built_in(settings: ProviderSettings) -> Resolved:
    shown = {
        "id": settings.id,
        "name": settings.name,
        "type": settings.kind,
        "base_url": settings.base_url,
        "models": [shown_model(model) for model in settings.models],
    }
    return Resolved(settings, shown, large=settings.models[0].id, small=settings.models[-1].id)


def _shown_extras(entry: Mapping[str, Any]) -> Tree:
    shown: Tree = {}
    # A body's fields are sent like headers: any of them may be what lets the sender in.
    for name in ("extra_headers", "oauth", "extra_body"):
        if entry.get(name):
            shown[name] = masked_all(entry[name])
    for name in ("provider_options", "system_prompt_prefix"):
        if entry.get(name):
            shown[name] = without_secrets(entry[name])
    return shown
