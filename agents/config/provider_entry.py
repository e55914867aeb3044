"""One provider's entry of the merged files, read value by value; what it lacks is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agents.config.expand import Lookup, expand
from agents.config.http_values import is_address, is_header_name, is_header_value
from agents.config.model_list import models_of
from agents.config.offline import OFFLINE_KIND, offline_provider
from agents.config.problem import Problem, problem_with_key
from agents.config.providers.built_in import local_provider
from agents.config.providers.kinds import ADDRESSES, BUILT_IN, KINDS
from agents.config.providers.known import KnownProvider
from agents.config.settings import ModelInfo

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

    def tell(self, message: str, *, at: str = "") -> None:
        self.problems.append(problem_with_key(f"{self.place}.{at}" if at else self.place, message))

    def fail(self, message: str, *, at: str = "") -> None:
        self.tell(message, at=at)
        self.usable = False

    def kind(self) -> str:
        written = self.text("type").lower()
        if not written and self.known is not None:
            return self.known.kind
        kind = KINDS.get(written)
        if kind is None:
            message = (
                "is not a known type; use openai, openai-compat, anthropic, gemini, azure, "
                "bedrock or vertex"
            )
            self.fail(message, at="type")
            return "openai-compat"
        return kind

    def address(self, written: str, *, kind: str) -> str:
        if kind in BUILT_IN:
            return ""
        if not written:
            written = (
                self.known.base_url if self.known else ADDRESSES.get(self.text("type").lower(), "")
            )
            if not written:
                self.fail("is missing, and this provider is not known without it", at="base_url")
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
        """The key, and the text that stands for it in the file."""
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
            self.fail("holds characters that no key has", at="api_key")
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
                self.tell(expanded.why, at=f"extra_headers.{name}")
            elif not is_header_name(name) or not is_header_value(expanded.text):
                self.tell("is not a valid header", at=f"extra_headers.{name}")
            else:
                headers[name] = expanded.text
        if len(written) > HEADERS_LIMIT:
            self.tell(f"only {HEADERS_LIMIT} headers are sent", at="extra_headers")
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
                    self.tell(expanded.why, at=f"extra_body.{name}")
                    continue
                body[name] = expanded.text
            else:
                body[name] = value
        return body

    def models(self, *, kind: str, needed: bool) -> tuple[ModelInfo, ...]:
        entries = self.entry.get("models") or []
        if any(not entry.get("id") for entry in entries):
            self.tell("a model without an id is ignored", at="models")
        inherited = self.known.models if self.known else ()
        models = models_of(entries, known=inherited)
        if models and self.text("base_url"):
            return models  # its own address and its own models: nothing of the known one is left
        listed = {model.id for model in models}
        models += tuple(model for model in inherited if model.id not in listed)
        if not models and kind in BUILT_IN:
            built_in = offline_provider() if kind == OFFLINE_KIND else local_provider()
            models = built_in.models
        if not models and needed:
            self.fail("lists no model, and none of its models is chosen", at="models")
        return models
