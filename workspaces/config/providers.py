"""From the merged files and what is known to providers that can be asked.

Each usable provider comes with what clients are shown of it, made from the text
as it was written: an expanded value never gets there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from workspaces.config.catalogue import KnownProvider
from workspaces.config.expand import Lookup, expand
from workspaces.config.http_values import is_address, is_header_name, is_header_value
from workspaces.config.known_clouds import (
    AZURE_ADDRESS,
    BEDROCK_ADDRESS,
    LMSTUDIO_ADDRESS,
    VERTEX_ADDRESS,
)
from workspaces.config.local_model import LOCAL_KIND, local_provider
from workspaces.config.masking import (
    masked,
    masked_address,
    masked_all,
    secrets_in,
    texts_in,
    without_secrets,
)
from workspaces.config.model_list import models_of, shown_model
from workspaces.config.offline import OFFLINE_KIND, offline_provider
from workspaces.config.parse import Tree
from workspaces.config.problem import Problem, problem_with_key
from workspaces.config.settings import ModelInfo, ProviderSettings

PROVIDERS_LIMIT = 100
HEADERS_LIMIT = 64
BODY_LIMIT = 64

# What a file may call a wire, and the wire that serves it.
_KINDS = {
    "": "openai-compat",
    "openai": "openai",
    "openai-responses": "openai-responses",
    "openai-compat": "openai-compat",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "google": "gemini",
    "azure": "azure",
    "bedrock": "bedrock",
    "vertex": "vertex",
    "vertexai": "vertex",
    "google-vertex": "vertex",
    "local": LOCAL_KIND,
    "offline": OFFLINE_KIND,
} | dict.fromkeys(
    (
        *("openrouter", "groq", "xai", "deepseek", "vercel", "litellm"),
        *("llamacpp", "lmstudio", "ollama", "omlx"),
    ),
    "openai-compat",
)
# Where a type is asked that names one service; a file may name another address.
_ADDRESSES = {
    "openai": "https://api.openai.com/v1",
    "openai-responses": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com/v1beta",
    "google": "https://generativelanguage.googleapis.com/v1beta",
    "azure": AZURE_ADDRESS,
    "bedrock": BEDROCK_ADDRESS,
    "vertex": VERTEX_ADDRESS,
    "vertexai": VERTEX_ADDRESS,
    "google-vertex": VERTEX_ADDRESS,
    "openrouter": "https://openrouter.ai/api/v1",
    "groq": "https://api.groq.com/openai/v1",
    "xai": "https://api.x.ai/v1",
    "deepseek": "https://api.deepseek.com/v1",
    "lmstudio": LMSTUDIO_ADDRESS,
}
# These have no address of their own: they answer from within the server.
_BUILT_IN = frozenset({OFFLINE_KIND, LOCAL_KIND})
# These may be asked with an account of the machine instead of a key.
_KEYLESS = frozenset({*_BUILT_IN, "bedrock", "vertex"})


@dataclass(frozen=True, slots=True)
class Resolved:
    """A provider that can be asked, and how it is shown."""

    settings: ProviderSettings
    shown: Tree
    secrets: tuple[str, ...] = field(default=(), repr=False)
    large: str = ""  # the model to take where none is chosen
    small: str = ""

    def with_model(self, model: ModelInfo) -> Resolved:
        models = (*self.settings.models, model)
        return replace(
            self,
            settings=replace(self.settings, models=models),
            shown=self.shown | {"models": [shown_model(each) for each in models]},
        )


@dataclass(slots=True)
class _Reading:
    """One provider's entry while it is read."""

    id: str
    entry: Mapping[str, Any]
    lookup: Lookup
    problems: list[Problem]
    usable: bool = True

    @property
    def key(self) -> str:
        return f"providers.{self.id}"

    def text(self, name: str) -> str:
        return str(self.entry.get(name) or "").strip()

    def tell(self, message: str, *, at: str = "") -> None:
        self.problems.append(problem_with_key(f"{self.key}.{at}" if at else self.key, message))

    def fail(self, message: str, *, at: str = "") -> None:
        self.tell(message, at=at)
        self.usable = False


def resolve_provider(
    provider_id: str,
    entry: Mapping[str, Any],
    *,
    known: KnownProvider | None,
    needs_models: bool,
    lookup: Lookup,
    problems: list[Problem],
) -> Resolved | None:
    """The provider, or None with problems told that say what it lacks."""
    reading = _Reading(provider_id, entry, lookup, problems)
    kind = _kind(reading, known)
    written_address = reading.text("base_url")
    address = _address(reading, written_address, kind=kind, known=known)
    needs_key = not written_address and kind not in _KEYLESS
    key, written_key = _key(reading, known=known, needed=needs_key)
    headers, header_secrets = _headers(reading)
    body = _body(reading)
    models = _models(reading, kind=kind, known=known, needed=needs_models)
    if not reading.usable:
        return None
    name = reading.text("name") or (known.name if known else provider_id)
    settings = ProviderSettings(
        id=provider_id,
        name=name,
        kind=kind,
        base_url=address,
        api_key=key,
        extra_headers=headers,
        extra_body=body,
        models=models,
        prompt_prefix=reading.text("system_prompt_prefix"),
    )
    shown = {
        "id": provider_id,
        "name": name,
        "type": reading.text("type") or kind,
        "base_url": masked_address(written_address or address),
        "models": [shown_model(model) for model in models],
        **_shown_extras(entry),
    }
    if written_key:
        shown["api_key"] = masked(written_key)
    secrets = (key, written_key, *header_secrets, *texts_in(entry.get("oauth")))
    listed = {model.id for model in models}
    own = entry.get("models")
    return Resolved(
        settings,
        shown,
        (*secrets, *secrets_in(entry.get("extra_body")), *secrets_in(body)),
        large=known.large if known and not own and known.large in listed else "",
        small=known.small if known and known.small in listed else "",
    )


