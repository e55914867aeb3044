"""A workspace's configuration as clients may see it, and the providers known to the server."""

from __future__ import annotations

from typing import Any, ClassVar

from django.http import HttpResponse

from agents.config.cache import configs
from agents.config.providers.catalogue import KnownProvider, known_providers, known_services
from agents.config.providers.models import shown_model
from workspaces.access import Right
from workspaces.api.answers import json_answer
from workspaces.api.api_view import ApiView
from workspaces.log.reader import read
from workspaces.queries.workspaces import require_open


class ConfigView(ApiView):
    rights: ClassVar = {"get": Right.READ}
    folder_methods: ClassVar = frozenset({"get"})

    async def get(self, workspace_id: str) -> HttpResponse:
        await read(require_open, workspace_id)
        return json_answer((await configs().newest_config_of(workspace_id)).public)


class ProvidersView(ApiView):
    rights: ClassVar = {"get": Right.READ}
    folder_methods: ClassVar = frozenset({"get"})

    async def get(self, workspace_id: str) -> HttpResponse:
        """Returns the providers that can be configured, for a client's picker."""
        await read(require_open, workspace_id)
        config = await configs().config_of(workspace_id)
        if config.public["options"].get("disable_default_providers"):
            return json_answer(None)
        known = (*known_providers().values(), *known_services().values())
        return json_answer([_shown(provider) for provider in known])


def _shown(provider: KnownProvider) -> dict[str, Any]:
    key = provider.key_variables[0] if provider.key_variables else ""
    return {
        "api_endpoint": provider.base_url,
        "api_key": f"${key}" if key else "",
        "default_headers": dict(provider.default_headers),
        "default_large_model_id": provider.large,
        "default_small_model_id": provider.small,
        "id": provider.id,
        "models": [shown_model(model) for model in provider.models],
        "name": provider.name,
        "type": provider.kind,
    }
