"""The middleware of all pages: the content policy, and the answers to refused requests."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.deprecation import MiddlewareMixin

from people.pages.sender import is_of_tool
from workspaces.log.errors import ForbiddenToTools, Refusal
from workspaces.log.failures import failure_of, refusal_of

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def _form_targets() -> str:
    """Where forms may lead; Chromium looks at redirects, too."""
    parts = urlsplit(settings.CRUSH_OIDC_URL)
    return f"'self' {parts.scheme}://{parts.netloc}" if parts.netloc else "'self'"


POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        f"form-action {_form_targets()}",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)


class ContentPolicy(MiddlewareMixin):
    def process_response(
        self, _request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        response.headers.setdefault("Content-Security-Policy", POLICY)
        return response


class OutageMiddleware:
    """Returns 503 or 507 from the admin's pages, too, while the database is unavailable."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_exception(self, _: HttpRequest, error: Exception) -> HttpResponse | None:
        refusal = error if isinstance(error, Refusal) else refusal_of(failure_of(error))
        return None if refusal is None else _refused(refusal)


def _refused(refusal: Refusal) -> HttpResponse:
    headers = {name.decode(): value.decode() for name, value in refusal.headers}
    return HttpResponse(
        refusal.sentence, status=refusal.status, content_type="text/plain", headers=headers
    )


class RefuseTools(MiddlewareMixin):
    """A tool of this server changes nothing on any page, whatever session it uses.

    Native resources declare their rights themselves: a tool may prompt.
    """

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        if request.method in SAFE_METHODS or request.path.startswith("/api/"):
            return None
        if not is_of_tool(request):
            return None
        return _refused(ForbiddenToTools())
