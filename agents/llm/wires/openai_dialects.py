"""Where servers of OpenAI's chat completions differ from each other. Pure.

A dialect is known by the provider's id or by the host it is asked at; every other
server is sent only what all of them take.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from agents.config.settings import ProviderSettings
from agents.llm.addresses import is_openai


@dataclass(frozen=True, slots=True)
class Dialect:
    native: bool = False  # knows OpenAI's newer names
    returns_reasoning: bool = False  # wants ``reasoning_content`` beside the calls it led to
    returns_details: bool = False  # wants ``reasoning_details`` back as they came
    cache_marks: bool = False  # passes Anthropic's marks on
    reasoning_switch: bool = False  # ``reasoning: {enabled, effort}`` instead of one word
    parsed_reasoning: bool = False  # must be asked to keep thoughts out of the words


PLAIN = Dialect()
NATIVE = Dialect(native=True)
OPENROUTER = Dialect(returns_details=True, cache_marks=True, reasoning_switch=True)
THINKING = Dialect(returns_reasoning=True)
GROQ = Dialect(parsed_reasoning=True)

_BY_ID = {"openrouter": OPENROUTER, "deepseek": THINKING, "groq": GROQ}
_BY_HOST = (
    ("openrouter.ai", OPENROUTER),
    ("deepseek.com", THINKING),
    ("moonshot.ai", THINKING),
    ("moonshot.cn", THINKING),
    ("z.ai", THINKING),
    ("groq.com", GROQ),
    ("openai.azure.com", NATIVE),
    ("services.ai.azure.com", NATIVE),
)


def dialect_of(settings: ProviderSettings) -> Dialect:
    if settings.kind == "azure":
        return NATIVE
    return _BY_ID.get(settings.id) or dialect_at(settings.base_url)


def dialect_at(base_url: str) -> Dialect:
    if is_openai(base_url):
        return NATIVE
    try:
        host = urlsplit(base_url).hostname or ""
    except ValueError:
        return PLAIN
    return next(
        (dialect for name, dialect in _BY_HOST if host == name or host.endswith(f".{name}")),
        PLAIN,
    )
