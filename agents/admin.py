"""Sessions: a page with the conversation and all work; cancels and exports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, StreamingHttpResponse
from typing_extensions import override

from agents.admin_pages.approvals import waiting_of
from agents.admin_pages.runs import ROWS_SHOWN, run_lines
from agents.admin_pages.workspaces import cancel_sessions
from agents.models import Run
from people.actions.audit import Act
from people.models import AuditEntry
from workspaces.access import Right
from workspaces.admin.sessions import SessionPages
from workspaces.admin_pages.columns import rows_of
from workspaces.admin_pages.filters import user_filter
from workspaces.admin_pages.pages import ReadOnlyAdmin, act
from workspaces.admin_pages.texts import one_line, shown_parts, to_the_second
from workspaces.log.errors import Refusal
from workspaces.models import FileVersion, Message, Session
from workspaces.queries.export import export_lines, export_markdown, read_tree

MESSAGES_SHOWN = 40
Export = Any


def _prompted_by(rows: QuerySet[Any], user_id: int) -> QuerySet[Any]:
    """The sessions to which a user has sent prompts, by the audit."""
    prompts = AuditEntry.objects.filter(user_id=user_id, act=Act.PROMPT.value)
    return rows.filter(pk__in=prompts.values("session_id"))


@admin.register(Session)
class SessionAdmin(SessionPages):
    change_form_template = "admin/session.html"
    actions = ["cancel", "export_as_markdown", "export_as_lines"]
    list_filter = [*SessionPages.list_filter, user_filter(_prompted_by, "prompts by")]
    related = [
        *SessionPages.related,
        rows_of("agents.run", "session", "runs"),
        rows_of("agents.job", "session_id", "jobs", is_counted=False),
        rows_of("agents.usageentry", "session_id", "usage entries", is_counted=False),
        rows_of("permissions.permissionrequest", "session", "permission requests"),
        rows_of("permissions.questionbatch", "session", "question batches"),
        rows_of("permissions.grant", "session", "grants"),
        rows_of("people.auditentry", "session_id", "audit entries", is_counted=False),
    ]

    @override
    def panels(self, request: HttpRequest, row: Session) -> dict[str, Any]:
        return _panels(request, row)

    @act("Cancel running and waiting work", Right.CANCEL)
    def cancel(self, request: HttpRequest, queryset: QuerySet[Session]) -> None:
        pairs = queryset.values_list("workspace_id", "pk")
        cancel_sessions(self, request, list(pairs))

    @act("Export as Markdown", Right.READ, permission="view")
    def export_as_markdown(self, request: HttpRequest, queryset: QuerySet[Session]) -> Any:
        return _exported(self, request, queryset, export_markdown, "sessions.md", "text/markdown")

    @act("Export as JSON lines, with child sessions", Right.READ, permission="view")
    def export_as_lines(self, request: HttpRequest, queryset: QuerySet[Session]) -> Any:
        kind = "application/x-ndjson"
        return _exported(self, request, queryset, export_lines, "sessions.jsonl", kind)


def _exported(
    page: ReadOnlyAdmin,
    request: HttpRequest,
    sessions: QuerySet[Session],
    export: Export,
    name: str,
    content_type: str,
) -> StreamingHttpResponse | None:
    if not request.user.has_perm("workspaces.view_message"):
        page.message_user(request, "You may not see messages.", messages.ERROR)
        return None
    trees: list[tuple[str, list[str]]] = []
    for workspace_id, session_id in sessions.values_list("workspace_id", "pk"):
        try:
            trees.append((workspace_id, read_tree(workspace_id, session_id)))
        except Refusal as refusal:
            page.message_user(request, f"{session_id}: {refusal.sentence}", messages.WARNING)
    if not trees:
        return None

    async def content() -> AsyncIterator[bytes]:
        for workspace_id, tree in trees:
            async for piece in export(workspace_id, tree):
                yield piece

    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }
    kind = f"{content_type}; charset=utf-8"
    return StreamingHttpResponse(content(), content_type=kind, headers=headers)


def _panels(request: HttpRequest, session: Session) -> dict[str, Any]:
    """What the page shows of other models: each needs Django's permission to view it."""
    may = request.user.has_perm
    panels: dict[str, Any] = {"waiting": waiting_of(request, session_id=session.pk)}
    if may("workspaces.view_message"):
        panels |= _conversation(session, request.GET.get("before", ""))
    if may("agents.view_run"):
        panels["runs"] = run_lines(Run.objects.filter(session=session).order_by("-accept_number"))
    children = Session.objects.filter(parent_session_id=session.pk).order_by("-created_at")
    panels["children"] = list(children[:ROWS_SHOWN])
    if may("workspaces.view_fileversion"):
        files = FileVersion.objects.filter(session=session).defer("content").order_by("-position")
        panels["files"] = [
            {"row": row, "at": to_the_second(row.created_at)} for row in files[:ROWS_SHOWN]
        ]
    return panels


def _conversation(session: Session, before: str) -> dict[str, Any]:
    """A page of messages, the newest at the bottom, and where the earlier ones are."""
    found = Message.objects.filter(session=session).order_by("-position")
    is_older = before.isascii() and before.isdigit() and len(before) < 19
    if is_older:
        found = found.filter(position__lt=int(before))
    rows = list(found[: MESSAGES_SHOWN + 1])
    shown = rows[:MESSAGES_SHOWN][::-1]
    return {
        "conversation": [_message(row) for row in shown],
        "earlier": shown[0].position if len(rows) > MESSAGES_SHOWN else None,
        "is_older": is_older,
    }


def _message(row: Message) -> dict[str, Any]:
    who: Mapping[str, Any] = row.author or {}
    return {
        "row": row,
        "role": row.role,
        "who": one_line(str(who.get("name") or row.model or row.role)),
        "at": to_the_second(row.created_at),
        "parts": shown_parts(row.parts),
    }
