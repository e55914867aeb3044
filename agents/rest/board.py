"""The board: all workspaces, with what their newest sessions are doing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agents.runs.objects.board import board_sessions
from agents.states import BoardState
from agents.tools.files.uncommitted import git_state, uncommitted
from workspaces.access import Right
from workspaces.models import PermissionMode, Workspace
from workspaces.placement.elsewhere import folders_elsewhere
from workspaces.rest.view import SHOWN_RIGHTS, Resource, scope_of

SESSIONS, MOST_SESSIONS = 10, 50
GIT_SECONDS = 0.1  # of waiting for folders that were never compared
WORKER_SECONDS = 0.5  # of waiting for the workers of folders that are new


class BoardQuerySerializer(serializers.Serializer[Any]):
    sessions = serializers.IntegerField(
        min_value=1,
        max_value=MOST_SESSIONS,
        default=SESSIONS,
        help_text="How many sessions of each workspace, besides those that work or wait.",
    )
    is_open = serializers.BooleanField(
        allow_null=True, default=None, help_text="Only open workspaces, or only closed ones."
    )


class BoardWaitingSerializer(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(["approval", "questions"], help_text="What must be answered.")
    id = serializers.CharField(help_text="Of the permission request, or of the batch of questions.")
    session_id = serializers.CharField(help_text="Its session, which may be a child session.")
    tool_name = serializers.CharField(help_text="The tool that waits.")
    title = serializers.CharField(help_text="A line for people.")


class BoardSessionSerializer(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="The session.")
    title = serializers.CharField(help_text="Empty until the first prompt gives it one.")
    state = serializers.ChoiceField(
        [(state.value, state.value) for state in BoardState],
        help_text="`working`; `waiting` for an answer, also if a child session waits; `queued`, if"
        " no worker has begun; or how its newest run ended. `idle`: no run, or a cancelled one.",
    )
    last_line = serializers.CharField(
        help_text="What its newest message ends with: plain text, at most 200 characters."
    )
    since = serializers.IntegerField(help_text="When the state began, in unix seconds.")
    ended_at = serializers.IntegerField(
        allow_null=True, help_text="When its newest run ended, unless one works or waits."
    )
    cost = serializers.FloatField(help_text="Of all its model requests, in US dollars.")
    waiting = BoardWaitingSerializer(
        allow_null=True, help_text="The oldest open request, or question."
    )
    updated_at = serializers.IntegerField(help_text="When it changed at last, in unix seconds.")


class BoardGitSerializer(serializers.Serializer[Any]):
    branch = serializers.CharField(
        help_text="The branch, or the first 8 characters of the commit if none is checked out."
    )
    added = serializers.IntegerField(
        allow_null=True, help_text="Lines that the newest commit lacks; null if unknown."
    )
    removed = serializers.IntegerField(
        allow_null=True, help_text="Lines of the newest commit that are gone; null if unknown."
    )


class BoardWorkspaceSerializer(serializers.Serializer[Any]):
    """A workspace with its newest sessions."""

    id = serializers.CharField(help_text="A UUID.")
    path = serializers.CharField(help_text="The folder, absolute, symlinks followed.")
    name = serializers.CharField(help_text="The last part of the path.")
    is_open = serializers.BooleanField(help_text="A closed one is opened by its path.")
    permission_mode = serializers.ChoiceField(
        PermissionMode.choices, help_text="Whether permissions are requested."
    )
    git = BoardGitSerializer(
        allow_null=True,
        help_text="Some seconds old at most; null without a commit, until it is computed, and while"
        " no worker that has the folder answers.",
    )
    can = serializers.ListField(
        child=serializers.ChoiceField([right.value for right in SHOWN_RIGHTS]),
        help_text="Your rights in this workspace.",
    )
    sessions = BoardSessionSerializer(
        many=True,
        help_text="Without child sessions and archived ones, the one that changed last first.",
    )


class Board(Resource):
    """All workspaces that you may read, open and closed, the one that was opened last first."""

    rights: ClassVar = {"get": Right.SIGNED_IN}
    serializer_class = BoardWorkspaceSerializer
    queryset = Workspace.objects.only(
        "id", "path", "is_open", "permission_mode", "opened_at", "last_event"
    )
    ordering = ("-opened_at", "-id")

    @extend_schema(parameters=[BoardQuerySerializer])
    def get(self, _: Request) -> Response:
        """What their newest sessions are doing. Cheap enough to be read every two seconds."""
        wanted = self.query(BoardQuerySerializer)
        found = self.visible(self.get_queryset(), "id")
        if wanted["is_open"] is not None:
            found = found.filter(is_open=wanted["is_open"])
        rows: list[Workspace] = self.paginate_queryset(found)  # type: ignore[assignment]  # pages
        git = self._git_states(rows)
        sessions = board_sessions({row.pk: row.last_event for row in rows}, wanted["sessions"])
        return self.get_paginated_response(
            [
                {
                    "id": row.pk,
                    "path": row.path,
                    "name": PurePosixPath(row.path).name or row.path,
                    "is_open": row.is_open,
                    "permission_mode": row.permission_mode,
                    "git": git.get(row.pk),
                    "can": self.rights_in(row.pk),
                    "sessions": sessions[row.pk],
                }
                for row in rows
            ]
        )

    def _git_states(self, rows: list[Workspace]) -> Mapping[str, Any]:
        folders = folders_elsewhere(scope_of(self.request))
        far = [row.pk for row in rows if folders.has(row.path)]
        here = {row.pk: row.path for row in rows if row.pk not in far}
        states = uncommitted.get(here.values(), at_most_seconds=GIT_SECONDS)
        found = {key: git_state(states[path]) for key, path in here.items()}
        if not far:
            return found
        newest = self.act(folders.newest, "git", far, at_most_seconds=WORKER_SECONDS)
        return {**found, **newest}
