"""The provisioning document as values, of versions 1 and 2.

Pure. Fields that may hold a secret stay out of ``repr``. Fields of version 2 that
this program does not use are kept unchanged, so that it can pass them on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

MOST_BYTES: Final = 8 * 1024 * 1024  # the limit of a child


def _hidden() -> Any:
    return field(default_factory=dict, repr=False)


class BadSpec(ValueError):
    """An unusable document. The message is a sentence without any of its values."""


@dataclass(frozen=True, slots=True)
class ChildIdentity:
    child_id: str
    parent_id: str | None = None
    project_key: str | None = None
    role: str = ""
    depth: int = 0


@dataclass(frozen=True, slots=True)
class SpecExecutor:
    """How the child performs runs. ``kind`` is any text: the child decides which it supports."""

    kind: str
    command: str | None = None
    args: tuple[str, ...] = ()
    more: Mapping[str, Any] = _hidden()  # further fields, of other programs' executors


@dataclass(frozen=True, slots=True)
class SpecModelChoice:
    provider: str
    model: str


@dataclass(frozen=True, slots=True)
class Limits:
    """The parent's limits; None means no limit."""

    run_timeout_secs: int | None = None
    idle_timeout_secs: int | None = None
    max_rounds: int | None = None


@dataclass(frozen=True, slots=True)
class Credential:
    provider: str
    api_key: str = field(default="", repr=False)
    base_url: str | None = field(default=None, repr=False)  # may contain a user and a password
    provider_type: str | None = None
    credential_ref: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Secrets:
    provider_credentials: tuple[Credential, ...] = ()
    worker_auth_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where it runs: ``local``, ``remote`` with an endpoint, ``schedulable`` with a pool."""

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
    identity: ChildIdentity
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
