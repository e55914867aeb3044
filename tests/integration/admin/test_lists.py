"""Lists: how many queries they take, that nothing is counted, pages, filters and the search."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils.module_loading import autodiscover_modules

from agents.models import Run
from people.models import AuditEntry
from tests.integration.admin.conftest import Place
from tests.integration.admin.test_pages import REGISTERED, address, named
from workspaces.actions.search_texts import index_message
from workspaces.log.writer import writer
from workspaces.models import Event, Message, SearchText, Session, Workspace

autodiscover_modules("admin")
MOST_QUERIES = 20


def read(client: Client, model: type[Model], **query: object) -> tuple[Any, list[str]]:
    with CaptureQueriesContext(
        connection,
    ) as captured:
        answer = client.get(address(model, "changelist"), query)
    assert answer.status_code == 200
    return answer, [each["sql"] for each in captured.captured_queries]


def found(client: Client, model: type[Model], **query: object) -> list[Any]:
    answer, _ = read(client, model, **query)
    return [row.pk for row in answer.context["cl"].result_list]


@pytest.mark.parametrize("model", REGISTERED, ids=named)
def test_a_list_takes_few_queries_and_counts_nothing(
    model: type[Model], admin_client: Client, everything: Place
) -> None:
    page, _ = read(admin_client, model)
    addresses = re.findall(r'<li[^>]*>\s*<a href="\?([^"]+)"', page.content.decode())
    for query in ("", "q=needle", *addresses[:8]):
        where = f"{address(model, 'changelist')}?{query.replace('&amp;', '&')}"
        with CaptureQueriesContext(connection) as captured:
            assert admin_client.get(where).status_code == 200
        statements = [each["sql"] for each in captured.captured_queries]
        assert len(statements) <= MOST_QUERIES, statements
        assert not [each for each in statements if "COUNT(" in each.upper()], query


@pytest.mark.parametrize("model", REGISTERED, ids=named)
def test_the_queries_do_not_grow_with_the_rows(
    model: type[Model], admin_client: Client, everything: Place
) -> None:
    if model is not Session:
        return
    before = len(read(admin_client, model)[1])
    Session.objects.bulk_create(
        Session(workspace_id=everything.workspace_id, title=f"session {number}")
        for number in range(60)
    )
    assert len(read(admin_client, model)[1]) == before


def test_pages_lead_to_each_other(admin_client: Client, place: Place) -> None:
    Session.objects.bulk_create(
        Session(workspace_id=place.workspace_id, title=f"session {number}", updated_at=number)
        for number in range(119)
    )
    seen: list[str] = []
    query: dict[str, object] = {}
    for number in (1, 2, 3):
        answer, _ = read(admin_client, Session, **query)
        rows = answer.context["cl"].result_list
        seen += [row.pk for row in rows]
        page = answer.content.decode()
        assert ('rel="next"' in page) == (number < 3)
        assert ('rel="prev"' in page) == (number > 1)
        assert f"Page {number}, {len(rows)} sessions" in " ".join(page.split())
        query = {"p": number + 1}
    assert len(seen) == len(set(seen)) == 120
    assert admin_client.get(address(Session, "changelist"), {"p": 4}).status_code == 302
    assert admin_client.get(address(Session, "changelist"), {"p": 10**30}).status_code == 302


def test_a_link_to_a_session_s_rows_says_so_and_can_be_undone(
    admin_client: Client, everything: Place
) -> None:
    answer, _ = read(admin_client, Run, session=everything.session_id)
    page = answer.content.decode()
    assert "By session" in page
    assert answer.context["cl"].has_active_filters
    assert found(admin_client, Run, session="other") == []
    assert found(admin_client, Run, parent="no number") == []
    assert found(admin_client, Message, session="\0") == []


@pytest.mark.usefixtures("database")
class TestOnBothDatabases:
    """Searches and filters whose statements differ."""

    @pytest.fixture
    def boss(self, client: Client) -> Client:
        client.force_login(User.objects.create_superuser("boss"))
        return client

    @pytest.fixture
    def rows(self) -> Session:
        workspace = Workspace.objects.create(path="/a/project", data_dir="/d")
        session = Session.objects.create(workspace=workspace, title="Painting the shed")
        run = Run.objects.create(
            workspace=workspace,
            session=session,
            accept_number=1,
            prompt="paint it",
            author={"kind": "user", "name": "ann", "user_id": "7"},
        )
        message = Message.objects.create(
            workspace=workspace,
            session=session,
            position=1,
            role="user",
            run_key=run.pk,
            parts='[{"type": "text", "data": {"text": "crimson walls"}}]',
            author={"kind": "user", "name": "ann", "user_id": "7"},
        )
        wire = [{"type": "text", "data": {"text": "crimson walls"}}]
        writer.write_and_wait(
            workspace.pk,
            lambda tx: index_message(tx, workspace.pk, session.pk, message.pk, wire),
        )
        AuditEntry.objects.create(
            kind="user", actor="ann", user_id=7, act="prompt", session_id=session.pk
        )
        Event.objects.create(
            workspace=workspace, number=1, kind="x", payload='{"a": "needle"}', created_at=1
        )
        User.objects.create(pk=7, username="ann")
        User.objects.create(pk=8, username="bob")
        return session

    def test_texts_are_found_by_their_words(self, boss: Client, rows: Session) -> None:
        message, run = Message.objects.get(), Run.objects.get()
        assert found(boss, Session, q="crimson") == [rows.pk]
        assert found(boss, Session, q="shed painting") == [rows.pk]
        assert found(boss, Session, q=rows.pk) == [rows.pk]
        assert found(boss, Session, q="a/project") == [rows.pk]
        assert found(boss, Session, q="needle") == []
        assert found(boss, Message, q="walls crim") == [message.pk]
        assert found(boss, Message, q=rows.pk) == [message.pk]
        assert found(boss, Run, q="crimson") == [run.pk]
        assert found(boss, Run, q=str(run.pk)) == [run.pk]
        assert found(boss, SearchText, q="crimson") == [SearchText.objects.get().pk]
        assert found(boss, Event, q="needle") == [Event.objects.get().pk]
        assert found(boss, Event, q="100%_needle") == []

    def test_rows_are_filtered_by_user_workspace_and_time(
        self, boss: Client, rows: Session
    ) -> None:
        other = Workspace.objects.create(path="/another", data_dir="/d")
        for model in (Session, Run, Message):
            (key,) = found(boss, model)
            assert found(boss, model, by_user=7) == [key]
            assert found(boss, model, by_user=8) == []
            assert found(boss, model, workspace=rows.workspace_id) == [key]
            assert found(boss, model, workspace=other.pk) == []
        assert found(boss, Run, accepted_at_within="hour") == [Run.objects.get().pk]
        assert found(boss, Run, accepted_at_within="earlier") == []
        assert found(boss, Event, created_at_within="earlier") == [Event.objects.get().pk]
        assert found(boss, AuditEntry, by_user=7, act="prompt") == [
            AuditEntry.objects.get(actor="ann").pk
        ]

    def test_long_texts_are_cut_in_the_database(self, boss: Client, rows: Session) -> None:
        Run.objects.update(prompt="x" * 1_000_000)
        answer, queries = read(boss, Run)
        assert "x" * 79 + "…" in answer.content.decode()
        whole = [each for each in queries if '"agents_run"."prompt", "' in each]
        assert not whole
