"""The system checks refuse what cannot work and warn of what works badly."""

from typing import Any

import pytest
from django.core.checks import run_checks

from crushsite.apps import TAG


def ids() -> set[str | None]:
    return {message.id for message in run_checks(tags=[TAG])}


def test_the_defaults_are_fine() -> None:
    assert ids() == set()


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("REDIS_URL", "redis://127.0.0.1", "crushsite.E001"),
        ("CRUSH_LOG_LEVEL", "LOUD", "crushsite.E002"),
        ("CRUSH_LEASE_SECONDS", 1.0, "crushsite.W001"),
        ("CRUSH_POLL_SECONDS", 0.01, "crushsite.W002"),
        ("CRUSH_GATES", "/somewhere", "crushsite.W003"),
    ],
)
def test_a_bad_setting_is_named(settings: Any, name: str, value: Any, expected: str) -> None:
    setattr(settings, name, value)
    assert ids() == {expected}


def test_a_short_signing_key_is_told_before_a_deployment(settings: Any) -> None:
    settings.SECRET_KEY = "short"
    found = run_checks(tags=[TAG], include_deployment_checks=True)
    assert [message.id for message in found] == ["crushsite.W004"]
