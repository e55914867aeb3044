"""The addresses of the native REST interface, below ``/api/``, and of its description.

The streams have addresses there, too: see ``crushsite.asgi.routing``.
"""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path, re_path

from agents.rest.approvals import ApprovalAnswer, ApprovalDetail, ApprovalList
from agents.rest.board import Board
from agents.rest.changed_files import ChangedFiles
from agents.rest.configuration import ConfigurationDetail, SkillContent, SkillList
from agents.rest.diagnosis import Diagnosis
from agents.rest.jobs import JobDetail, JobEnd, JobList, JobOutputDetail
from agents.rest.language_servers import (
    LanguageServerDiagnostics,
    LanguageServerList,
    LanguageServerStart,
    LanguageServerStop,
)
from agents.rest.mcp_servers import (
    McpServerDetail,
    McpServerList,
    McpServerLogin,
    McpServerPrompt,
    McpServerRefresh,
    McpServerResource,
)
from agents.rest.models import (
    KnownProviderList,
    ModelChoiceDetail,
    ModelChoiceList,
    ModelList,
    ProviderList,
)
from agents.rest.paths import Folders, WorkspacePaths
from agents.rest.prompts import (
    PromptList,
    QueuedPrompt,
    QueuedSteer,
    QueueList,
    SessionCancel,
    SessionSummary,
)
from agents.rest.questions import (
    QuestionAnswer,
    QuestionDetail,
    QuestionDismissal,
    QuestionList,
)
from agents.rest.runs import RunCancel, RunDetail, RunList, RunRetry, RunSteps
from agents.rest.sessions import RewindList, RewindPreview, RewindUndo, SessionDetail
from agents.rest.sub_agents import SubAgentList
from agents.rest.trust import (
    Trust,
    TrustRequestAnswer,
    TrustRequestDetail,
    TrustRequestList,
    WorkspaceTrust,
)
from agents.rest.usage import UsageCsv, UsageList
from agents.rest.workspaces import OneWorkspace, Workspaces
from notifications.rest.channels import (
    ChannelDetail,
    ChannelList,
    ChannelTest,
    DeliveryList,
    PushKeyView,
)
from notifications.rest.ends import EndList
from people.rest.audit import AuditList, WorkspaceAuditList
from people.rest.groups import (
    GroupDetail,
    GroupList,
    GroupRoleDetail,
    GroupRoleList,
    WorkspaceGroupRoleList,
)
from people.rest.me import Me
from people.rest.members import MemberDetail, MemberList
from people.rest.tokens import LoginLinkList, TokenDetail, TokenList
from people.rest.users import UserDetail, UserList
from permissions.rest.approval_policy import ApprovalPolicyDetail
from permissions.rest.grants import GrantDetail, GrantList
from workspaces.rest.documentation import DocsView, SchemaView
from workspaces.rest.messages import MessageList
from workspaces.rest.problems import unknown_address
from workspaces.rest.search import SearchView
from workspaces.rest.sessions import PlacedSessionList, SessionForks, SessionList, SessionTree
from workspaces.rest.stream_schema import StreamSchemaView
from workspaces.rest.transfers import SessionExport, SessionImport

Routes = list[URLPattern | URLResolver]

_session: Routes = [
    path("cancel", SessionCancel.as_view()),
    path("summary", SessionSummary.as_view()),
    path("export", SessionExport.as_view()),
    path("files", ChangedFiles.as_view()),
    path("forks", SessionForks.as_view()),
    path("messages", MessageList.as_view()),
    path("prompts", PromptList.as_view()),
    path("queue", QueueList.as_view()),
    path("rewinds", RewindList.as_view()),
    path("rewinds/preview", RewindPreview.as_view()),
    path("rewinds/<str:rewind_id>/undo", RewindUndo.as_view()),
    path("tree", SessionTree.as_view()),
]

_mcp_server: Routes = [
    path("login", McpServerLogin.as_view()),
    path("prompt", McpServerPrompt.as_view()),
    path("refresh", McpServerRefresh.as_view()),
    path("resource", McpServerResource.as_view()),
]

