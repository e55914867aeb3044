"""Links that answer one request, once, in the name of the user to whom they were sent.

Opening a link changes nothing, because mail scanners and previews open links, too: its page shows
the request, and the form on it answers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.core.signing import BadSignature, Signer

from notifications.messages import NotificationMessage
from notifications.models import Delivery, Subject
from people.identities import identity_of
from permissions.models import PermissionRequest, QuestionBatch
from workspaces.access import IdentityKind, Right
from workspaces.log.errors import Refusal
from workspaces.log.timestamps import now_ms

PATH = "/answer/"
_SIGNER_SALT = "notifications.links"


class AnswerLinkInvalid(Refusal):
    """This link does not work any more: it was used, has expired, or the request was answered."""

    code = "answer_link_invalid"
    status = 410


@dataclass(frozen=True, slots=True)
class LinkedRequest:
    """What a valid link leads to."""

    delivery_id: str
    user: User
    request: PermissionRequest | None
    questions: QuestionBatch | None


def link_of(message: NotificationMessage, base_url: str) -> NotificationMessage:
    """Returns the message with its link; without a known address it has none.

    A message about a run leads to its session, and its reader signs in there.
    """
    if not base_url:
        return message
    if message.end is not None:
        return replace(message, link=base_url.rstrip("/") + message.page)
    query = urlencode({"key": Signer(salt=_SIGNER_SALT).sign(message.id)})
    return replace(message, link=f"{base_url.rstrip('/')}{PATH}?{query}")


def open_link(key: str) -> LinkedRequest:
    """Returns what a link leads to. Raises ``AnswerLinkInvalid``."""
    try:
        delivery_id = Signer(salt=_SIGNER_SALT).unsign(key)
    except BadSignature:
        raise AnswerLinkInvalid from None
    row = (
        Delivery.objects.select_related("notice", "channel__user")
        .filter(pk=delivery_id, link_used_at__isnull=True, link_expires_at__gt=now_ms())
        .first()
    )
    if row is None or not row.channel.user.is_active or not row.channel.is_enabled:
        raise AnswerLinkInvalid
    user = row.channel.user
    # The right may have been taken away since the message was sent.
    if not identity_of(user, IdentityKind.USER).may(Right.ANSWER, row.notice.workspace_id):
        raise AnswerLinkInvalid
    request = questions = None
    if row.notice.subject == Subject.PERMISSION:
        request = PermissionRequest.objects.filter(pk=row.notice.subject_id).first()
    elif row.notice.subject == Subject.QUESTION:
        questions = QuestionBatch.objects.filter(pk=row.notice.subject_id).first()
    if request is None and questions is None:
        raise AnswerLinkInvalid
    return LinkedRequest(row.pk, user, request, questions)


def use_link(delivery_id: str) -> None:
    """Uses a link up. Raises ``AnswerLinkInvalid`` if another request was first."""
    # One statement: of two requests at the same moment only one changes the row.
    if not Delivery.objects.filter(pk=delivery_id, link_used_at__isnull=True).update(
        link_used_at=now_ms()
    ):
        raise AnswerLinkInvalid
