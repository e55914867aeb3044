"""Providers outside the catalogue: clouds, programs on this machine, and the local model."""

from typing import Any

import pytest

from agents.config.providers.built_in import LOCAL_MODEL
from agents.config.providers.catalogue import known_clouds, known_providers
from agents.config.providers.choice import ChosenModels, choose
from agents.config.providers.discovery import Discovery, prefers_local

MODELS = {"models": [{"id": "m"}]}


def chosen(tree: dict[str, Any], *, local: str = "", **env: str) -> ChosenModels:
    discovery = Discovery(
        env.get, uses_ollama=False, has_local=bool(local), prefers_local=local == "preferred"
    )
    return choose(tree, order=tuple(tree.get("providers", {})), discovery=discovery)


@pytest.mark.parametrize("cloud", known_clouds().values(), ids=lambda cloud: cloud.id)
def test_every_cloud_is_complete(cloud: Any) -> None:
    ids = [model.id for model in cloud.models]
    assert len(set(ids)) == len(ids)
    assert (cloud.large in ids and cloud.small in ids) or not ids
    assert cloud.id not in known_providers()
    assert all(model.cost_per_1m_out_cached > 0 for model in cloud.models)


@pytest.mark.parametrize(
    ("env", "address"),
    [
        ({}, "https://bedrock-runtime.us-east-1.amazonaws.com"),
        ({"AWS_REGION": "eu-west-1"}, "https://bedrock-runtime.eu-west-1.amazonaws.com"),
        ({"AWS_DEFAULT_REGION": "eu-west-3"}, "https://bedrock-runtime.eu-west-3.amazonaws.com"),
    ],
)
def test_bedrock_needs_nothing_but_its_name(env: dict[str, str], address: str) -> None:
    result = chosen({"providers": {"bedrock": {}}}, **env)
    settings = result.providers["bedrock"].settings
    assert (settings.kind, settings.base_url, settings.api_key) == ("bedrock", address, "")
    assert result.large.model.startswith("global.anthropic.claude-sonnet")
    assert not result.problems


def test_bedrock_is_found_by_its_own_key() -> None:
    result = chosen({}, AWS_BEARER_TOKEN_BEDROCK="k")
    assert result.providers["bedrock"].settings.api_key == "k"
    assert "bedrock" not in chosen({}, AWS_ACCESS_KEY_ID="k").providers


@pytest.mark.parametrize("written", ["vertex", "vertexai", "google-vertex"])
def test_vertex_is_asked_in_its_project(written: str) -> None:
    entry = {"type": written, **MODELS}
    env = {"GOOGLE_CLOUD_PROJECT": "p-1", "GOOGLE_CLOUD_LOCATION": "europe-west1"}
    settings = chosen({"providers": {"v": entry}}, **env).providers["v"].settings
    assert settings.kind == "vertex"
    place = "v1/projects/p-1/locations/europe-west1"
    assert settings.base_url == f"https://europe-west1-aiplatform.googleapis.com/{place}"


def test_vertex_without_a_project_says_which_variable() -> None:
    result = chosen({"providers": {"vertex": {}}})
    assert "vertex" not in result.providers
    assert "GOOGLE_CLOUD_PROJECT is not set" in str(result.problems)


def test_azure_takes_its_address_and_key_from_the_environment() -> None:
    env = {"AZURE_OPENAI_ENDPOINT": "https://x.openai.azure.com", "AZURE_OPENAI_API_KEY": "k"}
    for entry in (MODELS, {"type": "azure", "api_key": "$AZURE_OPENAI_API_KEY", **MODELS}):
        settings = chosen({"providers": {"azure": entry}}, **env).providers["azure"].settings
        assert (settings.kind, settings.base_url, settings.api_key) == (
            "azure",
            "https://x.openai.azure.com",
            "k",
        )
    assert "azure" not in chosen({}, **env).providers  # no deployment is known by itself
    told = chosen({"providers": {"azure": MODELS}}).problems
    assert "AZURE_OPENAI" in str(told)


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("groq", "https://api.groq.com/openai/v1"),
        ("xai", "https://api.x.ai/v1"),
        ("deepseek", "https://api.deepseek.com/v1"),
        ("openrouter", "https://openrouter.ai/api/v1"),
        ("lmstudio", "http://127.0.0.1:1234/v1"),
    ],
)
def test_a_second_account_needs_only_a_type_and_a_key(written: str, address: str) -> None:
    entry = {"type": written, "api_key": "k", **MODELS}
    settings = chosen({"providers": {"second": entry}}).providers["second"].settings
    assert (settings.kind, settings.base_url) == ("openai-compat", address)


def test_a_program_on_this_machine_is_chosen_by_its_name_alone() -> None:
    choice = {"provider": "lmstudio", "model": "qwen3-8b"}
    result = chosen({"models": {"large": choice, "small": choice}})
    assert result.large.provider == "lmstudio"
    assert result.providers["lmstudio"].settings.model("qwen3-8b") is not None
    assert not result.problems


def test_the_local_model_is_there_where_it_is_installed() -> None:
    assert "local" not in chosen({}).providers
    listed = chosen({}, local="listed")
    assert listed.large.provider == "offline"
    assert listed.providers["local"].settings.models[0].id == LOCAL_MODEL
    preferred = chosen({}, local="preferred")
    assert (preferred.large.provider, preferred.small.provider) == ("local", "local")
    assert list(preferred.providers) == ["local", "offline"]
    assert chosen({}, local="preferred", GROQ_API_KEY="k").large.provider == "groq"


def test_the_local_model_can_be_chosen_and_disabled() -> None:
    choice = {"provider": "local", "model": LOCAL_MODEL}
    for tree in ({}, {"providers": {"local": {"type": "local"}}}):
        result = chosen({**tree, "models": {"large": choice}})
        assert (result.large.provider, result.large.model) == ("local", LOCAL_MODEL)
        assert result.providers["local"].settings.kind == "local"
        assert not result.problems
    off = {"providers": {"local": {"disable": True}}}
    assert "local" not in chosen(off, local="preferred").providers


@pytest.mark.parametrize(
    ("told", "prefers"),
    [({}, False), ({"CRUSH_LOCAL_MODEL": "0"}, False), ({"CRUSH_LOCAL_MODEL": "1"}, True)],
)
def test_the_server_is_told_to_prefer_it(told: dict[str, str], prefers: bool) -> None:
    assert prefers_local(told) is prefers
