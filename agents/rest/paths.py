"""Completion of paths: files for a prompt, and folders that can be opened."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agents.tools.search.completion import complete_folder, path_completion
from workspaces.access import Right
from workspaces.api.paths import PATH_LIMIT
from workspaces.models import Workspace
from workspaces.placement.elsewhere import folders_elsewhere
from workspaces.placement.roots import Root
from workspaces.queries.workspaces import read_open_workspace
from workspaces.rest.view import Resource, scope_of

DEFAULT, MOST = 20, 100
QUERY_LIMIT = 200


class PathQuerySerializer(serializers.Serializer[Any]):
    q = serializers.CharField(
        default="",
        allow_blank=True,
        max_length=QUERY_LIMIT,
        help_text="Characters of the path, in this order. Empty: what lies at the top.",
    )
    limit = serializers.IntegerField(
        min_value=1, max_value=MOST, default=DEFAULT, help_text="How many at most."
    )


class PathSerializer(serializers.Serializer[Any]):
    path = serializers.CharField(help_text="Below the workspace's folder.")
    is_folder = serializers.BooleanField(help_text="Whether it is a folder.")


class PathsSerializer(serializers.Serializer[Any]):
    items = PathSerializer(many=True, help_text="The best match first.")
    is_complete = serializers.BooleanField(
        help_text="False: the folder is so large that some files were not examined."
    )


class FolderQuerySerializer(serializers.Serializer[Any]):
    path = serializers.CharField(
        default="",
        allow_blank=True,
        max_length=PATH_LIMIT,
        trim_whitespace=False,
        help_text="The beginning of an absolute path, or of one with `~`. What ends with `/` lists"
        " the folders in it. Empty: those in the server's home folder. A web process that has"
        " named roots lists the roots that such a path begins, and for an empty one all of them.",
    )
    limit = serializers.IntegerField(
        min_value=1, max_value=MOST, default=DEFAULT, help_text="How many at most."
    )


class FolderSerializer(serializers.Serializer[Any]):
    path = serializers.CharField(help_text="Absolute.")
    name = serializers.CharField(help_text="Its last part, or the name of the root.")
    workspace_id = serializers.CharField(
        allow_null=True, help_text="The workspace of this folder, open or closed, if it is one."
    )


class FoldersSerializer(serializers.Serializer[Any]):
    items = FolderSerializer(many=True, help_text="Those that begin as written come first.")
    is_complete = serializers.BooleanField(
        help_text="False: there are so many names that some were not examined."
    )


class WorkspacePaths(Resource):
    """The files and folders of a workspace, for completion."""

    rights: ClassVar = {"get": Right.READ}
    folder_methods: ClassVar = frozenset({"get"})
    serializer_class = PathsSerializer
    pagination_class = None  # type: ignore[assignment]  # only the best are of use

    @extend_schema(parameters=[PathQuerySerializer])
    def get(self, _: Request, workspace_id: str) -> Response:
        """Those that match `q`, without what git ignores.

        Names that are no valid text or have control characters are left out.
        """
        wanted = self.query(PathQuerySerializer)
        folder = read_open_workspace(workspace_id).folder
        found, is_complete = path_completion.complete(folder, wanted["q"], limit=wanted["limit"])
        items = [{"path": each.path, "is_folder": each.is_folder} for each in found]
        return Response({"items": items, "is_complete": is_complete})


class Folders(Resource):
    """The folders of the server, for opening one of them. Files are never listed."""

    rights: ClassVar = {"get": Right.OPEN}
    folder_methods: ClassVar = frozenset({"get"})
    serializer_class = FoldersSerializer
    pagination_class = None  # type: ignore[assignment]  # only the best are of use

    @extend_schema(parameters=[FolderQuerySerializer])
    def get(self, _: Request) -> Response:
        """Those whose path begins as `path`, for administrators of the server."""
        wanted = self.query(FolderQuerySerializer)
        limit = wanted["limit"]
        if above := self._roots_below(wanted["path"]):
            names = {root.path: root.name for root in above[:limit]}
            is_complete = len(above) <= limit
        else:
            paths, is_complete = complete_folder(wanted["path"], limit=limit)
            names = {path: PurePosixPath(path).name for path in paths}
        known = dict(Workspace.objects.filter(path__in=names).values_list("path", "pk"))
        items = [
            {"path": path, "name": name, "workspace_id": known.get(path)}
            for path, name in names.items()
        ]
        return Response({"items": items, "is_complete": is_complete})

    def _roots_below(self, written: str) -> list[Root]:
        """Returns the roots that a path begins, where only workers have their folders."""
        roots = folders_elsewhere(scope_of(self.request)).roots
        wanted = written.casefold()
        return [root for root in roots if root.path.casefold().startswith(wanted)]
