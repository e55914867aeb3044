"""The providers that keep the contract: how each is configured, and what it recorded."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agents.config.settings import ModelInfo, ProviderSettings
from agents.llm.contract import Provider
from agents.llm.providers import provider_for
from tests.doubles.recorded_provider import Answer, RecordedProvider, aws, refusal, sse

RECORDINGS = Path(__file__).with_name("recordings")
KEY = "sk-secret-1"
MODEL = ModelInfo(
    "m-1",
    "Model",
    can_reason=True,
    supports_attachments=True,
    cost_per_1m_in=3.0,
    cost_per_1m_out=15.0,
    cost_per_1m_in_cached=3.75,
    cost_per_1m_out_cached=0.3,
)


@dataclass(frozen=True)
class Subject:
    id: str
    kind: str
    base: str  # the path of its address
    target: str  # what is asked for
    key: tuple[str, str]  # the header that carries it
    streams: str = ""  # whose recordings, where they are not its own
    framing: str = "sse"
    model: str = "m-1"

    def provider(self, server: RecordedProvider, **more: Any) -> Provider:
        settings = ProviderSettings(
            self.id, self.id.title(), self.kind, server.url + self.base, **{"api_key": KEY, **more}
        )
        return provider_for(settings, {}, idle_seconds=60.0)

    @property
    def info(self) -> ModelInfo:
        return replace(MODEL, id=self.model)

    def events(self, name: str) -> list[dict[str, Any]]:
        file = RECORDINGS / (self.streams or self.id) / f"{name}.jsonl"
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]

    def answer(self, events: list[dict[str, Any]], *, done: bool | None = None) -> Answer:
        if self.framing == "aws":
            return aws(events)
        ends = self.framing == "openai" if done is None else done
        return sse(events, done=ends)

    def recorded(self, name: str) -> Answer:
        return self.answer(self.events(name), done=None if name != "overloaded" else False)

    def expected(self, name: str) -> dict[str, Any]:
        file = RECORDINGS / (self.streams or self.id) / "expected.json"
        return dict(json.loads(file.read_text(encoding="utf-8"))[name])

    def refused(self, name: str) -> Answer:
        file = RECORDINGS / self.id / "errors.json"
        told = json.loads(file.read_text(encoding="utf-8"))[name]
        return refusal(told["status"], told["body"], told.get("headers", {}))


def _chat(id: str, **more: Any) -> Subject:
    told = {"base": "/v1", "target": "/v1/chat/completions"} | more
    return Subject(
        id, "openai-compat", key=("authorization", f"Bearer {KEY}"), framing="openai", **told
    )


CLAUDE = "anthropic.claude-sonnet-4-5-20250929-v1:0"
PLACE = "/v1/projects/p-1/locations/eu"
SUBJECTS = (
    Subject(
        "anthropic", "anthropic", "", "/v1/messages", ("x-api-key", KEY), model="claude-sonnet-4-5"
    ),
    Subject(
        "bedrock",
        "bedrock",
        "",
        "/model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke-with-response-stream",
        ("authorization", f"Bearer {KEY}"),
        streams="anthropic",
        framing="aws",
        model=CLAUDE,
    ),
    Subject(
        "vertex",
        "vertex",
        PLACE,
        f"{PLACE}/publishers/anthropic/models/claude-sonnet-4-5@20250929:streamRawPredict",
        ("authorization", f"Bearer {KEY}"),
        streams="anthropic",
        model="claude-sonnet-4-5@20250929",
    ),
    Subject(
        "responses",
        "openai-responses",
        "/v1",
        "/v1/responses",
        ("authorization", f"Bearer {KEY}"),
    ),
    Subject(
        "gemini",
        "gemini",
        "/v1beta",
        "/v1beta/models/gemini-3-pro-preview:streamGenerateContent?alt=sse",
        ("x-goog-api-key", KEY),
        model="gemini-3-pro-preview",
    ),
    Subject(
        "azure", "azure", "", "/openai/v1/chat/completions", ("api-key", KEY), framing="openai"
    ),
    _chat("openai"),
    _chat("openrouter", base="/api/v1", target="/api/v1/chat/completions", model="anthropic/c-4.5"),
    _chat("groq", base="/openai/v1", target="/openai/v1/chat/completions"),
    _chat("xai"),
    _chat("deepseek"),
    _chat("ollama"),
    _chat("lmstudio"),
)
