"""Users' roles in workspaces. Synchronous: call it in a write's transaction."""

from __future__ import annotations

from django.contrib.auth.models import User

from people.actions.audit import Act, record
from people.models import Member
from workspaces.access import Actor, MemberRole
from workspaces.log.transaction import Transaction
from workspaces.models import Workspace


def set_role(
    tx: Transaction,
    user: User,
    workspace: Workspace,
    role: MemberRole | None,
    *,
    actor: Actor | None = None,
) -> None:
    """Gives a user a role in a workspace, or takes it away."""
    record(
        tx,
        actor,
        Act.SET_ROLE,
        workspace_id=workspace.pk,
        target=user.get_username(),
        outcome="none" if role is None else role.value,
    )
    if role is None:
        Member.objects.filter(user=user, workspace=workspace).delete()
    else:
        Member.objects.update_or_create(
            user=user, workspace=workspace, defaults={"role": role.value}
        )
