"""The sub-agents of this process: starts them, finds them, or connects to them, by role."""

from __future__ import annotations

import asyncio
import time
from functools import cache
from pathlib import Path

from django.conf import settings as server_settings

from agents.config.sections.roles import DEEPEST
from agents.config.settings import FleetRole, Settings
from agents.config.trust.decision import TrustMode
from agents.fleet.parent.child import RunningChild
from agents.fleet.parent.errors import FleetError
from agents.fleet.parent.spawning import Launch, Remote, reach_recorded, reach_remote, spawn_child
from agents.fleet.parent.warm import WarmChildren
from agents.fleet.project_key import key_of
from agents.fleet.provisioning import ProvisionSpec
from agents.fleet.provisioning.spec import (
    Capabilities,
    Credential,
    Identity,
    Limits,
    Secrets,
    SpecExecutor,
    SpecModelChoice,
)
from agents.fleet.records import collect_expired
from agents.runs.rows import Claimed
from workspaces.log.ids import new_id

COLLECT_SECONDS = 60.0


class NoModel(FleetError):
    """The role's model is not configured."""

    code = "no_model"


class FleetTooDeep(FleetError):
    """A sub-agent that stands so deep may not have sub-agents of its own."""

    code = "too_deep"


class FleetHost:
    """A ``WorkspaceService``: no sub-agent outlives its workspace or this process."""

    def __init__(self) -> None:
        self._started = WarmChildren(self._spawn)
        self._trusted: dict[str, str] = {}  # by workspace: what its children's folder may do
        self._digests: dict[str, str] = {}  # by child, while it starts
        self._collected_at = -COLLECT_SECONDS
        self._depth, self._deepest = 0, DEEPEST

    def stand_at(self, depth: int, *, deepest: int | None) -> None:
        """This process is itself a sub-agent: what it starts stands below it."""
        self._depth = depth
        self._deepest = min(DEEPEST, DEEPEST if deepest is None else deepest)

    async def take(self, claimed: Claimed, role: FleetRole, settings: Settings) -> RunningChild:
        """Raises ``FleetError``. Give it back to whom it was taken from."""
        if self._depth >= self._deepest:
            raise FleetTooDeep
        if role.endpoint:
            return await reach_remote(Remote(role.endpoint, role.token or None), role=role.name)
        if role.found_role:
            return await reach_recorded(fabric_folder(), role=role.found_role)
        await self._collect()
        workspace_id = claimed.workspace_id
        before = self._trusted.get(workspace_id, settings.trusted_digest)
        if before != settings.trusted_digest:
            # Those that wait were started with another answer.
            await self._started.close(workspace_id)
        self._trusted[workspace_id] = settings.trusted_digest
        spec = self._spec(claimed, role, settings)
        self._digests[spec.identity.child_id] = settings.trusted_digest
        try:
            return await self._started.take(workspace_id, spec)
        finally:
            self._digests.pop(spec.identity.child_id, None)

    async def _spawn(self, spec: ProvisionSpec) -> RunningChild:
        """A child has a database of its own: it cannot know what was answered here."""
        digest = self._digests.get(spec.identity.child_id, "")
        mode = TrustMode.ALL if server_settings.CRUSH_TRUST == TrustMode.ALL else TrustMode.NONE
        trust = {"CRUSH_TRUST": mode.value, "CRUSH_TRUST_DIGEST": digest}
        return await spawn_child(spec, Launch(environment=trust))

    async def _collect(self) -> None:
        """Takes away what dead children left in the folder, now and then."""
        now = time.monotonic()
        if now - self._collected_at >= COLLECT_SECONDS:
            self._collected_at = now
            await asyncio.to_thread(collect_expired, fabric_folder(), time.time_ns())

    async def give_back(self, child: RunningChild, *, is_usable: bool) -> None:
        if child.process is None:
            await child.end()  # it is somebody else's: only the connection was ours
        else:
            self._started.give_back(child, is_usable=is_usable)

    async def open(self, workspace_id: str) -> None:
        """Nothing is started before it is needed."""

    def hosted(self) -> frozenset[str]:
        return self._started.hosted()

    async def close(self, workspace_id: str) -> None:
        await self._started.close(workspace_id)

    async def stop(self) -> None:
        await self._started.stop()

    def _spec(self, claimed: Claimed, role: FleetRole, settings: Settings) -> ProvisionSpec:
        depth = self._depth + 1
        deepest = min(self._deepest, self._depth + role.depth)
        choice, secrets = _model(role, settings)
        return ProvisionSpec(
            identity=Identity(
                child_id=new_id(),
                parent_id=claimed.session_id,
                project_key=key_of(claimed.path),
                role=role.name,
                depth=depth,
            ),
            executor=SpecExecutor(role.executor),
            fabric_dir=str(fabric_folder()),
            workspace=claimed.path,
            model=choice,
            disabled_tools=role.disabled_tools,
            limits=Limits(
                run_timeout_secs=int(role.wall_clock_seconds),
                idle_timeout_secs=int(role.idle_seconds),
                max_rounds=role.most_steps,
            ),
            secrets=secrets,
            reusable=True,
            capabilities=Capabilities(
                enforce_permissions=True,
                nested_spawn=depth < deepest,
                max_spawn_depth=deepest,
            ),
        )


@cache
def fleet_host() -> FleetHost:
    """The process's own."""
    return FleetHost()


def fabric_folder() -> Path:
    """Where children put their records."""
    return Path(server_settings.DATA_DIR) / "fabric"


def _model(role: FleetRole, settings: Settings) -> tuple[SpecModelChoice | None, Secrets]:
    """Raises ``NoModel``. Echoes and scripts need none."""
    if role.executor in {"echo", "script"}:
        return None, Secrets()
    if settings.large.fault and not (role.provider and role.model):
        raise NoModel(settings.large.fault)
    provider_id = role.provider or settings.large.provider
    model_id = role.model or settings.large.model
    provider = settings.providers.get(provider_id)
    if provider is None or provider.model(model_id) is None:
        raise NoModel(
            f"The model {model_id!r} of provider {provider_id!r}, which the role {role.name!r}"
            " names, is not configured."
        )
    credential = Credential(
        provider=provider_id,
        api_key=provider.api_key,
        base_url=provider.base_url or None,
        provider_type=provider.kind,
    )
    return SpecModelChoice(provider_id, model_id), Secrets((credential,))