def resolve_known(known: KnownProvider, *, lookup: Lookup, variable: str) -> Resolved:
    """A provider that only its key variable, or its answer, has made known."""
    entry = {"api_key": f"${variable}"} if variable else {}
    resolved = resolve_provider(
        known.id, entry, known=known, needs_models=False, lookup=lookup, problems=[]
    )
    if resolved is None:
        raise ValueError(f"the catalogue's entry of {known.id} is not usable")
    return resolved


def resolve_offline() -> Resolved:
    return _built_in(offline_provider())


def resolve_local() -> Resolved:
    return _built_in(local_provider())


def _built_in(settings: ProviderSettings) -> Resolved:
    shown = {
        "id": settings.id,
        "name": settings.name,
        "type": settings.kind,
        "base_url": settings.base_url,
        "models": [shown_model(model) for model in settings.models],
    }
    return Resolved(settings, shown, large=settings.models[0].id, small=settings.models[-1].id)


def _kind(reading: _Reading, known: KnownProvider | None) -> str:
    written = reading.text("type").lower()
    if not written and known is not None:
        return known.kind
    kind = _KINDS.get(written)
    if kind is None:
        message = "this wire is not spoken; use openai, openai-compat, anthropic or gemini"
        reading.fail(message, at="type")
        return "openai-compat"
    return kind


def _address(reading: _Reading, written: str, *, kind: str, known: KnownProvider | None) -> str:
    if kind in _BUILT_IN:
        return ""
    if not written:
        written = known.base_url if known else _ADDRESSES.get(reading.text("type").lower(), "")
        if not written:
            reading.fail("is missing, and this provider is not known without it", at="base_url")
            return ""
    expanded = expand(written, reading.lookup)
    if not expanded.whole:
        reading.fail(expanded.why, at="base_url")
        return ""
    address = expanded.text.strip().rstrip("/")
    if not is_address(address):
        reading.fail("must be an http:// or https:// address", at="base_url")
    return address


def _key(reading: _Reading, *, known: KnownProvider | None, needed: bool) -> tuple[str, str]:
    """The key, and the text that stands for it in the file."""
    written = reading.text("api_key") or _token(reading)
    if not written:
        variables = known.key_variables if known else ()
        found = next((name for name in variables if reading.lookup(name)), "")
        if found:
            written = f"${found}"
        elif variables and needed:
            reading.fail(f"is missing: set it, or ${variables[0]}", at="api_key")
    expanded = expand(written, reading.lookup)
    key = expanded.text.strip()
    if not expanded.whole:
        reading.fail(f"is not configured: {expanded.why}", at="api_key")
    elif written and not key:
        reading.fail("is not configured: its variable is empty", at="api_key")
    elif not is_header_value(key):
        reading.fail("holds characters that no key has", at="api_key")
    return key, written


def _token(reading: _Reading) -> str:
    oauth = reading.entry.get("oauth")
    token = oauth.get("access_token") if isinstance(oauth, dict) else None
    return token.strip() if isinstance(token, str) else ""


def _headers(reading: _Reading) -> tuple[dict[str, str], list[str]]:
    headers: dict[str, str] = {}
    secrets: list[str] = []
    written: Mapping[str, str | None] = reading.entry.get("extra_headers") or {}
    for name, value in list(written.items())[:HEADERS_LIMIT]:
        if value is None:
            continue
        expanded = expand(value, reading.lookup)
        secrets += [value, expanded.text]
        if not expanded.whole:
            reading.tell(expanded.why, at=f"extra_headers.{name}")
        elif not is_header_name(name) or not is_header_value(expanded.text):
            reading.tell("is not a valid header", at=f"extra_headers.{name}")
        else:
            headers[name] = expanded.text
    if len(written) > HEADERS_LIMIT:
        reading.tell(f"only {HEADERS_LIMIT} headers are sent", at="extra_headers")
    return headers, secrets


def _body(reading: _Reading) -> Mapping[str, Any]:
    """``extra_body`` with the variables of its own texts expanded, one level deep."""
    body: dict[str, Any] = {}
    expansions = 0
    for name, value in (reading.entry.get("extra_body") or {}).items():
        if isinstance(value, str) and "$" in value and expansions < BODY_LIMIT:
            expansions += 1
            expanded = expand(value, reading.lookup)
            if not expanded.whole:
                reading.tell(expanded.why, at=f"extra_body.{name}")
                continue
            body[name] = expanded.text
        else:
            body[name] = value
    return body


def _models(
    reading: _Reading, *, kind: str, known: KnownProvider | None, needed: bool
) -> tuple[ModelInfo, ...]:
    entries = reading.entry.get("models") or []
    if any(not entry.get("id") for entry in entries):
        reading.tell("a model without an id is ignored", at="models")
    inherited = known.models if known else ()
    models = models_of(entries, known=inherited)
    if models and reading.text("base_url"):
        return models  # its own address and its own models: nothing of the known one is left
    listed = {model.id for model in models}
    models += tuple(model for model in inherited if model.id not in listed)
    if not models and kind in _BUILT_IN:
        built_in = offline_provider() if kind == OFFLINE_KIND else local_provider()
        models = built_in.models
    if not models and needed:
        reading.fail("lists no model, and none of its models is chosen", at="models")
    return models


def _shown_extras(entry: Mapping[str, Any]) -> Tree:
    shown: Tree = {}
    for name in ("extra_headers", "oauth"):
        if entry.get(name):
            shown[name] = masked_all(entry[name])
    for name in ("extra_body", "provider_options", "system_prompt_prefix"):
        if entry.get(name):
            shown[name] = without_secrets(entry[name])
    return shown
