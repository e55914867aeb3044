"""The executor of a spawned child: a whole server of this child's own, without sockets.

Its database lies in the folder that the parent names, else in a temporary one that goes with the
process. The database is new each time: the parent keeps the conversation. Its tables are made
from the models, which is twenty times as quick as a hundred migrations; a test compares the two.
Everything that a turn has started ends with ``stop``.
"""

from __future__ import annotations

import asyncio
import fcntl
import importlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agents.fleet.child.executor import ExecutorFailed, RunExecutor
from agents.fleet.child.run_context import RunContext
from agents.fleet.provisioning import ProvisionSpec
from agents.fleet.wire import RunFrame, Terminal

if TYPE_CHECKING:
    from agents.fleet.child.turn_host import TurnRules
    from crushsite.child.equipment import Equipment
    from crushsite.process import ServerProcess
    from workspaces.log.transaction import Transaction

LOADED = ("agents.fleet.child.turn", "crushsite.child.equipment", "crushsite.process")
PARENT = "parent"  # of every session here: whoever dialled in. It has no row.
HELD_SECONDS = 365 * 86_400  # longer than any child lives


class OwnTurn:
    def __init__(self, spec: ProvisionSpec) -> None:
        self._spec = spec
        self._temporary: Path | None = None
        self._lock: int | None = None
        self._server: ServerProcess | None = None
        self._turns: RunExecutor | None = None

    async def start(self) -> None:
        """Raises ``ExecutorFailed``."""
        await asyncio.to_thread(self._prepare)
        # Loaded in a thread as well: meanwhile the parent's handshake is answered.
        await asyncio.to_thread(_load)
        from agents.fleet.child.turn import TurnExecutor  # noqa: PLC0415  after `_load`
        from agents.runs.children.host import fleet_host  # noqa: PLC0415  after `_load`
        from crushsite.child.equipment import Equipment  # noqa: PLC0415  after `_load`
        from crushsite.process import ProcessShape, ServerProcess, set_process  # noqa: PLC0415  after `_load`

        fleet_host().stand_at(
            self._spec.identity.depth, deepest=self._spec.capabilities.max_spawn_depth
        )
        equipment = Equipment(self._spec)
        server = ServerProcess(
            ProcessShape(works=True, serves=False, is_alone=True), brief_of=equipment.brief_of
        )
        self._server = server
        set_process(server)
        await server.start()
        workspace_id = await _open_workspace(self._spec)
        self._turns = TurnExecutor(
            _ChildTurnHost(server, equipment, workspace_id, rules_of(self._spec))
        )

    async def run(self, desk: RunContext) -> Terminal:
        if self._turns is None:
            raise ExecutorFailed("The child has not been started.")
        return await self._turns.run(desk)

    async def stop(self) -> None:
        if self._server is not None:
            from crushsite.process import set_process  # noqa: PLC0415  after `_load`

            self._server.is_stopping = True
            await self._server.stop()
            set_process(None)
        if self._lock is not None:
            os.close(self._lock)
        if self._temporary is not None:
            await asyncio.to_thread(shutil.rmtree, self._temporary, ignore_errors=True)

    def _prepare(self) -> None:
        if self._spec.storage_dir is not None:
            folder = Path(self._spec.storage_dir) / self._spec.identity.child_id
        else:
            folder = self._temporary = Path(tempfile.mkdtemp(prefix="crush-child-"))
        self._lock = hold_folder(folder)
        set_up_in(folder)


def _load() -> None:
    for name in (*LOADED, "agents.llm.wires.openai"):
        importlib.import_module(name)


def rules_of(spec: ProvisionSpec) -> TurnRules:
    from agents.fleet.child.turn_host import TurnRules  # noqa: PLC0415  after `_load`

    limits = spec.limits
    return TurnRules(
        asks=not spec.capabilities.no_human_approver,
        max_rounds=limits.max_rounds,
        timeout_seconds=limits.run_timeout_secs,
    )


def _skips_permissions(spec: ProvisionSpec) -> bool:
    capabilities = spec.capabilities
    return (
        capabilities.bypass
        or capabilities.auto_approve_permissions
        or not capabilities.enforce_permissions
    )


