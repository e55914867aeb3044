"""Prompts to a session, its summary, the cancel of all its work, and its queue."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agents.api.native_prompts import PromptSerializer, check_options, native_prompt
from agents.api.prompts import queue_limits
from agents.api.run_commands import LONGEST_QUEUE, run_key
from agents.models import Run
from agents.rest.runs import RunBase, RunDetailSerializer, RunSerializer
from agents.runs.accept import accept, summarize
from agents.runs.cancel import cancel, clear_queue
from agents.runs.objects.run_details import run_objects
from agents.runs.prompting.queue import cancel_one, change, edit_queued, reorder_queue, steer_queued
from agents.states import RunState
from workspaces.access import Right
from workspaces.log.errors import Refusal
from workspaces.log.ids import new_id
from workspaces.queries.sessions import require_session
from workspaces.rest.idempotency import key_of
from workspaces.rest.view import Resource


class PromptRequestSerializer(PromptSerializer):
    """A prompt to a session."""

    run_id = serializers.CharField(
        required=False,
        max_length=200,
        help_text="A name for the run, for instance a UUID. The same name with the same prompt is"
        " the same run. Without it, the `Idempotency-Key` is the name, or the server chooses one.",
    )


class PromptList(RunBase):
    """Prompts to a session."""

    rights: ClassVar = {"post": Right.PROMPT}

    @extend_schema(request=PromptRequestSerializer, responses={202: RunDetailSerializer})
    def post(self, request: Request, workspace_id: str, session_id: str) -> Response:
        """Accepts a prompt. The response comes when the run is stored, not when it has ended."""
        fields = self.body(PromptRequestSerializer)
        run_id = fields.get("run_id") or key_of(request) or new_id()
        prompt = native_prompt(session_id, fields, run_id=run_id)
        actor = self.act(self.caller.sender, self.actor)
        self.act(check_options, self.caller, workspace_id, prompt.options)
        accepted = self.act(
            accept,
            workspace_id,
            prompt,
            limits=queue_limits(),
            client_id=actor.client_id,
            actor=actor,
        )
        return self.shown(workspace_id, accepted.key, status=202)


class NothingToSummarize(Refusal):
    """The session has no messages, so there is nothing to summarise. Send a prompt first."""

    code = "nothing_to_summarize"
    status = 422


class SessionSummary(RunBase):
    """The summary of a session, from which its conversation continues."""

    rights: ClassVar = {"post": Right.PROMPT}

    @extend_schema(request=None, responses={202: RunDetailSerializer})
    def post(self, _: Request, workspace_id: str, session_id: str) -> Response:
        """Accepts a summary, which waits like a prompt for those before it."""
        key = self.act(summarize, workspace_id, session_id, limits=queue_limits(), actor=self.actor)
        if key is None:
            raise NothingToSummarize
        return self.shown(workspace_id, key, status=202)


class SessionCancel(Resource):
    """The cancel of everything that a session has accepted."""

    rights: ClassVar = {"post": Right.CANCEL}
    allows_closed = True  # runs that wait for an answer are there, too, and opening resumes them
    serializer_class = RunSerializer

    @extend_schema(request=None, responses={204: None})
    def post(self, _: Request, workspace_id: str, session_id: str) -> Response:
        """Cancels the running and the waiting prompts of the session, also in a closed workspace."""
        self.act(cancel, workspace_id, session_id, actor=self.actor, must_be_open=False)
        return Response(status=204)


class QueueOrderSerializer(serializers.Serializer[Any]):
    keys = serializers.ListField(
        child=run_key(),
        max_length=LONGEST_QUEUE,
        help_text="The prompts that come first, in this order. The others follow in theirs.",
    )


class QueueList(Resource):
    """The prompts of a session that wait for their turn, in order."""

    rights: ClassVar = {"get": Right.READ, "patch": Right.PROMPT, "delete": Right.CANCEL}
    serializer_class = RunSerializer
    queryset = Run.objects.filter(state=RunState.ACCEPTED, was_queued=True)
    ordering = ("accept_number",)

    def get(self, _: Request, workspace_id: str, session_id: str) -> Response:
        require_session(workspace_id, session_id)
        rows = self.paginate_queryset(self.get_queryset().filter(session_id=session_id))
        return self.get_paginated_response(run_objects(rows or ()))

    @extend_schema(request=QueueOrderSerializer, responses={204: None})
    def patch(self, _: Request, workspace_id: str, session_id: str) -> Response:
        """Changes the order. Refused with 409 if one of the prompts no longer waits."""
        keys = self.body(QueueOrderSerializer)["keys"]
        require_session(workspace_id, session_id)
        actor = self.actor
        self.act(
            change,
            workspace_id,
            lambda tx: reorder_queue(tx, workspace_id, session_id, keys, actor=actor),
        )
        return Response(status=204)

    @extend_schema(responses={204: None})
    def delete(self, _: Request, workspace_id: str, session_id: str) -> Response:
        """Removes all prompts that wait. They leave no messages."""
        require_session(workspace_id, session_id)
        self.act(clear_queue, workspace_id, session_id, actor=self.actor)
        return Response(status=204)


class QueuedTextSerializer(serializers.Serializer[Any]):
    text = serializers.CharField(
        max_length=settings.CRUSH_MAX_PROMPT_CHARS,
        trim_whitespace=False,
        help_text="The new text of the prompt.",
    )


class QueuedPrompt(RunBase):
    """One prompt that waits for its turn."""

    rights: ClassVar = {"patch": Right.PROMPT, "delete": Right.CANCEL}

    @extend_schema(request=QueuedTextSerializer)
    def patch(self, _: Request, workspace_id: str, key: int) -> Response:
        """Changes its text. Only its author may."""
        text, actor = self.body(QueuedTextSerializer)["text"], self.actor
        self.row(workspace_id, key)
        self.act(
            change,
            workspace_id,
            lambda tx: edit_queued(tx, workspace_id, key, text, actor=actor),
        )
        return self.shown(workspace_id, key)

    @extend_schema(responses={204: None})
    def delete(self, _: Request, workspace_id: str, key: int) -> Response:
        """Removes it from the queue."""
        self.row(workspace_id, key)
        self.act(cancel_one, workspace_id, key, actor=self.actor, only_queued=True)
        return Response(status=204)


class QueuedSteer(RunBase):
    """The promotion of a prompt that waits: it joins the running turn at its next step."""

    rights: ClassVar = {"post": Right.PROMPT}

    @extend_schema(request=None)
    def post(self, _: Request, workspace_id: str, key: int) -> Response:
        """Lets the prompt steer the running turn, or run next if the turn has no other step."""
        self.row(workspace_id, key)
        actor = self.actor
        self.act(change, workspace_id, lambda tx: steer_queued(tx, workspace_id, key, actor=actor))
        return self.shown(workspace_id, key)
