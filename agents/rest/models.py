"""Models and providers: which can be used, which are chosen, and which are known."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agents.config.cache import configs
from agents.config.edits.changes import StoredPlace, change_stored
from agents.config.edits.choices import StoredScope, set_model
from agents.config.load import LoadedConfig
from agents.config.mask import masked_address
from agents.config.providers.catalogue import known_providers, known_services
from agents.config.settings import ModelChoice, ModelInfo
from workspaces.access import Right
from workspaces.log.errors import ModelKindUnknown
from workspaces.rest.view import Resource

NAME_LIMIT = 200
KINDS = ("large", "small")
SCOPES = {"user": StoredScope.USER, "workspace": StoredScope.WORKSPACE}


class ModelSerializer(serializers.Serializer[Any]):
    """A model of a provider. Prices are for a million tokens."""

    provider = serializers.CharField(help_text="The provider's id.")
    id = serializers.CharField(help_text="The model's id at its provider.")
    name = serializers.CharField(help_text="A name to show.")
    context_window = serializers.IntegerField(help_text="The most tokens of one request.")
    default_max_tokens = serializers.IntegerField(help_text="The most tokens of a reply.")
    can_reason = serializers.BooleanField(help_text="Whether it can reason before it replies.")
    reasoning_levels = serializers.ListField(
        child=serializers.CharField(), help_text="Its levels of effort; empty if it has none."
    )
    default_reasoning_effort = serializers.CharField(
        help_text="The level that is used without a choice; may be empty."
    )
    supports_attachments = serializers.BooleanField(help_text="Whether it reads images.")
    cost_per_1m_in = serializers.FloatField(help_text="The price of prompts.")
    cost_per_1m_out = serializers.FloatField(help_text="The price of replies.")
    cost_per_1m_in_cached = serializers.FloatField(help_text="The price of writing the cache.")
    cost_per_1m_out_cached = serializers.FloatField(help_text="The price of reading the cache.")
    chosen_as = serializers.ListField(
        child=serializers.ChoiceField(KINDS), help_text="For what it is chosen."
    )


class ModelChoiceSerializer(serializers.Serializer[Any]):
    """A chosen model with its parameters."""

    kind = serializers.ChoiceField(
        KINDS, help_text="`large` for prompts, `small` for titles and pages of the web."
    )
    provider = serializers.CharField(help_text="The provider's id.")
    model = serializers.CharField(help_text="The model's id.")
    max_tokens = serializers.IntegerField(help_text="The most tokens of a reply; 0: the model's.")
    think = serializers.BooleanField(help_text="Whether it reasons before it replies.")
    reasoning_effort = serializers.CharField(help_text="The level of effort; may be empty.")
    temperature = serializers.FloatField(allow_null=True, help_text="Null: the provider's.")
    top_p = serializers.FloatField(allow_null=True, help_text="Null: the provider's.")
    fault = serializers.CharField(
        help_text="Why the configured model cannot be used, and what to do; empty if it can."
    )


class NewModelChoiceSerializer(serializers.Serializer[Any]):
    """Which model to use from now on."""

    provider = serializers.CharField(max_length=NAME_LIMIT, help_text="The provider's id.")
    model = serializers.CharField(max_length=NAME_LIMIT, help_text="The model's id.")
    reasoning_effort = serializers.CharField(
        required=False, max_length=NAME_LIMIT, help_text="The level of effort."
    )
    think = serializers.BooleanField(
        required=False, help_text="Whether it reasons before it replies."
    )
    max_tokens = serializers.IntegerField(
        required=False, min_value=1, max_value=2**31, help_text="The most tokens of a reply."
    )
    scope = serializers.ChoiceField(
        list(SCOPES),
        default="workspace",
        help_text="Where the choice is stored: for this workspace, or for the server's user.",
    )


class ProviderSerializer(serializers.Serializer[Any]):
    """A provider that the workspace's configuration contains."""

    id = serializers.CharField(help_text="The provider's id.")
    name = serializers.CharField(help_text="A name to show.")
    type = serializers.CharField(help_text="Its kind, for instance `openai` or `anthropic`.")
    base_url = serializers.CharField(help_text="Its address, without secrets; may be empty.")
    has_key = serializers.BooleanField(help_text="Whether a key is configured.")
    model_count = serializers.IntegerField(help_text="The number of its models.")


class KnownProviderSerializer(serializers.Serializer[Any]):
    """A provider that can be configured, for instance with a key alone."""

    id = serializers.CharField(help_text="The provider's id.")
    name = serializers.CharField(help_text="A name to show.")
    type = serializers.CharField(help_text="Its kind.")
    base_url = serializers.CharField(help_text="Its address; may be empty.")
    key_variables = serializers.ListField(
        child=serializers.CharField(), help_text="Variables of the environment with its key."
    )
    default_large_model = serializers.CharField(help_text="May be empty.")
    default_small_model = serializers.CharField(help_text="May be empty.")
    model_count = serializers.IntegerField(help_text="The number of its known models.")


class ModelBase(Resource):
    rights: ClassVar = {}

    def config(self, workspace_id: str) -> LoadedConfig:
        config: LoadedConfig = self.act(configs().config_of, workspace_id)
        return config

    def all(self, items: list[dict[str, Any]]) -> Response:
        return Response({"items": items, "next": None})