_workspace: Routes = [
    path("configuration", ConfigurationDetail.as_view()),
    path("jobs", JobList.as_view()),
    path("jobs/<str:job_id>", JobDetail.as_view()),
    path("jobs/<str:job_id>/kill", JobEnd.as_view()),
    path("jobs/<str:job_id>/output", JobOutputDetail.as_view()),
    path("language-servers", LanguageServerList.as_view()),
    path("language-servers/start", LanguageServerStart.as_view()),
    path("language-servers/stop", LanguageServerStop.as_view()),
    path("language-servers/<str:name>/diagnostics", LanguageServerDiagnostics.as_view()),
    path("mcp-servers", McpServerList.as_view()),
    path("mcp-servers/<str:name>", McpServerDetail.as_view()),
    path("mcp-servers/<str:name>/", include(_mcp_server)),
    path("model-choices", ModelChoiceList.as_view()),
    path("model-choices/<str:kind>", ModelChoiceDetail.as_view()),
    path("models", ModelList.as_view()),
    path("paths", WorkspacePaths.as_view()),
    path("providers", ProviderList.as_view()),
    path("skills", SkillList.as_view()),
    path("skills/content", SkillContent.as_view()),
    path("sub-agents", SubAgentList.as_view()),
    path("queue/<int:key>", QueuedPrompt.as_view()),
    path("queue/<int:key>/steer", QueuedSteer.as_view()),
    path("runs", RunList.as_view()),
    path("runs/<int:key>", RunDetail.as_view()),
    path("runs/<int:key>/cancel", RunCancel.as_view()),
    path("runs/<int:key>/retry", RunRetry.as_view()),
    path("runs/<int:key>/steps", RunSteps.as_view()),
    path("sessions", SessionList.as_view()),
    path("sessions/import", SessionImport.as_view()),
    path("sessions/<str:session_id>", SessionDetail.as_view()),
    path("sessions/<str:session_id>/", include(_session)),
    path("audit", WorkspaceAuditList.as_view()),
    path("trust", WorkspaceTrust.as_view()),
    path("group-roles", WorkspaceGroupRoleList.as_view()),
    path("members", MemberList.as_view()),
    path("members/<int:user_id>", MemberDetail.as_view()),
    path("approvals/<str:approval_id>", ApprovalDetail.as_view()),
    path("approvals/<str:approval_id>/answer", ApprovalAnswer.as_view()),
    path("trust-requests/<str:request_id>", TrustRequestDetail.as_view()),
    path("trust-requests/<str:request_id>/answer", TrustRequestAnswer.as_view()),
    path("questions/<str:batch_id>", QuestionDetail.as_view()),
    path("questions/<str:batch_id>/answer", QuestionAnswer.as_view()),
    path("questions/<str:batch_id>/dismiss", QuestionDismissal.as_view()),
    path("grants/<int:grant_id>", GrantDetail.as_view()),
    path("approval-policy", ApprovalPolicyDetail.as_view()),
]

urlpatterns: Routes = [
    path("schema", SchemaView.as_view()),
    path("schema/events", StreamSchemaView.as_view()),
    path("docs", DocsView.as_view()),
    path("audit", AuditList.as_view()),
    path("folders", Folders.as_view()),
    path("groups", GroupList.as_view()),
    path("groups/<int:group_id>", GroupDetail.as_view()),
    path("group-roles", GroupRoleList.as_view()),
    path("group-roles/<int:group_role_id>", GroupRoleDetail.as_view()),
    path("login-links", LoginLinkList.as_view()),
    path("me", Me.as_view()),
    path("tokens", TokenList.as_view()),
    path("tokens/<str:token_id>", TokenDetail.as_view()),
    path("users", UserList.as_view()),
    path("users/<int:user_id>", UserDetail.as_view()),
    path("board", Board.as_view()),
    path("search", SearchView.as_view()),
    path("sessions", PlacedSessionList.as_view()),
    path("notifications/channels", ChannelList.as_view()),
    path("notifications/channels/<str:channel_id>", ChannelDetail.as_view()),
    path("notifications/channels/<str:channel_id>/test", ChannelTest.as_view()),
    path("notifications/deliveries", DeliveryList.as_view()),
    path("notifications/ends", EndList.as_view()),
    path("notifications/push-key", PushKeyView.as_view()),
    path("known-providers", KnownProviderList.as_view()),
    path("diagnosis", Diagnosis.as_view()),
    path("trust", Trust.as_view()),
    path("usage", UsageList.as_view()),
    path("usage/csv", UsageCsv.as_view()),
    path("workspaces", Workspaces.as_view()),
    path("workspaces/<str:workspace_id>", OneWorkspace.as_view()),
    path("approvals", ApprovalList.as_view()),
    path("trust-requests", TrustRequestList.as_view()),
    path("questions", QuestionList.as_view()),
    path("grants", GrantList.as_view()),
    path("workspaces/<str:workspace_id>/", include(_workspace)),
    re_path("", unknown_address),
]
