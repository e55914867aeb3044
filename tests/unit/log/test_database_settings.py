"""How sessions of PostgreSQL are limited, and that the URL has the last word."""

from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from crushsite.env import database


def options_of(url: str) -> dict[str, Any]:
    options: dict[str, Any] = database(url, folder=Path("/nowhere"))["OPTIONS"]
    return options


def test_sessions_end_frozen_transactions_and_dead_connections_by_default() -> None:
    options = options_of("postgres://me@db/crush")
    for parameter in (
        "idle_in_transaction_session_timeout=3s",
        "lock_timeout=1s",
        "tcp_keepalives_idle=5",
        "tcp_user_timeout=5s",
    ):
        assert f"-c {parameter}" in options["options"]
    assert options["tcp_user_timeout"] == "5000"
    assert options["connect_timeout"] == "3"
    assert options["keepalives"] == "1"
    assert options["application_name"] == "crush-server"


def test_the_urls_own_options_win() -> None:
    options = options_of(
        "postgres://me@db/crush?connect_timeout=9&options=-c%20lock_timeout%3D7s&sslmode=require"
    )
    assert options["connect_timeout"] == "9"
    assert options["sslmode"] == "require"
    # PostgreSQL takes the last value of a parameter.
    assert options["options"].index("lock_timeout=1s") < options["options"].index("lock_timeout=7s")


@pytest.mark.parametrize(("query", "threshold"), [("", 5), ("9", 9), ("0", 0), ("none", None)])
def test_statements_are_prepared_unless_the_url_forbids_it(
    query: str, threshold: int | None
) -> None:
    url = f"postgres://me@db/crush{f'?prepare_threshold={query}' if query else ''}"
    assert database(url, folder=Path("/nowhere"))["PREPARED_AFTER"] == threshold
    assert "prepare_threshold" not in options_of(url)


def test_a_threshold_that_is_no_number_is_refused() -> None:
    with pytest.raises(ImproperlyConfigured, match="prepare_threshold"):
        options_of("postgres://me@db/crush?prepare_threshold=soon")
