"""The provisioning document as values, of versions 1 and 2.

Pure. Whatever is or may hold a secret stays out of ``repr``. What version 2 adds
and this program has no use for is kept as it stands, so that it can be handed on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

MOST_BYTES: Final = 8 * 1024 * 1024  # what a child reads at most


def _hidden() -> Any:
    return field(default_factory=dict, repr=False)


class BadSpec(ValueError):
    """The document cannot be used. A sentence, without any of the document's values."""


@dataclass(frozen=True, slots=True)
class Identity:
    child_id: str
    parent_id: str | None = None
    project_key: str | None = None
    role: str = ""
    depth: int = 0


@dataclass(frozen=True, slots=True)
class SpecExecutor:
    """``kind`` is any text: which ones exist is the child's to say."""

    kind: str
    command: str | None = None
    args: tuple[str, ...] = ()
    more: Mapping[str, Any] = _hidden()  # other fields of other programs' executors


@dataclass(frozen=True, slots=True)
class SpecModelChoice:
    provider: str
    model: str


@dataclass(frozen=True, slots=True)
class Limits:
    """None is no limit of the parent's."""

    run_timeout_secs: int | None = None
    idle_timeout_secs: int | None = None
    max_rounds: int | None = None


@dataclass(frozen=True, slots=True)
class Credential:
    provider: str
    api_key: str = field(default="", repr=False)
    base_url: str | None = field(default=None, repr=False)  # may name a user and password
    provider_type: str | None = None
    credential_ref: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Secrets:
    provider_credentials: tuple[Credential, ...] = ()
    worker_auth_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Placement:
    """``local``, ``remote`` with an endpoint, or ``schedulable`` with a pool."""

    kind: str = "local"
    endpoint: str | None = None
    pool: str | None = None


@dataclass(frozen=True, slots=True)
class McpProxy:
    orchestrator: str
    endpoint: str
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Capabilities:
    mcp: Any = field(default=None, repr=False)  # opaque; may hold keys of servers
    skills_dir: str | None = None
    mcp_proxy: McpProxy | None = None
    enforce_permissions: bool = False
    nested_spawn: bool = False
    max_spawn_depth: int | None = None
    bypass: bool = False
    no_human_approver: bool = False
    guardian_read_only: bool = False
    # Version 2:
    auto_approve_permissions: bool = False
    read_only: bool = False
    permission_requested_mode: str | None = None
    permission_effective_mode: str | None = None
    more: Mapping[str, Any] = _hidden()


@dataclass(frozen=True, slots=True)
class Bus:
    endpoint: str
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ProvisionSpec:
    identity: Identity
    executor: SpecExecutor
    fabric_dir: str
    storage_dir: str | None = None
    workspace: str | None = None
    model: SpecModelChoice | None = None
    disabled_tools: tuple[str, ...] = ()
    limits: Limits = Limits()
    secrets: Secrets = Secrets()
    reusable: bool = False
    placement: Placement = Placement()
    capabilities: Capabilities = field(default_factory=Capabilities)
    version: int = 1
    bus: Bus | None = None
    owner: Mapping[str, Any] = _hidden()
