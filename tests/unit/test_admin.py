"""The pages of the admin: during an outage, and their colours."""

import re
from pathlib import Path

import psycopg
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse

from crushsite.admin import OutageMiddleware
from workspaces.log.errors import StorageFull

middleware = OutageMiddleware(lambda _: HttpResponse("page"))


def test_a_page_says_that_the_database_cannot_be_reached() -> None:
    error = OperationalError("connection refused")
    error.__cause__ = psycopg.OperationalError("connection refused")
    answer = middleware.process_exception(HttpRequest(), error)
    assert answer is not None
    assert answer.status_code == 503
    assert answer["Retry-After"] == "2"
    assert b"database cannot be reached" in answer.content


def test_a_full_disk_is_507() -> None:
    answer = middleware.process_exception(HttpRequest(), StorageFull())
    assert answer is not None
    assert answer.status_code == 507


def test_a_mistake_of_ours_stays_one() -> None:
    assert middleware.process_exception(HttpRequest(), ValueError("wrong")) is None
    assert middleware(HttpRequest()).content == b"page"


def test_the_admin_has_the_colours_of_the_console() -> None:
    static = Path(__file__).parents[2] / "crushsite"
    tokens = (static / "console/static/console/styles/tokens.css").read_text()
    theme = (static / "static/operators/theme.css").read_text()
    colours = set(re.findall(r"light-dark\(#\w+, #\w+\)", theme))
    assert len(colours) > 10
    assert {each for each in colours if each not in tokens} == set()
