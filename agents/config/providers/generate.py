"""Generates ``catalogue.json`` and ``model_facts.json`` from the genai-prices package.

``manage.py refresh_catalogue`` runs it.

Windows and prices come from the package (MIT licence, Pydantic Services Inc.).
Which models are listed, and what they can do, is decided here, because the
package lacks it. The server never imports this module.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

from agents.config.providers.model_facts import SOURCES as SOURCES_OF_FACTS

TARGET = Path(__file__).with_name("catalogue.json")


@dataclass(frozen=True, slots=True)
class DataSource:
    id: str
    name: str
    type: str
    base_url: str
    key_variables: tuple[str, ...]
    source: str  # the provider's id in genai-prices
    large: str
    small: str
    max_tokens: int
    # An id, with letters for what it can do: r reasons, i sees images.
    models: tuple[str, ...]
    default_headers: tuple[tuple[str, str], ...] = ()


SOURCES = (
    DataSource(
        "anthropic",
        "Anthropic",
        "anthropic",
        "https://api.anthropic.com",
        ("ANTHROPIC_API_KEY",),
        "anthropic",
        "claude-sonnet-5-5",
        "claude-haiku-5-5",
        32_000,
        (
            "claude-sonnet-5-5:ri",
            "claude-opus-5-5:ri",
            "claude-haiku-5-5:ri",
            "claude-fable-5-2:ri",
            "claude-sonnet-5:ri",
            "claude-opus-5:ri",
            "claude-opus-4-8:ri",
            "claude-sonnet-4-6:ri",
            "claude-sonnet-4-5:ri",
            "claude-opus-4-5:ri",
            "claude-haiku-4-5:ri",
        ),
    ),
    DataSource(
        "openai",
        "OpenAI",
        "openai",
        "https://api.openai.com/v1",
        ("OPENAI_API_KEY",),
        "openai",
        "gpt-6.1-sol",
        "gpt-6-luna",
        32_000,
        (
            "gpt-6.1-sol:ri",
            "gpt-6.1-terra:ri",
            "gpt-6-astra:ri",
            "gpt-6-sol:ri",
            "gpt-6-luna:ri",
            "gpt-5.6-sol:ri",
            "gpt-5.5:ri",
            "gpt-5.4:ri",
            "gpt-5.4-mini:ri",
            "gpt-5.3-codex:ri",
            "gpt-5.1:ri",
            "gpt-5:ri",
            "gpt-5-mini:ri",
            "gpt-4.1:i",
            "gpt-4.1-mini:i",
            "gpt-4o:i",
            "gpt-4o-mini:i",
            "o3:ri",
            "o4-mini:ri",
        ),
    ),
    DataSource(
        "openrouter",
        "OpenRouter",
        "openai-compat",
        "https://openrouter.ai/api/v1",
        ("OPENROUTER_API_KEY",),
        "openrouter",
        "anthropic/claude-sonnet-5.5",
        "anthropic/claude-haiku-5.5",
        32_000,
        (
            "anthropic/claude-sonnet-5.5:ri",
            "anthropic/claude-opus-5.5:ri",
            "anthropic/claude-haiku-5.5:ri",
            "anthropic/claude-sonnet-4.5:ri",
            "openai/gpt-6.1-sol:ri",
            "openai/gpt-6.1-terra:ri",
            "openai/gpt-6-luna:ri",
            "openai/gpt-5:ri",
            "openai/gpt-oss-120b:r",
            "google/gemini-4-argon:ri",
            "google/gemini-3.8-flash:ri",
            "google/gemini-2.5-pro:ri",
            "x-ai/grok-4.7:ri",
            "deepseek/deepseek-v4-pro:r",
            "deepseek/deepseek-v4.1-flash:r",
            "moonshotai/kimi-k3:ri",
            "moonshotai/kimi-k2.7-code:r",
            "qwen/qwen3-coder:",
            "qwen/qwen3.8-27b:r",
            "z-ai/glm-5.3:r",
            "minimax/minimax-m3:r",
            "mistralai/devstral-2512:",
        ),
        # How OpenRouter names the program in its users' accounts.
        default_headers=(("X-Title", "Crush server"),),
    ),
    DataSource(
        "groq",
        "Groq",
        "openai-compat",
        "https://api.groq.com/openai/v1",
        ("GROQ_API_KEY",),
        "groq",
        "openai/gpt-oss-120b",
        "openai/gpt-oss-20b",
        8_192,
        (
            "openai/gpt-oss-120b:r",
            "openai/gpt-oss-20b:r",
            "qwen/qwen3.8-27b:r",
            "qwen/qwen3-32b:r",
            "moonshotai/kimi-k2-instruct:",
            "meta-llama/llama-4-maverick-17b-128e-instruct:i",
            "llama-3.3-70b-versatile:",
            "llama-3.1-8b-instant:",
        ),
    ),
    DataSource(
        "xai",
        "xAI",
        "openai-compat",
        "https://api.x.ai/v1",
        ("XAI_API_KEY",),
        "x-ai",
        "grok-4.7",
        "grok-4-1-fast-non-reasoning",
        32_000,
        (
            "grok-4.7:ri",
            "grok-4.6:ri",
            "grok-4.5:ri",
            "grok-4.3:ri",
            "grok-build-0.1:r",
            "grok-code-fast-1:r",
            "grok-4-1-fast-reasoning:ri",
            "grok-4-1-fast-non-reasoning:i",
        ),
    ),
    DataSource(
        "deepseek",
        "DeepSeek",
        "openai-compat",
        "https://api.deepseek.com/v1",
        ("DEEPSEEK_API_KEY",),
        "deepseek",
        "deepseek-v4-pro",
        "deepseek-v4-flash",
        8_192,
        (
            "deepseek-v4-pro:r",
            "deepseek-v4-flash:r",
            "deepseek-chat:",
            "deepseek-reasoner:r",
        ),
    ),
    DataSource(
        "gemini",
        "Google Gemini",
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        "google",
        "gemini-4-argon",
        "gemini-3.8-flash",
        32_000,
        (
            "gemini-4-argon:ri",
            "gemini-3.8-flash:ri",
            "gemini-3.5-flash-lite:ri",
            "gemini-3.1-pro-preview:ri",
            "gemini-2.5-pro:ri",
            "gemini-2.5-flash:ri",
        ),
    ),
)

# The windows that the package lacks.
_WINDOWS = {"gemini-2.5-pro": 1_048_576, "gemini-3.1-pro-preview": 1_048_576}
_WINDOW = 131_072


class CannotGenerate(Exception):
    """The package is missing, or lacks a provider or model that is listed here."""


def generate(day: date) -> dict[str, Any]:
    """Returns the catalogue, from the package's snapshot alone, without a network.

    Raises ``CannotGenerate``.
    """
    try:
        from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415  not on a server
    except ImportError:
        raise CannotGenerate("the package genai-prices is not installed") from None
    known = {
        provider.id: {model.id: model for model in provider.models}
        for provider in get_snapshot().providers
    }
    missing = [
        f"{source.source}/{model_id}"
        for source in SOURCES
        for model_id in (entry.rpartition(":")[0] for entry in source.models)
        if model_id not in known.get(source.source, {})
    ]
    if missing:
        raise CannotGenerate(
            f"the package lacks {', '.join(missing)}: list other models in this module"
        )
    return {source.id: _provider(source, known.get(source.source, {}), day) for source in SOURCES}


def generate_facts(day: date) -> dict[str, dict[str, list[float]]]:
    """Returns window and prices of every model of the providers that ``model_facts`` uses."""
    try:
        from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415  not on a server
    except ImportError:
        raise CannotGenerate("the package genai-prices is not installed") from None
    wanted = sorted({source for sources in SOURCES_OF_FACTS.values() for source in sources})
    providers = {provider.id: provider for provider in get_snapshot().providers}
    missing = [source for source in wanted if source not in providers]
    if missing:
        raise CannotGenerate(f"the package has no provider {', '.join(missing)}")
    return {
        source: {model.id: _facts(model, day) for model in providers[source].models}
        for source in wanted
    }


def _facts(model: Any, day: date) -> list[float]:
    prices = _usual_prices(model, day)
    return [
        model.context_window or _WINDOWS.get(model.id, 0),
        *(
            _price(price)
            for price in (
                prices.input_mtok,
                prices.output_mtok,
                prices.cache_write_mtok,
                prices.cache_read_mtok,
            )
        ),
    ]


def _provider(source: DataSource, known: dict[str, Any], day: date) -> dict[str, Any]:
    return {
        "name": source.name,
        "type": source.type,
        "base_url": source.base_url,
        "key_variables": list(source.key_variables),
        "large": source.large,
        "small": source.small,
        **({"default_headers": dict(source.default_headers)} if source.default_headers else {}),
        "models": [_model(entry, source, known, day) for entry in source.models],
    }


def _model(entry: str, source: DataSource, known: dict[str, Any], day: date) -> dict[str, Any]:
    model_id, _, abilities = entry.rpartition(":")
    model = known[model_id]
    prices = _usual_prices(model, day)
    window = model.context_window or _WINDOWS.get(model_id, _WINDOW)
    described: dict[str, Any] = {
        "id": model_id,
        "name": model.name or model_id,
        "context_window": window,
        "default_max_tokens": min(source.max_tokens, window // 8),
        "cost_per_1m_in": _price(prices.input_mtok),
        "cost_per_1m_out": _price(prices.output_mtok),
        "cost_per_1m_in_cached": _price(prices.cache_write_mtok),
        "cost_per_1m_out_cached": _price(prices.cache_read_mtok),
    }
    if "r" in abilities:
        described["can_reason"] = True
    if "i" in abilities:
        described["supports_attachments"] = True
    return {key: value for key, value in described.items() if value != 0}


def _usual_prices(model: Any, day: date) -> Any:
    """Returns the prices of most hours of the day: some prices depend on the hour."""
    prices = [model.get_prices(datetime.combine(day, time(hour, 45), UTC)) for hour in range(24)]
    return max(prices, key=prices.count)


def _price(price: Any) -> float:
    """Returns the price of a short prompt, if the price depends on the length."""
    base = getattr(price, "base", price)
    return float(base) if isinstance(base, Decimal | int | float) else 0.0


def encoded(catalogue: dict[str, Any]) -> str:
    lines = [f"{json.dumps(key)}: {_compact(entry)}" for key, entry in catalogue.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def encoded_facts(facts: dict[str, dict[str, list[float]]]) -> str:
    """Returns the facts as JSON with one model in each line."""
    blocks = []
    for source, models in facts.items():
        lines = ",\n".join(
            f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in models.items()
        )
        blocks.append(f"{json.dumps(source)}: {{\n{lines}}}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def _compact(entry: dict[str, Any]) -> str:
    """Returns an entry as JSON with one model in each line, so that diffs are readable."""
    head = json.dumps({key: value for key, value in entry.items() if key != "models"})
    models = ",\n  ".join(json.dumps(model) for model in entry["models"])
    return f'{head[:-1]}, "models": [\n  {models}]}}'
