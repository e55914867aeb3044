"""The fields of a native prompt: text, files, strategy and options; for REST and the socket."""

from __future__ import annotations

import asyncio
import binascii
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.conf import settings
from rest_framework import serializers

from agents.api.prompts import ATTACHMENTS, CONTENT_CHARS
from agents.config.cache import configs
from agents.llm.errors import ModelError
from agents.runs.accept import Prompt, PromptAttachment
from agents.runs.setup import chosen_model, model_for
from agents.states import Priority, Strategy
from agents.turn.options import RunOptions, options_named
from workspaces.access import Caller, Right
from workspaces.api.bodies import Form
from workspaces.log.errors import BadField
from workspaces.models import PermissionMode

BIGGEST = 10**12  # of a budget's whole numbers


def _require_base64(text: str) -> None:
    try:
        binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise serializers.ValidationError("must be base64") from None


class BudgetSerializer(serializers.Serializer[Any]):
    """Limits of a run together with its child runs, checked before each request to a model."""

    cost = serializers.FloatField(
        required=False, min_value=1e-6, max_value=1e9, help_text="US dollars."
    )
    tokens = serializers.IntegerField(
        required=False, min_value=1, max_value=BIGGEST, help_text="Of prompts and completions."
    )
    steps = serializers.IntegerField(
        required=False, min_value=1, max_value=BIGGEST, help_text="Requests to a model."
    )
    seconds = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=BIGGEST,
        help_text="Since the run began, waiting for answers included.",
    )


class OptionsSerializer(serializers.Serializer[Any]):
    """What a prompt chooses for its own run. A prompt with options joins no other turn."""

    model = serializers.CharField(
        required=False,
        max_length=400,
        help_text="`large`, `small`, or `provider/model`. Without it, the workspace's large model.",
    )
    effort = serializers.CharField(
        required=False, max_length=100, help_text="One of the model's reasoning levels."
    )
    permission_mode = serializers.ChoiceField(
        PermissionMode.choices,
        required=False,
        help_text="Instead of the workspace's. Modes without requests need the right `skip`.",
    )
    budget = BudgetSerializer(required=False, help_text="Limits that end the run as `over_budget`.")


class PromptAttachmentSerializer(serializers.Serializer[Any]):
    """A file that is sent with a prompt."""

    file_path = serializers.CharField(
        required=False, default="", allow_blank=True, max_length=4096, help_text="Its path."
    )
    file_name = serializers.CharField(
        required=False, default="", allow_blank=True, max_length=4096, help_text="Its name."
    )
    mime_type = serializers.CharField(max_length=200, help_text="Its type, for instance image/png.")
    content = serializers.CharField(
        max_length=CONTENT_CHARS,
        allow_blank=True,
        trim_whitespace=False,
        validators=[_require_base64],
        help_text="Base64.",
    )


class StrategySerializer(Form):
    strategy = serializers.ChoiceField(
        [(strategy.value, strategy.value) for strategy in Strategy],
        default=Strategy.ENQUEUE.value,
        help_text="What the prompt does with a busy session. `enqueue`: waits for its turn."
        " `steer`: joins the running turn at its next step. `interrupt`: ends the running turn,"
        " keeps its messages, and runs next. `rollback`: the same, but undoes its messages and files."
        " `reject`: is refused with 409.",
    )
    priority = serializers.ChoiceField(
        [(priority.value, priority.value) for priority in Priority],
        default=Priority.INTERACTIVE.value,
        help_text="When it begins, if more runs wait than there are places. `interactive`: a person"
        " or a program waits for it. `scheduled`: a timer sent it; it begins after the others.",
    )
    options = OptionsSerializer(required=False, help_text="Choices for this prompt's run alone.")


class PromptSerializer(StrategySerializer):
    """A prompt to a session."""

    text = serializers.CharField(
        max_length=settings.CRUSH_MAX_PROMPT_CHARS,
        allow_blank=True,
        trim_whitespace=False,
        default="",
        help_text="May be empty if a text file is attached.",
    )
    attachments: Any = serializers.ListSerializer(
        child=PromptAttachmentSerializer(),
        required=False,
        max_length=ATTACHMENTS,
        help_text="Files and images.",
    )


def native_prompt(session_id: str, fields: dict[str, Any], *, run_id: str | None) -> Prompt:
    """Returns the prompt with the validated fields of ``PromptSerializer``. Raises ``BadField``."""
    attachments = tuple(PromptAttachment(**file) for file in fields.get("attachments") or ())
    if not fields["text"] and not any(a.mime_type.startswith("text/") for a in attachments):
        raise BadField("text: must not be empty")
    return with_strategy(Prompt(session_id, fields["text"], run_id, attachments), fields)


def with_strategy(prompt: Prompt, fields: Mapping[str, Any]) -> Prompt:
    """Adds the validated fields of ``StrategySerializer``. Raises ``BadField``."""
    strategy = Strategy(fields["strategy"])
    options = options_named(fields.get("options") or {})
    if strategy is Strategy.STEER and options:
        raise BadField("options: a prompt that joins another turn has none of its own")
    priority = Priority(fields["priority"])
    return replace(prompt, strategy=strategy, options=options, priority=priority)


async def check_options(caller: Caller, workspace_id: str, options: RunOptions) -> None:
    """Checks that the caller may choose these options, and that they can be used.

    Raises ``Forbidden``, ``ForbiddenToTools`` and ``BadField``.
    """
    if options.permission_mode == PermissionMode.NORMAL:
        await caller.require_person()
    elif options.permission_mode:
        await caller.require(Right.SKIP, workspace_id)
    if options.model or options.effort:
        await _check_model(workspace_id, options)


async def _check_model(workspace_id: str, options: RunOptions) -> None:
    config = await configs().config_of(workspace_id)
    if not await asyncio.to_thread(os.path.isdir, config.path):
        return  # the folder is not here: the worker of the run finds out
    choice = chosen_model(config.settings, options.model)
    try:
        info = model_for(config.settings, choice, {}).info
    except ModelError as error:
        raise BadField(f"options.model: {error.sentence}") from None
    levels = info.reasoning_levels
    if options.effort and options.effort not in levels:
        known = f"one of {', '.join(levels)}" if levels else "left out: the model has no levels"
        raise BadField(f"options.effort: must be {known}")
