"""The rows of sessions: messages, the text that is searched, rewinds, files and attachments."""

from __future__ import annotations

from django.db import models
from typing_extensions import override

from workspaces.log.ids import new_id
from workspaces.log.timestamps import now_ms
from workspaces.models.workspaces import Workspace


class Session(models.Model):
    """A conversation, with its totals and its position in the prompt queue."""

    # A child session's id is "<message id>$$<tool call id>".
    id = models.CharField(primary_key=True, max_length=200, default=new_id, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="sessions")
    parent_session_id = models.CharField(max_length=200, blank=True, db_index=True)
    title = models.CharField(max_length=500, blank=True)
    message_count = models.IntegerField(default=0)
    prompt_tokens = models.BigIntegerField(default=0, help_text="Of its last model request.")
    completion_tokens = models.BigIntegerField(default=0, help_text="Of its last model request.")
    total_prompt_tokens = models.BigIntegerField(
        db_default=0, help_text="Of all its model requests, titles and summaries included."
    )
    total_completion_tokens = models.BigIntegerField(
        db_default=0, help_text="Of all its model requests, titles and summaries included."
    )
    cost = models.FloatField(default=0.0)
    context_tokens = models.BigIntegerField(
        db_default=0, help_text="What the conversation took of the model's window at last."
    )
    summary_message_id = models.CharField(max_length=36, blank=True)
    todos = models.JSONField(default=list, blank=True)
    attached_clients = models.IntegerField(default=0)
    pinned_at = models.BigIntegerField(null=True, blank=True)
    archived_at = models.BigIntegerField(null=True, blank=True)
    forked_from = models.CharField(
        max_length=200, blank=True, db_default="", help_text="The session that it began as."
    )
    is_busy = models.BooleanField(default=False, help_text="A run is running, parked or waiting.")
    is_deleting = models.BooleanField(default=False, help_text="Gone as soon as its run has ended.")
    last_accept = models.BigIntegerField(
        default=0, help_text="The newest accepted prompt's number."
    )
    cancel_mark = models.BigIntegerField(
        default=0, help_text="Prompts up to this one are cancelled."
    )
    created_at = models.BigIntegerField(default=now_ms)
    updated_at = models.BigIntegerField(default=now_ms)

    class Meta:
        indexes = [models.Index(fields=["workspace", "-updated_at"], name="session_by_recency")]

    @override
    def __str__(self) -> str:
        return self.title or f"Untitled ({self.id[:8]})"


class StoredMessage(models.Model):
    """The columns of a message. ``parts`` holds the wire form: see ``workspaces.log.parts``."""

    id = models.CharField(primary_key=True, max_length=36, default=new_id, editable=False)
    workspace = models.ForeignKey("workspaces.Workspace", models.CASCADE, related_name="+")
    position = models.BigIntegerField(help_text="The number of the event that began it: its order.")
    stream_number = models.BigIntegerField(
        default=0, help_text="Names it in deltas while it streams."
    )
    role = models.CharField(max_length=16)
    parts = models.TextField(default="[]")
    model = models.CharField(max_length=200, blank=True)
    provider = models.CharField(max_length=200, blank=True)
    is_finished = models.BooleanField(default=False)
    is_summary = models.BooleanField(default=False)
    run_key = models.BigIntegerField(null=True, blank=True, help_text="The run that wrote it.")
    author = models.JSONField(
        null=True, blank=True, help_text="Who sent it: kind, name, user_id. Prompts only."
    )
    created_at = models.BigIntegerField(default=now_ms)
    updated_at = models.BigIntegerField(default=now_ms)

    class Meta:
        abstract = True

    @override
    def __str__(self) -> str:
        return f"{self.role} {self.pk}"


class Message(StoredMessage):
    session = models.ForeignKey(Session, models.CASCADE, related_name="messages")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["session", "position"], name="one_message_a_position")
        ]
        indexes = [
            models.Index(fields=["workspace", "role", "position"], name="message_by_role"),
            models.Index(
                fields=["workspace"], condition=models.Q(is_finished=False), name="message_open"
            ),
        ]


class SearchText(models.Model):
    """The text of a finished message, for the search: ``workspaces.actions.search_texts``.

    Its migration adds triggers on SQLite: one that rebuilds the table must add them again.
    """

    # Ids grow with time: results are in their order. Those of earlier releases are negative.
    id = models.BigAutoField(primary_key=True)
    message_id = models.CharField(max_length=36, unique=True)
    session_id = models.CharField(max_length=200, db_index=True)
    workspace_id = models.CharField(max_length=36)
    scope = models.CharField(max_length=80, help_text="Words for the workspace and the session.")
    text = models.TextField()

    @override
    def __str__(self) -> str:
        return self.message_id


