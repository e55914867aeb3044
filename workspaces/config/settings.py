"""A workspace's configuration as typed values, expanded and ready to use.

Never sent to a client and never logged: keys are expanded here. What clients
see is made by ``workspaces.config.public``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What is known of a model: for limits, prices, and clients' pickers."""

    id: str
    name: str
    context_window: int = 128_000
    default_max_tokens: int = 8_192
    can_reason: bool = False
    supports_attachments: bool = False
    cost_per_1m_in: float = 0.0
    cost_per_1m_out: float = 0.0
    cost_per_1m_in_cached: float = 0.0  # writing the cache
    cost_per_1m_out_cached: float = 0.0  # reading the cache


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    id: str
    name: str
    kind: str  # the ``type`` of the file: openai, openai-compat, anthropic, offline, …
    base_url: str = field(repr=False)  # it may hold an account
    api_key: str = field(default="", repr=False)
    extra_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    extra_body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    models: tuple[ModelInfo, ...] = ()

    def model(self, model_id: str) -> ModelInfo | None:
        return next((model for model in self.models if model.id == model_id), None)


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """``models.large`` or ``models.small``: which model, and how it is asked."""

    provider: str
    model: str
    max_tokens: int = 0  # 0: the model's own default
    think: bool = False
    reasoning_effort: str = ""
    temperature: float | None = None
    top_p: float | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    providers: Mapping[str, ProviderSettings]
    large: ModelChoice
    small: ModelChoice
    allowed_tools: frozenset[str] = frozenset()  # "tool" or "tool:action"
    disabled_tools: frozenset[str] = frozenset()
    context_paths: tuple[str, ...] = ()
    auto_summarize: bool = True
    global_context_paths: tuple[str, ...] = ()  # the user's own; absolute
    initialize_as: str = "AGENTS.md"  # the file that an init prompt writes
