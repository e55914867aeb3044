from typing import Any

import pytest

from agents.config.problem import Problem
from agents.config.providers.choice import ChosenModels, choose
from agents.config.providers.discovery import Discovery

CUSTOM = {
    "base_url": "http://127.0.0.1:1/v1",
    "api_key": "k",
    "models": [{"id": "m1"}, {"id": "m2"}],
}


def chosen(tree: dict[str, Any], **env: str) -> ChosenModels:
    discovery = Discovery(env.get, uses_ollama=False)
    return choose(tree, order=tuple(tree.get("providers") or {}), discovery=discovery)


def pair(choice) -> tuple[str, str]:
    return choice.provider, choice.model


def told(result: ChosenModels) -> list[str]:
    return [str(problem) for problem in result.problems]


def test_with_nothing_the_built_in_model_works():
    result = chosen({})
    assert list(result.providers) == ["offline"]
    assert pair(result.large) == ("offline", "offline-large")
    assert pair(result.small) == ("offline", "offline-small")
    assert not result.problems


@pytest.mark.parametrize(
    ("env", "provider"),
    [
        ({"OPENAI_API_KEY": "k"}, "openai"),
        ({"ANTHROPIC_API_KEY": "k"}, "anthropic"),
        ({"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}, "anthropic"),
        ({"GROQ_API_KEY": "k", "OPENAI_API_KEY": "k"}, "openai"),
        ({"GROQ_API_KEY": "k"}, "groq"),
        ({"OPENAI_API_KEY": ""}, "offline"),
        ({"OPENAI_API_KEY": "\n"}, "offline"),
        ({"OPENAI_API_KEY": "bad\x00key"}, "offline"),
    ],
)
def test_a_key_in_the_environment_is_enough(env: dict[str, str], provider: str):
    result = chosen({}, **env)
    assert result.large.provider == provider
    assert "offline" in result.providers
    assert not result.problems


def test_the_small_model_comes_from_the_large_ones_provider():
    result = chosen(
        {"models": {"large": {"provider": "openai", "model": "gpt-4o"}}}, OPENAI_API_KEY="k"
    )
    assert result.small.provider == "openai"
    assert result.small.model != "gpt-4o"


def test_configured_providers_come_before_keys_that_were_found():
    result = chosen({"providers": {"a": CUSTOM}}, ANTHROPIC_API_KEY="k")
    assert pair(result.large) == ("a", "m1")
    assert pair(result.small) == ("a", "m1")
    assert list(result.providers) == ["a", "anthropic", "offline"]


def test_a_providers_entry_inherits_what_is_known_of_it():
    result = chosen({"providers": {"openai": {"api_key": "k"}}})
    settings = result.providers["openai"].settings
    assert settings.base_url == "https://api.openai.com/v1"
    assert settings.kind == "openai"
    assert settings.models
    assert settings.api_key == "k"


def test_a_known_model_keeps_what_the_entry_leaves_out():
    entry = {"api_key": "k", "models": [{"id": "gpt-4o", "name": "Mine", "context_window": 0}]}
    model = chosen({"providers": {"openai": entry}}).providers["openai"].settings.model("gpt-4o")
    assert model.name == "Mine"
    assert model.context_window == 128_000
    assert model.cost_per_1m_in > 0


def test_its_own_address_and_models_leave_nothing_of_the_known_provider():
    entry = {"api_key": "k", "base_url": "http://proxy/v1/", "models": [{"id": "only"}]}
    settings = chosen({"providers": {"openai": entry}}).providers["openai"].settings
    assert [model.id for model in settings.models] == ["only"]
    assert settings.base_url == "http://proxy/v1"


def test_a_known_provider_without_a_key_names_the_variable():
    result = chosen({"providers": {"openai": {"name": "x"}}})
    assert told(result) == ["providers.openai.api_key: is missing: set it, or $OPENAI_API_KEY"]
    assert "openai" not in result.providers


def test_an_unset_variable_is_named_and_its_provider_not_configured():
    result = chosen({"providers": {"a": CUSTOM | {"api_key": "$NOPE"}}})
    assert told(result) == ["providers.a.api_key: is not configured: $NOPE is not set"]
    assert pair(result.large) == ("offline", "offline-large")


def test_an_empty_variable_is_not_a_key():
    result = chosen({"providers": {"a": CUSTOM | {"api_key": "$EMPTY"}}}, EMPTY="")
    assert "a" not in result.providers


def test_a_command_in_a_key_is_not_run_and_told():
    result = chosen({"providers": {"a": CUSTOM | {"api_key": "$(cat key)"}}})
    assert "is not run" in told(result)[0]


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"base_url": ""}, "providers.a.base_url"),
        ({"base_url": "ftp://x"}, "providers.a.base_url"),
        ({"base_url": "http://"}, "providers.a.base_url"),
        ({"base_url": "http://[x"}, "providers.a.base_url"),
        ({"base_url": "http://x:99999"}, "providers.a.base_url"),
        ({"base_url": "http://x/\r\nHost: y"}, "providers.a.base_url"),
        ({"base_url": "http://$NOPE/v1"}, "providers.a.base_url"),
        ({"models": []}, "providers.a.models"),
        ({"models": [{"name": "no id"}]}, "providers.a.models"),
        ({"type": "telepathy"}, "providers.a.type"),
        ({"api_key": "a\nb"}, "providers.a.api_key"),
        ({"api_key": "clé"}, "providers.a.api_key"),
    ],
)
def test_an_unusable_provider_is_left_out_and_told(change: dict[str, Any], key: str):
    result = chosen({"providers": {"a": CUSTOM | change}})
    assert "a" not in result.providers
    assert any(line.startswith(key) for line in told(result))


