"""A provisioning document from bytes. Unknown fields are ignored, as the other side does."""

from __future__ import annotations

from agents.fleet.documents import U32, BadDocument, Fields, is_safe_name, read_object
from agents.fleet.provisioning.spec import (
    MOST_BYTES,
    BadSpec,
    Bus,
    Capabilities,
    Credential,
    Identity,
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
    """Raises ``BadSpec``."""
    try:
        return _spec(read_object(data, what="The provisioning document", most_bytes=MOST_BYTES))
    except BadDocument as error:
        raise BadSpec(str(error)) from None


def _spec(fields: Fields) -> ProvisionSpec:
    owner = fields.fields_or_none("owner")
    return ProvisionSpec(
        version=fields.whole("version", most=U32),
        identity=_identity(fields.fields("identity")),
        executor=_executor(fields.fields("executor")),
        fabric_dir=_path(fields, "fabric_dir") or "",
        storage_dir=_path(fields, "storage_dir"),
        workspace=_path(fields, "workspace"),
        model=_model(fields.fields_or_none("model")),
        disabled_tools=fields.texts("disabled_tools"),
        limits=_limits(fields.fields("limits", optional=True)),
        secrets=_secrets(fields.fields("secrets", optional=True)),
        reusable=fields.flag("reusable", default=False),
        placement=_placement(fields.fields("placement", optional=True)),
        capabilities=_capabilities(fields.fields("capabilities", optional=True)),
        bus=_bus(fields.fields_or_none("bus")),
        owner=owner.values if owner else {},
    )


def _identity(fields: Fields) -> Identity:
    child_id = fields.text("child_id")
    if not is_safe_name(child_id):  # its record is a file of that name
        raise BadDocument(f"{fields.name('child_id')} must be usable as a file's name.")
    return Identity(
        child_id=child_id,
        parent_id=fields.text_or_none("parent_id"),
        project_key=fields.text_or_none("project_key"),
        role=fields.text("role", ""),
        depth=fields.whole("depth", default=0),
    )


def _executor(fields: Fields) -> SpecExecutor:
    known = ("kind", "command", "args")
    kind = fields.text("kind")
    return SpecExecutor(
        kind=kind,
        command=fields.text("command") if kind == "cli_adapter" else fields.text_or_none("command"),
        args=fields.texts("args"),
        more=fields.kept(*(key for key in fields.values if key not in known)),
    )


def _limits(fields: Fields) -> Limits:
    return Limits(
        run_timeout_secs=fields.whole_or_none("run_timeout_secs"),
        idle_timeout_secs=fields.whole_or_none("idle_timeout_secs"),
        max_rounds=fields.whole_or_none("max_rounds"),
    )


def _secrets(fields: Fields) -> Secrets:
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


def _placement(fields: Fields) -> Placement:
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


def _capabilities(fields: Fields) -> Capabilities:
    return Capabilities(
        mcp=fields.values.get("mcp"),
        skills_dir=_path(fields, "skills_dir"),
        mcp_proxy=_mcp_proxy(fields.fields_or_none("mcp_proxy")),
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


def _model(fields: Fields | None) -> SpecModelChoice | None:
    if fields is None:
        return None
    return SpecModelChoice(fields.text("provider", ""), fields.text("model"))


def _bus(fields: Fields | None) -> Bus | None:
    return None if fields is None else Bus(fields.text("endpoint"), fields.text("token"))


def _mcp_proxy(fields: Fields | None) -> McpProxy | None:
    if fields is None:
        return None
    return McpProxy(fields.text("orchestrator"), fields.text("endpoint"), fields.text("token"))


def _path(fields: Fields, key: str) -> str | None:
    """``fabric_dir`` is the one that must be there."""
    path = fields.text(key) if key == "fabric_dir" else fields.text_or_none(key)
    if path is not None and (not path or "\0" in path):
        raise BadDocument(f"{fields.name(key)} must be a path.")
    return path
