"""Who gets a message about a request that waits, or about a run that has ended. Synchronous."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import Q

from agents.models import Run
from agents.states import RunOutcome
from notifications.models import Ends, NotificationChannel
from people.identities import identity_of
from workspaces.access import IdentityKind, Right
from workspaces.models import ClientClaim


def channels_for_request(workspace_id: str, session_id: str) -> list[NotificationChannel]:
    """Returns the channels of users who may answer here and are not looking at the session."""
    looking = users_looking(workspace_id, session_id)
    return [
        channel
        for channel in _channels(workspace_id, Q(notify_waiting=True))
        if channel.user_id not in looking and _may(channel.user, Right.ANSWER, workspace_id)
    ]


@dataclass(frozen=True, slots=True)
class EndAudience:
    """The users who may get a message about the end of a run."""

    author_id: int
    canceller_id: int | None
    looking: frozenset[int]

    def includes(self, user_id: int, ends: str) -> bool:
        is_chosen = ends == Ends.ALL or (ends == Ends.OWN and user_id == self.author_id)
        return is_chosen and user_id != self.canceller_id and user_id not in self.looking


def audience_of(run: Run) -> EndAudience | None:
    """Returns who may get a message about the run's end; ``None`` for no one.

    The end of a run that its author or the server cancelled is no news.
    """
    author_id, canceller_id = _user_id(run.author), _user_id(run.cancelled_by)
    if author_id is None or run.outcome == RunOutcome.FOLDED:
        return None
    if run.outcome == RunOutcome.CANCELLED and canceller_id in {None, author_id}:
        return None
    looking = users_looking(run.workspace_id, run.session_id)
    return EndAudience(author_id, canceller_id, looking)


def channels_for_end(run: Run) -> list[NotificationChannel]:
    """Returns the channels on which users are notified that the run has ended."""
    audience = audience_of(run)
    if audience is None:
        return []
    return [
        channel
        for channel in _channels(run.workspace_id, ~Q(notify_ended=Ends.NONE))
        if audience.includes(channel.user_id, channel.notify_ended)
        and _may(channel.user, Right.READ, run.workspace_id)
    ]


def users_looking(workspace_id: str, session_id: str) -> frozenset[int]:
    """Returns the users to whom a client shows this session at the moment."""
    claims = ClientClaim.objects.filter(
        workspace_id=workspace_id, current_session_id=session_id, is_streaming=True
    )
    found = claims.values_list("user_id", flat=True)
    return frozenset(user_id for user_id in found if user_id is not None)


def _channels(workspace_id: str, subscribed: Q) -> Iterable[NotificationChannel]:
    return NotificationChannel.objects.filter(
        subscribed,
        Q(workspace_id=workspace_id) | Q(workspace__isnull=True),
        is_enabled=True,
        user__is_active=True,
    ).select_related("user")


def _may(user: User, right: Right, workspace_id: str) -> bool:
    return identity_of(user, IdentityKind.USER).may(right, workspace_id)


def _user_id(author: dict[str, str | None] | None) -> int | None:
    user_id = None if author is None else author.get("user_id")
    return None if user_id is None else int(user_id)
