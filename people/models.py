"""Roles of users in workspaces, tokens of programs, links for the first sign-in, and the audit.

Users themselves are Django's.
"""

from __future__ import annotations

from typing import Any, NoReturn

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from typing_extensions import override

from workspaces.access import MemberRole
from workspaces.log.ids import new_id
from workspaces.log.timestamps import now_ms
from workspaces.models import Workspace

ROLES = [(role.value, role.value) for role in MemberRole]
ALL_SCOPES = "all"


class Owner(models.Model):
    """The user who stands for every process of the server's own account. One row at most."""

    id = models.SmallIntegerField(primary_key=True, default=1, editable=False)
    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")

    @override
    def __str__(self) -> str:
        return str(self.user)


class Member(models.Model):
    """A user's role in one workspace."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="memberships")
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="members")
    role = models.CharField(max_length=16, choices=ROLES)
    added_at = models.BigIntegerField(default=now_ms)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "workspace"], name="one_role_a_workspace")
        ]

    @override
    def __str__(self) -> str:
        return f"{self.user}: {self.role}"


class GroupRole(models.Model):
    """The role of everyone in one of Django's groups, in one workspace or in all."""

    group = models.ForeignKey(Group, models.CASCADE, related_name="crush_roles")
    workspace = models.ForeignKey(
        Workspace,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        help_text="Empty: every workspace.",
    )
    role = models.CharField(max_length=16, choices=ROLES)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["group", "workspace"], name="one_group_role_a_workspace"
            ),
            # Databases count two empty workspaces as different.
            models.UniqueConstraint(
                fields=["group"],
                condition=models.Q(workspace__isnull=True),
                name="one_group_role_everywhere",
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.group}: {self.role}"


class Share(models.Model):
    """How often a user or a workspace gets a place of the workers, and how many at once."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, blank=True, related_name="+"
    )
    workspace = models.OneToOneField(
        Workspace, models.CASCADE, null=True, blank=True, related_name="+"
    )
    weight = models.PositiveSmallIntegerField(
        default=1,
        db_default=1,
        validators=[MinValueValidator(1), MaxValueValidator(1000)],
        help_text="With 2, two runs begin for one of another user, or of the user's workspaces.",
    )
    max_running = models.PositiveIntegerField(
        "most running runs",
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Empty: the limit of the server's settings.",
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(user__isnull=True) ^ models.Q(workspace__isnull=True),
                name="share_of_a_user_or_a_workspace",
                violation_error_message="Choose either a user or a workspace.",
            ),
            models.CheckConstraint(condition=models.Q(weight__gte=1), name="share_with_a_weight"),
        ]

    @override
    def __str__(self) -> str:
        return str(self.user or self.workspace)


class Token(models.Model):
    """A program's credential. Only a digest of it is stored, so nobody can read it again."""

    id = models.CharField(primary_key=True, max_length=36, default=new_id, editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        related_name="tokens",
        help_text="Whose rights it has, at most.",
    )
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=20, help_text="How it begins, to recognise it.")
    digest = models.CharField(max_length=64, unique=True, editable=False)
    scopes = models.JSONField(default=list, help_text='Rights, or "all".')
    has_all_workspaces = models.BooleanField(default=True)
    workspaces = models.ManyToManyField(Workspace, blank=True, related_name="+")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+"
    )
    created_at = models.BigIntegerField(default=now_ms)
    expires_at = models.BigIntegerField(null=True, blank=True, help_text="Empty: never.")
    last_used_at = models.BigIntegerField(null=True, blank=True, help_text="To the minute.")
    revoked_at = models.BigIntegerField(null=True, blank=True)

    @override
    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class LoginLink(models.Model):
    """A link that signs one browser in, once."""

    digest = models.CharField(primary_key=True, max_length=64, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    created_at = models.BigIntegerField(default=now_ms)
    expires_at = models.BigIntegerField()
    used_at = models.BigIntegerField(null=True, blank=True)

    @override
    def __str__(self) -> str:
        return f"for {self.user}"


class BrowserSession(models.Model):
    """A browser in which a user has signed in, so that the user can recognise and end it."""

    session_key = models.CharField(max_length=40, unique=True, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    created_at = models.BigIntegerField(default=now_ms)
    address = models.CharField(max_length=100, blank=True)
    browser = models.CharField(max_length=200, blank=True, help_text="As it describes itself.")

    @override
    def __str__(self) -> str:
        return f"{self.user}: {self.browser}"


class AuditEntry(models.Model):
    """Who did what to what, with what outcome. Rows are added and never changed.

    Names and ids are copied, so that an entry outlives what it names.
    """

    at = models.BigIntegerField(default=now_ms)
    kind = models.CharField(max_length=16, help_text="How the actor was identified.")
    actor = models.CharField(max_length=150)
    user_id = models.BigIntegerField(null=True, blank=True)
    token_id = models.CharField(max_length=36, blank=True)
    client_id = models.CharField(max_length=36, blank=True)
    address = models.CharField(max_length=100, blank=True)
    act = models.CharField(max_length=40)
    workspace_id = models.CharField(max_length=36, blank=True)
    session_id = models.CharField(max_length=200, blank=True)
    target = models.CharField(max_length=200, blank=True)
    outcome = models.CharField(max_length=40, blank=True)
    details = models.JSONField(default=dict)

    class Meta:
        verbose_name_plural = "audit entries"
        indexes = [
            models.Index(fields=["workspace_id", "id"], name="audit_by_workspace"),
            models.Index(fields=["user_id", "id"], name="audit_by_user"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.actor}: {self.act} {self.target}".rstrip()

    @override
    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise TypeError("an audit entry is never changed")
        super().save(*args, **kwargs)

    @override
    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("an audit entry is never deleted")
