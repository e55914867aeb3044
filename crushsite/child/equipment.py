"""What a child's turns work with: the model, keys and tools that its parent has provided.

Keys stay in memory: nothing here is written, logged or shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from agents.config.providers.catalogue import KnownProvider, known_providers
from agents.config.providers.kinds import provisioned_kind
from agents.config.settings import ModelChoice, ModelInfo, ProviderSettings, Settings
from agents.fleet.provisioning import Credential, ProvisionSpec
from agents.fleet.wire import RunFrame
from agents.runs.rows import Claimed
from agents.runs.setup import RunSetup, brief_of
from agents.tools.registry import READ_ONLY

# Nobody sits before a child who could be asked anything but for permission.
NEVER = frozenset({"question"})
SPAWNING = frozenset({"agent"})
# A list of things to do changes no file.
READING = frozenset({*READ_ONLY, "todos"})


class Equipment:
    def __init__(self, spec: ProvisionSpec) -> None:
        self._spec = spec
        self._runs: dict[str, RunFrame] = {}  # by session

    def expect(self, session_id: str, run: RunFrame) -> None:
        self._runs[session_id] = run

    def forget(self, session_id: str) -> None:
        self._runs.pop(session_id, None)

    async def brief_of(self, claimed: Claimed) -> RunSetup:
        """Raises ``agents.llm.errors.ModelError``."""
        brief = await brief_of(claimed, adapt=self._adapted)
        capabilities = self._spec.capabilities
        left_out = {name.lower() for name in self._spec.disabled_tools} | NEVER
        if not capabilities.nested_spawn:
            left_out |= SPAWNING
        only_reads = capabilities.guardian_read_only or capabilities.read_only
        tools = {
            name: tool
            for name, tool in brief.tools.items()
            if name.lower() not in left_out and (name in READING or not only_reads)
        }
        return replace(brief, tools=tools)

    def _adapted(self, claimed: Claimed, settings: Settings) -> Settings:
        settings = replace(settings, providers={**settings.providers, **self._providers()})
        model = self._spec.model
        run = self._runs.get(claimed.session_id)
        effort = (run.reasoning_effort if run is not None else None) or ""
        if model is not None:
            choice = ModelChoice(model.provider, model.model, reasoning_effort=effort)
            return replace(settings, large=choice, small=replace(choice, reasoning_effort=""))
        if effort:
            return replace(settings, large=replace(settings.large, reasoning_effort=effort))
        return settings

    def _providers(self) -> Mapping[str, ProviderSettings]:
        return {
            credential.provider: _provider(credential, self._spec)
            for credential in self._spec.secrets.provider_credentials
        }


def _provider(credential: Credential, spec: ProvisionSpec) -> ProviderSettings:
    written = (credential.provider_type or "").strip().lower()
    known = known_providers().get(written) or known_providers().get(credential.provider)
    kind = provisioned_kind(written)
    if known is not None and kind in {known.id, ""}:
        kind = known.kind
    return ProviderSettings(
        id=credential.provider,
        name=credential.provider,
        kind=kind,
        base_url=(credential.base_url or (known.base_url if known else "")).rstrip("/"),
        api_key=credential.api_key,
        models=(_model(credential, spec, known),),
    )


def _model(credential: Credential, spec: ProvisionSpec, known: KnownProvider | None) -> ModelInfo:
    model = spec.model
    wanted = model.model if model is not None and model.provider == credential.provider else ""
    listed = known.models if known is not None else ()
    return next((info for info in listed if info.id == wanted), ModelInfo(wanted, wanted))
