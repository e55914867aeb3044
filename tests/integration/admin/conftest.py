"""A database with a row of every model, with secrets where secrets lie."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from django.contrib.auth.models import Group, User

from agents.models import (
    Job,
    LanguageServer,
    McpSecret,
    McpServer,
    RemoteWorker,
    Run,
    SubAgent,
    UsageEntry,
)
from agents.runs.accept import Prompt, accept_prompt
from notifications.models import Delivery, Notice, NotificationChannel
from people.models import AuditEntry, BrowserSession, GroupRole, Member, Share, Token
from permissions.actions.requests import request_permission
from permissions.models import ApprovalPolicy, Grant, PermissionRequest, QuestionBatch
from workspaces.actions.claims import claim_workspace
from workspaces.actions.sessions import create_session
from workspaces.actions.workspaces import Opening, open_workspace
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.models import (
    Attachment,
    ClientClaim,
    DailyJob,
    Event,
    FileRead,
    FileVersion,
    KnownKey,
    Message,
    RegisteredProcess,
    RemovedMessage,
    RetiredClient,
    Rewind,
    SearchFill,
    SearchText,
    Session,
    TrustRequest,
    WorkRoot,
    Workspace,
    WorkspaceHome,
)

SEALED = "gAAAA-this-is-the-sealed-environment"
CLIENT = "11111111-1111-4111-8111-111111111111"
HOSTILE = "<script>alert('x')</script>"


@dataclass
class Place:
    workspace_id: str
    session_id: str
    run_key: int


@pytest.fixture
def admin_user(db: None) -> User:
    """The plugin's fixture of this name, without the password that takes long to hash."""
    return User.objects.create_superuser("admin", password=None)


@pytest.fixture
def place(db: None) -> Place:
    return add_place()


def add_place() -> Place:
    def job(tx: Transaction) -> Place:
        workspace = open_workspace(tx, Opening("/project", "/data", sealed_env=SEALED))
        claim_workspace(tx, workspace.pk, CLIENT, grace_seconds=30)
        session_id = str(create_session(tx, workspace.pk, title="The first")["id"])
        run_key = accept_prompt(tx, workspace.pk, Prompt(session_id, HOSTILE, "run-1"))
        return Place(workspace.pk, session_id, run_key)

    return writer.write_and_wait("", job)


@pytest.fixture
def everything(place: Place) -> Place:
    return add_everything(place)


