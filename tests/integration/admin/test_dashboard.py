"""The admin's first page: figures with links to their lists, for who may see them."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agents.models import Run
from tests.integration.admin.conftest import HOSTILE, Place
from workspaces.admin_pages.charts import Bar, bar_chart
from workspaces.log.timestamps import now_ms
from workspaces.models import Session

INDEX = "/admin/"
MOST_QUERIES = 20


def tiles(page: str) -> dict[str, str]:
    found = re.findall(r'class="tile-name">([^<]+)</span> <strong>([^<]+)</strong>', page)
    return dict(found)


def add_run(place: Place, number: int, **values: object) -> None:
    now = now_ms()
    session = Session.objects.create(workspace_id=place.workspace_id)
    Run.objects.create(
        workspace_id=place.workspace_id,
        session=session,
        accept_number=number,
        **{"accepted_at": now - 5_000, "started_at": now - 2_000, **values},
    )


def test_it_shows_what_happens_and_leads_there(admin_client: Client, everything: Place) -> None:
    now = now_ms()
    for number in range(2):
        lease = {"worker": HOSTILE, "lease_expires_at": now + 9_000}
        add_run(everything, number, state="running", **lease)
    add_run(everything, 2, state="finished", outcome="failed", finished_at=now)
    add_run(everything, 3, state="finished", outcome="completed", finished_at=now)
    with CaptureQueriesContext(connection) as captured:
        page = admin_client.get(INDEX).content.decode()
    assert len(captured.captured_queries) <= MOST_QUERIES
    shown = tiles(page)
    assert shown["Running"] == "2"
    assert shown["Waiting for a worker"] == "1"
    assert (shown["Errors"], shown["Permission requests"], shown["Questions"]) == ("1", "1", "1")
    assert "of 2 runs in 24 hours" in page
    assert "3.0 s on average" in page
    assert "<td>live</td>" in page
    assert page.count('<svg class="chart"') == 5
    assert HOSTILE not in page
    assert " style=" not in page
    for url in re.findall(r'<a href="(/admin/[^"]+\?[^"]+)"', page):
        assert admin_client.get(url.replace("&amp;", "&")).status_code == 200, url


@pytest.mark.parametrize(
    ("codename", "shown"),
    [
        ("view_run", {"Running", "Waiting for a worker", "Waiting for people", "Errors"}),
        ("view_usageentry", {"Spend today"}),
        ("view_subagent", {"Sub-agents"}),
        ("view_permissionrequest", {"Permission requests"}),
        ("view_auditentry", set()),
    ],
)
def test_figures_need_the_permission_to_view_their_rows(
    client: Client, everything: Place, codename: str, shown: set[str]
) -> None:
    user = User.objects.create_user("reader", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename=codename))
    client.force_login(user)
    page = client.get(INDEX).content.decode()
    assert set(tiles(page)) == shown
    assert ("Workers with runs" in page) == (codename == "view_run")
    assert ("Latest acts" in page) == (codename == "view_auditentry")


def test_the_conversation_needs_the_permission_to_view_messages(
    client: Client, everything: Place
) -> None:
    user = User.objects.create_user("reader", is_staff=True)
    user.user_permissions.add(
        Permission.objects.get(codename="view_session", content_type__app_label="workspaces")
    )
    client.force_login(user)
    where = f"/admin/workspaces/session/{everything.session_id}/change/"
    for part in ("Conversation", '<h2 id="runs-heading"', "Waits for an answer"):
        assert part not in client.get(where).content.decode()
    user.user_permissions.add(Permission.objects.get(codename="view_message"))
    assert "Conversation" in client.get(where).content.decode()


def test_a_chart_is_escaped_and_scaled() -> None:
    drawn = str(
        bar_chart("<b>", [Bar("<i>", 1, "one"), Bar("b", 2, "two", second=2)], top_label="4")
    )
    assert "<b>" not in drawn
    assert "<i>" not in drawn
    heights = [float(each) for each in re.findall(r'<rect[^>]* height="([\d.]+)"', drawn)]
    assert heights == [24.0, 48.0, 48.0]
    assert "<rect" not in str(bar_chart("empty", [], top_label=""))


def test_it_shows_stuck_runs_with_the_reason(admin_client: Client, everything: Place) -> None:
    now = now_ms()
    assert "Stuck runs" not in admin_client.get(INDEX).content.decode()
    add_run(everything, 0, state="running", worker=HOSTILE, lease_expires_at=now - 60_000)
    page = admin_client.get(INDEX).content.decode()
    run = Run.objects.get(state="running")
    assert f'<a href="/admin/agents/run/{run.pk}/change/">{run.pk}</a>' in page
    assert "its worker does not renew its registration" in page
    assert HOSTILE not in page
