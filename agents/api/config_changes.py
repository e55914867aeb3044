"""Changes that clients make to the stored configuration. Answers after all clients are notified.

The values are secrets: no error repeats one.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from django.http import HttpResponse
from rest_framework import serializers
from typing_extensions import override

from agents.config.cache import configs
from agents.config.edits.changes import StoredPlace, change_stored
from agents.config.edits.choices import (
    KEY_LIMIT,
    StoredScope,
    remove_value,
    set_model,
    set_provider_key,
    set_value,
)
from agents.config.edits.credentials import refresh_token, require_usable
from agents.config.validation import NAME_LIMIT
from workspaces.api.answers import empty_answer, json_answer
from workspaces.api.api_view import ApiView
from workspaces.api.bodies import Form
from workspaces.api.fields import WORDS, Flag, PlainText
from workspaces.log.reader import read
from workspaces.queries.workspaces import require_open


class ScopeNumber(serializers.Field[StoredScope, Any, int, Any]):
    default_error_messages = WORDS | {"invalid": "must be 0 (user) or 1 (workspace)"}

    @override
    def to_internal_value(self, data: Any) -> StoredScope:
        if type(data) is not int or data not in {0, 1}:
            self.fail("invalid")
        return StoredScope(data)

    @override
    def to_representation(self, value: StoredScope) -> int:
        return value.value


class AnyValue(serializers.Field[Any, Any, Any, Any]):
    """Any JSON, also null. Where it is to stand decides what it must be."""

    default_error_messages = WORDS

    @override
    def to_internal_value(self, data: Any) -> Any:
        return data

    @override
    def to_representation(self, value: Any) -> Any:
        return value


class JsonObject(serializers.Field[dict[str, Any], Any, dict[str, Any], Any]):
    default_error_messages = WORDS | {"invalid": "must be an object"}

    @override
    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            self.fail("invalid")
        return data

    @override
    def to_representation(self, value: dict[str, Any]) -> dict[str, Any]:
        return value


class SetForm(Form):
    scope = ScopeNumber()
    key = PlainText(limit=KEY_LIMIT)
    value = AnyValue(allow_null=True)


class RemoveForm(Form):
    scope = ScopeNumber()
    key = PlainText(limit=KEY_LIMIT)


class ModelForm(Form):
    scope = ScopeNumber()
    model_type = PlainText(limit=NAME_LIMIT)
    model = JsonObject()


class CompactForm(Form):
    scope = ScopeNumber()
    enabled = Flag()


class ProviderKeyForm(Form):
    scope = ScopeNumber()
    provider_id = PlainText(limit=NAME_LIMIT)
    # Older clients leave it out where the key is a text.
    kind = PlainText(limit=NAME_LIMIT, allow_blank=True, default="")
    api_key = AnyValue()


class RefreshForm(Form):
    scope = ScopeNumber()
    provider_id = PlainText(limit=NAME_LIMIT)


class ConfigSetView(ApiView):
    async def post(self, workspace_id: str) -> HttpResponse:
        fields = await self.fields(SetForm)
        scope, key, value = fields["scope"], fields["key"], fields["value"]

        def change(place: StoredPlace) -> None:
            set_value(scope, key, value, data_dir=place.data_dir)

        await change_stored(workspace_id, scope, change)
        return empty_answer()


class ConfigRemoveView(ApiView):
    async def post(self, workspace_id: str) -> HttpResponse:
        fields = await self.fields(RemoveForm)
        scope, key = fields["scope"], fields["key"]

        def change(place: StoredPlace) -> None:
            remove_value(scope, key, data_dir=place.data_dir)

        await change_stored(workspace_id, scope, change)
        return empty_answer()


class ConfigModelView(ApiView):
    async def post(self, workspace_id: str) -> HttpResponse:
        fields = await self.fields(ModelForm)
        scope = fields["scope"]
        choose = partial(set_model, scope, fields["model_type"], fields["model"])

        def change(place: StoredPlace) -> None:
            choose(path=place.path, data_dir=place.data_dir, ran=place.ran)

        await change_stored(workspace_id, scope, change)
        return empty_answer()


class ConfigCompactView(ApiView):
    async def post(self, workspace_id: str) -> HttpResponse:
        fields = await self.fields(CompactForm)
        scope, is_compact = fields["scope"], fields["enabled"]

        def change(place: StoredPlace) -> None:
            set_value(scope, "options.tui.compact_mode", is_compact, data_dir=place.data_dir)

        await change_stored(workspace_id, scope, change)
        return empty_answer()


class RefreshOAuthView(ApiView):
    async def post(self, workspace_id: str) -> HttpResponse:
        fields = await self.fields(RefreshForm)
        await refresh_token(workspace_id, fields["scope"], fields["provider_id"])
        return empty_answer()


class ImportCopilotView(ApiView):
    async def post(self, workspace_id: str) -> HttpResponse:
        """Copilot is no provider of this server: there is nothing that a token could be for."""
        await read(require_open, workspace_id)
        return json_answer({"token": None, "success": False})


class ProviderKeyView(ApiView):
    async def post(self, workspace_id: str) -> HttpResponse:
        fields = await self.fields(ProviderKeyForm)
        scope, key = fields["scope"], fields["api_key"]
        kind = fields["kind"] or ("oauth" if isinstance(key, dict) else "string")
        provider_id = fields["provider_id"]
        await read(require_open, workspace_id)
        env = await configs().env_of(workspace_id)

        def change(place: StoredPlace) -> None:
            require_usable(
                provider_id, path=place.path, data_dir=place.data_dir, env=env, ran=place.ran
            )
            set_provider_key(scope, provider_id, kind=kind, api_key=key, data_dir=place.data_dir)

        await change_stored(workspace_id, scope, change)
        return empty_answer()
