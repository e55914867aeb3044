"""The browsers in which a user has signed in. Synchronous: call it in a write's transaction."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.utils import timezone

from people.actions.audit import Act, record
from people.models import BrowserSession
from workspaces.access import Actor
from workspaces.log.errors import BrowserSessionUnknown
from workspaces.log.timestamps import now_ms
from workspaces.log.transaction import Transaction

BROWSER_CHARS = 200


@dataclass(frozen=True, slots=True)
class Browser:
    session_key: str
    address: str
    name: str  # as it describes itself


def note_browser(user: User, browser: Browser) -> None:
    """Stores that the user has signed in there; removes what has ended."""
    live = Session.objects.filter(expire_date__gt=timezone.now()).values("session_key")
    BrowserSession.objects.filter(user=user).exclude(session_key__in=live).delete()
    BrowserSession.objects.get_or_create(
        session_key=browser.session_key,
        defaults={
            "user": user,
            "address": browser.address,
            "browser": browser.name[:BROWSER_CHARS],
            "created_at": now_ms(),
        },
    )


def browser_sessions(user: User) -> list[BrowserSession]:
    """Returns those that can still be used, the newest first."""
    live = Session.objects.filter(expire_date__gt=timezone.now()).values("session_key")
    found = BrowserSession.objects.filter(user=user, session_key__in=live)
    return list(found.order_by("-created_at"))


def end_browser_session(
    tx: Transaction, user: User, browser_session_id: int, *, actor: Actor
) -> None:
    """Signs the user's browser out. Raises ``BrowserSessionUnknown``."""
    row = BrowserSession.objects.filter(user=user, pk=browser_session_id).first()
    if row is None:
        raise BrowserSessionUnknown
    Session.objects.filter(session_key=row.session_key).delete()
    row.delete()
    record(tx, actor, Act.SIGN_OUT, target=user.get_username(), details={"browser": row.browser})


def end_browser_sessions(user: User) -> None:
    """Signs all browsers of the user out."""
    rows = BrowserSession.objects.filter(user=user)
    Session.objects.filter(session_key__in=rows.values("session_key")).delete()
    rows.delete()
