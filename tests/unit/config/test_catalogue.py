import subprocess
import sys
from pathlib import Path

import pytest

import agents.config
from agents.config.providers.catalogue import known_providers
from agents.config.providers.discovery import ollama_address

FOLDER = Path(agents.config.__file__).parent


def test_the_file_is_small():
    assert (FOLDER / "providers" / "catalogue.json").stat().st_size < 60_000


@pytest.mark.parametrize("provider", known_providers().values(), ids=lambda provider: provider.id)
def test_every_provider_is_complete(provider):
    ids = [model.id for model in provider.models]
    assert provider.large in ids
    assert provider.small in ids
    assert len(set(ids)) == len(ids)
    assert provider.base_url.startswith("https://")
    assert not provider.base_url.endswith("/")
    assert provider.key_variables
    assert provider.kind in {"openai", "openai-compat", "anthropic", "gemini"}
    for model in provider.models:
        assert 0 < model.default_max_tokens <= model.context_window // 4
        assert model.cost_per_1m_out >= model.cost_per_1m_in >= 0


def test_nothing_is_read_before_it_is_asked_for():
    code = (
        "import sys, agents.config.providers.catalogue as c;"
        "assert not c.known_providers.cache_info().currsize;"
        "import agents.config.load, agents.config.edits.choices;"
        "assert not c.known_providers.cache_info().currsize;"
        "assert 'django' not in sys.modules, 'django';"
        "assert 'genai_prices' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=FOLDER.parents[1])


@pytest.mark.parametrize(
    ("given", "base_url"),
    [
        ("", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0:80", "http://127.0.0.1:80/v1"),
        (":8080", "http://127.0.0.1:8080/v1"),
        ("host", "http://host:11434/v1"),
        ("http://host:1/", "http://host:1/v1"),
        ("https://host", "https://host:11434/v1"),
        ("[::1]:5", "http://[::1]:5/v1"),
        ("http://[bad", "http://127.0.0.1:11434/v1"),
        ("host:notaport", "http://127.0.0.1:11434/v1"),
        ("ftp://host", "http://127.0.0.1:11434/v1"),
        ("a b", "http://127.0.0.1:11434/v1"),
    ],
)
def test_every_form_of_ollamas_variable_is_read(given: str, base_url: str):
    assert ollama_address({"OLLAMA_HOST": given}.get).base_url == base_url
