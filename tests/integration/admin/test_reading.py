"""Pages read as an operator reads them: states in words, links both ways, texts found."""

from __future__ import annotations

import re

import pytest
from django.apps import apps
from django.contrib import admin
from django.db.models import Model
from django.test import Client
from django.utils.module_loading import autodiscover_modules

from agents.models import LanguageServer, Run
from agents.states import LanguageServerState
from agents.tools.lsp.states import LanguageServerStatus
from permissions.models import PermissionRequest, QuestionBatch
from tests.integration.admin.conftest import Place
from tests.integration.admin.test_pages import OURS, OWN, address, named
from workspaces.admin_pages.texts import excerpt
from workspaces.models import ClientClaim, Event, Message, Session, Workspace

autodiscover_modules("admin")
MOST_COLUMNS = 6  # more do not fit 1,280 pixels


@pytest.mark.parametrize("model", OWN, ids=named)
def test_a_list_has_few_columns_and_no_icons(
    model: type[Model], admin_client: Client, everything: Place
) -> None:
    assert len(admin.site._registry[model].list_display) <= MOST_COLUMNS
    row = model._default_manager.first()
    assert row is not None
    for url in (address(model, "changelist"), address(model, "change", row.pk)):
        page = admin_client.get(url).content.decode()
        assert "icon-no.svg" not in page
        assert "icon-yes.svg" not in page


def test_the_index_names_everything_in_english(admin_client: Client, everything: Place) -> None:
    page = admin_client.get("/admin/").content.decode()
    for name in ("Question batches", "MCP servers", "MCP logins", "Sub-agents"):
        assert f">{name}<" in page
    plurals = {
        str(model._meta.verbose_name_plural)
        for label in OURS
        for model in apps.get_app_config(label).get_models()
    }
    wrong = {name for name in plurals if name.endswith(("chs", "ys", "ss"))}
    assert not {name for name in wrong if not name.endswith("eys")}


def test_one_question_is_counted_as_one(everything: Place) -> None:
    assert str(QuestionBatch.objects.get()) == "1 question"
    assert str(QuestionBatch(questions=[{}, {}])) == "2 questions"


def test_a_language_server_s_state_is_a_word(admin_client: Client, everything: Place) -> None:
    page = admin_client.get(address(LanguageServer, "changelist")).content.decode()
    assert re.search(r"field-state[^>]*>\s*(<a[^>]*>)?\s*Error", page)
    assert [(each.name, each.value) for each in LanguageServerState] == [
        (each.name, each.value) for each in LanguageServerStatus
    ]


def test_a_session_without_a_title_has_a_name(everything: Place) -> None:
    assert str(Session(id="3f72265a-057d-45af-ba0f-37636", title="")) == "Untitled (3f72265a)"


def links(client: Client, model: type[Model], key: object) -> set[str]:
    page = client.get(address(model, "change", key)).content.decode()
    return set(re.findall(r'href="(/admin/[^"]+)"', page.replace("&amp;", "&")))


def test_a_session_leads_to_what_belongs_to_it_and_back(
    admin_client: Client, everything: Place
) -> None:
    session, run = everything.session_id, everything.run_key
    message = Message.objects.get()
    Message.objects.update(run_key=run)
    of_session = links(admin_client, Session, session)
    assert address(Workspace, "change", everything.workspace_id) in of_session
    for model in (Message, Run, PermissionRequest, QuestionBatch):
        lists = f"{address(model, 'changelist')}?session={session}"
        assert lists in of_session
        assert admin_client.get(lists).context["cl"].result_count == 1
        row = model._default_manager.get()
        assert address(Session, "change", session) in links(admin_client, model, row.pk)
    for model in (Message, PermissionRequest, QuestionBatch):
        row = model._default_manager.get()
        assert address(Run, "change", run) in links(admin_client, model, row.pk)
    assert f"{address(Message, 'changelist')}?run_key={run}" in links(admin_client, Run, run)
    assert message.pk


def test_a_child_session_and_its_parent_lead_to_each_other(
    admin_client: Client, everything: Place
) -> None:
    child = Session.objects.create(
        id="message$$call",
        workspace_id=everything.workspace_id,
        parent_session_id=everything.session_id,
    )
    parent = address(Session, "change", everything.session_id)
    assert parent in links(admin_client, Session, child.pk)
    children = f"{address(Session, 'changelist')}?parent_session_id={everything.session_id}"
    assert children in links(admin_client, Session, everything.session_id)
    assert "Untitled" in admin_client.get(children).content.decode()


@pytest.mark.parametrize("model", [Message, Event])
def test_texts_are_searched(model: type[Model], admin_client: Client, everything: Place) -> None:
    field = "parts" if model is Message else "payload"
    row = model._default_manager.first()
    assert row is not None
    model._default_manager.filter(pk=row.pk).update(**{field: '[{"x": "a quiet needle"}]'})
    answer = admin_client.get(address(model, "changelist"), {"q": "needle"})
    assert answer.context["cl"].result_count == 1


def test_filters_use_the_words_of_the_columns(admin_client: Client, everything: Place) -> None:
    page = admin_client.get(address(Session, "changelist"), {"is_busy": "1"})
    assert page.context["cl"].result_count == 1
    page = admin_client.get(address(Session, "changelist"), {"is_busy": "0"})
    assert page.context["cl"].result_count == 0
    shown = admin_client.get(address(ClientClaim, "changelist")).content.decode()
    assert "away" in shown


@pytest.mark.parametrize(
    ("parts", "shown"),
    [
        ('[{"type":"text","data":{"text":"Hello\\nyou"}}]', "Hello you"),
        (
            '[{"type":"tool_call","data":{"name":"view","input":"{}"}}]',
            "→ view {}",
        ),
        (
            '[{"type":"tool_result","data":{"name":"view","content":"x"}}]',
            "← view x",
        ),
        ('[{"type":"shell_command","data":{"command":"ls"}}]', "$ ls"),
        ('[{"type":"binary","data":{}}]', "(attachment)"),
        ('[{"type":"finish","data":{"reason":"error","message":"Refused"}}]', "(error: Refused)"),
        ('[{"type":"finish","data":{"reason":"stop"}}]', ""),
        ("[]", ""),
        ("{broken", "{broken"),
        ('[{"type":"text"}]', '[{"type":"text"}]'),
    ],
)
def test_a_message_is_listed_by_what_it_says(parts: str, shown: str) -> None:
    assert excerpt(parts) == shown
