"""Shares of users and workspaces are edited in the admin, and the audit has each change."""

from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from people.models import AuditEntry, Share
from tests.integration.admin.conftest import Place


def send(client: Client, page: str, *keys: object, **fields: object) -> int:
    address = reverse(f"admin:people_share_{page}", args=keys)
    return client.post(address, fields).status_code


def test_a_share_is_added_changed_and_deleted(admin_client: Client, place: Place) -> None:
    ann = User.objects.create_user("anna")
    fields = {"user": ann.pk, "workspace": "", "weight": 2, "max_running": ""}
    assert send(admin_client, "add", **fields) == 302
    row = Share.objects.get()
    assert send(admin_client, "change", row.pk, **fields | {"max_running": 5}) == 302
    row = Share.objects.get()
    assert (row.user, row.weight, row.max_running) == (ann, 2, 5)
    assert send(admin_client, "delete", row.pk, post="yes") == 302
    assert not Share.objects.exists()

    found = AuditEntry.objects.filter(act="set share").order_by("pk")
    assert [(entry.actor, entry.target, entry.outcome, entry.details) for entry in found] == [
        ("admin", "anna", "set", {"weight": 2, "max_running": None}),
        ("admin", "anna", "set", {"weight": 2, "max_running": 5}),
        ("admin", "anna", "deleted", {}),
    ]


def test_a_share_belongs_to_a_user_or_a_workspace_and_has_a_weight(
    admin_client: Client, place: Place
) -> None:
    ann = User.objects.create_user("anna")
    for wrong in (
        {"user": "", "workspace": "", "weight": 1},
        {"user": ann.pk, "workspace": place.workspace_id, "weight": 1},
        {"user": ann.pk, "workspace": "", "weight": 0},
        {"user": ann.pk, "workspace": "", "weight": 1, "max_running": 0},
    ):
        assert send(admin_client, "add", **{"max_running": "", **wrong}) == 200  # the form again
    assert not Share.objects.exists()
