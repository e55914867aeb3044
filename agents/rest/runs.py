"""Runs: what became of each prompt, with timings, usage and cost."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agents.api.native_prompts import OptionsSerializer, check_options
from agents.api.prompts import queue_limits
from agents.models import Run, RunKind
from agents.runs.accept import accept_by, retry_run
from agents.runs.objects.run_details import run_detail, run_objects
from agents.runs.objects.run_timeline import run_timeline
from agents.runs.prompting.queue import cancel_one
from agents.states import Priority, RunOutcome, RunState, StepKind, Strategy
from agents.turn.options import options_named
from workspaces.access import Right
from workspaces.log.errors import RunUnknown
from workspaces.log.ids import new_id
from workspaces.rest.idempotency import key_of
from workspaces.rest.messages import AuthorSerializer
from workspaces.rest.view import Resource


class RunUsageSerializer(serializers.Serializer[Any]):
    requests = serializers.IntegerField(help_text="Requests to models, as far as they report use.")
    prompt_tokens = serializers.IntegerField(help_text="With those from the provider's cache.")
    completion_tokens = serializers.IntegerField(help_text="Of the replies.")
    cost = serializers.FloatField(help_text="US dollars.")


class BudgetLimitsSerializer(serializers.Serializer[Any]):
    cost = serializers.FloatField(required=False, help_text="US dollars.")
    tokens = serializers.IntegerField(required=False, help_text="Of prompts and completions.")
    steps = serializers.IntegerField(required=False, help_text="Requests to a model.")
    seconds = serializers.IntegerField(required=False, help_text="Since the run began.")


class BudgetReachedSerializer(serializers.Serializer[Any]):
    limits = BudgetLimitsSerializer(help_text="The budget of its prompt.")
    reached = BudgetLimitsSerializer(help_text="What it had used when it ended.")
    exceeded = serializers.ListField(
        child=serializers.CharField(), help_text="The names of the limits that it reached."
    )


class RunSerializer(serializers.Serializer[Any]):
    """One accepted prompt, or another piece of work. Fields without a value are left out."""

    key = serializers.IntegerField(help_text="Its number on this server.")
    session_id = serializers.CharField(help_text="Its session.")
    accept_number = serializers.IntegerField(help_text="Its place among the session's prompts.")
    run_id = serializers.CharField(required=False, help_text="The name that its sender chose.")
    kind = serializers.ChoiceField(RunKind.choices, help_text="What work it is.")
    state = serializers.ChoiceField(
        [(state.value, state.value) for state in RunState], help_text="How far it is."
    )
    outcome = serializers.ChoiceField(
        [(outcome.value, outcome.value) for outcome in RunOutcome],
        required=False,
        help_text="How it ended.",
    )
    error = serializers.CharField(required=False, help_text="Why it ended without success.")
    prompt = serializers.CharField(help_text="Its text; in lists the first 2,000 characters.")
    queue_place = serializers.IntegerField(
        required=False,
        help_text="Its place, from 1, among the runs of all users that wait for a worker. Only of"
        " a run that waits for nothing else.",
    )
    was_queued = serializers.BooleanField(help_text="It was accepted behind other work.")
    author = AuthorSerializer(required=False, help_text="Who sent it.")
    cancelled_by = AuthorSerializer(required=False, help_text="Who cancelled it.")
    strategy = serializers.ChoiceField(
        [(strategy.value, strategy.value) for strategy in Strategy],
        required=False,
        help_text="What it did with a busy session, unless it is `enqueue`.",
    )
    priority = serializers.ChoiceField(
        [(priority.value, priority.value) for priority in Priority],
        required=False,
        help_text="When it begins if many wait, unless it is `interactive`.",
    )
    options = OptionsSerializer(required=False, help_text="What its sender chose for it.")
    budget = BudgetReachedSerializer(required=False, help_text="Of a run over its budget.")
    replaces = serializers.IntegerField(required=False, help_text="The run that it ended.")
    rewind_id = serializers.CharField(
        required=False, help_text="The rewind by which a rollback undid that run."
    )
    retry_of = serializers.IntegerField(required=False, help_text="The run that it repeats.")
    folded_into = serializers.IntegerField(required=False, help_text="The run that it joined.")
    parent = serializers.IntegerField(  # type: ignore[assignment]  # a field of this name
        required=False, help_text="The run whose tool call waits for it."
    )
    message_id = serializers.CharField(required=False, help_text="Its last reply.")
    accepted_at = serializers.IntegerField(help_text="Unix seconds.")
    started_at = serializers.IntegerField(required=False, help_text="Unix seconds.")
    finished_at = serializers.IntegerField(required=False, help_text="Unix seconds.")
    usage = RunUsageSerializer(help_text="Of the run itself, without its child runs.")


class RunDetailSerializer(RunSerializer):
    """One run with its whole prompt."""

    total_usage = RunUsageSerializer(help_text="Of the run with its child runs.")
    children = serializers.ListField(
        child=serializers.IntegerField(), help_text="The keys of its child runs."
    )


class TimelineEntrySerializer(serializers.Serializer[Any]):
    """Fields without a meaning for the kind are left out."""

    kind = serializers.ChoiceField(
        ["queue", *(kind.value for kind in StepKind), "approval", "questions", "child_run"],
        help_text="`queue`: until a worker began; `reply` and `summary`: a request to a model;"
        " `call`: a tool; `approval` and `questions`: until a person answered; `child_run`: until"
        " a run of a child session ended.",
    )
    name = serializers.CharField(help_text="The model, the tool, or the kind of the child run.")
    started_at = serializers.FloatField(help_text="Unix seconds, with milliseconds.")
    ended_at = serializers.FloatField(allow_null=True, help_text="Null: it goes on.")
    outcome = serializers.CharField(
        required=False,
        help_text="Of a reply why it ended, of a call `done` or `error`, of an approval or of"
        " questions the state, of a child run how it ended.",
    )
    provider = serializers.CharField(required=False, help_text="Of the model.")
    message_id = serializers.CharField(required=False, help_text="The message of the reply.")
    first_at = serializers.FloatField(
        required=False, allow_null=True, help_text="When the first text of the reply came."
    )
    attempts = serializers.IntegerField(
        required=False, help_text="How often the reply was requested, retries included."
    )
    prompt_tokens = serializers.IntegerField(required=False, help_text="Of the reply.")
    completion_tokens = serializers.IntegerField(required=False, help_text="Of the reply.")
    cost = serializers.FloatField(required=False, help_text="Of the reply, in US dollars.")
    call_id = serializers.CharField(required=False, help_text="The tool call that it belongs to.")
    id = serializers.CharField(required=False, help_text="Of the request, or of the questions.")
    author = AuthorSerializer(required=False, allow_null=True, help_text="Who answered.")
    run_key = serializers.IntegerField(required=False, help_text="The child run.")


class RunTimelineSerializer(serializers.Serializer[Any]):
    items = TimelineEntrySerializer(many=True, help_text="In the order of time.")
    is_complete = serializers.BooleanField(help_text="False: there are too many to list all.")


class RunQuerySerializer(serializers.Serializer[Any]):
    session = serializers.CharField(required=False, max_length=200, help_text="Of this session.")
    state = serializers.ChoiceField(
        [(state.value, state.value) for state in RunState],
        required=False,
        help_text="In this state.",
    )
    outcome = serializers.ChoiceField(
        [(outcome.value, outcome.value) for outcome in RunOutcome],
        required=False,
        help_text="With this outcome.",
    )
    kind = serializers.ChoiceField(RunKind.choices, required=False, help_text="Of this kind.")
    author = serializers.CharField(
        required=False, max_length=20, help_text="Sent by the user with this id."
    )
    run_id = serializers.CharField(required=False, max_length=200, help_text="Of this name.")


_COLUMNS = {
    "session": "session_id",
    "author": "author__user_id",
}


class RunList(Resource):
    """The runs of a workspace, the newest first; also of a closed one."""

    rights: ClassVar = {"get": Right.READ}
    allows_closed = True
    serializer_class = RunSerializer
    queryset = Run.objects.filter(session__is_deleting=False)
    ordering = ("-id",)

    @extend_schema(parameters=[RunQuerySerializer])
    def get(self, _: Request, workspace_id: str) -> Response:
        chosen = self.query(RunQuerySerializer)
        found: QuerySet[Run] = self.get_queryset().filter(
            workspace_id=workspace_id,
            **{_COLUMNS.get(name, name): value for name, value in chosen.items()},
        )
        rows = self.paginate_queryset(found.defer("attachments", "open_calls"))
        return self.get_paginated_response(run_objects(rows or ()))


class RunBase(Resource):
    serializer_class: type[serializers.Serializer[Any]] = RunDetailSerializer
    queryset = Run.objects.filter(session__is_deleting=False)
    unknown = RunUnknown

    def row(self, workspace_id: str, key: int) -> Run:
        """Returns the run. Raises ``RunUnknown``."""
        found = self.get_queryset().filter(workspace_id=workspace_id)
        run: Run | None = found.filter(pk=key).first()
        if run is None:
            raise RunUnknown
        return run

    def shown(self, workspace_id: str, key: int, *, status: int = 200) -> Response:
        is_new = status == 202
        return Response(run_detail(self.row(workspace_id, key), is_new=is_new), status=status)


class RunDetail(RunBase):
    """One run."""

    rights: ClassVar = {"get": Right.READ}

    def get(self, _: Request, workspace_id: str, key: int) -> Response:
        return self.shown(workspace_id, key)


class RunSteps(RunBase):
    """The timeline of a run."""

    rights: ClassVar = {"get": Right.READ}
    serializer_class = RunTimelineSerializer
    pagination_class = None  # type: ignore[assignment]  # a page shows all of them as one picture

    def get(self, _: Request, workspace_id: str, key: int) -> Response:
        """What the run did, and what it waited for, in the order of time.

        Tool calls and requests to models are listed when they have ended.
        """
        entries, is_complete = run_timeline(self.row(workspace_id, key))
        return Response({"items": entries, "is_complete": is_complete})


class RunCancel(RunBase):
    """The cancel of one run alone: other prompts of its session stay."""

    rights: ClassVar = {"post": Right.CANCEL}

    @extend_schema(request=None)
    def post(self, _: Request, workspace_id: str, key: int) -> Response:
        """Cancels the run. Its state may be `running` until its worker has ended it."""
        self.row(workspace_id, key)
        self.act(cancel_one, workspace_id, key, actor=self.actor)
        return self.shown(workspace_id, key)


class RunRetry(RunBase):
    """Another run of the prompt of a run that ended without success."""

    rights: ClassVar = {"post": Right.PROMPT}

    @extend_schema(request=None, responses={202: RunDetailSerializer})
    def post(self, request: Request, workspace_id: str, key: int) -> Response:
        """Accepts the prompt once more, with its attachments and options.

        The `Idempotency-Key` is also the id of the new run.
        """
        options = options_named(self.row(workspace_id, key).options or {})
        self.act(check_options, self.caller, workspace_id, options)
        actor = self.act(self.caller.sender, self.actor)
        run_id = key_of(request) or new_id()
        accepted = self.act(
            accept_by,
            workspace_id,
            lambda tx: retry_run(
                tx,
                workspace_id,
                key,
                run_id=run_id,
                limits=queue_limits(),
                client_id=actor.client_id,
                actor=actor,
            ),
        )
        return self.shown(workspace_id, accepted.key, status=202)
