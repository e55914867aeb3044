"""Starts the sub-agents of this process, or finds or connects to them, by role."""

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
from agents.fleet.parent.child_pool import ChildPool
from agents.fleet.parent.errors import FleetError
from agents.fleet.parent.spawn import Launch, Remote, reach_recorded, reach_remote, spawn_child
from agents.fleet.project_key import key_of
from agents.fleet.provisioning.spec import (
    Capabilities,
    ChildIdentity,
    Credential,
    Limits,
    ProvisionSpec,
    Secrets,
    SpecExecutor,
    SpecModelChoice,
)
from agents.fleet.records import collect_expired
from agents.runs.rows import Claimed
from workspaces.log.ids import new_id

COLLECT_SECONDS = 60.0


class NoModel(FleetError):
    code = "no_model"
    default = "The model of the sub-agent's role is not configured. Correct the role."


class FleetTooDeep(FleetError):
    code = "too_deep"
    default = "A sub-agent at this depth may not start sub-agents of its own."


class FleetHost:
    """A ``WorkspaceService``: no sub-agent outlives its workspace or this process."""

    def __init__(self) -> None:
        self._started = ChildPool(self._spawn)
        self._trusted: dict[str, str] = {}  # the trusted digest of each workspace's folder
        self._digests: dict[str, str] = {}  # the trusted digest for each child that starts
        self._collected_at = -COLLECT_SECONDS
        self._depth, self._deepest = 0, DEEPEST

    def stand_at(self, depth: int, *, deepest: int | None) -> None:
        """Sets the depth of this process, which is a sub-agent itself."""
        self._depth = depth
        self._deepest = min(DEEPEST, DEEPEST if deepest is None else deepest)

    async def take(self, claimed: Claimed, role: FleetRole, settings: Settings) -> RunningChild:
        """Returns a child for the role; ``give_back`` must get it afterwards.

        Raises ``FleetError``.
        """
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
            # The waiting children were started with another trust decision.
            await self._started.close(workspace_id)
        self._trusted[workspace_id] = settings.trusted_digest
        spec = self._spec(claimed, role, settings)
        self._digests[spec.identity.child_id] = settings.trusted_digest
        try:
            return await self._started.take(workspace_id, spec)
        finally:
            self._digests.pop(spec.identity.child_id, None)

    async def _spawn(self, spec: ProvisionSpec) -> RunningChild:
        """Starts a child with the folder's trust decision, because it has a database of its own."""
        digest = self._digests.get(spec.identity.child_id, "")
        mode = TrustMode.ALL if server_settings.CRUSH_TRUST == TrustMode.ALL else TrustMode.NONE
        trust = {"CRUSH_TRUST": mode.value, "CRUSH_TRUST_DIGEST": digest}
        return await spawn_child(spec, Launch(environment=trust))

    async def _collect(self) -> None:
        """Removes expired records of dead children, at most every ``COLLECT_SECONDS``."""
        now = time.monotonic()
        if now - self._collected_at >= COLLECT_SECONDS:
            self._collected_at = now
            await asyncio.to_thread(collect_expired, fabric_folder(), time.time_ns())

    async def give_back(self, child: RunningChild, *, is_usable: bool) -> None:
        if child.process is None:
            await child.end()  # another process started it: only the connection is ours
        else:
            self._started.give_back(child, is_usable=is_usable)

    async def open(self, workspace_id: str) -> None:
        """Does nothing: a child is started when a run needs it."""

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
            identity=ChildIdentity(
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
    """Returns the fleet host of this process."""
    return FleetHost()


def fabric_folder() -> Path:
    """Returns the folder for the records of children."""
    return Path(server_settings.DATA_DIR) / "fabric"


def _model(role: FleetRole, settings: Settings) -> tuple[SpecModelChoice | None, Secrets]:
    """Returns the role's model and its secrets; none for ``echo`` and ``script``.

    Raises ``NoModel``.
    """
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
