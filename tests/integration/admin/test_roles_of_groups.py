"""Roles of groups are edited in the admin by the same actions as over the API."""

from django.contrib.auth.models import Group
from django.test import Client
from django.urls import reverse

from people.models import AuditEntry, GroupRole
from tests.integration.admin.conftest import Place


def post(client: Client, page: str, *keys: object, **fields: object) -> None:
    address = reverse(f"admin:people_grouprole_{page}", args=keys)
    assert client.post(address, fields).status_code == 302


def entries() -> list[tuple[str, str, str]]:
    found = AuditEntry.objects.filter(act="set role").order_by("pk")
    return [(entry.actor, entry.target, entry.outcome) for entry in found]


def test_a_role_is_added_changed_and_taken_away(admin_client: Client, place: Place) -> None:
    crew, guests = (Group.objects.create(name=name) for name in ("crew", "guests"))
    post(admin_client, "add", group=crew.pk, workspace=place.workspace_id, role="viewer")
    row = GroupRole.objects.get()
    post(admin_client, "change", row.pk, group=guests.pk, workspace="", role="admin")
    row = GroupRole.objects.get()  # one still, of the other group
    assert (row.group, row.workspace, row.role) == (guests, None, "admin")
    post(admin_client, "delete", row.pk, post="yes")
    assert not GroupRole.objects.exists()
    assert entries() == [
        ("admin", "group crew", "viewer"),
        ("admin", "group crew", "none"),
        ("admin", "group guests", "admin"),
        ("admin", "group guests", "none"),
    ]