class SearchFill(models.Model):
    """How far the messages of earlier releases are in the search."""

    session_created_at = models.BigIntegerField(default=0)
    last_session_id = models.CharField(max_length=200, blank=True)
    session_id = models.CharField(max_length=200, blank=True, help_text="Empty: the next one.")
    position = models.BigIntegerField(default=0)
    next_id = models.BigIntegerField(default=-(2**40))
    until = models.BigIntegerField(help_text="Later sessions are in the search already.")
    is_done = models.BooleanField(default=False)

    @override
    def __str__(self) -> str:
        return "done" if self.is_done else f"at session {self.session_id}"


class RewindState(models.TextChoices):
    APPLYING = "applying", "applying (files are being restored)"
    DONE = "done"
    UNDOING = "undoing", "undoing (files are being restored)"
    UNDONE = "undone"


# No run of the session is claimed meanwhile.
UNFINISHED_REWINDS = (RewindState.APPLYING, RewindState.UNDOING)


class Rewind(models.Model):
    """The removal of a session's newest messages, and how to undo it: ``agents.runs.history``."""

    id = models.CharField(primary_key=True, max_length=36, default=new_id, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="+")
    session = models.ForeignKey(Session, models.CASCADE, related_name="rewinds")
    state = models.CharField(max_length=16, choices=RewindState.choices)
    message_id = models.CharField(
        max_length=36, blank=True, help_text="The newest message that stays."
    )
    # Messages with these positions are removed. A later one came while files were restored.
    first_position = models.BigIntegerField()
    last_position = models.BigIntegerField()
    number = models.BigIntegerField(default=0, help_text="The number of its event.")
    with_files = models.BooleanField(default=False)
    plan = models.JSONField(default=list, help_text="The files to restore, to their versions.")
    files = models.JSONField(default=list, help_text="What happened to each file.")
    undone_files = models.JSONField(default=list, help_text="The same when it was undone.")
    session_before = models.JSONField(default=dict, help_text="Columns of the session.")
    author = models.JSONField(null=True, blank=True, help_text="As of a message.")
    undone_by = models.JSONField(null=True, blank=True, help_text="The same of its undoing.")
    began_at = models.BigIntegerField(default=now_ms, help_text="Also of its undoing.")
    created_at = models.BigIntegerField(default=now_ms)
    finished_at = models.BigIntegerField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["session"],
                condition=models.Q(state__in=["applying", "undoing"]),
                name="rewind_unfinished",
            )
        ]

    @override
    def __str__(self) -> str:
        return f"{self.session_id} to {self.message_id or 'its start'}"


class RemovedMessage(StoredMessage):
    """A message that a rewind has removed from its session, kept until the session is deleted."""

    session = models.ForeignKey(Session, models.CASCADE, related_name="+")
    rewind = models.ForeignKey(Rewind, models.CASCADE, related_name="messages")


class FileVersion(models.Model):
    id = models.CharField(primary_key=True, max_length=36, default=new_id, editable=False)
    session = models.ForeignKey(Session, models.CASCADE, related_name="file_versions")
    path = models.CharField(max_length=4096)
    version = models.IntegerField()
    content = models.TextField(blank=True)
    position = models.BigIntegerField(help_text="The number of its event: its order.")
    # Unknown for versions of earlier releases: there, only version 0 was found.
    is_found = models.BooleanField(
        null=True, help_text="Found before a change, and not written by a tool."
    )
    is_absent = models.BooleanField(null=True, help_text="There was no file.")
    created_at = models.BigIntegerField(default=now_ms)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["session", "path", "version"], name="one_file_version")
        ]

    @override
    def __str__(self) -> str:
        return f"{self.path} v{self.version}"


class FileRead(models.Model):
    session = models.ForeignKey(Session, models.CASCADE, related_name="file_reads")
    path = models.CharField(max_length=4096)
    mtime_ns = models.BigIntegerField()
    size = models.BigIntegerField()
    read_at = models.BigIntegerField(default=now_ms)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "path"], name="one_read_mark")]

    @override
    def __str__(self) -> str:
        return self.path


class Attachment(models.Model):
    """The content of a file that was sent with a prompt: ``workspaces.log.attached_data``."""

    id = models.CharField(primary_key=True, max_length=64, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="+")
    content = models.TextField(help_text="Base64.")
    created_at = models.BigIntegerField(default=now_ms)

    @override
    def __str__(self) -> str:
        return self.id[:12]
