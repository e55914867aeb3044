"""Open requests and questions are answered in the admin by the same actions as over REST."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from agents.models import Run
from people.models import AuditEntry
from permissions.models import Grant, PermissionRequest, QuestionBatch
from tests.integration.admin.conftest import HOSTILE, Place, add_everything, add_place
from tests.integration.admin.test_pages import address
from workspaces.log.writer import writer
from workspaces.models import Event, Session

QUESTIONS = [
    {"id": "q1", "type": "yes_no", "question": HOSTILE},
    {
        "id": "q2",
        "type": "single_choice",
        "question": "Which?",
        "choices": [{"id": "a", "label": HOSTILE}, {"id": "b", "label": "B"}],
    },
    {
        "id": "q3",
        "type": "multi_choice",
        "question": "Which ones?",
        "choices": [{"id": "a", "label": "A"}, {"id": "b", "label": "B"}],
    },
    {"id": "q4", "type": "free_text", "question": "Why?"},
]


@pytest.fixture
def place(transactional_db: None) -> Iterator[Place]:
    place = add_everything(add_place())
    Run.objects.update(state="parked")
    QuestionBatch.objects.update(questions=QUESTIONS)
    writer.start()
    try:
        yield place
    finally:
        writer.stop()


@pytest.fixture
def boss(place: Place, client: Client) -> Client:
    client.force_login(User.objects.create_superuser("boss"))
    return client


def post(client: Client, model: type, name: str, **fields: Any) -> str:
    where = address(model, name, model.objects.get().pk)
    answer = client.post(where, fields, follow=True)
    assert answer.status_code == 200
    return " ".join(str(message) for message in answer.context["messages"])


def test_a_request_is_allowed_with_a_scope_and_its_author(boss: Client) -> None:
    shown = post(boss, PermissionRequest, "answer", answer="allow", scope="session", reason="go on")
    request = PermissionRequest.objects.get()
    assert shown == "Allowed."
    assert (request.state, request.reason, request.scope) == ("allowed", "go on", "session")
    assert request.author is not None
    assert (request.author["name"], request.author["via"]) == ("boss", "admin")
    assert Run.objects.get().state == "ready"
    assert Grant.objects.filter(path="/project", tool_name="bash").count() == 2  # one was there
    entry = AuditEntry.objects.get(act="answer")
    assert (entry.actor, entry.outcome) == ("boss", "allow")
    assert Event.objects.filter(kind="permission.resolved").count() == 1


def test_the_first_answer_counts(boss: Client) -> None:
    assert post(boss, PermissionRequest, "answer", answer="deny") == "Denied."
    shown = post(boss, PermissionRequest, "answer", answer="allow")
    assert shown == "It was denied by boss before."
    assert PermissionRequest.objects.get().state == "denied"


def test_an_answer_that_does_not_fit_is_refused_with_a_sentence(boss: Client) -> None:
    shown = post(boss, PermissionRequest, "answer", answer="allow", folder="/elsewhere")
    assert "needs a scope" in shown
    assert "answer" in post(boss, PermissionRequest, "answer", answer="maybe")
    assert PermissionRequest.objects.get().state == "pending"


def test_questions_are_answered(boss: Client) -> None:
    shown = post(
        boss,
        QuestionBatch,
        "answer",
        yes_0="no",
        words_0="not yet",
        choice_1="b",
        choices_2=["a", "b"],
        words_3="because",
    )
    assert shown == "Answered."
    batch = QuestionBatch.objects.get()
    assert batch.responses == [
        {"request_id": "q1", "yes": False, "notes": "not yet"},
        {"request_id": "q2", "selected_ids": ["b"]},
        {"request_id": "q3", "selected_ids": ["a", "b"]},
        {"request_id": "q4", "fill_in_text": "because"},
    ]
    assert batch.author is not None
    assert batch.author["name"] == "boss"


def test_unknown_choices_are_refused(boss: Client) -> None:
    assert post(boss, QuestionBatch, "answer", yes_0="yes", choice_1="z")
    assert QuestionBatch.objects.get().state == "pending"


def test_questions_are_dismissed_although_nothing_is_filled_in(boss: Client) -> None:
    assert post(boss, QuestionBatch, "dismiss") == "Dismissed."
    assert QuestionBatch.objects.get().state == "dismissed"
    assert AuditEntry.objects.filter(act="dismiss questions", actor="boss").exists()


@pytest.mark.parametrize(
    ("back", "leads"),
    [
        ("/admin/workspaces/session/", True),
        ("https://elsewhere.example/admin/", False),
        ("//elsewhere.example/admin/", False),
        ("/sign-in/", False),
    ],
)
def test_an_answer_leads_back_to_pages_of_the_admin_only(
    boss: Client, back: str, leads: bool
) -> None:
    request = PermissionRequest.objects.get()
    answer = boss.post(
        address(PermissionRequest, "answer", request.pk), {"answer": "deny", "back": back}
    )
    own = address(PermissionRequest, "change", request.pk)
    assert answer.headers["Location"] == (back if leads else own)


def test_the_pages_of_the_session_and_the_run_have_the_forms(boss: Client, place: Place) -> None:
    request, batch = PermissionRequest.objects.get(), QuestionBatch.objects.get()
    forms = {
        address(PermissionRequest, "answer", request.pk),
        address(QuestionBatch, "answer", batch.pk),
        address(QuestionBatch, "dismiss", batch.pk),
    }
    for where in (
        address(Session, "change", place.session_id),
        address(Run, "change", place.run_key),
    ):
        page = boss.get(where).content.decode()
        assert all(f'action="{form}"' in page for form in forms)
        assert HOSTILE not in page
    post(boss, PermissionRequest, "answer", answer="allow")
    page = boss.get(address(PermissionRequest, "change", request.pk)).content.decode()
    assert 'value="deny"' not in page


def test_who_may_only_look_gets_no_form(place: Place, client: Client) -> None:
    reader = User.objects.create_user("reader", is_staff=True)
    reader.user_permissions.add(*Permission.objects.filter(codename__startswith="view_"))
    client.force_login(reader)
    page = client.get(address(Session, "change", place.session_id)).content.decode()
    assert "You may not answer it." in page
    assert 'value="allow"' not in page
