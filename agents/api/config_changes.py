"""What clients change in the stored configuration. Each answer comes after the change is told to all."""

from __future__ import annotations

from functools import partial

from django.http import HttpResponse

from agents.api.config_fields import (
    CompactForm,
    ModelForm,
    ProviderKeyForm,
    RefreshForm,
    RemoveForm,
    SetForm,
)
from agents.config.cache import configs
from agents.config.provider_keys import require_usable
from agents.config.stored.changes import StoredPlace, change_stored
from agents.config.stored.choices import remove_value, set_model, set_provider_key, set_value
from agents.config.stored.credentials import refresh_token
from workspaces.api.answers import empty_answer, json_answer
from workspaces.api.api_view import ApiView
from workspaces.queries.workspaces import require_open
from workspaces.storage.reader import read


class ConfigSetView(ApiView):
    async def post(self, workspace_id: str) -> HttpResponse:
        asked = await self.fields(SetForm)
        scope, key, value = asked["scope"], asked["key"], asked["value"]

        def change(place: StoredPlace) -> None:
            set_value(scope, key, value, data_dir=place.data_dir)

        await change_stored(workspace_id, scope, change)
        return empty_answer()


class ConfigRemoveView(ApiView):
    async def post(self, workspace_id: str) -> HttpResponse:
        asked = await self.fields(RemoveForm)
        scope, key = asked["scope"], asked["key"]

        def change(place: StoredPlace) -> None:
            remove_value(scope, key, data_dir=place.data_dir)

        await change_stored(workspace_id, scope, change)
        return empty_answer()


class ConfigModelView(ApiView):
    async def post(self, workspace_id: str) -> HttpResponse:
        asked = await self.fields(ModelForm)
        scope = asked["scope"]
        choose = partial(set_model, scope, asked["model_type"], asked["model"])

        def change(place: StoredPlace) -> None:
            choose(path=place.path, data_dir=place.data_dir, ran=place.ran)

        await change_stored(workspace_id, scope, change)
        return empty_answer()


class ConfigCompactView(ApiView):
    async def post(self, workspace_id: str) -> HttpResponse:
        asked = await self.fields(CompactForm)
        scope, is_compact = asked["scope"], asked["enabled"]

        def change(place: StoredPlace) -> None:
            set_value(scope, "options.tui.compact_mode", is_compact, data_dir=place.data_dir)

        await change_stored(workspace_id, scope, change)
        return empty_answer()


class RefreshOAuthView(ApiView):
    async def post(self, workspace_id: str) -> HttpResponse:
        asked = await self.fields(RefreshForm)
        await refresh_token(workspace_id, asked["scope"], asked["provider_id"])
        return empty_answer()


class ImportCopilotView(ApiView):
    async def post(self, workspace_id: str) -> HttpResponse:
        """Copilot is no provider of this server: there is nothing that a token could be for."""
        await read(require_open, workspace_id)
        return json_answer({"token": None, "success": False})


class ProviderKeyView(ApiView):
    async def post(self, workspace_id: str) -> HttpResponse:
        asked = await self.fields(ProviderKeyForm)
        scope, key = asked["scope"], asked["api_key"]
        kind = asked["kind"] or ("oauth" if isinstance(key, dict) else "string")
        provider_id = asked["provider_id"]
        await read(require_open, workspace_id)
        env = await configs().env_of(workspace_id)

        def change(place: StoredPlace) -> None:
            require_usable(
                provider_id, path=place.path, data_dir=place.data_dir, env=env, ran=place.ran
            )
            set_provider_key(scope, provider_id, kind=kind, api_key=key, data_dir=place.data_dir)

        await change_stored(workspace_id, scope, change)
        return empty_answer()