def add_everything(place: Place) -> Place:
    """Adds a row of each of our models."""
    session = Session.objects.get(pk=place.session_id)
    parts = '[{"type": "text", "data": {"text": "' + HOSTILE + '"}}]'
    Message.objects.create(
        workspace_id=place.workspace_id, session=session, position=99, role="user", parts=parts
    )
    rewind = Rewind.objects.create(
        workspace_id=place.workspace_id,
        session=session,
        state="done",
        first_position=1,
        last_position=2,
        files=[{"path": HOSTILE, "result": "left", "reason": "changed"}],
    )
    RemovedMessage.objects.create(
        workspace_id=place.workspace_id,
        session=session,
        rewind=rewind,
        position=97,
        role="user",
        parts=parts,
    )
    SearchText.objects.create(
        message_id="m", session_id=session.pk, workspace_id=place.workspace_id, text=HOSTILE
    )
    SearchFill.objects.get_or_create(defaults={"until": 1, "is_done": True})
    FileVersion.objects.create(
        session=session, path="/project/a.py", version=0, position=98, content=HOSTILE
    )
    FileRead.objects.create(session=session, path="/project/a.py", mtime_ns=1, size=2)
    Attachment.objects.create(id="a" * 64, workspace_id=place.workspace_id, content=HOSTILE)
    TrustRequest.objects.create(path="/project", digest="1", description=HOSTILE)
    RetiredClient.objects.create(client_id=CLIENT.replace("1", "2"))
    RegisteredProcess.objects.create(
        id="w1",
        kind="worker",
        host=HOSTILE,
        pid=7,
        version=HOSTILE,
        roots=[HOSTILE],
        started_at=1,
        registered_at=1,
        expires_at=2,
    )
    KnownKey.objects.create(name="secret.key", fingerprint=HOSTILE)
    WorkspaceHome.objects.create(workspace_id=place.workspace_id, process_id="w1", since=1)
    WorkRoot.objects.create(name="code", path="/srv/code")
    RemoteWorker.objects.create(
        name="box", instance=HOSTILE, server="w1", roots=[HOSTILE], capacity=4, seen_at=1
    )
    DailyJob.objects.create(name="retention", due_at=1, holder=HOSTILE, result={"kind": HOSTILE})
    Grant.objects.create(
        workspace_id=place.workspace_id,
        session=session,
        tool_name="bash",
        action="execute",
        path="/project",
    )
    ApprovalPolicy.objects.create(workspace_id=place.workspace_id, deny_after_seconds=60)

    def ask(tx: Transaction) -> str:
        return request_permission(
            tx,
            place.workspace_id,
            place.session_id,
            run_key=place.run_key,
            tool_call_id="call-1",
            tool_name="bash",
            action="execute",
            path="/project",
            description=HOSTILE,
            params={"command": "ls"},
        )

    writer.write_and_wait(place.workspace_id, ask)
    _add_services(place)
    _add_people(place)
    models = (Workspace, ClientClaim, Event, Run, PermissionRequest)
    assert all(model.objects.exists() for model in models)
    return place


def _add_people(place: Place) -> None:
    """Those who use the server."""
    user = User.objects.create_user("ann")
    group = Group.objects.create(name="crew")
    Member.objects.create(user=user, workspace_id=place.workspace_id, role="viewer")
    GroupRole.objects.create(group=group, workspace_id=place.workspace_id, role="viewer")
    Share.objects.create(user=user, weight=2, max_running=20)
    channel = NotificationChannel.objects.create(
        user=user, kind="webhook", name=HOSTILE, sealed_target=SEALED
    )
    notice = Notice.objects.create(subject="permission", subject_id="1")
    Delivery.objects.create(notice=notice, channel=channel, error=HOSTILE, link_expires_at=1)
    Token.objects.create(user=user, name=HOSTILE, prefix="crush_x", digest=SEALED, scopes=["all"])
    BrowserSession.objects.create(user=user, session_key=SEALED[:40], browser=HOSTILE)
    AuditEntry.objects.create(kind="user", actor="ann", act="prompt", target=HOSTILE)


def _add_services(place: Place) -> None:
    """What runs beside a run."""
    workspace = place.workspace_id
    Job.objects.create(
        workspace_id=workspace, session_id=place.session_id, command=HOSTILE, working_dir="/project"
    )
    McpServer.objects.create(workspace_id=workspace, name="files", state="error", error=HOSTILE)
    McpSecret.objects.create(url="https://mcp.example", sealed=SEALED)
    LanguageServer.objects.create(workspace_id=workspace, name="ruff", state=3, error=HOSTILE)
    SubAgent.objects.create(
        run_id=place.run_key, workspace_id=workspace, role="reader", last_event=HOSTILE
    )
    UsageEntry.objects.create(
        workspace_id=workspace,
        session_id=place.session_id,
        run_key=place.run_key,
        user_name=HOSTILE[:150],
        kind="reply",
        model=HOSTILE[:200],
        prompt_tokens=1,
        completion_tokens=2,
        cache_read_tokens=0,
        cache_write_tokens=0,
        cost=0.5,
        created_at=1,
    )
    QuestionBatch.objects.create(
        workspace_id=workspace,
        session_id=place.session_id,
        run_key=place.run_key,
        tool_call_id="call-2",
        questions=[{"id": "q", "type": "free_text", "question": HOSTILE}],
    )
