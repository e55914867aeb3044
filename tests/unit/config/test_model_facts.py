"""What is known of a model that no file lists."""

import pytest

from agents.config.providers.catalogue import UNSUPPORTED, known_providers, known_services
from agents.config.providers.model_facts import SOURCES, base_name, family_of, known_model


@pytest.mark.parametrize(
    ("model_id", "name"),
    [
        ("claude-opus-4-6", "claude-opus-4-6"),
        ("anthropic/claude-opus-4.6", "claude-opus-4.6"),
        ("accounts/fireworks/models/GLM-5p2", "glm-5p2"),
        ("zai-org/GLM-4.6:free", "glm-4.6"),
        (
            "global.anthropic.claude-opus-4-5-20251101-v1:0",
            "claude-opus-4-5-20251101-v1:0",
        ),
        ("eu.anthropic.claude-haiku-4-5", "claude-haiku-4-5"),
    ],
)
def test_a_name_is_read_without_maker_and_place(model_id: str, name: str) -> None:
    assert base_name(model_id) == name


@pytest.mark.parametrize(
    ("model_id", "levels", "default"),
    [
        ("claude-opus-4-8", ("low", "medium", "high", "xhigh", "max"), "high"),
        ("claude-sonnet-4-6", ("low", "medium", "high", "max"), "high"),
        ("claude-sonnet-4-5-20250929", (), ""),
        ("gpt-5", ("minimal", "low", "medium", "high"), "medium"),
        ("gpt-5-mini", ("low", "medium", "high"), "medium"),
        ("openai/gpt-5.6-sol", ("low", "medium", "high", "xhigh"), "medium"),
        ("o4-mini", ("low", "medium", "high"), "medium"),
        ("gpt-4o", (), ""),
        ("gemini-3-flash-preview", ("minimal", "low", "medium", "high"), "medium"),
        ("gemini-2.5-pro", (), ""),
        ("deepseek-ai/DeepSeek-V4-Pro", ("low", "high", "max"), "high"),
        ("moonshotai/kimi-k3", ("low", "high", "max"), "max"),
        ("grok-4-1-fast-non-reasoning", (), ""),
    ],
)
def test_a_family_knows_how_hard_its_models_may_think(
    model_id: str, levels: tuple[str, ...], default: str
) -> None:
    family = family_of(model_id)
    assert family is not None
    assert (family.levels, family.default_level) == (levels, default)


def test_an_unknown_name_says_nothing() -> None:
    assert family_of("my-own-model") is None
    assert known_model("nobody", "my-own-model") is None


def test_window_price_and_levels_of_a_model_that_is_not_listed() -> None:
    model = known_model("anthropic", "claude-opus-4-6")
    assert model is not None
    assert model.context_window >= 200_000
    assert (model.cost_per_1m_in, model.cost_per_1m_out) == (5.0, 25.0)
    assert model.can_reason
    assert model.supports_attachments
    assert "high" in model.reasoning_levels


def test_a_dated_name_has_the_price_of_the_model() -> None:
    dated = known_model("anthropic", "claude-sonnet-4-5-20250929")
    assert dated is not None
    assert dated.cost_per_1m_in == 3.0


def test_a_price_comes_from_the_provider_that_charges_it() -> None:
    elsewhere = known_model("chutes", "zai-org/GLM-5.2")
    assert elsewhere is not None
    assert elsewhere.cost_per_1m_in == 0.0
    assert elsewhere.context_window == 1_000_000
    assert elsewhere.can_reason


def test_upper_and_lower_case_name_one_model() -> None:
    assert known_model("minimax", "minimax-m2") == known_model("minimax", "minimax-m2")
    upper = known_model("minimax", "MiniMax-M2")
    lower = known_model("minimax", "minimax-m2")
    assert upper is not None
    assert lower is not None
    assert upper.cost_per_1m_out == lower.cost_per_1m_out > 0


# What the terminal client offers in its picker.
OFFERED = {
    *("aihubmix", "alibaba-singapore", "alibaba-us", "anthropic", "atlascloud", "avian", "azure"),
    *("baseten", "bedrock", "bedrock-europe", "cerebras", "chutes", "copilot", "cortecs"),
    *("deepseek", "fireworks", "gemini", "groq", "huggingface", "hyper", "ionet", "kimi-coding"),
    *("minimax", "minimax-china", "moonshot", "nebius", "neuralwatt", "openai", "opencode-go"),
    *("opencode-zen", "openrouter", "qiniucloud", "scaleway", "synthetic", "venice", "vercel"),
    *("vertexai", "xai", "zai", "zhipu", "zhipu-coding"),
}


def test_every_provider_that_clients_offer_is_known_or_refused_with_a_sentence() -> None:
    from agents.config.providers.catalogue import known_clouds

    known = {*known_providers(), *known_clouds(), *known_services()}
    assert len(OFFERED) == 41
    assert known | set(UNSUPPORTED) >= OFFERED
    assert not set(UNSUPPORTED) & known


def test_sources_belong_to_known_providers() -> None:
    from agents.config.providers.catalogue import known_clouds

    assert set(SOURCES) <= {*known_providers(), *known_clouds(), *known_services()}
