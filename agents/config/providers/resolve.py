"""Turns entries of the merged files and known providers into usable providers.

Reads an entry value by value and reports missing values. Each usable provider comes with its
public form for clients, which is made from the text as written and never has an expanded value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agents.config.expand import Lookup, expand
from agents.config.http_values import is_address, is_header_name, is_header_value
from agents.config.mask import (
    masked,
    masked_address,
    masked_all,
    secrets_in,
    texts_in,
    without_secrets,
)
from agents.config.parse import Tree
from agents.config.problem import Problem, problem_with_key
from agents.config.providers.built_in import local_provider, offline_provider
from agents.config.providers.catalogue import KnownProvider
from agents.config.providers.kinds import (
    BUILT_IN,
    BY_NAME,
    COMPATIBLE_KIND,
    KEYLESS,
    OFFLINE_KIND,
    SERVED,
)
from agents.config.providers.models import models_of, shown_model
from agents.config.settings import ModelInfo, ProviderSettings

PROVIDERS_LIMIT = 100
HEADERS_LIMIT = 64
BODY_LIMIT = 64


@dataclass(slots=True)
class ProviderEntry:
    """One provider's entry while it is read."""

    id: str
    entry: Mapping[str, Any] = field(repr=False)
    known: KnownProvider | None
    lookup: Lookup
    problems: list[Problem]
    usable: bool = True

    @property
    def place(self) -> str:
        return f"providers.{self.id}"

    def text(self, name: str) -> str:
        return str(self.entry.get(name) or "").strip()

    def report(self, message: str, *, at: str = "") -> None:
        self.problems.append(problem_with_key(f"{self.place}.{at}" if at else self.place, message))

    def fail(self, message: str, *, at: str = "") -> None:
        self.report(message, at=at)
        self.usable = False

    def kind(self) -> str:
        written = self.text("type").lower()
        if not written and self.known is not None:
            return self.known.kind
        named = BY_NAME.get(written)
        if named is None:
            kinds = [name for name in SERVED if name not in BUILT_IN]
            message = f"is not a known type; use {', '.join(kinds[:-1])} or {kinds[-1]}"
            self.fail(message, at="type")
            return COMPATIBLE_KIND
        return named.kind

    def address(self, written: str, *, kind: str) -> str:
        if kind in BUILT_IN:
            return ""
        if not written:
            named = BY_NAME.get(self.text("type").lower())
            usual = named.address if named is not None else ""
            written = self.known.base_url if self.known else usual
            if not written:
                self.fail(
                    "is missing; this provider is not known, so it needs an address", at="base_url"
                )
                return ""
        expanded = expand(written, self.lookup)
        if not expanded.whole:
            self.fail(expanded.why, at="base_url")
            return ""
        address = expanded.text.strip().rstrip("/")
        if not is_address(address):
            self.fail("must be an http:// or https:// address", at="base_url")
        return address

    def key(self, *, needed: bool) -> tuple[str, str]:
        """Returns the expanded key, and its text in the file."""
        written = self.text("api_key") or self._token()
        if not written:
            variables = self.known.key_variables if self.known else ()
            found = next((name for name in variables if self.lookup(name)), "")
            if found:
                written = f"${found}"
            elif variables and needed:
                self.fail(f"is missing: set it, or ${variables[0]}", at="api_key")
        expanded = expand(written, self.lookup)
        key = expanded.text.strip()
        if not expanded.whole:
            self.fail(f"is not configured: {expanded.why}", at="api_key")
        elif written and not key:
            self.fail("is not configured: its variable is empty", at="api_key")
        elif not is_header_value(key):
            self.fail("contains characters that a key cannot have", at="api_key")
        return key, written

    def _token(self) -> str:
        oauth = self.entry.get("oauth")
        token = oauth.get("access_token") if isinstance(oauth, dict) else None
        return token.strip() if isinstance(token, str) else ""

    def headers(self) -> tuple[dict[str, str], list[str]]:
        headers = dict(self.known.default_headers) if self.known is not None else {}
        secrets: list[str] = []
        written: Mapping[str, str | None] = self.entry.get("extra_headers") or {}
        for name, value in list(written.items())[:HEADERS_LIMIT]:
            if value is None:
                continue
            expanded = expand(value, self.lookup)
            secrets += [value, expanded.text]
            if not expanded.whole:
                self.report(expanded.why, at=f"extra_headers.{name}")
            elif not is_header_name(name) or not is_header_value(expanded.text):
                self.report("is not a valid header", at=f"extra_headers.{name}")
            else:
                headers[name] = expanded.text
        if len(written) > HEADERS_LIMIT:
            self.report(f"only {HEADERS_LIMIT} headers are sent", at="extra_headers")
        return headers, secrets

    def body(self) -> Mapping[str, Any]:
        """``extra_body`` with the variables of its own texts expanded, one level deep."""
        body: dict[str, Any] = {}
        expansions = 0
        for name, value in (self.entry.get("extra_body") or {}).items():
            if isinstance(value, str) and "$" in value and expansions < BODY_LIMIT:
                expansions += 1
                expanded = expand(value, self.lookup)
                if not expanded.whole:
                    self.report(expanded.why, at=f"extra_body.{name}")
                    continue
                body[name] = expanded.text
            else:
                body[name] = value
        return body

    def models(self, *, kind: str, needed: bool) -> tuple[ModelInfo, ...]:
        entries = self.entry.get("models") or []
        if any(not entry.get("id") for entry in entries):
            self.report("a model without an id is ignored", at="models")
        inherited = self.known.models if self.known else ()
        models = models_of(entries, known=inherited)
        if models and self.text("base_url"):
            return models  # with its own address and models, nothing of the known provider applies
        listed = {model.id for model in models}
        models += tuple(model for model in inherited if model.id not in listed)
        if not models and kind in BUILT_IN:
            built_in = offline_provider() if kind == OFFLINE_KIND else local_provider()
            models = built_in.models
        if not models and needed:
            self.fail("lists no model, and none of its models is chosen", at="models")
        return models


