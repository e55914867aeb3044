"""What a client is told when something goes wrong: one sentence, mapped once for all endpoints.

A refusal is the client's to mend and is not logged. Anything else is ours: it
is logged with its stack, and the client learns no more than that it happened.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.core.exceptions import BadRequest, RequestDataTooBig, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse
from rest_framework.exceptions import APIException, MethodNotAllowed

from workspaces.api.answers import json_answer
from workspaces.api.bodies import sentence_of
from workspaces.log.errors import Refusal
from workspaces.log.failures import failure_of, refusal_of

logger = logging.getLogger(__name__)


def answer_to(error: Exception) -> HttpResponse:
    """Never raises."""
    match error:
        case Refusal():
            return _refused(error)
        case Http404():
            return _message("not found", 404)
        case MethodNotAllowed():
            return _message("method not allowed", 405)
        case APIException():
            return _message(sentence_of(error.detail), error.status_code)
        case RequestDataTooBig():
            return _message("the request is too large", 413)
        case SuspiciousOperation() | BadRequest() | UnicodeDecodeError():
            return _message("the request's address or headers are malformed", 400)
        case _:
            if (refusal := refusal_of(failure_of(error))) is not None:
                return _refused(refusal)
            logger.error("a request failed", exc_info=error)
            return _message("internal error", 500)


def _refused(refusal: Refusal) -> HttpResponse:
    answer = _message(refusal.sentence, refusal.status)
    for name, value in refusal.headers:
        answer[name.decode()] = value.decode()
    return answer


def _message(sentence: str, status: int) -> HttpResponse:
    return json_answer({"message": sentence}, status=status)


class OutageMiddleware:
    """The admin's pages answer 503 or 507 as well while the database cannot be used."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_exception(self, _: HttpRequest, error: Exception) -> HttpResponse | None:
        refusal = error if isinstance(error, Refusal) else refusal_of(failure_of(error))
        if refusal is None:
            return None
        headers = {name.decode(): value.decode() for name, value in refusal.headers}
        return HttpResponse(
            refusal.sentence, status=refusal.status, content_type="text/plain", headers=headers
        )
