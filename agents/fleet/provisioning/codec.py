"""Reads and writes a provisioning document.

The reader ignores unknown fields, as the other programs do. The writer writes version 1 byte for
byte as they do.
"""

from __future__ import annotations

from typing import Any

from agents.fleet.documents import (
    U32,
    BadDocument,
    Fields,
    is_safe_name,
    read_object,
    sorted_keys,
    written,
)
from agents.fleet.provisioning.spec import (
    MOST_BYTES,
    BadSpec,
    Bus,
    Capabilities,
    ChildIdentity,
    Credential,
    Limits,
    McpProxy,
    Placement,
    ProvisionSpec,
    Secrets,
    SpecExecutor,
    SpecModelChoice,
)

KEPT_CAPABILITIES = (
    "initial_input_release_required",
    "child_creation_identity",
    "required_child_context",
    "native_tool_ceiling_required",
    "native_tool_ceiling",
)


def read_spec(data: bytes) -> ProvisionSpec:
    """Parses the document. Raises ``BadSpec``."""
    try:
        return _read_spec(
            read_object(data, what="The provisioning document", most_bytes=MOST_BYTES)
        )
    except BadDocument as error:
        raise BadSpec(str(error)) from None


def _read_spec(fields: Fields) -> ProvisionSpec:
    owner = fields.fields_or_none("owner")
    return ProvisionSpec(
        version=fields.whole("version", most=U32),
        identity=_read_identity(fields.fields("identity")),
        executor=_read_executor(fields.fields("executor")),
        fabric_dir=_read_path(fields, "fabric_dir") or "",
        storage_dir=_read_path(fields, "storage_dir"),
        workspace=_read_path(fields, "workspace"),
        model=_read_model(fields.fields_or_none("model")),
        disabled_tools=fields.texts("disabled_tools"),
        limits=_read_limits(fields.fields("limits", optional=True)),
        secrets=_read_secrets(fields.fields("secrets", optional=True)),
        reusable=fields.flag("reusable", default=False),
        placement=_read_placement(fields.fields("placement", optional=True)),
        capabilities=_read_capabilities(fields.fields("capabilities", optional=True)),
        bus=_read_bus(fields.fields_or_none("bus")),
        owner=owner.values if owner else {},
    )


def _read_identity(fields: Fields) -> ChildIdentity:
    child_id = fields.text("child_id")
    if not is_safe_name(child_id):  # it names the file of the child's record
        raise BadDocument(f"{fields.name('child_id')} must be usable as a file name.")
    return ChildIdentity(
        child_id=child_id,
        parent_id=fields.text_or_none("parent_id"),
        project_key=fields.text_or_none("project_key"),
        role=fields.text("role", ""),
        depth=fields.whole("depth", default=0),
    )


def _read_executor(fields: Fields) -> SpecExecutor:
    known = ("kind", "command", "args")
    kind = fields.text("kind")
    return SpecExecutor(
        kind=kind,
        command=fields.text("command") if kind == "cli_adapter" else fields.text_or_none("command"),
        args=fields.texts("args"),
        more=fields.kept(*(key for key in fields.values if key not in known)),
    )


def _read_limits(fields: Fields) -> Limits:
    return Limits(
        run_timeout_secs=fields.whole_or_none("run_timeout_secs"),
        idle_timeout_secs=fields.whole_or_none("idle_timeout_secs"),
        max_rounds=fields.whole_or_none("max_rounds"),
    )


def _read_secrets(fields: Fields) -> Secrets:
    credentials = tuple(
        Credential(
            provider=each.text("provider"),
            api_key=each.text("api_key", ""),
            base_url=each.text_or_none("base_url"),
            provider_type=each.text_or_none("provider_type"),
            credential_ref=each.text_or_none("credential_ref"),
        )
        for each in fields.each("provider_credentials")
    )
    return Secrets(credentials, fields.text_or_none("worker_auth_token"))


