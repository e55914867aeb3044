"""The files that a session and its child sessions have changed, with their diffs."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar

import orjson
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agents.tools.contract import FileMark, ToolRefusal
from agents.tools.files.committed import NoCommit, committed_files
from agents.tools.files.diffs import unified
from agents.tools.files.text_file import NotText, TextFile, decode, read
from agents.tools.limits import MAX_TEXT_BYTES
from workspaces.access import Right
from workspaces.log.errors import NoRepository
from workspaces.log.parts import Role
from workspaces.models import FileVersion, Message
from workspaces.queries.export import read_tree
from workspaces.queries.workspaces import read_open_workspace
from workspaces.rest.problems import PROBLEM_TYPE, ProblemSerializer
from workspaces.rest.view import Resource

PAGE, LARGEST_PAGE = 20, 50  # each file may take a moment to compare
DIFF_CHARS = 200_000
PAGE_BYTES = 700_000  # a worker may send this answer, and sends at most 1 MiB


class ChangedFilesQuerySerializer(serializers.Serializer[Any]):
    since = serializers.ChoiceField(
        ["session", "turn", "git"],
        default="session",
        help_text="What the diffs begin with: the files before the session's first change, or"
        " before its newest prompt, and they end with the newest stored version. `git`: from the"
        " newest commit to the files as they are now.",
    )
    limit = serializers.IntegerField(
        min_value=1, max_value=LARGEST_PAGE, default=PAGE, help_text="Of a page."
    )
    cursor = serializers.CharField(
        max_length=4096,
        default="",
        trim_whitespace=False,
        help_text="The `next` of the page before.",
    )


class ChangedFileSerializer(serializers.Serializer[Any]):
    path = serializers.CharField(help_text="Absolute.")
    change = serializers.ChoiceField(
        ["created", "modified", "deleted"], help_text="What happened to the file."
    )
    additions = serializers.IntegerField(help_text="Added lines.")
    removals = serializers.IntegerField(help_text="Removed lines.")
    diff = serializers.CharField(help_text="In the unified format, at most 200,000 characters.")
    is_cut = serializers.BooleanField(
        help_text="Whether the diff is longer than that, or the file is binary."
    )


class ChangedFilesPageSerializer(serializers.Serializer[Any]):
    items = ChangedFileSerializer(many=True, help_text="In the order of their paths.")
    next = serializers.CharField(allow_null=True, help_text="The `cursor` of the next page.")


class ChangedFiles(Resource):
    """The files that the tools of a session and its child sessions have changed."""

    rights: ClassVar = {"get": Right.READ}
    folder_methods: ClassVar = frozenset({"get"})
    serializer_class = ChangedFilesPageSerializer
    pagination_class = None  # type: ignore[assignment]  # its cursors are paths

    @extend_schema(
        parameters=[ChangedFilesQuerySerializer],
        responses={
            200: ChangedFilesPageSerializer,
            (409, PROBLEM_TYPE): OpenApiResponse(
                ProblemSerializer,
                description="With `since=git`: there is no commit to compare with.",
            ),
        },
    )
    def get(self, _: Request, workspace_id: str, session_id: str) -> Response:
        """Compares stored versions, which do not contain what other programs have written since.

        With `since=git`, compares the files on the disk with the newest commit.
        """
        wanted = self.query(ChangedFilesQuerySerializer)
        tree = read_tree(workspace_id, session_id)
        after = _newest_prompt(session_id) if wanted["since"] == "turn" else 0
        changed = [each for each in _changed(tree, after) if each[0] > wanted["cursor"]]
        page = changed[: wanted["limit"]]
        if wanted["since"] == "git":
            folder = Path(read_open_workspace(workspace_id).path)
            items = _against_git(folder, [path for path, _, _ in page])
        else:
            items = [item for path, old, new in page if (item := _compared(path, old, new))]
        following = page[-1][0] if len(changed) > len(page) else None
        shown = _first_of(items)
        if len(shown) < len(items):
            following = shown[-1]["path"]
        return Response({"items": shown, "next": following})


def _first_of(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the first of the items, which a page may contain together: at least one."""
    sizes = accumulate(len(orjson.dumps(item)) for item in items)
    return [
        item
        for item, size in zip(items, sizes, strict=True)
        if item is items[0] or size <= PAGE_BYTES
    ]


