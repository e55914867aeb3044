"""The page of a link: it shows one request, and its form answers it once."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any

from asgiref.sync import async_to_sync
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import never_cache

from agents.runs.answer import answer, answer_questions
from agents.states import Answer
from notifications.links import AnswerLinkInvalid, LinkedRequest, open_link, use_link
from people.pages.sender import address_of
from people.sign_in_throttle import GUESSES
from permissions.actions.requests import AnswerOptions, shown_description
from permissions.models import BatchState, PermissionRequest, QuestionBatch
from workspaces.access import Actor, IdentityKind, caller_of
from workspaces.log.errors import BadField, ForbiddenToTools
from workspaces.log.writer import writer

REASON_CHARS = 2000
DIFF_LINES = 2000
_OF_CHANGE = {"old_content", "new_content"}


@method_decorator(never_cache, name="dispatch")
class AnswerPage(View):
    http_method_names = ["get", "head", "post"]

    def get(self, request: HttpRequest) -> HttpResponse:
        try:
            linked = open_link(request.GET.get("key", ""))
        except AnswerLinkInvalid:
            GUESSES.count_guess(address_of(request))
            return render(request, "notifications/ended.html", status=410)
        return _show(request, linked)

    def post(self, request: HttpRequest) -> HttpResponse:
        # A link that a tool has found must not let it answer for a person.
        if async_to_sync(caller_of(getattr(request, "scope", {})).is_tool)():
            raise ForbiddenToTools
        try:
            linked = open_link(request.GET.get("key", ""))
            if _state(linked) != BatchState.PENDING:
                return _show(request, linked)
            answered = _given(request, linked)
            writer.write_and_wait("", lambda _: use_link(linked.delivery_id))
        except AnswerLinkInvalid:
            return render(request, "notifications/ended.html", status=410)
        except BadField as refusal:
            return _show(request, linked, error=refusal.sentence)
        user = linked.user
        address = address_of(request)
        actor = Actor(IdentityKind.USER, user.get_username(), user.pk, address=address, via="link")
        async_to_sync(_store)(linked, answered, actor)
        return _show(request, open_shown(linked))


Given = tuple[Answer, str] | list[dict[str, Any]]


async def _store(linked: LinkedRequest, given: Given, actor: Actor) -> None:
    if isinstance(given, list):
        batch = linked.questions
        assert batch is not None  # noqa: S101  _given returns a list for questions alone
        await answer_questions(batch.workspace_id, batch.pk, given, actor=actor)
        return
    request = linked.request
    assert request is not None  # noqa: S101  the same
    chosen, reason = given
    await answer(
        request.workspace_id,
        request_id=request.pk,
        answer=chosen,
        options=AnswerOptions(reason=reason),
        actor=actor,
    )


def _given(request: HttpRequest, linked: LinkedRequest) -> Given:
    """Returns the answer in the form. Raises ``BadField``."""
    if linked.questions is not None:
        return [_response(request, question) for question in linked.questions.questions]
    try:
        chosen = Answer(request.POST.get("answer", ""))
    except ValueError:
        raise BadField("Choose an answer.") from None
    if chosen is Answer.ALLOW_SESSION:
        raise BadField("A link allows a call once.")
    reason = request.POST.get("reason", "").strip()
    if len(reason) > REASON_CHARS or "\0" in reason:
        raise BadField(f"The reason may have at most {REASON_CHARS} characters.")
    return chosen, reason


def _response(request: HttpRequest, question: Mapping[str, Any]) -> dict[str, Any]:
    name = question["id"]
    response: dict[str, Any] = {"request_id": name}
    text = request.POST.get(f"text {name}", "").strip()[:100_000].replace("\0", "")
    match question["type"]:
        case "yes_no":
            chosen = request.POST.get(f"choice {name}", "")
            if chosen not in {"yes", "no"}:
                raise BadField("Answer every question.")
            response["yes"] = chosen == "yes"
        case "single_choice" | "multi_choice":
            response["selected_ids"] = request.POST.getlist(f"choice {name}")
            if not response["selected_ids"] and not text:
                raise BadField("Answer every question.")
        case _:
            if not text:
                raise BadField("Answer every question.")
    if text:
        response["fill_in_text"] = text
    return response


def _state(linked: LinkedRequest) -> str:
    row: PermissionRequest | QuestionBatch | None = linked.request or linked.questions
    return "" if row is None else row.state


def open_shown(linked: LinkedRequest) -> LinkedRequest:
    """Reads the request again, to show who has answered it, and how."""
    for row in (linked.request, linked.questions):
        if row is not None:
            row.refresh_from_db()
    return linked


def _show(request: HttpRequest, linked: LinkedRequest, *, error: str = "") -> HttpResponse:
    row: Any = linked.request or linked.questions
    context = {
        "row": row,
        "description": shown_description(linked.request) if linked.request else "",
        "is_open": row.state == BatchState.PENDING,
        "who": (row.author or {}).get("name", ""),
        "user": linked.user,
        "error": error,
        "workspace": row.workspace.path,
        "session": row.session.title,
        "questions": getattr(row, "questions", None),
        "params": _shown_params(row.params) if linked.request else [],
    }
    return render(request, "notifications/answer.html", context, status=400 if error else 200)


def _shown_params(params: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The arguments of a call as text, complete; a change of a file as a diff."""
    shown = [
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2))
        for name, value in params.items()
        if name not in _OF_CHANGE
    ]
    if params.keys() >= _OF_CHANGE:
        old, new = (str(params[name]).splitlines() for name in ("old_content", "new_content"))
        lines = list(difflib.unified_diff(old, new, lineterm="", n=3))[2:]
        if len(lines) > DIFF_LINES:
            left = len(lines) - DIFF_LINES
            lines = [*lines[:DIFF_LINES], f"({left} more lines: open the session)"]
        shown.append(("change", "\n".join(lines)))
    return shown
