"""A key that a client gives makes the provider usable, or is refused with a sentence."""

import pytest

from agents.config.providers.catalogue import UNSUPPORTED, known_services
from tests.integration.api.conftest import Opened
from tests.unit.config.test_model_facts import OFFERED

NEEDS_MORE = {
    "azure": "AZURE_OPENAI",
    "vertexai": "GOOGLE_CLOUD_PROJECT",
    "copilot": "needs a login",
    "hyper": "protocol of its own",
}


def key(provider_id: str) -> dict[str, object]:
    return {"scope": 1, "provider_id": provider_id, "kind": "string", "api_key": "sk-test-123"}


@pytest.mark.parametrize("provider_id", sorted(OFFERED - set(NEEDS_MORE)))
async def test_a_key_puts_the_provider_into_the_configuration(
    workspace: Opened, provider_id: str
) -> None:
    await workspace.api.post(f"{workspace.url}/config/provider-key", key(provider_id))
    config = await workspace.api.get(f"{workspace.url}/config")
    shown = config["providers"][provider_id]
    assert shown["api_key"] == "********"
    assert shown["base_url"].startswith("https://")
    assert isinstance(shown["models"], list)


@pytest.mark.parametrize(("provider_id", "reason"), sorted(NEEDS_MORE.items()))
async def test_a_provider_that_needs_more_is_refused_and_nothing_is_stored(
    workspace: Opened, provider_id: str, reason: str
) -> None:
    refusal = await workspace.api.call(
        "POST", f"{workspace.url}/config/provider-key", key(provider_id)
    )
    assert refusal.status == 400
    assert reason in refusal.message
    config = await workspace.api.get(f"{workspace.url}/config")
    assert provider_id not in config["providers"]
    assert not any(provider_id in problem for problem in config.get("problems", []))


async def test_an_unknown_provider_is_refused_with_what_to_do(workspace: Opened) -> None:
    refusal = await workspace.api.call(
        "POST", f"{workspace.url}/config/provider-key", key("my-own")
    )
    assert refusal.status == 400
    assert "my-own is not known here" in refusal.message
    assert "crush.json" in refusal.message


async def test_a_chosen_model_has_its_window_and_levels(workspace: Opened) -> None:
    await workspace.api.post(f"{workspace.url}/config/provider-key", key("minimax"))
    choice = {"provider": "minimax", "model": "MiniMax-M2.1-highspeed", "max_tokens": 131_072}
    await workspace.api.post(
        f"{workspace.url}/config/model", {"scope": 1, "model_type": "large", "model": choice}
    )
    agent = await workspace.api.get(f"{workspace.url}/agent")
    assert agent["model"]["id"] == "MiniMax-M2.1-highspeed"
    assert agent["model"]["context_window"] > 128_000
    assert agent["model"]["cost_per_1m_out"] > 0
    assert agent["model_cfg"]["provider"] == "minimax"


async def test_effort_can_be_selected_where_a_model_has_levels(workspace: Opened) -> None:
    await workspace.api.post(f"{workspace.url}/config/provider-key", key("openai"))
    choice = {"provider": "openai", "model": "gpt-5.6-sol", "reasoning_effort": "high"}
    await workspace.api.post(
        f"{workspace.url}/config/model", {"scope": 1, "model_type": "large", "model": choice}
    )
    agent = await workspace.api.get(f"{workspace.url}/agent")
    assert agent["model"]["reasoning_levels"] == ["low", "medium", "high", "xhigh"]
    assert agent["model"]["default_reasoning_effort"] == "medium"
    assert agent["model_cfg"]["reasoning_effort"] == "high"
    config = await workspace.api.get(f"{workspace.url}/config")
    assert config["models"]["large"]["max_tokens"] > 0


def test_the_refused_ones_are_the_ones_that_say_so() -> None:
    assert set(UNSUPPORTED) < set(NEEDS_MORE)
    assert not set(UNSUPPORTED) & set(known_services())
