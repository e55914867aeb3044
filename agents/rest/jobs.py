"""Background commands: what they are, what they have printed, and their end."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import Exists, OuterRef, QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agents.jobs.workspace_jobs import WorkspaceJobs
from agents.models import Job
from agents.states import JobState
from agents.tools.shell.jobs import JobRefused
from people.actions.audit import Act, record
from workspaces.access import Actor, Right
from workspaces.log.errors import JobUnknown
from workspaces.log.writer import writer
from workspaces.models import Message
from workspaces.rest.answers import Seconds
from workspaces.rest.view import Resource

ID_LIMIT = 200
MOST_CHARS = 1_000_000
DEFAULT_CHARS = 100_000


class JobSerializer(serializers.ModelSerializer[Job]):
    """A command that the model runs in the background."""

    id = serializers.CharField(help_text="The job's id, as the model uses it.")
    session_id = serializers.CharField(help_text="The session that started it.")
    command = serializers.CharField(help_text="The command.")
    description = serializers.CharField(help_text="What it is for, by the model; may be empty.")
    working_dir = serializers.CharField(help_text="The folder in which it runs.")
    state = serializers.ChoiceField(
        [state.value for state in JobState],
        help_text="`lost` if the server that ran it died.",
    )
    exit_code = serializers.IntegerField(
        allow_null=True, help_text="The exit code; null until it has ended."
    )
    started_at = Seconds(help_text="When it was started.")
    ended_at = Seconds(allow_null=True, help_text="When it ended; null until then.")

    class Meta:
        model = Job
        fields = (
            "id",
            "session_id",
            "command",
            "description",
            "working_dir",
            "state",
            "exit_code",
            "started_at",
            "ended_at",
        )


class JobFilter(serializers.Serializer[Any]):
    session_id = serializers.CharField(
        required=False, max_length=ID_LIMIT, help_text="Only of this session."
    )
    state = serializers.ChoiceField(
        [state.value for state in JobState], required=False, help_text="Only in this state."
    )


class JobOutputSerializer(serializers.Serializer[Any]):
    """A piece of what a job has printed. Of much output only the beginning and the end are kept."""

    text = serializers.CharField(help_text="The piece.", trim_whitespace=False)
    offset = serializers.IntegerField(help_text="The number of characters before it.")
    total = serializers.IntegerField(help_text="The number of characters that are kept so far.")
    state = serializers.ChoiceField(
        [state.value for state in JobState], help_text="The job's state."
    )


class JobOutputQuery(serializers.Serializer[Any]):
    offset = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=2**31,
        help_text="The number of characters to leave out at the beginning.",
    )
    tail = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=MOST_CHARS,
        help_text="Only so many characters at the end; instead of `offset`.",
    )
    limit = serializers.IntegerField(
        default=DEFAULT_CHARS, min_value=1, max_value=MOST_CHARS, help_text="The most characters."
    )


class JobBase(Resource):
    rights: ClassVar = {}
    serializer_class: Any = JobSerializer

    def jobs(self, workspace_id: str) -> QuerySet[Job]:
        """Returns the jobs of models; those of users' own commands are messages."""
        of_user = Message.objects.filter(pk=OuterRef("pk"))
        return Job.objects.filter(~Exists(of_user), workspace_id=workspace_id)

    def shown(self, workspace_id: str, job_id: str) -> Response:
        """Raises ``JobUnknown``."""
        row = self.jobs(workspace_id).filter(pk=job_id).first()
        if row is None:
            raise JobUnknown
        return Response(JobSerializer(row).data)


class JobList(JobBase):
    """The jobs of a workspace, the newest first. Old ones are forgotten."""

    rights: ClassVar = {"get": Right.READ}
    ordering = ("-started_at", "-id")

    @extend_schema(parameters=[JobFilter])
    def get(self, _: Request, workspace_id: str) -> Response:
        return self.page(self.jobs(workspace_id).filter(**self.query(JobFilter)))


class JobDetail(JobBase):
    """One job."""

    rights: ClassVar = {"get": Right.READ}

    def get(self, _: Request, workspace_id: str, job_id: str) -> Response:
        return self.shown(workspace_id, job_id)


class JobOutputDetail(JobBase):
    """What a job has printed."""

    rights: ClassVar = {"get": Right.READ}
    serializer_class = JobOutputSerializer

    @extend_schema(parameters=[JobOutputQuery])
    def get(self, _: Request, workspace_id: str, job_id: str) -> Response:
        given = self.query(JobOutputQuery)
        self.shown(workspace_id, job_id)
        try:
            report = self.act(WorkspaceJobs(workspace_id, "").report, job_id)
        except JobRefused:
            raise JobUnknown from None
        total = len(report.output)
        tail = given.get("tail")
        start = max(0, total - tail) if tail is not None else min(given.get("offset", 0), total)
        text = report.output[start : start + given["limit"]]
        return Response({"text": text, "offset": start, "total": total, "state": report.state})


class JobEnd(JobBase):
    """The end of a job, with everything that it has started."""

    rights: ClassVar = {"post": Right.CANCEL}

    @extend_schema(request=None, responses={200: JobSerializer})
    def post(self, _: Request, workspace_id: str, job_id: str) -> Response:
        self.shown(workspace_id, job_id)
        self.act(_kill, workspace_id, job_id, self.actor)
        return self.shown(workspace_id, job_id)


async def _kill(workspace_id: str, job_id: str, actor: Actor) -> None:
    try:
        before = await WorkspaceJobs(workspace_id, "").kill(job_id)
    except JobRefused:
        raise JobUnknown from None
    if before.is_running:
        await writer.write(
            workspace_id,
            lambda tx: record(tx, actor, Act.CANCEL, workspace_id=workspace_id, target=job_id),
        )