class ModelList(ModelBase):
    """The models that a workspace can use, by provider. It is one page."""

    rights: ClassVar = {"get": Right.READ}
    folder_methods: ClassVar = frozenset({"get"})
    serializer_class = ModelSerializer
    ordering = ("provider", "id")

    def get(self, _: Request, workspace_id: str) -> Response:
        settings = self.config(workspace_id).settings
        chosen = {"large": settings.large, "small": settings.small}
        return self.all(
            [
                _model(provider.id, model, chosen)
                for provider in settings.providers.values()
                for model in provider.models
            ]
        )


class ModelChoiceList(ModelBase):
    """The chosen models of a workspace."""

    rights: ClassVar = {"get": Right.READ}
    folder_methods: ClassVar = frozenset({"get"})
    serializer_class = ModelChoiceSerializer
    ordering = ("kind",)

    def get(self, _: Request, workspace_id: str) -> Response:
        return self.all([_choice(self.config(workspace_id), kind) for kind in KINDS])


class ModelChoiceDetail(ModelBase):
    """A chosen model of a workspace: `large` or `small`."""

    rights: ClassVar = {"get": Right.READ, "put": Right.CONFIGURE}
    folder_methods: ClassVar = frozenset({"get", "put"})
    serializer_class = ModelChoiceSerializer

    def get(self, _: Request, workspace_id: str, kind: str) -> Response:
        return self._shown(workspace_id, kind)

    @extend_schema(request=NewModelChoiceSerializer, responses={200: ModelChoiceSerializer})
    def put(self, _: Request, workspace_id: str, kind: str) -> Response:
        """Stores the choice. Runs that have begun keep their model."""
        if kind not in KINDS:
            raise ModelKindUnknown
        given = self.body(NewModelChoiceSerializer)
        scope = SCOPES[given.pop("scope")]

        def change(place: StoredPlace) -> None:
            set_model(scope, kind, given, path=place.path, data_dir=place.data_dir, ran=place.ran)

        what = f"models.{kind}"
        self.act(change_stored, workspace_id, scope, change, what=what, actor=self.actor)
        return self._shown(workspace_id, kind)

    def _shown(self, workspace_id: str, kind: str) -> Response:
        if kind not in KINDS:
            raise ModelKindUnknown
        return Response(_choice(self.config(workspace_id), kind))


class ProviderList(ModelBase):
    """The providers of a workspace. It is one page."""

    rights: ClassVar = {"get": Right.READ}
    folder_methods: ClassVar = frozenset({"get"})
    serializer_class = ProviderSerializer
    ordering = ("id",)

    def get(self, _: Request, workspace_id: str) -> Response:
        return self.all(
            [
                {
                    "id": provider.id,
                    "name": provider.name,
                    "type": provider.kind,
                    "base_url": masked_address(provider.base_url),
                    "has_key": bool(provider.api_key),
                    "model_count": len(provider.models),
                }
                for provider in self.config(workspace_id).settings.providers.values()
            ]
        )


class KnownProviderList(ModelBase):
    """The providers that can be configured. It is one page."""

    rights: ClassVar = {"get": Right.SIGNED_IN}
    serializer_class = KnownProviderSerializer
    ordering = ("id",)

    def get(self, _: Request) -> Response:
        known = (*known_providers().values(), *known_services().values())
        return self.all(
            [
                {
                    "id": provider.id,
                    "name": provider.name,
                    "type": provider.kind,
                    "base_url": provider.base_url,
                    "key_variables": list(provider.key_variables),
                    "default_large_model": provider.large,
                    "default_small_model": provider.small,
                    "model_count": len(provider.models),
                }
                for provider in known
            ]
        )


def _model(provider: str, model: ModelInfo, chosen: dict[str, ModelChoice]) -> dict[str, Any]:
    return {
        "provider": provider,
        "id": model.id,
        "name": model.name,
        "context_window": model.context_window,
        "default_max_tokens": model.default_max_tokens,
        "can_reason": model.can_reason,
        "reasoning_levels": list(model.reasoning_levels),
        "default_reasoning_effort": model.default_reasoning_effort,
        "supports_attachments": model.supports_attachments,
        "cost_per_1m_in": model.cost_per_1m_in,
        "cost_per_1m_out": model.cost_per_1m_out,
        "cost_per_1m_in_cached": model.cost_per_1m_in_cached,
        "cost_per_1m_out_cached": model.cost_per_1m_out_cached,
        "chosen_as": [
            kind
            for kind, choice in chosen.items()
            if (choice.provider, choice.model) == (provider, model.id) and not choice.fault
        ],
    }


def _choice(config: LoadedConfig, kind: str) -> dict[str, Any]:
    choice = config.settings.large if kind == "large" else config.settings.small
    return {
        "kind": kind,
        "provider": choice.provider,
        "model": choice.model,
        "max_tokens": choice.max_tokens,
        "think": choice.think,
        "reasoning_effort": choice.reasoning_effort,
        "temperature": choice.temperature,
        "top_p": choice.top_p,
        "fault": choice.fault,
    }
