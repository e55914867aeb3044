"""The form of a prompt request, and the prompt made from it."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from rest_framework import serializers

from agents.runs.accept import Prompt, PromptAttachment
from agents.runs.prompting.queue import QueueLimits
from workspaces.api.bodies import Form
from workspaces.api.fields import MESSAGES, Base64Text, PlainText
from workspaces.log.errors import BadField

ATTACHMENTS = 50
CONTENT_CHARS = 20 * 1024 * 1024  # of each; the limit of the body bounds all of them


class AttachmentForm(Form):
    file_path = PlainText(limit=4096, allow_blank=True, default="")
    file_name = PlainText(limit=4096, allow_blank=True, default="")
    mime_type = PlainText(limit=200, allow_blank=True, default="")
    content = Base64Text(limit=CONTENT_CHARS, allow_blank=True, allow_null=True, default="")


class PromptForm(Form):
    session_id = PlainText(limit=200, allow_blank=True, default="")
    prompt = PlainText(limit=settings.CRUSH_MAX_PROMPT_CHARS, allow_blank=True, default="")
    run_id = PlainText(limit=200, allow_blank=True, allow_null=True, default=None)
    attachments: Any = serializers.ListSerializer(
        child=AttachmentForm(),
        allow_null=True,
        default=None,
        max_length=ATTACHMENTS,
        error_messages=MESSAGES
        | {
            "not_a_list": "must be a list",
            "max_length": "must have at most {max_length} items",
        },
    )


def queue_limits() -> QueueLimits:
    """Returns the limits of a session's queue from the settings."""
    return QueueLimits(settings.CRUSH_MAX_QUEUED_PROMPTS, settings.CRUSH_MAX_QUEUED_BYTES)


def prompt_of(fields: dict[str, Any]) -> Prompt:
    """Returns the prompt with the fields of a form. Raises ``BadField``."""
    if not fields["session_id"]:
        raise BadField("session id is missing")
    attachments = tuple(
        PromptAttachment(
            file_path=sent["file_path"],
            file_name=sent["file_name"],
            mime_type=sent["mime_type"],
            content=sent["content"] or "",
        )
        for sent in fields["attachments"] or ()
    )
    has_text = any(sent.mime_type.startswith("text/") for sent in attachments)
    if not fields["prompt"] and not has_text:
        raise BadField("prompt is empty")
    return Prompt(
        session_id=fields["session_id"],
        text=fields["prompt"],
        run_id=fields["run_id"] or None,
        attachments=attachments,
    )