@dataclass(frozen=True, slots=True)
class Resolved:
    """A usable provider, and what clients see of it."""

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


def resolve_provider(
    provider_id: str,
    entry: Mapping[str, Any],
    *,
    known: KnownProvider | None,
    needs_models: bool,
    lookup: Lookup,
    problems: list[Problem],
    is_folders_address: bool = False,
) -> Resolved | None:
    """Returns the provider, or ``None`` and problems about its missing values."""
    if is_folders_address and known is not None:
        known = replace(known, key_variables=())  # the user's key is not sent there
    reading = ProviderEntry(provider_id, entry, known, lookup, problems)
    kind = reading.kind()
    written_address = reading.text("base_url")
    address = reading.address(written_address, kind=kind)
    needs_key = not written_address and kind not in KEYLESS
    key, written_key = reading.key(needed=needs_key)
    if is_folders_address and not key and kind in KEYLESS - BUILT_IN:
        # Without a key its wire would take the account of this machine.
        reading.fail(
            "is missing; an address that this folder chose needs a key of its own", at="api_key"
        )
    headers, header_secrets = reading.headers()
    body = reading.body()
    models = reading.models(kind=kind, needed=needs_models)
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
    if known is not None and known.default_headers:
        shown["default_headers"] = dict(known.default_headers)
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
    """A provider without an entry, found by its key variable or its answer."""
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


def _shown_extras(entry: Mapping[str, Any]) -> Tree:
    shown: Tree = {}
    # A body's fields are sent like headers: any of them may be what lets the sender in.
    for name in ("extra_headers", "oauth", "extra_body"):
        if entry.get(name):
            shown[name] = masked_all(entry[name])
    for name in ("provider_options", "system_prompt_prefix"):
        if entry.get(name):
            shown[name] = without_secrets(entry[name])
    return shown
