"""Finds providers without any configuration: by key variables, and a local Ollama."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from agents.config.expand import Lookup
from agents.config.providers.catalogue import (
    KnownProvider,
    known_clouds,
    known_providers,
    known_services,
)
from agents.config.providers.ollama import finder, ollama_address
from agents.config.providers.resolve import Resolved, resolve_known

OLLAMA_ID = "ollama"
PROGRAMS = "openai-compat"  # the kind of programs on this machine
# Defaults, in this order, where no model is chosen. The key of another provider only makes that
# provider available: the key may be there for something else.
DEFAULT_PROVIDERS = ("anthropic", "openai", OLLAMA_ID)


@dataclass(frozen=True, slots=True)
class Discovery:
    """Looks in the workspace's variables first, then in the server's."""

    lookup: Lookup
    asks_ollama: bool
    has_local: bool = False  # the packages of the local model are there
    prefers_local: bool = False  # it goes before the offline one

    def known(self, provider_id: str) -> KnownProvider | None:
        """What is known of an id without its entry."""
        if provider_id == OLLAMA_ID:
            return self.ollama()
        return (
            known_providers().get(provider_id)
            or known_clouds().get(provider_id)
            or known_services().get(provider_id)
        )

    def known_program(self, provider_id: str) -> KnownProvider | None:
        """A program on this machine, which may be chosen though no file lists it."""
        known = self.known(provider_id)
        return known if known and not known.key_variables and known.kind == PROGRAMS else None

    def service_with_key(self, provider_id: str) -> tuple[KnownProvider, str] | None:
        """A hosted provider whose key is in a variable, and that variable."""
        known = known_services().get(provider_id)
        variables = known.key_variables if known is not None else ()
        variable = next((name for name in variables if _is_key(self.lookup(name))), "")
        return (known, variable) if known is not None and variable else None

    def found(self, *, besides: Container[str]) -> Iterator[Resolved]:
        for known in (*known_providers().values(), *known_clouds().values()):
            if known.id in besides or not known.models:
                continue
            variable = next((name for name in known.key_variables if self.lookup(name)), "")
            if variable and _is_key(self.lookup(variable)):
                yield resolve_known(known, lookup=self.lookup, variable=variable)
        if OLLAMA_ID not in besides and self.asks_ollama:
            ollama = self.ollama()
            if ollama.models:
                yield resolve_known(ollama, lookup=self.lookup, variable="")

    def ollama(self) -> KnownProvider:
        """Ollama's entry, without models when it does not answer."""
        address = ollama_address(self.lookup)
        models = finder.models(address) if self.asks_ollama else None
        return KnownProvider(
            id=OLLAMA_ID,
            name="Ollama",
            kind="openai-compat",
            base_url=address.base_url,
            key_variables=(),
            large=models[0].id if models else "",
            small=models[0].id if models else "",
            models=models or (),
        )


def asks_ollama(given: Mapping[str, str], server: Mapping[str, str]) -> bool:
    """Read apart from other variables, because the server's own are hidden from those."""
    name = "CRUSH_DISABLE_OLLAMA"
    return not any(env.get(name, "") not in {"", "0", "false"} for env in (given, server))


def prefers_local(server: Mapping[str, str]) -> bool:
    """Set by ``bin/serve --local-model`` for the server that it starts."""
    return server.get("CRUSH_LOCAL_MODEL", "") not in {"", "0", "false"}


def _is_key(text: str | None) -> bool:
    return (
        bool(text)
        and text is not None
        and text.isascii()
        and text.strip().isprintable()
        and bool(text.strip())
    )
