"""Fields of requests that change the configuration. Their values are secrets: no refusal repeats one."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from typing_extensions import override

from agents.config.stored.choices import KEY_LIMIT, Scope
from agents.config.validation import NAME_LIMIT
from workspaces.api.bodies import Form
from workspaces.api.fields import WORDS, Flag, Text


class ScopeNumber(serializers.Field[Scope, Any, int, Any]):
    default_error_messages = WORDS | {"invalid": "must be 0 (user) or 1 (workspace)"}

    @override
    def to_internal_value(self, data: Any) -> Scope:
        if type(data) is not int or data not in {0, 1}:
            self.fail("invalid")
        return Scope(data)

    @override
    def to_representation(self, value: Scope) -> int:
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
    key = Text(limit=KEY_LIMIT)
    value = AnyValue(allow_null=True)


class RemoveForm(Form):
    scope = ScopeNumber()
    key = Text(limit=KEY_LIMIT)


class ModelForm(Form):
    scope = ScopeNumber()
    model_type = Text(limit=NAME_LIMIT)
    model = JsonObject()


class CompactForm(Form):
    scope = ScopeNumber()
    enabled = Flag()


class ProviderKeyForm(Form):
    scope = ScopeNumber()
    provider_id = Text(limit=NAME_LIMIT)
    # Older clients leave it out where the key is a text.
    kind = Text(limit=NAME_LIMIT, allow_blank=True, default="")
    api_key = AnyValue()


class RefreshForm(Form):
    scope = ScopeNumber()
    provider_id = Text(limit=NAME_LIMIT)
