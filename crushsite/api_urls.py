"""The endpoints of both APIs, without the admin. ``ApiHandler`` resolves them.

Paths are tried in order, so the endpoints that clients poll come first.
"""

from __future__ import annotations

from typing import TypeAlias

from django.urls import URLPattern, URLResolver, include, path

from agents.api.config import ConfigView, ProvidersView
from agents.api.config_changes import (
    ConfigCompactView,
    ConfigModelView,
    ConfigRemoveView,
    ConfigSetView,
    ImportCopilotView,
    ProviderKeyView,
    RefreshOAuthView,
)
from agents.api.grants import GrantView
from agents.api.lsps import LspDiagnosticsView, LspStartView, LspStopView, LspsView
from agents.api.mcp_servers import (
    McpAuthUrlView,
    McpAuthView,
    McpDockerDisableView,
    McpDockerEnableView,
    McpGetPromptView,
    McpPendingAuthView,
    McpPromptsView,
    McpReadResourceView,
    McpRefreshView,
    McpStatesView,
)
from agents.api.project import InitPromptView, MarkInitView, NeedsInitView
from agents.api.questions import QuestionsAnswerView, QuestionsCancelView
from agents.api.session_work import (
    CancelView,
    DeletableSessionView,
    QueueClearView,
    QueuedView,
    QueueListView,
    SummarizeView,
)
from agents.api.shell import ShellView
from agents.api.skills import ReadSkillView, SkillsView
from agents.api.workspace_agent import AgentView, DefaultSmallModelView, InitView, UpdateView
from agents.api.workspaces import ClientView, WorkspacesView, WorkspaceView
from agents.runs.queries import read_unfinished_runs
from agents.tools.mcp.contract import McpChange
from crushsite.process import process
from permissions.api.skip import ModeView, SkipView
from permissions.queries import read_pending
from workspaces.api.files import HistoryView, LastReadView, MarkReadView, ReadFilesView
from workspaces.api.messages import MessagesView, UserMessagesView, WorkspaceUserMessagesView
from workspaces.api.server import ControlView, HealthView, ServerConfigView, VersionView
from workspaces.api.sessions import ChildrenView, CurrentSessionView, SessionsView
from workspaces.api.snapshot import SnapshotView

Routes: TypeAlias = list[URLPattern | URLResolver]


async def _control(command: str) -> None:
    await process().control(command)


_session_work: Routes = [
    path("cancel", CancelView.as_view()),
    path("shell", ShellView.as_view()),
    path("summarize", SummarizeView.as_view()),
    path("prompts/queued", QueuedView.as_view()),
    path("prompts/list", QueueListView.as_view()),
    path("prompts/clear", QueueClearView.as_view()),
]

_session: Routes = [
    path("messages", MessagesView.as_view()),
    path("messages/user", UserMessagesView.as_view()),
    path("children", ChildrenView.as_view()),
    path("history", HistoryView.as_view()),
    path("filetracker/files", ReadFilesView.as_view()),
]

_workspace: Routes = [
    path("agent", AgentView.as_view()),
    path("permissions/skip", SkipView.as_view()),
    path("permissions/mode", ModeView.as_view()),
    path(
        "agent/sessions/<str:session_id>",
        DeletableSessionView.as_view(http_method_names=["get", "head"]),
    ),
    path("agent/sessions/<str:session_id>/", include(_session_work)),
    path("agent/init", InitView.as_view()),
    path("agent/update", UpdateView.as_view()),
    path("agent/default-small-model", DefaultSmallModelView.as_view()),
    path("permissions/grant", GrantView.as_view()),
    path("questions/answer", QuestionsAnswerView.as_view()),
    path("questions/cancel", QuestionsCancelView.as_view()),
    path("sessions", SessionsView.as_view()),
    path("sessions/<str:session_id>", DeletableSessionView.as_view()),
    path("sessions/<str:session_id>/", include(_session)),
    path("config", ConfigView.as_view()),
    path("config/set", ConfigSetView.as_view()),
    path("config/remove", ConfigRemoveView.as_view()),
    path("config/model", ConfigModelView.as_view()),
    path("config/compact", ConfigCompactView.as_view()),
    path("config/provider-key", ProviderKeyView.as_view()),
    path("config/import-copilot", ImportCopilotView.as_view()),
    path("config/refresh-oauth", RefreshOAuthView.as_view()),
    path("providers", ProvidersView.as_view()),
    path("current-session", CurrentSessionView.as_view()),
    path("messages/user", WorkspaceUserMessagesView.as_view()),
    path("filetracker/read", MarkReadView.as_view()),
    path("filetracker/lastread", LastReadView.as_view()),
    path("lsps", LspsView.as_view()),
    path("lsps/start", LspStartView.as_view()),
    path("lsps/stop", LspStopView.as_view()),
    path("lsps/<str:name>/diagnostics", LspDiagnosticsView.as_view()),
    path("mcp/states", McpStatesView.as_view()),
    path("mcp/pending-auth", McpPendingAuthView.as_view()),
    path("mcp/auth-url", McpAuthUrlView.as_view()),
    path("mcp/auth", McpAuthView.as_view()),
    path("mcp/refresh-tools", McpRefreshView.as_view(change=McpChange.TOOLS)),
    path("mcp/refresh-prompts", McpRefreshView.as_view(change=McpChange.PROMPTS)),
    path("mcp/refresh-resources", McpRefreshView.as_view(change=McpChange.RESOURCES)),
    path("mcp/prompts", McpPromptsView.as_view()),
    path("mcp/get-prompt", McpGetPromptView.as_view()),
    path("mcp/read-resource", McpReadResourceView.as_view()),
    path("mcp/docker/enable", McpDockerEnableView.as_view()),
    path("mcp/docker/disable", McpDockerDisableView.as_view()),
    path("project/needs-init", NeedsInitView.as_view()),
    path("project/init", MarkInitView.as_view()),
    path("project/init-prompt", InitPromptView.as_view()),
    path("skills", SkillsView.as_view()),
    path("skills/read", ReadSkillView.as_view()),
]

urlpatterns: Routes = [
    path("v1/workspaces/<str:workspace_id>/", include(_workspace)),
    path("v1/workspaces/<str:workspace_id>", WorkspaceView.as_view()),
    path("v1/workspaces", WorkspacesView.as_view()),
    path("v1/clients/<str:client_id>", ClientView.as_view()),
    path("v1/health", HealthView.as_view()),
    path("v1/version", VersionView.as_view()),
    path("v1/config", ServerConfigView.as_view()),
    path("v1/control", ControlView.as_view(control=_control)),
    path("", include("crushsite.monitoring.views")),
    path(
        "api/workspaces/<str:workspace_id>/snapshot",
        SnapshotView.as_view(more=(read_pending, read_unfinished_runs)),
    ),
]