def test_a_header_that_cannot_be_sent_is_left_out_alone():
    headers = {"X-Ok": "$V", "X-Bad": "a\r\nb", "X Bad": "c", "X-Unset": "$NOPE", "X-None": None}
    result = chosen({"providers": {"a": CUSTOM | {"extra_headers": headers}}}, V="1")
    assert result.providers["a"].settings.extra_headers == {"X-Ok": "1"}
    assert len(result.problems) == 3


def test_no_problem_carries_a_value():
    entry = CUSTOM | {
        "api_key": "sk-secret\n1",
        "base_url": "http://user:sk-secret@[bad",
        "extra_headers": {"X": "sk-secret\n"},
    }
    result = chosen({"providers": {"a": entry}})
    assert result.problems
    assert not any("sk-secret" in line for line in told(result))


def test_a_chosen_model_that_is_not_listed_is_added_once():
    models = {
        "large": {"provider": "a", "model": "new", "max_tokens": 77},
        "small": {"provider": "a", "model": "new"},
    }
    result = chosen({"providers": {"a": CUSTOM}, "models": models})
    listed = result.providers["a"].settings.models
    assert [model.id for model in listed] == ["m1", "m2", "new"]
    assert listed[-1].default_max_tokens == 77
    assert [model["id"] for model in result.providers["a"].shown["models"]] == ["m1", "m2", "new"]


def test_a_provider_without_models_is_used_when_one_is_chosen():
    models = {"large": {"provider": "a", "model": "x"}}
    result = chosen({"providers": {"a": {"base_url": "http://h/v1"}}, "models": models})
    assert not result.problems
    assert pair(result.large) == ("a", "x")


def test_a_choice_that_cannot_be_used_never_goes_to_another_paid_provider():
    models = {"large": {"provider": "gone", "model": "x"}}
    result = chosen({"models": models}, OPENAI_API_KEY="k")
    assert pair(result.large) == ("offline", "offline-large")
    assert result.problems


def test_an_incomplete_choice_is_reported_and_no_other_model_takes_its_place():
    result = chosen({"models": {"large": {"model": "x"}}}, OPENAI_API_KEY="k")
    assert told(result) == ["models.large.provider: is missing"]
    assert "models.large lacks its provider or model" in result.large.fault


CHOICE = {"models": {"large": {"provider": "mine", "model": "big"}}}
NO_KEY = CUSTOM | {"api_key": "$MY_KEY"}


@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        ({"providers": {"mine": NO_KEY}} | CHOICE, "api_key is not configured: $MY_KEY is not set"),
        ({"providers": {"mine": NO_KEY}}, "api_key is not configured: $MY_KEY is not set"),
        ({"providers": {"mine": CUSTOM | {"type": "what"}}} | CHOICE, "is not a known type"),
        ({"providers": {"mine": {"models": []}}} | CHOICE, "providers.mine.base_url is missing"),
        ({"providers": {"mine": {"disable": True}}} | CHOICE, "providers.mine is disabled"),
        (CHOICE, "providers.mine is not configured"),
    ],
)
def test_a_configured_model_that_cannot_be_used_is_no_reason_for_the_built_in_one(
    tree: dict[str, Any], reason: str
):
    result = chosen(tree)
    assert reason in result.large.fault
    assert "crush-server doctor" in result.large.fault
    assert result.small.fault


