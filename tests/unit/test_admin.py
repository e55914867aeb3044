"""The pages of the admin during an outage."""

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
