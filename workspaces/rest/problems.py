"""Errors of native resources: problem details as in RFC 9457, with a code and a sentence."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

from django.core.exceptions import BadRequest, PermissionDenied, SuspiciousOperation
from django.http import Http404, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from rest_framework import serializers
from rest_framework.exceptions import APIException, NotFound, ValidationError
from rest_framework.exceptions import PermissionDenied as DeniedByFramework
from rest_framework.response import Response
from rest_framework.settings import api_settings

from workspaces.api.bodies import sentence_of
from workspaces.log.errors import Refusal
from workspaces.log.failures import failure_of, refusal_of
from workspaces.rest.idempotency import Replayed

logger = logging.getLogger(__name__)

PROBLEM_TYPE = "application/problem+json"
INTERNAL = "The server could not answer this request. Its log has the reason."


class FieldErrorSerializer(serializers.Serializer[Any]):
    field = serializers.CharField(help_text="The field's full name, such as `options.budget.cost`.")
    code = serializers.CharField(help_text="What is wrong, for programs.")
    message = serializers.CharField(help_text="What is wrong, for people.")


class ProblemSerializer(serializers.Serializer[Any]):
    """An error (RFC 9457)."""

    type = serializers.CharField(help_text="Always `about:blank`: `code` names the problem.")
    title = serializers.CharField(help_text="The meaning of the status.")
    status = serializers.IntegerField(help_text="The status of the response.")
    detail = serializers.CharField(help_text="A sentence for people.")
    code = serializers.CharField(help_text="A name for programs, such as `session_unknown`.")
    errors = FieldErrorSerializer(  # type: ignore[assignment]  # a field of this name, not the attribute
        many=True, required=False, help_text="Every field that is wrong, if the body is."
    )


def problem(status: int, code: str, detail: str, **more: Any) -> dict[str, Any]:
    title = HTTPStatus(status).phrase
    about = {"type": "about:blank", "title": title, "status": status}
    return {**about, "detail": detail, "code": code, **more}


def problem_answer(error: Exception, _: Mapping[str, Any]) -> Response | None:
    """Returns the response for an error: the exception handler of every resource."""
    match error:
        case Replayed():
            return error.response
        case Http404():
            error = NotFound()
        case PermissionDenied():
            error = DeniedByFramework()
        case SuspiciousOperation() | BadRequest() | UnicodeDecodeError():
            return _answer(problem(400, "malformed", "The request is malformed."))
        case _:
            pass
    if isinstance(error, ValidationError):
        errors = [
            {"field": name, "code": str(detail.code), "message": str(detail)}
            for name, detail in _errors_in(error.detail)
        ]
        return _answer(problem(400, "bad_field", sentence_of(error.detail), errors=errors))
    if isinstance(error, APIException):
        answer = _answer(
            problem(error.status_code, str(error.default_code), sentence_of(error.detail))
        )
        wait = getattr(error, "wait", None)
        if wait:
            answer["Retry-After"] = str(int(wait) + 1)
        return answer
    refusal = error if isinstance(error, Refusal) else refusal_of(failure_of(error))
    if refusal is not None:
        answer = _answer(problem(refusal.status, refusal.code, refusal.sentence))
        for name, value in refusal.headers:
            answer[name.decode()] = value.decode()
        return answer
    logger.error("a request failed", exc_info=error)
    return _answer(problem(500, "internal", INTERNAL))


def _answer(body: dict[str, Any]) -> Response:
    return Response(body, status=body["status"], content_type=PROBLEM_TYPE)


def _errors_in(detail: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yields each error of the framework with the full name of its field."""
    if isinstance(detail, dict):
        for key, below in detail.items():
            is_whole = key == api_settings.NON_FIELD_ERRORS_KEY
            inner = "" if is_whole else f"[{key}]" if isinstance(key, int) else f".{key}"
            yield from _errors_in(below, f"{name}{inner}".removeprefix("."))
    elif isinstance(detail, list):
        for index, below in enumerate(detail):
            inner = f"[{index}]" if isinstance(below, dict) else ""
            yield from _errors_in(below, f"{name}{inner}")
    else:
        yield name, detail


@csrf_exempt  # it changes nothing
@csrf_exempt
def unknown_address(*_: Any, **__: Any) -> HttpResponse:
    """Answers every address below ``/api`` that no resource has."""
    body = problem(404, "unknown_address", "There is no such address. /api/docs lists all.")
    return JsonResponse(body, status=404, content_type=PROBLEM_TYPE)