@pytest.mark.parametrize(
    "tree",
    [
        {},
        {"providers": {"mine": {"disable": True}}},
        {"models": {"large": {"provider": "offline", "model": "offline-large"}}},
        {"providers": {"mine": NO_KEY, "other": CUSTOM}},
    ],
)
def test_nothing_is_wrong_where_nothing_is_configured_or_what_is_chosen_works(
    tree: dict[str, Any],
):
    result = chosen(tree)
    assert result.large.fault == ""
    assert result.small.fault == ""


def test_a_file_that_cannot_be_read_may_have_chosen_a_model():
    broken = [Problem("/p/crush.json", 2, 66, "it is not JSON")]
    nothing = choose({}, order=(), discovery=Discovery({}.get, uses_ollama=False), broken=broken)
    assert "/p/crush.json:2:66: it is not JSON" in nothing.large.fault
    discovery = Discovery({"ANTHROPIC_API_KEY": "k"}.get, uses_ollama=False)
    assert choose({}, order=(), discovery=discovery, broken=broken).large.fault == ""


def test_a_provider_that_is_left_out_says_why():
    why = {"mine": "is left out until this folder is trusted: answer the request"}
    discovery = Discovery({}.get, uses_ollama=False)
    named = choose(CHOICE, order=(), discovery=discovery, left_out=why)
    assert "providers.mine is left out until this folder is trusted" in named.large.fault
    unnamed = choose({}, order=(), discovery=discovery, left_out=why)
    assert "providers.mine is left out until this folder is trusted" in unnamed.large.fault


def test_every_setting_of_a_choice_arrives():
    large = {
        "provider": "a",
        "model": "m1",
        "max_tokens": 5,
        "think": True,
        "reasoning_effort": "high",
        "temperature": 0.5,
        "top_p": 0.25,
    }
    choice = chosen({"providers": {"a": CUSTOM}, "models": {"large": large}}).large
    assert (choice.max_tokens, choice.think, choice.reasoning_effort) == (5, True, "high")
    assert (choice.temperature, choice.top_p) == (0.5, 0.25)


def test_default_providers_can_be_turned_off():
    tree = {"options": {"disable_default_providers": True}, "providers": {"a": CUSTOM}}
    assert list(chosen(tree, OPENAI_API_KEY="k").providers) == ["a"]


def test_turned_off_defaults_still_leave_a_client_configured():
    result = chosen({"options": {"disable_default_providers": True}}, OPENAI_API_KEY="k")
    assert list(result.providers) == ["offline"]
    assert result.large.provider == "offline"


def test_turned_off_defaults_mean_that_nothing_is_inherited():
    tree = {
        "options": {"disable_default_providers": True},
        "providers": {"openai": {"api_key": "k"}},
    }
    result = chosen(tree)
    assert "openai" not in result.providers
    assert any("providers.openai" in line for line in told(result))


def test_a_disabled_provider_is_not_found_again_by_its_key():
    result = chosen({"providers": {"openai": {"disable": True}}}, OPENAI_API_KEY="k")
    assert list(result.providers) == ["offline"]


def test_the_built_in_provider_can_be_disabled_while_there_is_another():
    off = {"offline": {"disable": True}}
    assert list(chosen({"providers": off | {"a": CUSTOM}}).providers) == ["a"]
    assert list(chosen({"providers": off}).providers) == ["offline"]


def test_a_chosen_ollama_stays_while_it_is_not_running():
    result = chosen({"models": {"large": {"provider": "ollama", "model": "qwen3"}}})
    assert pair(result.large) == ("ollama", "qwen3")
    assert result.providers["ollama"].settings.base_url == "http://127.0.0.1:11434/v1"


@pytest.mark.parametrize("written", ["gemini", "google"])
def test_gemini_is_asked_at_its_own_endpoint(written: str):
    entry = {"type": written, "api_key": "k", "models": [{"id": "g"}]}
    provider = chosen({"providers": {"g": entry}}).providers["g"]
    assert provider.settings.kind == "gemini"
    assert provider.settings.base_url.endswith("/v1beta")
    assert provider.shown["type"] == written


def test_a_token_of_an_oauth_sign_in_is_a_key():
    entry = {"base_url": "http://h/v1", "models": [{"id": "m"}], "oauth": {"access_token": "tok"}}
    assert chosen({"providers": {"a": entry}}).providers["a"].settings.api_key == "tok"


def test_what_large_and_small_name_is_always_a_listed_model():
    for tree in (
        {},
        {"providers": {"a": CUSTOM}},
        {"models": {"large": {"provider": "x", "model": "y"}}},
    ):
        result = chosen(tree)
        for choice in (result.large, result.small):
            assert result.providers[choice.provider].settings.model(choice.model)
