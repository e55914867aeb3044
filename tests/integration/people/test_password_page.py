"""A person changes their own password in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.test import Client

from people.actions.login_links import create_login_link
from people.models import BrowserSession
from people.pages.sign_in import LINK_COUNTS_MS
from people.queries import audit_entries
from people.sign_in_throttle import FREE_FAILURES, PASSWORDS
from tests.integration.api.conftest import transactional_db
from workspaces.log.timestamps import now_ms
from workspaces.log.writer import writer

__all__ = ["transactional_db"]

PAGE = "/account/password/"
OLD, NEW = "blue-kettle-7", "green-teapot-8"


@pytest.fixture
def ann(transactional_db: None) -> Iterator[User]:
    PASSWORDS.succeed("account ann", "address 127.0.0.1")
    yield get_user_model().objects.create_user("ann", password=OLD)
    get_user_model().objects.all().delete()


@pytest.fixture
def bob(transactional_db: None) -> Iterator[User]:
    """A user who signs in by links."""
    yield get_user_model().objects.create_user("bob")
    get_user_model().objects.all().delete()


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def by_link(user: User) -> Client:
    client = Client()
    secret = writer.write_and_wait("", lambda _: create_login_link(user))
    assert client.post(f"/sign-in/link/?key={secret}").status_code == 303
    return client


def change(client: Client, old: str = OLD, new: str = NEW, again: str = "") -> Any:
    fields = {"old_password": old, "new_password1": new, "new_password2": again or new}
    return client.post(PAGE, fields)


def knows(user: User, password: str) -> bool:
    user.refresh_from_db()
    return user.check_password(password)


def test_a_changed_password_signs_other_browsers_out(ann: User) -> None:
    here, elsewhere = signed_in(ann), signed_in(ann)
    answer = change(here)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/account/")
    assert knows(ann, NEW)
    page = here.get("/account/")
    assert page.status_code == 200
    assert b"Your password is changed" in page.content
    assert elsewhere.get("/account/").status_code == 302
    assert BrowserSession.objects.filter(user=ann).count() == 1


def test_the_audit_names_the_person_and_no_password(ann: User) -> None:
    change(signed_in(ann))
    entry = list(audit_entries())[-1]
    assert (entry.actor, entry.act, entry.target) == ("ann", "change user", "ann")
    assert entry.details == {"changed": ["password"]}
    assert all(secret not in str(vars(entry)) for secret in (OLD, NEW))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"old": "wrong"}, "entered incorrectly"),
        ({"new": "abc1"}, "too short"),
        ({"new": "password123"}, "too common"),
        ({"again": "something-else-9"}, "match"),
        ({"new": "a\0bcdefgh"}, "Null characters"),
    ],
)
def test_a_wrong_form_changes_nothing(ann: User, fields: dict[str, str], sentence: str) -> None:
    here, elsewhere = signed_in(ann), signed_in(ann)
    answer = change(here, **fields)
    assert answer.status_code == 400
    assert sentence in answer.content.decode()
    assert knows(ann, OLD)
    assert elsewhere.get("/account/").status_code == 200


def test_guessing_the_old_password_is_slowed_down(ann: User) -> None:
    client = signed_in(ann)
    for _ in range(FREE_FAILURES):
        assert b"entered incorrectly" in change(client, old="wrong").content
    assert b"Too many failed attempts" in change(client).content
    assert knows(ann, OLD)
    # The sign-in counts the same failures.
    page = Client().post("/sign-in/", {"username": "ann", "password": OLD})
    assert b"Too many failed attempts" in page.content


def test_who_has_no_password_sets_one_after_a_login_link(bob: User) -> None:
    client = by_link(bob)
    assert b"Old password" not in client.get(PAGE).content
    assert client.post(PAGE, {"new_password1": NEW, "new_password2": NEW}).status_code == 303
    assert knows(bob, NEW)
    assert client.get("/account/").status_code == 200


def test_a_link_counts_for_ten_minutes(bob: User) -> None:
    client = by_link(bob)
    session = client.session
    session["crush_link_used_at"] = now_ms() - LINK_COUNTS_MS
    session.save()
    page = client.get(PAGE)
    assert b"crush-server login-link --user bob" in page.content
    assert b"<form" not in page.content
    answer = client.post(PAGE, {"new_password1": NEW, "new_password2": NEW})
    assert answer.status_code == 403
    bob.refresh_from_db()
    assert not bob.has_usable_password()


def test_another_sign_in_does_not_count_as_a_link(bob: User) -> None:
    answer = signed_in(bob).post(PAGE, {"new_password1": NEW, "new_password2": NEW})
    assert answer.status_code == 403


def test_a_link_does_not_replace_the_old_password(ann: User) -> None:
    answer = by_link(ann).post(PAGE, {"new_password1": NEW, "new_password2": NEW})
    assert answer.status_code == 400
    assert knows(ann, OLD)


def test_a_stranger_signs_in_first(transactional_db: None) -> None:
    assert Client().get(PAGE).headers["Location"] == f"/sign-in/?next={PAGE}"
    assert Client().post(PAGE).status_code == 302


def test_the_admin_leads_to_this_page(ann: User) -> None:
    assert signed_in(ann).get("/admin/password_change/").headers["Location"] == PAGE
