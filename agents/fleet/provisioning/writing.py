"""A provisioning document to bytes, byte for byte as the other side writes version 1."""

from __future__ import annotations

from typing import Any

from agents.fleet.documents import BadDocument, sorted_keys, written
from agents.fleet.provisioning.spec import (
    MOST_BYTES,
    BadSpec,
    Capabilities,
    Credential,
    Identity,
    Placement,
    ProvisionSpec,
    Secrets,
    SpecExecutor,
)


def write_spec(spec: ProvisionSpec) -> bytes:
    """Raises ``BadSpec`` when it is too large, or holds what JSON cannot."""
    value = _given(
        version=spec.version,
        identity=_identity(spec.identity),
        executor=_executor(spec.executor),
        fabric_dir=spec.fabric_dir,
        storage_dir=spec.storage_dir,
        workspace=spec.workspace,
        model=spec.model and {"provider": spec.model.provider, "model": spec.model.model},
        disabled_tools=list(spec.disabled_tools) or None,
        limits=_given(
            run_timeout_secs=spec.limits.run_timeout_secs,
            idle_timeout_secs=spec.limits.idle_timeout_secs,
            max_rounds=spec.limits.max_rounds,
        ),
        secrets=_secrets(spec.secrets),
        reusable=spec.reusable,
        placement=_placement(spec.placement),
        capabilities=_capabilities(spec.capabilities),
        bus=spec.bus and {"endpoint": spec.bus.endpoint, "token": spec.bus.token},
        owner=sorted_keys(spec.owner) or None,
    )
    try:
        data = written(value)
    except BadDocument:
        raise BadSpec("The provisioning document cannot be written as JSON.") from None
    if len(data) > MOST_BYTES:
        raise BadSpec(f"The provisioning document is larger than {MOST_BYTES} bytes.")
    return data


def _given(**fields: Any) -> dict[str, Any]:
    """What is None is left out, as the other side leaves it out."""
    return {key: value for key, value in fields.items() if value is not None}


def _identity(identity: Identity) -> dict[str, Any]:
    return _given(
        child_id=identity.child_id,
        parent_id=identity.parent_id,
        project_key=identity.project_key,
        role=identity.role,
        depth=identity.depth,
    )


def _executor(executor: SpecExecutor) -> dict[str, Any]:
    takes_args = executor.kind == "cli_adapter" or bool(executor.args)
    return {
        **_given(
            kind=executor.kind,
            command=executor.command,
            args=list(executor.args) if takes_args else None,
        ),
        **sorted_keys(executor.more),
    }


def _secrets(secrets: Secrets) -> dict[str, Any]:
    return _given(
        provider_credentials=[_credential(each) for each in secrets.provider_credentials],
        worker_auth_token=secrets.worker_auth_token,
    )


def _credential(credential: Credential) -> dict[str, Any]:
    return _given(
        provider=credential.provider,
        api_key=credential.api_key,
        base_url=credential.base_url,
        provider_type=credential.provider_type,
        credential_ref=credential.credential_ref,
    )


def _placement(placement: Placement) -> dict[str, Any]:
    return _given(kind=placement.kind, endpoint=placement.endpoint, pool=placement.pool)


def _capabilities(granted: Capabilities) -> dict[str, Any]:
    proxy = granted.mcp_proxy
    return {
        **_given(
            mcp=sorted_keys(granted.mcp),
            skills_dir=granted.skills_dir,
            mcp_proxy=proxy
            and {
                "orchestrator": proxy.orchestrator,
                "endpoint": proxy.endpoint,
                "token": proxy.token,
            },
            enforce_permissions=granted.enforce_permissions,
            nested_spawn=granted.nested_spawn,
            max_spawn_depth=granted.max_spawn_depth,
            bypass=granted.bypass,
            no_human_approver=granted.no_human_approver,
            guardian_read_only=granted.guardian_read_only,
            auto_approve_permissions=granted.auto_approve_permissions or None,
            read_only=granted.read_only or None,
            permission_requested_mode=granted.permission_requested_mode,
            permission_effective_mode=granted.permission_effective_mode,
        ),
        **sorted_keys(granted.more),
    }
