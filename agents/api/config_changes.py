"""Changes that clients make to the stored configuration. Answers after all clients are notified.

The values are secrets: no error repeats one.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

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
from workspaces.access import Right
from workspaces.api.answers import empty_answer, json_answer
from workspaces.api.api_view import ApiView
from workspaces.api.bodies import Form
from workspaces.api.fields import MESSAGES, Flag, JsonObject, PlainText
from workspaces.log.reader import read
from workspaces.queries.workspaces import require_open


class ScopeNumber(serializers.Field[StoredScope, Any, int, Any]):
    default_error_messages = MESSAGES | {"invalid": "must be 0 (user) or 1 (workspace)"}

    @override
    def to_internal_value(self, data: Any) -> StoredScope:
        if type(data) is not int or data not in {0, 1}:
            self.fail("invalid")
        return StoredScope(data)

    @override
    def to_representation(self, value: StoredScope) -> int:
        return value.value


class AnyValue(serializers.Field[Any, Any, Any, Any]):
    """Any JSON value, also null. The schema of the changed key checks its type."""

    default_error_messages = MESSAGES

    @override
    def to_internal_value(self, data: Any) -> Any:
        return data

    @override
    def to_representation(self, value: Any) -> Any:
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
    # Older clients omit it if the key is a text.
    kind = PlainText(limit=NAME_LIMIT, allow_blank=True, default="")
    api_key = AnyValue()


class RefreshForm(Form):
    scope = ScopeNumber()
    provider_id = PlainText(limit=NAME_LIMIT)


class ConfigSetView(ApiView):
    rights: ClassVar = {"post": Right.CONFIGURE}
    folder_methods: ClassVar = frozenset({"post"})

    async def post(self, workspace_id: str) -> HttpResponse:
        fields = await self.fields(SetForm)
        scope, key, value = fields["scope"], fields["key"], fields["value"]

        def change(place: StoredPlace) -> None:
            set_value(scope, key, value, data_dir=place.data_dir)

        await change_stored(workspace_id, scope, change, what=key, actor=self.actor)
        return empty_answer()


class ConfigRemoveView(ApiView):
    rights: ClassVar = {"post": Right.CONFIGURE}
    folder_methods: ClassVar = frozenset({"post"})

    async def post(self, workspace_id: str) -> HttpResponse:
        fields = await self.fields(RemoveForm)
        scope, key = fields["scope"], fields["key"]

        def change(place: StoredPlace) -> None:
            remove_value(scope, key, data_dir=place.data_dir)

        await change_stored(workspace_id, scope, change, what=f"remove {key}", actor=self.actor)
        return empty_answer()


class ConfigModelView(ApiView):
    rights: ClassVar = {"post": Right.CONFIGURE}
    folder_methods: ClassVar = frozenset({"post"})

    async def post(self, workspace_id: str) -> HttpResponse:
        fields = await self.fields(ModelForm)
        scope = fields["scope"]
        choose = partial(set_model, scope, fields["model_type"], fields["model"])

        def change(place: StoredPlace) -> None:
            choose(path=place.path, data_dir=place.data_dir, ran=place.ran)

        await change_stored(
            workspace_id, scope, change, what=f"model {fields['model_type']}", actor=self.actor
        )
        return empty_answer()


class ConfigCompactView(ApiView):
    rights: ClassVar = {"post": Right.CONFIGURE}
    folder_methods: ClassVar = frozenset({"post"})

    async def post(self, workspace_id: str) -> HttpResponse:
        fields = await self.fields(CompactForm)
        scope, is_compact = fields["scope"], fields["enabled"]

        def change(place: StoredPlace) -> None:
            set_value(scope, "options.tui.compact_mode", is_compact, data_dir=place.data_dir)

        await change_stored(
            workspace_id, scope, change, what="options.tui.compact_mode", actor=self.actor
        )
        return empty_answer()


class RefreshOAuthView(ApiView):
    rights: ClassVar = {"post": Right.CONFIGURE}
    folder_methods: ClassVar = frozenset({"post"})

    async def post(self, workspace_id: str) -> HttpResponse:
        fields = await self.fields(RefreshForm)
        await refresh_token(workspace_id, fields["scope"], fields["provider_id"], actor=self.actor)
        return empty_answer()


class ImportCopilotView(ApiView):
    rights: ClassVar = {"post": Right.CONFIGURE}
    folder_methods: ClassVar = frozenset({"post"})

    async def post(self, workspace_id: str) -> HttpResponse:
        """Always answers without a token, because this server does not support Copilot."""
        await read(require_open, workspace_id)
        return json_answer({"token": None, "success": False})


class ProviderKeyView(ApiView):
    rights: ClassVar = {"post": Right.CONFIGURE}
    folder_methods: ClassVar = frozenset({"post"})

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

        await change_stored(
            workspace_id, scope, change, what=f"key of {provider_id}", actor=self.actor
        )
        return empty_answer()
