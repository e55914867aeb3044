"""What works in a folder, with this server's environment. ``crush-server doctor`` uses it."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agents.config.trust.decision import TrustState
from agents.diagnosis import diagnose_folder
from workspaces.access import Right
from workspaces.api.paths import PATH_LIMIT, resolved_folder
from workspaces.api.version import VERSION
from workspaces.rest.view import Resource


class DiagnosisRequestSerializer(serializers.Serializer[Any]):
    """A folder to look at."""

    path = serializers.CharField(max_length=PATH_LIMIT, help_text="The folder, absolute.")
    asks_model = serializers.BooleanField(
        default=False, help_text="Send one small request to the large model's provider."
    )


class DiagnosedModelSerializer(serializers.Serializer[Any]):
    provider = serializers.CharField(help_text="The provider's id.")
    model = serializers.CharField(help_text="The model's id.")
    fault = serializers.CharField(help_text="Why it cannot be used; empty if it can.")


class DiagnosedModelsSerializer(serializers.Serializer[Any]):
    large = DiagnosedModelSerializer(help_text="The model for prompts.")
    small = DiagnosedModelSerializer(help_text="The model for titles and pages of the web.")


class DiagnosedProviderSerializer(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="The provider's id.")
    type = serializers.CharField(help_text="Its kind.")
    base_url = serializers.CharField(help_text="Its address, without secrets.")
    has_key = serializers.BooleanField(help_text="Whether a key is configured.")


class DiagnosedProblemSerializer(serializers.Serializer[Any]):
    text = serializers.CharField(help_text="Where and what, without values.")
    is_warning = serializers.BooleanField(help_text="Nothing is broken.")


class DiagnosedServerSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="The server's name.")
    state = serializers.CharField(help_text="Its state.")
    error = serializers.CharField(help_text="Why it does not work; empty if it does.")


class DiagnosisSerializer(serializers.Serializer[Any]):
    """What works in a folder."""

    version = serializers.CharField(help_text="The version of the server.")
    path = serializers.CharField(help_text="The folder, symlinks followed.")
    workspace_id = serializers.CharField(help_text="Its workspace; empty if it is not open.")
    models = DiagnosedModelsSerializer(help_text="The chosen models.")
    providers = DiagnosedProviderSerializer(many=True, help_text="The configured providers.")
    problems = DiagnosedProblemSerializer(many=True, help_text="Mistakes in its configuration.")
    trust = serializers.ChoiceField(
        [state.value for state in TrustState], help_text="Whether it is trusted."
    )
    mcp = DiagnosedServerSerializer(
        many=True, required=False, help_text="MCP servers of an open workspace."
    )
    lsp = DiagnosedServerSerializer(
        many=True, required=False, help_text="Language servers of an open workspace."
    )
    request = serializers.DictField(
        required=False,
        help_text="With `asks_model`: whether the model got a request, its `error`, and `seconds`.",
    )


class Diagnosis(Resource):
    """What works in a folder. It is a POST, because a request to a model costs money."""

    rights: ClassVar = {"post": Right.READ}
    folder_methods: ClassVar = frozenset({"post"})
    serializer_class = DiagnosisSerializer

    @extend_schema(request=DiagnosisRequestSerializer, responses={200: DiagnosisSerializer})
    def post(self, _: Request) -> Response:
        """Looks at the folder, and changes nothing."""
        given = self.body(DiagnosisRequestSerializer)
        folder = resolved_folder(given["path"])
        facts = self.act(diagnose_folder, folder, asks_model=given["asks_model"])
        return Response({"version": VERSION, **facts})
