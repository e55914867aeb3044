"""The server of a child: it performs turns with the model, keys and tools that the parent provides.

Keys stay in memory: nothing here is written, logged or displayed. Loaded when Django is set up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from django.conf import settings as django_settings

from agents.config.providers.catalogue import KnownProvider, known_providers
from agents.config.providers.kinds import provisioned_kind
from agents.config.settings import ModelChoice, ModelInfo, ProviderSettings, Settings
from agents.fleet.child.executor import ExecutorFailed
from agents.fleet.child.run_context import RunContext
from agents.fleet.child.turn import TurnExecutor
from agents.fleet.child.turn_host import TurnRules
from agents.fleet.provisioning.spec import Credential, ProvisionSpec
from agents.fleet.wire.frames import RunFrame, Terminal
from agents.runs.children.host import fleet_host
from agents.runs.rows import Claimed
from agents.runs.setup import RunSetup, setup_of
from agents.tools.registry import READ_ONLY
from crushsite.process import ServerProcess, set_process
from crushsite.registration import ProcessShape
from workspaces.actions.claims import claim_workspace
from workspaces.actions.workspaces import Opening, open_workspace
from workspaces.delivery.readers import Wire
from workspaces.delivery.subscribe import stream_native
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.models import PermissionMode

PARENT = "parent"  # of every session here: the process that connected. It has no row.
HELD_SECONDS = 365 * 86_400  # longer than any child lives
# A child has no user to answer questions; only permission requests reach a person.
NEVER = frozenset({"question"})
SPAWNING = frozenset({"agent"})
# The todo list changes no file.
READING = frozenset({*READ_ONLY, "todos"})


class ChildServer:
    """Call ``start`` and ``stop`` once, and ``run`` for each assignment."""

    def __init__(self, spec: ProvisionSpec) -> None:
        self._spec = spec
        self._setup = ProvidedSetup(spec)
        self._server = ServerProcess(
            ProcessShape(works=True, serves=False, is_alone=True, is_temporary=True),
            setup_of=self._setup.setup_of,
        )
        self._turns: TurnExecutor | None = None

    async def start(self) -> None:
        """Raises ``ExecutorFailed`` if the workspace's folder does not exist."""
        fleet_host().stand_at(
            self._spec.identity.depth, deepest=self._spec.capabilities.max_spawn_depth
        )
        set_process(self._server)
        await self._server.start()
        self._turns = await self.turns_in(self._spec)

    async def turns_in(self, spec: ProvisionSpec) -> TurnExecutor:
        """Opens the document's folder, for its turns. Raises ``ExecutorFailed`` if there is none."""
        workspace_id = await _open_workspace(spec)
        return TurnExecutor(_ChildTurnHost(self._server, self._setup, workspace_id, rules_of(spec)))

    async def run(self, context: RunContext) -> Terminal:
        if self._turns is None:
            raise ExecutorFailed("The child has not been started.")
        return await self._turns.run(context)

    async def stop(self) -> None:
        self._server.is_stopping = True
        await self._server.stop()
        set_process(None)


class _ChildTurnHost:
    """Performs the turns of this process, in its one workspace."""

    def __init__(
        self, server: ServerProcess, setup: ProvidedSetup, workspace_id: str, rules: TurnRules
    ) -> None:
        self._server = server
        self._setup = setup
        self._workspace_id = workspace_id
        self.parent_session_id = PARENT
        self.rules = rules

    @asynccontextmanager
    async def working(self, session_id: str, run: RunFrame) -> AsyncIterator[str]:
        self._setup.expect(session_id, run)
        try:
            yield self._workspace_id
        finally:
            self._setup.forget(session_id)

    def feed(self, workspace_id: str, after: int | None) -> AsyncIterator[bytes]:
        return stream_native(self._server.hub, workspace_id, after=after, wire=Wire.WS)


def rules_of(spec: ProvisionSpec) -> TurnRules:
    limits = spec.limits
    return TurnRules(
        relays_approvals=not spec.capabilities.no_human_approver,
        max_rounds=limits.max_rounds,
        timeout_seconds=limits.run_timeout_secs,
    )


async def _open_workspace(spec: ProvisionSpec) -> str:
    path = Path(spec.workspace) if spec.workspace else Path.cwd()
    resolved = await asyncio.to_thread(path.resolve)
    if not await asyncio.to_thread(resolved.is_dir):
        raise ExecutorFailed("The folder of the workspace does not exist.")
    mode = PermissionMode.YOLO if _skips_permissions(spec) else PermissionMode.NORMAL
    opening = Opening(
        path=str(resolved),
        data_dir=str(django_settings.DATA_DIR / "workspace"),
        permission_mode=mode,
    )

    def job(tx: Transaction) -> str:
        workspace = open_workspace(tx, opening)
        # Without a client it would close at the end of its first assignment.
        claim_workspace(tx, workspace.pk, PARENT, grace_seconds=HELD_SECONDS)
        return str(workspace.pk)

    return await writer.write("", job)


def _skips_permissions(spec: ProvisionSpec) -> bool:
    capabilities = spec.capabilities
    return (
        capabilities.bypass
        or capabilities.auto_approve_permissions
        or not capabilities.enforce_permissions
    )


class ProvidedSetup:
    def __init__(self, spec: ProvisionSpec) -> None:
        self._spec = spec
        self._runs: dict[str, RunFrame] = {}  # by session

    def expect(self, session_id: str, run: RunFrame) -> None:
        self._runs[session_id] = run

    def forget(self, session_id: str) -> None:
        self._runs.pop(session_id, None)

    async def setup_of(self, claimed: Claimed) -> RunSetup:
        """Raises ``agents.llm.errors.ModelError``."""
        setup = await setup_of(claimed, adapt=self._adapted)
        capabilities = self._spec.capabilities
        left_out = {name.lower() for name in self._spec.disabled_tools} | NEVER
        if not capabilities.nested_spawn:
            left_out |= SPAWNING
        only_reads = capabilities.guardian_read_only or capabilities.read_only
        tools = {
            name: tool
            for name, tool in setup.tools.items()
            if name.lower() not in left_out and (name in READING or not only_reads)
        }
        return replace(setup, tools=tools)

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
