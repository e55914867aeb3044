"""Providers that are known without being in the catalogue: clouds and programs.

Their addresses hold variables, for they lie in an account's region or project.
Models that clouds resell cost what their maker takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from agents.config.providers.known import KnownProvider, known_providers

AZURE_ADDRESS = "${AZURE_OPENAI_ENDPOINT:-${AZURE_OPENAI_API_ENDPOINT}}"
_REGION = "${AWS_REGION:-${AWS_DEFAULT_REGION:-us-east-1}}"
BEDROCK_ADDRESS = f"https://bedrock-runtime.{_REGION}.amazonaws.com"
BEDROCK_EUROPE_ADDRESS = (
    "https://bedrock-runtime.${AWS_REGION:-${AWS_DEFAULT_REGION:-eu-west-1}}.amazonaws.com"
)
_LOCATION = "${VERTEXAI_LOCATION:-${GOOGLE_CLOUD_LOCATION:-${CLOUD_ML_REGION:-global}}}"
_PROJECT = "${VERTEXAI_PROJECT:-${GOOGLE_CLOUD_PROJECT}}"
VERTEX_ADDRESS = (
    f"https://{_LOCATION}-aiplatform.googleapis.com/v1/projects/{_PROJECT}/locations/{_LOCATION}"
)
LMSTUDIO_ADDRESS = "http://127.0.0.1:1234/v1"

# What the maker calls a model, and what the cloud does.
_BEDROCK = {
    "claude-sonnet-4-6": "global.anthropic.claude-sonnet-4-6",
    "claude-sonnet-4-5": "global.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "claude-opus-4-5": "global.anthropic.claude-opus-4-5-20251101-v1:0",
    "claude-haiku-4-5": "global.anthropic.claude-haiku-4-5-20251001-v1:0",
}
_BEDROCK_EUROPE = {name: model.replace("global.", "eu.", 1) for name, model in _BEDROCK.items()}
_VERTEX = {
    "claude-sonnet-4-6": "claude-sonnet-4-6",
    "claude-sonnet-4-5": "claude-sonnet-4-5@20250929",
    "claude-opus-4-5": "claude-opus-4-5@20251101",
    "claude-haiku-4-5": "claude-haiku-4-5@20251001",
}


@cache
def known_clouds() -> Mapping[str, KnownProvider]:
    clouds = (
        KnownProvider(
            "azure",
            "Azure OpenAI",
            "azure",
            AZURE_ADDRESS,
            ("AZURE_OPENAI_API_KEY",),
            large="",
            small="",
            models=(),
        ),
        _of_anthropic(
            "bedrock",
            "Amazon Bedrock",
            BEDROCK_ADDRESS,
            _BEDROCK,
            key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
        ),
        _of_anthropic(
            "bedrock-europe",
            "Amazon Bedrock (Europe)",
            BEDROCK_EUROPE_ADDRESS,
            _BEDROCK_EUROPE,
            kind="bedrock",
            key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
        ),
        _of_anthropic("vertex", "Google Vertex AI", VERTEX_ADDRESS, _VERTEX),
        # As other programs call it.
        _of_anthropic("vertexai", "Google Vertex AI", VERTEX_ADDRESS, _VERTEX, kind="vertex"),
        KnownProvider(
            "lmstudio",
            "LM Studio",
            "openai-compat",
            LMSTUDIO_ADDRESS,
            (),
            large="",
            small="",
            models=(),
        ),
    )
    return {cloud.id: cloud for cloud in clouds}


def _of_anthropic(
    cloud_id: str,
    name: str,
    address: str,
    names: Mapping[str, str],
    *,
    kind: str = "",
    key_variables: tuple[str, ...] = (),
) -> KnownProvider:
    models = tuple(
        replace(model, id=names[model.id])
        for model in known_providers()["anthropic"].models
        if model.id in names
    )
    return KnownProvider(
        cloud_id,
        name,
        kind or cloud_id,
        address,
        key_variables,
        large=names["claude-sonnet-4-6"],
        small=names["claude-haiku-4-5"],
        models=models,
    )