def _newest_prompt(session_id: str) -> int:
    prompts = Message.objects.filter(session_id=session_id, role=Role.USER)
    position = prompts.order_by("-position").values_list("position", flat=True).first()
    return position or 0


def _changed(tree: list[str], after: int) -> list[tuple[str, str, str]]:
    """Returns each file's path, with its version before the position and its newest one."""
    rows = FileVersion.objects.filter(session_id__in=tree).order_by("position").defer("content")
    before: dict[str, str] = {}
    found: dict[str, tuple[str, str]] = {}
    for row in rows:
        is_found = row.version == 0 if row.is_found is None else row.is_found
        if row.path in found:
            found[row.path] = (found[row.path][0], row.pk)
        elif row.position > after and not is_found and row.path in before:
            found[row.path] = (before[row.path], row.pk)
        before[row.path] = row.pk
    return [(path, *versions) for path, versions in sorted(found.items())]


def _compared(path: str, old_id: str, new_id: str) -> dict[str, Any] | None:
    """Returns the changed file; ``None`` if it is as it was."""
    rows = {row.pk: row for row in FileVersion.objects.filter(pk__in=[old_id, new_id])}
    if len(rows) < 2:
        return None  # a child session was deleted meanwhile
    old, new = rows[old_id], rows[new_id]
    # Earlier releases did not record whether there was a file: an empty one counts as none.
    was_absent = not old.content if old.is_absent is None else old.is_absent
    if old.content == new.content and was_absent == bool(new.is_absent):
        return None
    change = "deleted" if new.is_absent else "created" if was_absent else "modified"
    return _shown(path, change, old.content, new.content)


def _against_git(folder: Path, paths: list[str]) -> list[dict[str, Any]]:
    """Raises ``NoRepository``."""
    try:
        before = committed_files(folder, paths)
    except NoCommit:
        raise NoRepository from None
    items = []
    for path in paths:
        if path not in before:
            continue  # outside of the repository, or too large
        old = before[path]
        try:
            now = _on_disk(path)
            old_text = "" if old is None else decode(Path(path), old, FileMark(0, 0)).text
        except NotText:
            items.append(_unreadable(path, "created" if old is None else "modified"))
            continue
        if old is None and now is None:
            continue
        change = "deleted" if now is None else "created" if old is None else "modified"
        item = _shown(path, change, old_text, "" if now is None else now.text)
        if change != "modified" or item["diff"]:
            items.append(item)
    return items


def _on_disk(path: str) -> TextFile | None:
    """Returns a file as it is now. Raises ``NotText``, also for what is no ordinary file."""
    try:
        return read(Path(path), max_bytes=MAX_TEXT_BYTES)
    except FileNotFoundError:
        return None
    except ToolRefusal as refusal:
        raise NotText(str(refusal)) from None


def _unreadable(path: str, change: str) -> dict[str, Any]:
    """Returns a file that has changed and cannot be shown: it is binary, or too large."""
    shown = {"path": path, "change": change, "additions": 0, "removals": 0, "diff": ""}
    return shown | {"is_cut": True}


def _shown(path: str, change: str, old: str, new: str) -> dict[str, Any]:
    diff = unified(old, new, path=path.removeprefix("/"))
    return {
        "path": path,
        "change": change,
        "additions": diff.additions,
        "removals": diff.removals,
        "diff": diff.text[:DIFF_CHARS],
        "is_cut": len(diff.text) > DIFF_CHARS,
    }
