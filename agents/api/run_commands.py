"""Commands of the native socket for single runs and for queues; the same actions as by REST."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from django.conf import settings
from rest_framework import serializers

from agents.api.native_prompts import check_options
from agents.api.prompts import queue_limits
from agents.models import Run
from agents.runs.accept import accept_by, retry_run
from agents.runs.prompting.queue import (
    cancel_one,
    change,
    edit_queued,
    reorder_queue,
    steer_queued,
)
from agents.turn.options import NO_OPTIONS, RunOptions, options_named
from workspaces.access import Actor, Caller, Right
from workspaces.api.bodies import Form, checked
from workspaces.api.fields import PlainText
from workspaces.delivery.native_socket import Body, Command
from workspaces.log.ids import LARGEST_NUMBER
from workspaces.log.reader import read
from workspaces.log.transaction import Transaction
from workspaces.queries.workspaces import require_open

T = TypeVar("T")

LONGEST_QUEUE = 5_000


def run_key(**more: Any) -> serializers.IntegerField:
    return serializers.IntegerField(min_value=0, max_value=LARGEST_NUMBER, **more)


class RunForm(Form):
    key = run_key()


class RetryForm(RunForm):
    run_id = PlainText(limit=200, allow_blank=True, allow_null=True, default=None)


class EditForm(RunForm):
    text = PlainText(limit=settings.CRUSH_MAX_PROMPT_CHARS)


class OrderForm(Form):
    session_id = PlainText(limit=200)
    keys = serializers.ListField(child=run_key(), max_length=LONGEST_QUEUE)


async def _change(workspace_id: str, job: Callable[[Transaction], T]) -> T:
    await read(require_open, workspace_id)
    return await change(workspace_id, job)


async def edit(workspace_id: str, body: Body, actor: Actor) -> None:
    """Changes the text of a prompt that waits."""
    fields = checked(EditForm, dict(body))
    key, text = fields["key"], fields["text"]
    await _change(workspace_id, lambda tx: edit_queued(tx, workspace_id, key, text, actor=actor))


async def reorder(workspace_id: str, body: Body, actor: Actor) -> None:
    """Puts prompts that wait first, in the order that is given."""
    fields = checked(OrderForm, dict(body))
    session_id, keys = fields["session_id"], fields["keys"]
    await _change(
        workspace_id, lambda tx: reorder_queue(tx, workspace_id, session_id, keys, actor=actor)
    )


async def steer(workspace_id: str, body: Body, actor: Actor) -> None:
    """Lets a prompt that waits join the running turn."""
    key = checked(RunForm, dict(body))["key"]
    await _change(workspace_id, lambda tx: steer_queued(tx, workspace_id, key, actor=actor))


async def remove(workspace_id: str, body: Body, actor: Actor) -> None:
    """Removes a prompt that waits."""
    key = checked(RunForm, dict(body))["key"]
    await read(require_open, workspace_id)
    await cancel_one(workspace_id, key, actor=actor, only_queued=True)


async def retry(workspace_id: str, body: Body, actor: Actor) -> Mapping[str, Any]:
    """Accepts the prompt of a run that ended without success once more."""
    fields = checked(RetryForm, dict(body))
    accepted = await accept_by(
        workspace_id,
        lambda tx: retry_run(
            tx,
            workspace_id,
            fields["key"],
            run_id=fields["run_id"] or None,
            limits=queue_limits(),
            client_id=actor.client_id,
            actor=actor,
        ),
    )
    return {"key": accepted.key}


async def check_retry(caller: Caller, workspace_id: str, body: Body) -> None:
    """Requires what the options of the run need: they were its sender's choice."""
    fields = checked(RetryForm, dict(body))
    options = await read(_options_of, workspace_id, fields["key"])
    await check_options(caller, workspace_id, options)


def _options_of(workspace_id: str, key: int) -> RunOptions:
    rows = Run.objects.filter(workspace_id=workspace_id, pk=key).values_list("options", flat=True)
    named = rows.first()
    return options_named(named) if named else NO_OPTIONS


RUN_COMMANDS: Mapping[str, Command] = {
    "retry": Command(Right.PROMPT, retry, check_retry),
    "edit_queued": Command(Right.PROMPT, edit),
    "reorder_queue": Command(Right.PROMPT, reorder),
    "steer_queued": Command(Right.PROMPT, steer),
    "remove_queued": Command(Right.CANCEL, remove),
}
