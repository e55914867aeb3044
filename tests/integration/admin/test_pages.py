"""Every page of the admin opens, shows what is there, and changes nothing."""

from __future__ import annotations

import re

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.db.models import Model
from django.test import Client
from django.urls import reverse
from django.utils.module_loading import autodiscover_modules

from agents.models import RunStep
from notifications.models import Notice, PushKey
from people.models import GroupRole, LoginLink, Member, Owner, Share
from tests.integration.admin.conftest import HOSTILE, SEALED, Place
from workspaces.admin_pages.texts import readable_json, shown_moment
from workspaces.models import Event, IdempotencyKey, Session, Workspace

autodiscover_modules("admin")

OURS = ("agents", "notifications", "people", "permissions", "workspaces")
# These have nothing to show, or are shown on the page of their run. Members, roles of groups and shares can
# be edited.
HIDDEN = {IdempotencyKey, LoginLink, Notice, Owner, PushKey, RunStep}
EDITED = {Member, GroupRole, Share}
REGISTERED = sorted(admin.site._registry, key=lambda model: model._meta.label)
OWN = [model for model in REGISTERED if model._meta.app_label in OURS]
READ_ONLY = [model for model in OWN if model not in EDITED]


def named(model: type[Model]) -> str:
    return str(model._meta.label)


def address(model: type[Model], page: str, *args: object) -> str:
    meta = model._meta
    keys = [quote(arg) for arg in args]
    return reverse(f"admin:{meta.app_label}_{meta.model_name}_{page}", args=keys)


def test_every_model_is_registered() -> None:
    models = {model for label in OURS for model in apps.get_app_config(label).get_models()}
    assert models - HIDDEN == set(OWN)


@pytest.mark.parametrize("model", REGISTERED, ids=named)
def test_its_list_opens(model: type[Model], admin_client: Client, everything: Place) -> None:
    assert admin_client.get(address(model, "changelist")).status_code == 200


@pytest.mark.parametrize("model", REGISTERED, ids=named)
def test_its_search_finds_nothing_of_nothing(
    model: type[Model], admin_client: Client, everything: Place
) -> None:
    answer = admin_client.get(address(model, "changelist"), {"q": "no such thing ' % \x00"})
    assert answer.status_code == 200


@pytest.mark.parametrize("model", OWN, ids=named)
def test_each_of_its_filters_works(
    model: type[Model], admin_client: Client, everything: Place
) -> None:
    page = admin_client.get(address(model, "changelist")).content.decode()
    links = set(re.findall(r'<li[^>]*>\s*<a href="\?([^"]+)"', page))
    for query in links:
        answer = admin_client.get(f"{address(model, 'changelist')}?{query.replace('&amp;', '&')}")
        assert answer.status_code == 200, query


@pytest.mark.parametrize("model", READ_ONLY, ids=named)
def test_a_row_opens_and_cannot_be_changed(
    model: type[Model], admin_client: Client, everything: Place
) -> None:
    row = model._default_manager.first()
    assert row is not None
    page = admin_client.get(address(model, "change", row.pk))
    assert page.status_code == 200
    assert b'name="_save"' not in page.content
    assert admin_client.post(address(model, "change", row.pk), {"x": "y"}).status_code == 403
    assert admin_client.post(address(model, "delete", row.pk), {"post": "yes"}).status_code == 403
    assert admin_client.get(address(model, "add")).status_code == 403
    assert model._default_manager.filter(pk=row.pk).exists()


@pytest.mark.parametrize("model", OWN, ids=named)
def test_no_page_shows_a_secret_or_runs_what_was_said(
    model: type[Model], admin_client: Client, everything: Place
) -> None:
    row = model._default_manager.first()
    assert row is not None
    for url in (address(model, "changelist"), address(model, "change", row.pk)):
        page = admin_client.get(url).content.decode()
        assert SEALED not in page
        assert HOSTILE not in page


@pytest.mark.parametrize("model", OWN, ids=named)
def test_its_list_reads_what_it_names_of_other_rows_at_once(model: type[Model]) -> None:
    page = admin.site._registry[model]
    foreign = {field.name for field in model._meta.fields if field.many_to_one}
    assert foreign & {str(c) for c in page.list_display} <= set(page.list_select_related or ())


def test_a_stranger_sees_the_login_alone(client: Client, everything: Place) -> None:
    answer = client.get(address(Workspace, "changelist"))
    assert answer.status_code == 302
    assert "/admin/login/" in answer["Location"]


def test_the_log_is_shown_readably(admin_client: Client, everything: Place) -> None:
    event = Event.objects.filter(kind="session.created").get()
    page = admin_client.get(address(Event, "change", event.pk)).content.decode()
    assert "&quot;title&quot;: &quot;The first&quot;" in page
    assert shown_moment(event.created_at) in page


def test_a_session_is_found_by_its_path(admin_client: Client, everything: Place) -> None:
    page = admin_client.get(address(Session, "changelist"), {"q": "/project"}).content.decode()
    assert "The first" in page


def test_a_moment_is_told_to_the_millisecond() -> None:
    assert shown_moment(1_700_000_000_007) == "2023-11-14 22:13:20.007 UTC"
    assert shown_moment(None) == "–"
    assert shown_moment(10**30) == str(10**30)


def test_long_texts_inside_json_are_cut_and_say_how_long_they_were() -> None:
    shown = readable_json({"data": "x" * 10_000, "list": ["y"]})
    assert len(shown) < 5_000
    assert "(10000 characters)" in shown


def test_what_is_no_json_is_shown_as_it_is() -> None:
    assert readable_json("{broken") == "{broken"
