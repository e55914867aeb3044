"""Groups of users, and their roles. Synchronous: call it in a write's transaction."""

from __future__ import annotations

from django.contrib.auth.models import Group

from people.actions.audit import Act, record
from people.models import GroupRole
from workspaces.access import Actor, MemberRole
from workspaces.log.errors import GroupRoleUnknown, Refusal
from workspaces.log.transaction import Transaction
from workspaces.models import Workspace


class GroupUnknown(Refusal):
    """There is no such group here."""

    code = "group_unknown"
    status = 404


class GroupTaken(Refusal):
    """There is a group of this name already."""

    code = "group_taken"
    status = 409


def add_group(tx: Transaction, name: str, *, actor: Actor | None = None) -> Group:
    """Stores a new group. Raises ``GroupTaken``."""
    if Group.objects.filter(name=name).exists():
        raise GroupTaken
    group: Group = Group.objects.create(name=name)
    record(tx, actor, Act.ADD_GROUP, target=name)
    return group


def delete_group(tx: Transaction, group_id: int, *, actor: Actor | None = None) -> None:
    """Deletes a group with its roles. Raises ``GroupUnknown``."""
    group = Group.objects.filter(pk=group_id).first()
    if group is None:
        raise GroupUnknown
    users = sorted(group.user_set.values_list("username", flat=True))
    for row in GroupRole.objects.select_related("group").filter(group=group):
        _record_group_role(tx, row, "none", actor)
    record(tx, actor, Act.DELETE_GROUP, target=group.name, details={"users": users})
    group.delete()


def set_group_role(
    tx: Transaction,
    group_name: str,
    workspace: Workspace | None,
    role: MemberRole,
    *,
    actor: Actor | None = None,
) -> GroupRole:
    """Gives everyone in a group a role; creates the group if it is new."""
    group, _ = Group.objects.get_or_create(name=group_name)
    row, _ = GroupRole.objects.update_or_create(
        group=group, workspace=workspace, defaults={"role": role.value}
    )
    _record_group_role(tx, row, role.value, actor)
    return row


def delete_group_role(tx: Transaction, row_id: int, *, actor: Actor | None = None) -> None:
    """Raises ``GroupRoleUnknown``."""
    row = GroupRole.objects.select_related("group").filter(pk=row_id).first()
    if row is None:
        raise GroupRoleUnknown
    _record_group_role(tx, row, "none", actor)
    row.delete()


def _record_group_role(tx: Transaction, row: GroupRole, role: str, actor: Actor | None) -> None:
    target = f"group {row.group.name}"
    record(
        tx, actor, Act.SET_ROLE, workspace_id=row.workspace_id or "", target=target, outcome=role
    )
