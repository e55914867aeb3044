"""Users. Synchronous: call it in a write's transaction."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, User

from people.actions.audit import Act, record
from people.actions.browser_sessions import end_browser_sessions
from people.models import Owner
from workspaces.access import Actor
from workspaces.log.errors import Forbidden, OwnerNeeded, UserTaken, UserUnknown
from workspaces.log.transaction import Transaction

_PASSWORD = {"changed": ["password"]}


@dataclass(frozen=True, slots=True)
class UserChange:
    """The new values; ``None`` leaves a value as it is."""

    email: str | None = None
    is_staff: bool | None = None
    is_active: bool | None = None
    password: str | None = None
    groups: Collection[Group] | None = None

    @property
    def names(self) -> list[str]:
        """What is changed, without the values, for the audit."""
        return [name for name in self.__slots__ if getattr(self, name) is not None]


def add_user(tx: Transaction, user: User, *, actor: Actor | None = None) -> User:
    """Stores a new user. Raises ``UserTaken``."""
    if get_user_model().objects.filter(username__iexact=user.username).exists():
        raise UserTaken
    user.save()
    record(tx, actor, Act.ADD_USER, target=user.username, details={"staff": user.is_staff})
    return user


def change_user(
    tx: Transaction, user_id: int, change: UserChange, *, actor: Actor | None = None
) -> User:
    """Raises ``UserUnknown`` and ``OwnerNeeded``."""
    user = get_user_model().objects.filter(pk=user_id).first()
    if user is None:
        raise UserUnknown
    loses = change.is_active is False or change.is_staff is False
    if loses and Owner.objects.filter(user=user).exists():
        raise OwnerNeeded
    if change.email is not None:
        user.email = change.email
    if change.is_staff is not None:
        user.is_staff = user.is_superuser = change.is_staff
    if change.is_active is not None:
        user.is_active = change.is_active
    if change.password is not None:
        user.set_password(change.password)
    user.save()
    if change.groups is not None:
        user.groups.set(change.groups)
    outcome = {True: "enabled", False: "disabled", None: "changed"}[change.is_active]
    details = {"changed": change.names}
    record(tx, actor, Act.CHANGE_USER, target=user.username, outcome=outcome, details=details)
    return user


def replace_password(tx: Transaction, user: User, before: str, *, actor: Actor) -> None:
    """Stores the user's new hash instead of ``before``, and signs all browsers of the user out.

    Raises ``Forbidden`` if someone else has changed the password meanwhile.
    """
    same = get_user_model().objects.filter(pk=user.pk, password=before)
    if not same.update(password=user.password):
        raise Forbidden
    end_browser_sessions(user)
    record(tx, actor, Act.CHANGE_USER, target=user.username, outcome="changed", details=_PASSWORD)