def _read_placement(fields: Fields) -> Placement:
    if not fields.values:
        return Placement()
    match fields.text("kind"):
        case "local":
            return Placement()
        case "remote":
            return Placement("remote", endpoint=fields.text("endpoint"))
        case "schedulable":
            return Placement("schedulable", pool=fields.text("pool"))
        case _:
            raise BadDocument(f"{fields.name('kind')} must be local, remote or schedulable.")


def _read_capabilities(fields: Fields) -> Capabilities:
    return Capabilities(
        mcp=fields.values.get("mcp"),
        skills_dir=_read_path(fields, "skills_dir"),
        mcp_proxy=_read_mcp_proxy(fields.fields_or_none("mcp_proxy")),
        enforce_permissions=fields.flag("enforce_permissions", default=False),
        nested_spawn=fields.flag("nested_spawn", default=False),
        max_spawn_depth=fields.whole_or_none("max_spawn_depth", most=U32),
        bypass=fields.flag("bypass", default=False),
        no_human_approver=fields.flag("no_human_approver", default=False),
        guardian_read_only=fields.flag("guardian_read_only", default=False),
        auto_approve_permissions=fields.flag("auto_approve_permissions", default=False),
        read_only=fields.flag("read_only", default=False),
        permission_requested_mode=fields.text_or_none("permission_requested_mode"),
        permission_effective_mode=fields.text_or_none("permission_effective_mode"),
        more=fields.kept(*KEPT_CAPABILITIES),
    )


def _read_model(fields: Fields | None) -> SpecModelChoice | None:
    if fields is None:
        return None
    return SpecModelChoice(fields.text("provider", ""), fields.text("model"))


def _read_bus(fields: Fields | None) -> Bus | None:
    return None if fields is None else Bus(fields.text("endpoint"), fields.text("token"))


def _read_mcp_proxy(fields: Fields | None) -> McpProxy | None:
    if fields is None:
        return None
    return McpProxy(fields.text("orchestrator"), fields.text("endpoint"), fields.text("token"))


def _read_path(fields: Fields, key: str) -> str | None:
    """Returns a path; only ``fabric_dir`` is required."""
    path = fields.text(key) if key == "fabric_dir" else fields.text_or_none(key)
    if path is not None and (not path or "\0" in path):
        raise BadDocument(f"{fields.name(key)} must be a path.")
    return path


def write_spec(spec: ProvisionSpec) -> bytes:
    """Returns the document. Raises ``BadSpec`` if it is too large or has no JSON form."""
    value = _given(
        version=spec.version,
        identity=_identity_json(spec.identity),
        executor=_executor_json(spec.executor),
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
        secrets=_secrets_json(spec.secrets),
        reusable=spec.reusable,
        placement=_placement_json(spec.placement),
        capabilities=_capabilities_json(spec.capabilities),
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
    """Returns the fields that are not None, as the other side does."""
    return {key: value for key, value in fields.items() if value is not None}


def _identity_json(identity: ChildIdentity) -> dict[str, Any]:
    return _given(
        child_id=identity.child_id,
        parent_id=identity.parent_id,
        project_key=identity.project_key,
        role=identity.role,
        depth=identity.depth,
    )


def _executor_json(executor: SpecExecutor) -> dict[str, Any]:
    takes_args = executor.kind == "cli_adapter" or bool(executor.args)
    return {
        **_given(
            kind=executor.kind,
            command=executor.command,
            args=list(executor.args) if takes_args else None,
        ),
        **sorted_keys(executor.more),
    }


def _secrets_json(secrets: Secrets) -> dict[str, Any]:
    return _given(
        provider_credentials=[_credential_json(each) for each in secrets.provider_credentials],
        worker_auth_token=secrets.worker_auth_token,
    )


def _credential_json(credential: Credential) -> dict[str, Any]:
    return _given(
        provider=credential.provider,
        api_key=credential.api_key,
        base_url=credential.base_url,
        provider_type=credential.provider_type,
        credential_ref=credential.credential_ref,
    )


def _placement_json(placement: Placement) -> dict[str, Any]:
    return _given(kind=placement.kind, endpoint=placement.endpoint, pool=placement.pool)


def _capabilities_json(granted: Capabilities) -> dict[str, Any]:
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
