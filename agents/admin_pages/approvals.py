"""Permission requests and questions, which people answer here by the same actions as over REST."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import update_wrapper, wraps
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST
from typing_extensions import override

from agents.rest.approvals import PATH_LIMIT, REASON_LIMIT, diff_of
from agents.runs.answer import Resolution, answer, answer_questions, dismiss_questions
from agents.states import Answer
from people.pages.sender import actor_of
from permissions.actions.requests import AnswerOptions, shown_description
from permissions.admin import PermissionRequestPages, QuestionBatchPages
from permissions.models import (
    BatchState,
    GrantScope,
    PermissionRequest,
    QuestionBatch,
    RequestState,
)
from workspaces.access import Right
from workspaces.admin_pages.pages import ReadOnlyAdmin, perform, require
from workspaces.admin_pages.texts import PART_LIMIT, cut, one_line, readable_json, to_the_second
from workspaces.log.errors import Refusal

WORDS_LIMIT = 10_000
WAITING_SHOWN = 10
BACK = "back"  # the field with the page to return to
Work = Callable[[Any, HttpRequest, Any], None]
View = Callable[[Any, HttpRequest, str], HttpResponse]


class ApprovalAnswerForm(forms.Form):
    """An answer to a permission request; its button decides."""

    answer = forms.ChoiceField(choices=[(each, each) for each in (Answer.ALLOW, Answer.DENY)])
    scope = forms.ChoiceField(choices=GrantScope.choices, initial=GrantScope.ONCE, required=False)
    folder = forms.CharField(required=False, max_length=PATH_LIMIT)
    reason = forms.CharField(
        required=False, max_length=REASON_LIMIT, widget=forms.Textarea(attrs={"rows": 2})
    )


class QuestionsForm(forms.Form):
    """The answers to a batch of questions; the fields follow from the questions."""

    def __init__(self, questions: Sequence[Mapping[str, Any]], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._questions = questions
        for number, question in enumerate(questions):
            self._add(number, question)

    def _add(self, number: int, question: Mapping[str, Any]) -> None:
        label = str(question.get("question", ""))
        help_text = str(question.get("description", ""))
        pairs = [
            (str(each["id"]), str(each.get("label") or each["id"]))
            for each in question.get("choices") or ()
        ]
        common: dict[str, Any] = {"label": label, "help_text": help_text, "required": False}
        words = f"Other words for: {one_line(label)}"
        match question.get("type"):
            case "yes_no":
                self.fields[f"yes_{number}"] = forms.ChoiceField(
                    choices=[("yes", "Yes"), ("no", "No")],
                    widget=forms.RadioSelect,
                    **common | {"required": True},
                )
            case "single_choice":
                self.fields[f"choice_{number}"] = forms.ChoiceField(
                    choices=pairs, widget=forms.RadioSelect, **common
                )
            case "multi_choice":
                self.fields[f"choices_{number}"] = forms.MultipleChoiceField(
                    choices=pairs, widget=forms.CheckboxSelectMultiple, **common
                )
            case _:
                words = label
        self.fields[f"words_{number}"] = forms.CharField(
            label=words,
            required=False,
            max_length=WORDS_LIMIT,
            widget=forms.Textarea(attrs={"rows": 2}),
        )

    def responses(self) -> list[dict[str, Any]]:
        """Returns the answers in the format of REST."""
        given = self.cleaned_data
        found = []
        for number, question in enumerate(self._questions):
            response: dict[str, Any] = {"request_id": question["id"]}
            words = given[f"words_{number}"]
            if f"yes_{number}" in given:
                response["yes"] = given[f"yes_{number}"] == "yes"
            if chosen := given.get(f"choices_{number}") or given.get(f"choice_{number}"):
                response["selected_ids"] = chosen if isinstance(chosen, list) else [chosen]
            if words:
                response["notes" if "yes" in response else "fill_in_text"] = words
            if len(response) > 1:
                found.append(response)
        return found


def answering(work: Work) -> View:
    """A view that answers a row: needs Django's permission to change it, and the right to answer.

    A tool never comes here: a middleware refuses it (``crushsite.admin.RefuseTools``).
    """

    @wraps(work)
    def checked(page: ReadOnlyAdmin, request: HttpRequest, object_id: str) -> HttpResponse:
        if not page.has_act_permission(request):
            raise PermissionDenied
        require(request, Right.ANSWER)
        row = page.get_object(request, unquote(object_id))
        if row is None:
            page.message_user(request, "It no longer exists.", messages.WARNING)
            return HttpResponseRedirect(reverse("admin:index"))
        try:
            work(page, request, row)
        except Refusal as refusal:
            page.message_user(request, refusal.sentence, messages.ERROR)
        return HttpResponseRedirect(_way_back(request, row))

    checked.right = Right.ANSWER  # type: ignore[attr-defined]  # for the test of all rights
    return checked


class _AnswerableAdmin(ReadOnlyAdmin):
    """A row's page with the form that answers it, while it waits."""

    change_form_template = "admin/answerable.html"

    def view_at(self, name: str, view: Callable[[HttpRequest, str], HttpResponse]) -> URLPattern:
        checked = self.admin_site.admin_view(require_POST(view))
        model = f"{self.opts.app_label}_{self.opts.model_name}"
        return path(
            f"<path:object_id>/{name}/", update_wrapper(checked, view), name=f"{model}_{name}"
        )

    @override
    def panels(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return {"waiting": [_card(request, row)] if row.state == RequestState.PENDING else []}


@admin.register(PermissionRequest)
class PermissionRequestAdmin(_AnswerableAdmin, PermissionRequestPages):
    @override
    def get_urls(self) -> Any:
        return [self.view_at("answer", self.answer), *super().get_urls()]

    @answering
    def answer(self, request: HttpRequest, row: PermissionRequest) -> None:
        form = ApprovalAnswerForm(request.POST)
        if not form.is_valid():
            self.message_user(request, _fault(form), messages.ERROR)
            return
        given = form.cleaned_data
        options = AnswerOptions(
            scope=GrantScope(given["scope"] or GrantScope.ONCE),
            folder=given["folder"],
            reason=given["reason"],
        )
        resolution = perform(
            answer,
            row.workspace_id,
            request_id=row.pk,
            answer=Answer(given["answer"]),
            options=options,
            actor=actor_of(request, via="admin"),
        )
        _report(self, request, resolution)


@admin.register(QuestionBatch)
class QuestionBatchAdmin(_AnswerableAdmin, QuestionBatchPages):
    @override
    def get_urls(self) -> Any:
        own = [self.view_at("answer", self.answer), self.view_at("dismiss", self.dismiss)]
        return [*own, *super().get_urls()]

    @answering
    def answer(self, request: HttpRequest, row: QuestionBatch) -> None:
        form = QuestionsForm(row.questions, request.POST)
        if not form.is_valid():
            self.message_user(request, _fault(form), messages.ERROR)
            return
        actor = actor_of(request, via="admin")
        responses = form.responses()
        _report(
            self,
            request,
            perform(answer_questions, row.workspace_id, row.pk, responses, actor=actor),
        )

    @answering
    def dismiss(self, request: HttpRequest, row: QuestionBatch) -> None:
        actor = actor_of(request, via="admin")
        _report(self, request, perform(dismiss_questions, row.workspace_id, row.pk, actor=actor))


def _fault(form: Any) -> str:
    """The first thing that is wrong with a form."""
    for name, faults in form.errors.items():
        field = form.fields.get(name)
        return f"{(field.label if field else '') or name}: {faults[0]}"
    return "The form is not complete."


def _report(page: ReadOnlyAdmin, request: HttpRequest, resolution: Resolution) -> None:
    state: str = resolution.answer["state"]
    if resolution.is_first:
        page.message_user(request, f"{state.capitalize()}.", messages.SUCCESS)
        return
    who: Mapping[str, Any] = resolution.answer.get("author") or {}
    by = f" by {who['name']}" if who.get("name") else ""
    page.message_user(request, f"It was {state}{by} before.", messages.WARNING)


def _way_back(request: HttpRequest, row: Any) -> str:
    """The page with the form; only the admin's own pages count."""
    wanted = request.POST.get(BACK, "")
    if wanted.startswith(reverse("admin:index")) and url_has_allowed_host_and_scheme(wanted, None):
        return wanted
    return _address(row, "change")


def _address(row: Any, name: str) -> str:
    meta = row._meta
    return reverse(f"admin:{meta.app_label}_{meta.model_name}_{name}", args=[quote(row.pk)])


def waiting_of(request: HttpRequest, **rows: Any) -> list[dict[str, Any]]:
    """The open requests and questions that match, as cards with their forms; the oldest first."""
    found: list[Any] = []
    for model in (PermissionRequest, QuestionBatch):
        meta = model._meta
        if request.user.has_perm(f"{meta.app_label}.view_{meta.model_name}"):
            waiting = model._default_manager.filter(state=BatchState.PENDING, **rows)
            found += waiting.order_by("asked_at")[:WAITING_SHOWN]
    found.sort(key=lambda row: row.asked_at)
    return [_card(request, row) for row in found]


def _card(request: HttpRequest, row: PermissionRequest | QuestionBatch) -> dict[str, Any]:
    meta = row._meta
    card: dict[str, Any] = {
        "row": row,
        "page": _address(row, "change"),
        "at": to_the_second(row.asked_at),
        "back": request.path,
        "auto_id": f"answer-{row.pk}",
    }
    if request.user.has_perm(f"{meta.app_label}.change_{meta.model_name}"):
        card["answer"] = _address(row, "answer")
    ids = f"{row.pk}-%s"
    if isinstance(row, QuestionBatch):
        title = row.confirm_title or str(row)
        form = QuestionsForm(row.questions, auto_id=ids)
        return card | {"title": title, "form": form, "dismiss": _address(row, "dismiss")}
    change = cut(diff_of(row), PART_LIMIT)
    return card | {
        "title": f"{row.tool_name}: {row.action}",
        "description": cut(shown_description(row), PART_LIMIT),
        "path": row.path,
        "diff": change,
        "params": "" if change else readable_json(row.params),
        "form": ApprovalAnswerForm(auto_id=ids),
    }
