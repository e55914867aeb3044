"""The admin's sign-in page, and what every page of it may load."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils.module_loading import autodiscover_modules

from people.sign_in_throttle import FREE_FAILURES, PASSWORDS
from tests.integration.admin.conftest import Place
from tests.integration.admin.test_pages import address
from workspaces.models import Session

autodiscover_modules("admin")
LOGIN = "/admin/login/"


@pytest.fixture
def boss(db: None) -> User:
    return User.objects.create_superuser("boss", password="blue-kettle-7")


@pytest.fixture
def elsewhere() -> str:
    """An address that no other test fails from."""
    PASSWORDS.succeed("address 192.0.2.7", "account boss", "account nobody")
    return "192.0.2.7"


def sign_in(client: Client, address: str, name: str, password: str) -> str:
    page = client.post(LOGIN, {"username": name, "password": password}, REMOTE_ADDR=address)
    return page.content.decode() if page.status_code == 200 else "signed in"


def test_guessing_is_slowed_down_also_with_the_right_password(
    client: Client, boss: User, elsewhere: str
) -> None:
    for _ in range(FREE_FAILURES):
        assert "Please enter the correct username" in sign_in(client, elsewhere, "Boss", "wrong")
    page = sign_in(client, elsewhere, "boss", "blue-kettle-7")
    assert "Too many failed attempts. Try again in" in page


def test_an_address_that_guesses_at_several_accounts_is_slowed_down(
    client: Client, boss: User, elsewhere: str
) -> None:
    for number in range(FREE_FAILURES):
        sign_in(client, elsewhere, f"name-{number}", "wrong")
    assert "Too many failed attempts" in sign_in(client, elsewhere, "boss", "blue-kettle-7")
    assert sign_in(client, "192.0.2.8", "boss", "blue-kettle-7") == "signed in"


def test_a_person_who_mistypes_is_let_in(client: Client, boss: User, elsewhere: str) -> None:
    sign_in(client, elsewhere, "boss", "wrong")
    assert sign_in(client, elsewhere, "boss", "blue-kettle-7") == "signed in"


def test_an_attempt_without_a_password_forgives_nothing(
    client: Client, boss: User, elsewhere: str
) -> None:
    for _ in range(FREE_FAILURES):
        sign_in(client, elsewhere, "boss", "wrong")
    sign_in(client, "192.0.2.9", "boss", "")
    assert "Too many failed attempts" in sign_in(client, "192.0.2.9", "boss", "blue-kettle-7")


def test_pages_load_and_run_their_own_files_only(admin_client: Client, everything: Place) -> None:
    session = Session.objects.get()
    for url in (
        LOGIN,
        "/admin/",
        address(Session, "changelist"),
        address(Session, "change", session.pk),
    ):
        answer = admin_client.get(url)
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert b" style=" not in answer.content
        assert b"<style" not in answer.content