async def _open_workspace(spec: ProvisionSpec) -> str:
    from django.conf import settings  # noqa: PLC0415  after `_load`

    from workspaces.actions.claims import claim_workspace  # noqa: PLC0415  after `_load`
    from workspaces.actions.workspaces import Opening, open_workspace  # noqa: PLC0415  after `_load`
    from workspaces.log.writer import writer  # noqa: PLC0415  after `_load`
    from workspaces.models.workspace import PermissionMode  # noqa: PLC0415  after `_load`

    path = Path(spec.workspace) if spec.workspace else Path.cwd()
    resolved = await asyncio.to_thread(path.resolve)
    if not await asyncio.to_thread(resolved.is_dir):
        raise ExecutorFailed("The workspace's folder is not there.")
    mode = PermissionMode.YOLO if _skips_permissions(spec) else PermissionMode.NORMAL
    opening = Opening(
        path=str(resolved),
        data_dir=str(settings.DATA_DIR / "workspace"),
        permission_mode=mode,
    )

    def job(tx: Transaction) -> str:
        workspace = open_workspace(tx, opening)
        # It has no clients, and would close at the end of its first assignment.
        claim_workspace(tx, workspace.pk, PARENT, grace_seconds=HELD_SECONDS)
        return str(workspace.pk)

    return await writer.write("", job)


class _ChildTurnHost:
    """Where the turns of this process are worked on."""

    def __init__(
        self, server: ServerProcess, equipment: Equipment, workspace_id: str, rules: TurnRules
    ) -> None:
        self._server = server
        self._equipment = equipment
        self._workspace_id = workspace_id
        self.parent_session_id = PARENT
        self.rules = rules

    @asynccontextmanager
    async def working(self, session_id: str, run: RunFrame) -> AsyncIterator[str]:
        self._equipment.expect(session_id, run)
        try:
            yield self._workspace_id
        finally:
            self._equipment.forget(session_id)

    def feed(self, workspace_id: str, after: int | None) -> AsyncIterator[bytes]:
        from workspaces.delivery.readers import Wire  # noqa: PLC0415  after `_load`
        from workspaces.delivery.subscribe import stream_native  # noqa: PLC0415  after `_load`

        return stream_native(self._server.hub, workspace_id, after=after, wire=Wire.WS)


DATABASE = "server.sqlite3"
LOCK = "child.lock"
# What names a server's data or opens it. The process that started this one may be one.
SERVERS_OWN = (
    "DATABASE_URL",
    "REDIS_URL",
    "CRUSH_SECRET_KEY",
    "CRUSH_FLEET_TOKEN",
    "CRUSH_GATES",
    "CRUSH_SQLITE_FSYNC",
)


def hold_folder(folder: Path) -> int:
    """The folder, made and locked; the descriptor holds it. Raises ``ExecutorFailed``."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ExecutorFailed(f"The child's folder cannot be used: {error.strerror}.") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise ExecutorFailed("Another process uses the folder of this child.") from None
    return descriptor


def set_up_in(folder: Path) -> None:
    """Django on a new database in this folder. Once in a process, before any setting is read."""
    for name in SERVERS_OWN:
        os.environ.pop(name, None)
    os.environ["CRUSH_DATA_DIR"] = str(folder)
    os.environ["DJANGO_SETTINGS_MODULE"] = "crushsite.child.settings"
    for ending in ("", "-wal", "-shm", "-journal"):
        (folder / f"{DATABASE}{ending}").unlink(missing_ok=True)
    os.close(os.open(folder / DATABASE, os.O_RDWR | os.O_CREAT, 0o600))
    import django  # noqa: PLC0415  its settings are named only now

    django.setup()
    create_tables()


def create_tables() -> None:
    from django.apps import apps  # noqa: PLC0415  after Django is set up
    from django.db import connection  # noqa: PLC0415  after Django is set up

    with connection.schema_editor() as editor:
        for app in ("workspaces", "permissions", "agents"):
            for model in apps.get_app_config(app).get_models():
                editor.create_model(model)
    connection.close()
